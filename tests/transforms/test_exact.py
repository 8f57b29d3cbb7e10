"""Exact duplicates against dictionaries and sorted()."""

import hashlib
import math

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from transforms.exact import DUPLICATE_SCHEMA, ExactSettings, exact_duplicates, text_hashes


@given(st.lists(st.text(st.characters(codec="utf-8"), max_size=20), max_size=6), st.integers(0, 2))
def test_hash_is_blake2b_of_the_bytes(values, skip):
    """Anybody can recompute a hash: BLAKE2b with 16 bytes over the UTF-8 text."""
    hashes = text_hashes(pa.array(values, pa.string()).slice(skip))
    want = [hashlib.blake2b(v.encode(), digest_size=16).digest() for v in values[skip:]]
    assert hashes.to_pylist() == want


documents = st.lists(
    st.tuples(
        # Equal first halves: whole hashes must be compared.
        st.sampled_from([b"a" * 16, b"a" * 8 + b"b" * 8, b"c" * 16, b"d" * 16]),
        st.integers(0, 2),
        st.sampled_from([None, 0.5, 1.0, math.nan]),
        st.integers(0, 2),
        st.sampled_from(["x", "y", "é", "z#2", "Z"]),
    ),
    max_size=14,
)


def table_of(rows, with_quality=True):
    columns = {
        "exact_hash": pa.array([row[0] for row in rows], pa.binary(16)),
        "doc_uid": pa.array([row[5] for row in rows], pa.int64()),
        "source_rank": pa.array([row[1] for row in rows], pa.int32()),
        "n_chars": pa.array([row[3] for row in rows], pa.int64()),
        "id": pa.array([row[4] for row in rows], pa.string()),
    }
    if with_quality:
        columns["quality"] = pa.array([row[2] for row in rows], pa.float64())
    return pa.table(columns)


def expected(rows, with_quality=True):
    """Group by hash and sort each group in keep order."""

    def place(row):
        _, source, quality, n_chars, name, uid = row
        lost = (quality is None, quality is not None and math.isnan(quality))
        better = 0.0 if any(lost) else -quality
        order = (*lost, better) if with_quality else ()
        return (source, *order, -n_chars, name.encode(), uid)

    groups = {}
    for row in rows:
        groups.setdefault(row[0], []).append(row)
    found = []
    for group in groups.values():
        keeper, *lost = sorted(group, key=place)
        found += [(row[5], keeper[5], keeper[5], None, "exact", 1.0, len(group)) for row in lost]
    return sorted(found)


@given(documents, st.booleans(), st.randoms(use_true_random=False))
def test_keepers_follow_the_keep_order(rows, with_quality, random):
    """Source order, quality, length, id bytewise, address: as sorting each group says."""
    rows = [(*row, uid) for uid, row in enumerate(rows)]
    want = expected(rows, with_quality)
    random.shuffle(rows)
    found = exact_duplicates(table_of(rows, with_quality))
    assert found.schema.equals(DUPLICATE_SCHEMA)
    assert [tuple(row.values()) for row in found.to_pylist()] == want


@given(documents, st.integers(1, 4))
def test_partitions_by_hash_change_nothing(rows, count):
    """Tables split by hash give the same rows as one table, also in several chunks."""
    rows = [(*row, uid) for uid, row in enumerate(rows)]
    whole = exact_duplicates(table_of(rows))
    parts = [[row for row in rows if row[0][-1] % count == part] for part in range(count)]
    chunked = [pa.concat_tables([table_of(part[:3]), table_of(part[3:])]) for part in parts]
    split = pa.concat_tables([exact_duplicates(table) for table in chunked]).sort_by("doc_uid")
    assert split.to_pylist() == whole.to_pylist()


def test_settings_have_no_keys():
    """The table [dedupe.exact] is empty."""
    assert ExactSettings() == ExactSettings()
