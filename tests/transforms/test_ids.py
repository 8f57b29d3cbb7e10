"""Repeated ids against a dictionary that walks the documents in order."""

import re

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from transforms.ids import ID_SCHEMA, apply_ids, id_keys, may_repeat, resolve_repeated_ids

names = st.sampled_from(["x", "y", "x#2", "x#3", "x#2#2", "#2", "x#", "é#10", "é", "#", "x#02"])
documents = st.lists(
    st.tuples(st.sampled_from(["s", "t"]), names, st.sampled_from(["a", "b"])), max_size=14
)


def table_of(rows):
    columns = zip(*rows, strict=True) if rows else [[]] * 5
    arrays = [pa.array(list(c), f.type) for c, f in zip(columns, ID_SCHEMA, strict=True)]
    return pa.table(arrays, schema=ID_SCHEMA)


def rows_of(items):
    return [(uid * 7 % 101, s, name, path, uid) for uid, (s, name, path) in enumerate(items)]


def expected(rows):
    """Give new ids one document at a time, in the order of path and line."""
    ordered = sorted(rows, key=lambda row: (row[1], row[2].encode(), row[3], row[4]))
    owned = {(row[1], row[2]) for row in rows}
    seen, new = {}, {}
    for uid, source, name, _, _ in ordered:
        key = (source, name)
        if key not in seen:
            seen[key] = 1
            continue
        seen[key] += 1
        while (source, f"{name}#{seen[key]}") in owned:
            seen[key] += 1
        new[uid] = f"{name}#{seen[key]}"
    return new


@given(documents, st.randoms(use_true_random=False))
def test_suffixes_are_those_of_a_walk(items, random):
    """The first document keeps its id, the others get the next free suffix, in any row order."""
    rows = rows_of(items)
    want = expected(rows)
    random.shuffle(rows)
    overlay, rejects = resolve_repeated_ids(table_of(rows), "suffix")
    assert dict(zip(*overlay.to_pydict().values(), strict=True)) == want
    assert overlay["doc_uid"].to_pylist() == sorted(want)
    assert len(rejects) == 0
    final = [(source, want.get(uid, name)) for uid, source, name, _, _ in rows]
    assert len(set(final)) == len(final)


@given(documents)
def test_suspects_are_enough(items):
    """Resolving only what may_repeat names gives the same overlay; usually that is nothing."""
    rows = rows_of(items)
    keys, bases = np.empty(len(rows), np.int64), np.empty(len(rows), np.int64)
    for place, (_, source, name, _, _) in enumerate(rows):
        keys[place : place + 1], bases[place : place + 1] = id_keys(pa.array([name]), source)
    few = [row for row, wanted in zip(rows, may_repeat(keys, bases), strict=True) if wanted]
    assert resolve_repeated_ids(table_of(few), "suffix")[0].equals(
        resolve_repeated_ids(table_of(rows), "suffix")[0]
    )
    if len({(row[1], row[2]) for row in rows}) == len(rows):
        assert not few


@given(documents)
def test_unique_rejects_all_but_the_first(items):
    """Later documents of an id are rejected with their path and line."""
    rows = rows_of(items)
    overlay, rejects = resolve_repeated_ids(table_of(rows), "unique")
    late = expected(rows)
    assert overlay["doc_uid"].to_pylist() == sorted(late)
    assert overlay["id"].null_count == len(late)
    want = sorted((s, path, line, name) for uid, s, name, path, line in rows if uid in late)
    found = rejects.select(["source", "path", "line", "detail"]).to_pylist()
    assert sorted(tuple(row.values()) for row in found) == want
    assert set(rejects["reason"].to_pylist()) <= {"repeated id"}


@given(st.lists(names, min_size=1, max_size=8))
def test_keys_agree_with_ids_and_bases(items):
    """Hashes are equal exactly where ids, or ids without their suffixes, are."""
    keys, bases = id_keys(pa.array(items), "s")
    stripped = [re.sub(r"(#[0-9]+)+$", "", name) for name in items]
    for a in range(len(items)):
        for b in range(len(items)):
            assert (keys[a] == keys[b]) == (items[a] == items[b])
            assert (bases[a] == bases[b]) == (stripped[a] == stripped[b])
    assert (id_keys(pa.array(items), "t")[0] != keys).all()


def test_overlay_replaces_and_removes():
    """apply_ids puts new ids in and takes rejected documents out, and leaves other tables alone."""
    table = pa.table({"doc_uid": [5, 3, 9], "id": ["a", "a", "a"]})
    overlay = pa.table({"doc_uid": [3, 4], "id": ["a#2", "b#2"]})
    assert apply_ids(table, overlay)["id"].to_pylist() == ["a", "a#2", "a"]
    gone = pa.table({"doc_uid": pa.array([3, 5]), "id": pa.array([None, None], pa.string())})
    assert apply_ids(table, gone)["doc_uid"].to_pylist() == [9]
    assert apply_ids(table.select(["doc_uid"]), gone)["doc_uid"].to_pylist() == [9]
    assert apply_ids(table, overlay.slice(0, 0)) is table
    assert apply_ids(table, pa.table({"doc_uid": [77], "id": ["z"]})) is table


def test_an_overlay_leaves_the_schema_as_it_is():
    """With and without rejected documents: tables of several shards go into one."""
    id_field = pa.field("id", pa.string(), nullable=False)
    schema = pa.schema([pa.field("doc_uid", pa.int64(), nullable=False), id_field])
    table = pa.table([[5, 3], ["a", "a"]], schema=schema)
    for new_id in ("a#2", None):
        overlay = pa.table({"doc_uid": [3], "id": pa.array([new_id], pa.string())})
        laid = apply_ids(table, overlay)
        assert laid.schema == schema
        assert laid["id"].to_pylist() == ["a", "a#2"][: len(laid)]
