"""JSON lines read without Python objects: what ``orjson`` reads, or nothing."""

import json

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transforms.json_records import text_records

TEXT = st.text(st.characters(codec="utf-8"), max_size=20)
VALUE = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**19), 10**19) | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
RECORD = st.dictionaries(
    st.sampled_from(["text", "id", "lang", "x", "te", "textt"]), VALUE | TEXT, max_size=6
) | st.fixed_dictionaries({"text": TEXT}, optional={"id": TEXT | st.integers(0, 9), "x": VALUE})
LINE = (
    st.builds(
        lambda record, ascii_only, wide: json.dumps(
            record, ensure_ascii=ascii_only, separators=(" , ", "\t: ") if wide else (",", ":")
        ).encode(),
        RECORD,
        st.booleans(),
        st.booleans(),
    )
    | st.sampled_from([b"", b" \t\r", b"{}", b"[]", b'{"text":"a"} ', b'{"text":"a"}x'])
    | st.binary(max_size=12)
)


def expected(block):
    """Return line, text, id and lang of each record by orjson; None where a value is no string."""
    rows = []
    for number, line in enumerate(block.split(b"\n")):
        if not line.strip(b" \t\r"):
            continue
        try:
            record = orjson.loads(line)
        except orjson.JSONDecodeError:
            return None
        if not isinstance(record, dict) or not isinstance(record.get("text"), str):
            return None
        name, lang = record.get("id"), record.get("lang")
        if isinstance(name, bool) or not isinstance(name, str | int | None) or name == "":
            return None
        if not isinstance(lang, str | None):
            return None
        rows.append((number, record["text"], None if name is None else str(name), lang))
    return rows


def found(block):
    """Return the same of what was read."""
    records = text_records(block, "text", "id", "lang")
    if records is None:
        return None
    for column in (records.text, records.id, records.lang):
        column.validate(full=True)
    columns = (records.text, records.id, records.lang)
    return list(zip(records.lines.tolist(), *(c.to_pylist() for c in columns), strict=True))


@settings(deadline=None, max_examples=400)
@given(st.lists(LINE, max_size=6))
def test_what_is_read_is_what_orjson_reads(lines):
    """A block is read as orjson reads it, or not at all."""
    block = b"\n".join(lines)
    rows = found(block)
    assert rows is None or rows == expected(block)


@settings(deadline=None, max_examples=400)
@given(st.fixed_dictionaries({"text": TEXT, "id": TEXT.filter(bool)}), st.data())
def test_damaged_bytes_are_never_read_otherwise(record, data):
    """Any byte replaced: as orjson reads it, or not at all."""
    line = bytearray(json.dumps(record, ensure_ascii=data.draw(st.booleans())).encode())
    place = data.draw(st.integers(0, len(line) - 1))
    line[place] = data.draw(st.integers(0, 255).filter(lambda byte: byte != 0x0A))
    rows = found(bytes(line))
    assert rows is None or rows == expected(bytes(line))


@pytest.mark.parametrize(
    "line",
    [
        '{"id":"a","text":"b","lang":"c"}',
        '{"text":"\\u00e9\\u4e2d\\ud83d\\ude00\\/\\n\\t\\"\\\\ é中😀"}',
        '\t{ "lang" : null , "text" : "a" , "id" : 17 }\r',
        '{"text":"1","text":"2","id":"a","id":null,"id":"b"}',
        '{"meta":{"a":[1,2.5,[],{}, {"b":"}"}],"text":"no"},"text":"yes","x":[true,false,null,-1]}',
        '{"id":"' + "i" * 10_000 + '","text":"t"}',
    ],
)
def test_regular_lines_are_read(line):
    """Whatever a text's record usually holds takes this way; none of it is left to the other one."""
    block = "\n".join([line, "", line]).encode()
    assert found(block) == expected(block)
    assert len(found(block)) == 2


@pytest.mark.parametrize(
    "line",
    [
        b'{"text":"\\ud800"}',
        b'{"text":"\\udc00\\ud800"}',
        b'{"text":"\xed\xa0\x80"}',
        b'{"text":"\xc0\xaf"}',
        b'{"text":"\xf4\x90\x80\x80"}',
        b'{"text":"a\x01"}',
        b'{"text":"a",}',
        b'{"text":"a" "id":"b"}',
        b'{"text":"a","x":01}',
        b'{"text":"a","x":1.}',
        b'{"text":"a","x":[1}}',
        b'{"text":"a","x":{"b"}}',
        b'{"text":"a","x":nul}',
        b'{"text":"a"',
        b'{"text":"a',
        b'{"text":1}',
        b'{"id":"a"}',
        b'{"te\\u0078t":"a"}',
        b'"text"',
        b"[" * 200 + b"]" * 200,
        b"{" * 100,
    ],
)
def test_everything_else_is_left_to_the_other_way(line):
    """Broken lines and strange ones are not read, wherever they stand."""
    good = b'{"text":"a"}'
    assert found(line) is None
    assert found(good + b"\n" + line) is None
    assert found(line + b"\n" + good) is None
