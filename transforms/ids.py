"""Repeated ids: the later documents of an id get `#2`, `#3`, or are rejected.

Shards keep ids as they were read, so that a shard depends on its own file alone. What repeats is
found afterwards, over all shards, on hashes of the ids, and the answer is a small table that is
laid over the shards wherever ids are read.
"""

from typing import Literal

import numba
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from transforms.record import REJECT_SCHEMA
from transforms.text import string_buffers

ID_SCHEMA = pa.schema(
    [
        pa.field("doc_uid", pa.int64(), nullable=False),
        pa.field("source", pa.string(), nullable=False),
        pa.field("id", pa.string(), nullable=False),
        pa.field("source_path", pa.string(), nullable=False),
        pa.field("source_line", pa.int64()),
    ]
)
"""What of a document decides which of several with one id keeps it."""

OVERLAY_SCHEMA = pa.schema(
    [pa.field("doc_uid", pa.int64(), nullable=False), pa.field("id", pa.string())]
)
"""New ids by document, sorted by ``doc_uid``; null = the document is rejected (`repeated id`)."""

REPEATED_ID = "repeated id"


def id_keys(
    ids: pa.StringArray, source: str
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Hash ids together with their source's name.

    Args:
        ids: ids of documents of one source.
        source: name of the source.

    Returns:
        Hashes of the ids, and of the ids without their `#number` endings, shape [len(ids)] each:
        equal ids have equal first hashes, and an id that a suffix could produce has the second
        hash of the id it would be a suffix to. The second is what a shuffle partitions by.
    """
    offsets, data = string_buffers(ids)
    seed = np.frombuffer(source.encode() or b"\0", np.uint8)
    keys, bases = _hash_ids(offsets, data, seed)
    return keys.view(np.int64), bases.view(np.int64)


def may_repeat(keys: npt.NDArray[np.int64], bases: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Return which documents :func:`resolve_repeated_ids` must see, usually none.

    Args:
        keys: first hashes of :func:`id_keys`, all documents of a partition, any order.
        bases: second hashes, the same shape.

    Returns:
        The documents that share an id with another one, and those whose id could clash with a new
        id; a few more where hashes collide. Shape [len(keys)].
    """
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    again = order[1:][ordered[1:] == ordered[:-1]]
    return np.isin(bases, np.unique(bases[again]))


def resolve_repeated_ids(
    rows: pa.Table, mode: Literal["suffix", "unique"]
) -> tuple[pa.Table, pa.Table]:
    """Give every document of a source an id of its own, or reject those that repeat one.

    The first document of an id, in the order of (path, line), keeps it. Suffixes count from 2 and
    leave out ids that a document of the source has already.

    Args:
        rows: the documents that :func:`may_repeat` names, columns of :data:`ID_SCHEMA`, any order.
        mode: `suffix` or `unique`.

    Returns:
        The overlay (:data:`OVERLAY_SCHEMA`) and the rejects (REJECT_SCHEMA; none for `suffix`),
        the latter in the order of (source, path, line).
    """
    keys = ("source", "id", "source_path", "source_line", "doc_uid")
    rows = rows.select(keys).combine_chunks()
    rows = rows.take(pc.sort_indices(rows, sort_keys=[(key, "ascending") for key in keys]))
    place = _place_in_group(rows)
    later = pa.array(place > 0)
    repeats, nth = rows.filter(later), place[place > 0] + 1
    if mode == "unique":
        overlay = pa.table(
            [repeats["doc_uid"], pa.nulls(len(repeats), pa.string())], OVERLAY_SCHEMA
        )
        return overlay.sort_by("doc_uid"), _rejects(repeats)
    names = _new_ids(repeats, nth, rows.filter(pc.invert(later)))
    overlay = pa.table([repeats["doc_uid"], names], OVERLAY_SCHEMA)
    return overlay.sort_by("doc_uid"), REJECT_SCHEMA.empty_table()


def apply_ids(table: pa.Table, overlay: pa.Table) -> pa.Table:
    """Lay an overlay over some rows: new ids in, rejected documents out.

    Args:
        table: rows with ``doc_uid``, and with ``id`` where ids matter.
        overlay: columns of :data:`OVERLAY_SCHEMA`, sorted by ``doc_uid``.
    """
    if not len(overlay) or not len(table):
        return table
    uids, known = table["doc_uid"].to_numpy(), overlay["doc_uid"].to_numpy()
    places = np.minimum(np.searchsorted(known, uids), len(known) - 1)
    found = known[places] == uids
    if not found.any():
        return table
    names = overlay["id"].combine_chunks().take(pa.array(places[found]))
    rejected = found.copy()
    rejected[found] = pc.is_null(names).to_numpy(zero_copy_only=False)
    stays = pa.array(~rejected)
    kept = table.filter(stays) if rejected.any() else table
    if "id" not in table.column_names:
        return kept
    ids = pc.replace_with_mask(table["id"].combine_chunks(), pa.array(found), names)
    number = table.column_names.index("id")
    # Rejected documents have no id; once they are gone the column is what it was, not nullable.
    return kept.set_column(number, table.schema.field(number), ids.filter(stays))


def _place_in_group(rows: pa.Table) -> npt.NDArray[np.int64]:
    """Return the place of each row among those of its (source, id); the rows are sorted by them."""
    n = len(rows)
    if n == 0:
        return np.empty(0, np.int64)
    first = np.ones(n, bool)
    same = [
        pc.equal(rows[name].slice(1), rows[name].slice(0, n - 1)).to_numpy()
        for name in ("source", "id")
    ]
    first[1:] = ~(same[0] & same[1])
    starts = np.flatnonzero(first)
    return np.arange(n) - np.repeat(starts, np.diff(np.append(starts, n)))


def _new_ids(repeats: pa.Table, nth: npt.NDArray[np.int64], owners: pa.Table) -> pa.Array:
    """Return `id#n` for each repeat; where a document has that id already, the next free one.

    Two repeats of different ids never want one name, since a name has one last `#number`; so only
    ids that documents came with can stand in the way.
    """
    numbers = pa.array(nth).cast(pa.string())
    names = pc.binary_join_element_wise(repeats["id"].combine_chunks(), numbers, "#")
    suffixed = owners.filter(pc.match_substring_regex(owners["id"], "#[0-9]+$"))
    if not len(suffixed):
        return names
    taken = set(zip(suffixed["source"].to_pylist(), suffixed["id"].to_pylist(), strict=True))
    bases = {(source, name.rpartition("#")[0]) for source, name in taken}
    renamed = names.to_pylist()
    last: dict[tuple[str, str], int] = {}
    old = zip(repeats["source"].to_pylist(), repeats["id"].to_pylist(), strict=True)
    for place, key in enumerate(old):
        if key in bases:
            number = max(int(nth[place]), last.get(key, 0) + 1)
            while (key[0], f"{key[1]}#{number}") in taken:
                number += 1
            last[key] = number
            renamed[place] = f"{key[1]}#{number}"
    return pa.array(renamed, pa.string())


def _rejects(repeats: pa.Table) -> pa.Table:
    reason = pa.repeat(REPEATED_ID, len(repeats))
    places = [repeats["source"], repeats["source_path"], repeats["source_line"]]
    rejects = pa.table([*places, reason, repeats["id"]], REJECT_SCHEMA)
    return rejects.sort_by([("source", "ascending"), ("path", "ascending"), ("line", "ascending")])


@numba.njit(cache=True, nogil=True)
def _hash_ids(
    offsets: npt.NDArray[np.int64], data: npt.NDArray[np.uint8], seed: npt.NDArray[np.uint8]
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
    """Return the hashes of each id and of its base (FNV-1a with a finalizer)."""
    n = len(offsets) - 1
    keys, bases = np.empty(n, np.uint64), np.empty(n, np.uint64)
    prime = np.uint64(0x100000001B3)
    start_state = np.uint64(0xCBF29CE484222325)
    for byte in seed:
        start_state = (start_state ^ np.uint64(byte)) * prime
    for row in range(n):
        start, end = offsets[row], offsets[row + 1]
        base_end = _base_end(data, start, end)
        state = start_state
        for place in range(start, base_end):
            state = (state ^ np.uint64(data[place])) * prime
        bases[row] = _final(state)
        for place in range(base_end, end):
            state = (state ^ np.uint64(data[place])) * prime
        keys[row] = _final(state ^ np.uint64(end - base_end))
    return keys, bases


@numba.njit(cache=True, nogil=True)
def _base_end(data: npt.NDArray[np.uint8], start: int, end: int) -> int:
    """Return where an id ends when every `#digits` at its end is taken off."""
    base, place = end, end
    while place > start:
        byte = data[place - 1]
        if byte == 0x23 and place < base:
            place -= 1
            base = place
        elif 0x30 <= byte <= 0x39:
            place -= 1
        else:
            break
    return base


@numba.njit(cache=True, nogil=True)
def _final(state: np.uint64) -> np.uint64:
    """Mix the bits of a hash (finalizer of MurmurHash3)."""
    state = (state ^ (state >> np.uint64(33))) * np.uint64(0xFF51AFD7ED558CCD)
    state = (state ^ (state >> np.uint64(33))) * np.uint64(0xC4CEB9FE1A85EC53)
    return state ^ (state >> np.uint64(33))
