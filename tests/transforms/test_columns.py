"""Typed columns: the type depends on the values alone, and no value is lost but to rounding."""

import datetime
import decimal
import itertools
import json

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from transforms.columns import as_strings, from_arrow, narrow, widen

values = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 5),
    st.sampled_from([2**53 + 1, 2**63 - 1, -(2**63), 2**63, 2**64 - 1]),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(["", "a", "1", "é"]),
    st.sampled_from([[1, "x"], {"a": None}]),
)


def expected(items):
    """Return type and values of a column as the module's description says."""
    kinds = {type(item) for item in items} - {type(None)}
    if kinds & {int} and any(type(i) is int and not -(2**63) <= i < 2**63 for i in items):
        kinds = {str}
    if not kinds:
        return pa.null(), items
    if kinds == {bool} or kinds == {str}:
        return {bool: pa.bool_(), str: pa.string()}[kinds.pop()], [text(i) for i in items] if any(
            type(i) is int for i in items
        ) else items
    if kinds == {int}:
        return pa.int64(), items
    if kinds <= {int, float}:
        return pa.float64(), [None if i is None else float(i) for i in items]
    return pa.string(), [text(i) for i in items]


def text(item):
    """Return an item as its JSON text; whole floats as integers."""
    if item is None or isinstance(item, str):
        return item
    if isinstance(item, float):
        return str(int(item)) if item == int(item) and abs(item) < 2**53 else repr(item)
    return json.dumps(item, separators=(",", ":"))


@given(st.lists(values, max_size=8), st.lists(st.integers(0, 8), max_size=3))
def test_batches_do_not_matter(items, cuts):
    """However the values come in batches, the column is the same."""
    bounds = sorted({0, len(items), *(cut for cut in cuts if cut < len(items))})
    batches = [items[a:b] for a, b in itertools.pairwise(bounds)] or [[]]
    arrays = widen([narrow(batch) for batch in batches])
    kind, want = expected(items)
    assert {array.type for array in arrays} == {kind}
    assert [item for array in arrays for item in array.to_pylist()] == want


@given(st.lists(values, max_size=6))
def test_anything_has_a_text(items):
    """As strings, every value is its JSON text and nulls stay null."""
    assert as_strings(narrow(items)).to_pylist() == [text(item) for item in items]


NUMBERS = pa.list_(pa.float64())


def test_lists_beside_other_values_become_text():
    """A column that is lists in one batch and something else in another is text in both."""
    lists = from_arrow(pa.array([[0.5, 2.0], None], pa.list_(pa.float32())))
    found = widen([lists, pa.array(["a"]), pa.nulls(1)])
    assert [array.to_pylist() for array in found] == [["[0.5,2.0]", None], ["a"], [None]]
    found = widen([lists, pa.nulls(1)])
    assert [array.type for array in found] == [NUMBERS, NUMBERS]


def test_foreign_types_become_one_of_five():
    """Small and unsigned integers, half floats, dictionaries, times, decimals, lists, bytes."""
    day = datetime.date(2024, 5, 1)
    cases = [
        (pa.array([1, None], pa.int8()), pa.int64(), [1, None]),
        (pa.array([1, 2], pa.uint32()), pa.int64(), [1, 2]),
        (pa.array([1], pa.uint64()), pa.int64(), [1]),
        (pa.array([2**64 - 1], pa.uint64()), pa.string(), [str(2**64 - 1)]),
        (pa.array([0.5], pa.float32()), pa.float64(), [0.5]),
        (pa.array(["a", "b", "a"]).dictionary_encode(), pa.string(), ["a", "b", "a"]),
        (pa.array(["a"], pa.large_string()), pa.string(), ["a"]),
        (pa.array(["a"], pa.string_view()), pa.string(), ["a"]),
        (pa.array([day]), pa.string(), ["2024-05-01"]),
        (pa.array([decimal.Decimal("1.50")]), pa.string(), ["1.50"]),
        (pa.array([[1, 2], None]), pa.string(), ["[1,2]", None]),
        (pa.array([[0.5, None], None], pa.list_(pa.float32())), NUMBERS, [[0.5, None], None]),
        (pa.array([[1, 2]], pa.list_(pa.float16(), 2)), NUMBERS, [[1.0, 2.0]]),
        (pa.array([{"a": day}]), pa.string(), ['{"a":"2024-05-01"}']),
        (pa.array([b"ab\xff"]), pa.string(), ["ab\\xff"]),
        (pa.nulls(2), pa.null(), [None, None]),
    ]
    for array, kind, want in cases:
        [found] = widen([from_arrow(array)])
        assert (found.type, found.to_pylist()) == (kind, want)
