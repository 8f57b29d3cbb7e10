"""JSON lines from Arrow columns are those of the ``json`` module."""

import json

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from transforms.json_lines import json_lines

TEXT = st.text(st.characters(codec="utf-8"), max_size=30) | st.sampled_from(
    ["", '"\\', "\n\r\t\f\b", "".join(map(chr, range(0x20))), "\x7f\x80\u2028😀"]
)
ROWS = st.lists(
    st.tuples(
        TEXT,
        st.none() | TEXT,
        st.none() | st.integers(-(2**63), 2**63 - 1),
        st.booleans(),
        st.none() | st.lists(st.integers(0, 9)),
    ),
    max_size=20,
)
NAMES = ["text", 'na"me\n', "n", "flag", "list"]
TYPES = [pa.string(), pa.string(), pa.int64(), pa.bool_(), pa.list_(pa.int8())]


@settings(deadline=None)
@given(ROWS, st.integers(0, 3))
def test_lines_are_those_of_the_json_module(rows, skipped):
    """Every kind of character, nulls, numbers and values of other types, sliced arrays."""
    arrays = [pa.array([row[k] for row in rows], kind) for k, kind in enumerate(TYPES)]
    table = pa.table(dict(zip(NAMES, arrays, strict=True))).slice(skipped)
    expected = "".join(
        json.dumps(dict(zip(NAMES, row, strict=True)), ensure_ascii=False, separators=(",", ":"))
        + "\n"
        for row in rows[skipped:]
    )
    assert json_lines(table, lambda column: column.to_pylist()).tobytes() == expected.encode()


def test_a_table_of_several_chunks_and_one_without_columns():
    """Chunks are one column, and rows of nothing are empty objects."""
    two = pa.chunked_array([["a", None], ["b"]])
    lines = json_lines(pa.table({"x": two}), lambda column: column.to_pylist()).tobytes()
    assert lines == b'{"x":"a"}\n{"x":null}\n{"x":"b"}\n'
    empty = pa.table({"x": ["a", "b"]}).select([])
    assert json_lines(empty, lambda column: column.to_pylist()).tobytes() == b"{}\n{}\n"
