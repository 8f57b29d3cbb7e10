"""Fetches rows by their place in the shards: opens shards, decodes groups, holds what is to come.

Imports numpy, pyarrow and the standard library alone, so that it can be vendored with the reader.
"""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from packing.format import DatasetFile, DatasetInfo, ShardError
from packing.rows import Int64, RowGroup, offsets_of
from packing.shard import ShardFile
from packing.storage import ShardFolder

_OPEN_FILES = 4


@dataclass(slots=True)
class _Held:
    """A decoded row group, cut down to the rows one rank reads."""

    key: tuple[int, int]
    """Number of the file, and of the group in it."""
    first: int
    """Place in the shards of the group's first row."""
    stop: int
    places: Int64
    """Places in the shards of the rows that are kept, ascending."""
    rows: RowGroup
    left: int
    """Rows that were not read yet; a group without any is let go."""


class RowSource:
    """The rows of a dataset, by their place in the shards.

    A decoded group is held until all its rows that are wanted were read, or until the groups held
    take more than ``memory_bytes``: rows in shard order are decoded once, and so are those of
    another plan whose horizon fits in memory.

    Args:
        folder: where the shards are.
        files: the shards, in the order of their rows.
        info: what their footers must say.
        row_id: number of the row at each place.
        memory_bytes: size of the decoded groups that are held.
    """

    def __init__(
        self,
        folder: ShardFolder,
        files: Sequence[DatasetFile],
        info: DatasetInfo,
        row_id: Int64,
        memory_bytes: int,
    ) -> None:
        self._folder = folder
        self._files = files
        self._file_bounds = offsets_of(np.array([f.rows for f in files], np.int64))
        if len(row_id) != self._file_bounds[-1]:
            raise ShardError(
                f"{folder.path}: the plan has {len(row_id)} rows, the shards "
                f"{self._file_bounds[-1]}; restore the folder"
            )
        self._info = info
        self._row_id = row_id
        self._memory_bytes = memory_bytes
        self._open: OrderedDict[int, ShardFile] = OrderedDict()
        self._groups: OrderedDict[tuple[int, int], _Held] = OrderedDict()
        self._last: _Held | None = None
        self._wanted = np.arange(len(row_id))

    def want(self, places: Int64) -> None:
        """Hold only these rows (places, ascending) of what is decoded from here on."""
        self._groups.clear()
        self._last = None
        self._wanted = places

    def close(self) -> None:
        """Close the shards and let all groups go."""
        for file in self._open.values():
            file.close()
        self._open.clear()
        self.want(self._wanted)

    def read(self, rows: Int64) -> RowGroup:
        """Return rows by their place in the shards, in the order given."""
        parts = []
        at = 0
        while at < len(rows):
            held = self._group_of(int(rows[at]))
            # The longest run of wanted rows that stand next to each other in this group.
            first = int(np.searchsorted(held.places, rows[at]))
            run = min(len(rows) - at, len(held.places) - first)
            same = rows[at : at + run] == held.places[first : first + run]
            n = run if same.all() else int(np.argmin(same))
            parts.append(held.rows.slice(first, first + n))
            at += n
            held.left -= n
            if held.left <= 0:
                self._groups.pop(held.key, None)
                self._last = None
        found = RowGroup.concat(parts)
        if not (found.row_id == self._row_id[rows]).all():
            raise ShardError(
                f"{self._folder.path}: the shards hold rows {found.row_id[:3].tolist()}… where "
                f"the plan expects {self._row_id[rows][:3].tolist()}…; restore the folder"
            )
        return found

    def _group_of(self, row: int) -> _Held:
        """Return the decoded group that holds a row, as far as this rank needs it."""
        if self._last is not None and self._last.first <= row < self._last.stop:
            return self._last
        index = int(np.searchsorted(self._file_bounds, row, "right")) - 1
        file = self._file(index)
        inside = row - int(self._file_bounds[index])
        number = int(np.searchsorted(file.group_bounds, inside, "right")) - 1
        key = (index, number)
        if key not in self._groups:
            self._groups[key] = self._decoded(file, key, int(self._file_bounds[index]))
            size = sum(held.rows.nbytes for held in self._groups.values())
            while size > self._memory_bytes and len(self._groups) > 1:
                size -= self._groups.popitem(last=False)[1].rows.nbytes
        self._groups.move_to_end(key)
        self._last = self._groups[key]
        return self._last

    def _decoded(self, file: ShardFile, key: tuple[int, int], base: int) -> _Held:
        """Read a group and keep what this rank needs of it."""
        number = key[1]
        first, stop = (file.group_bounds[number : number + 2] + base).tolist()
        group = file.read(number)
        a, b = np.searchsorted(self._wanted, [first, stop])
        places = self._wanted[a:b]
        if len(places) < stop - first:
            group = RowGroup.concat([group.slice(i, i + 1) for i in (places - first).tolist()])
        return _Held(key, first, stop, places, group, len(places))

    def _file(self, index: int) -> ShardFile:
        """Return an open shard."""
        if index in self._open:
            self._open.move_to_end(index)
            return self._open[index]
        entry = self._files[index]
        source = self._folder.open(entry, self._info.fingerprint)
        file = ShardFile(source, f"{self._folder.path}/{entry.name}")
        if file.info != self._info or file.group_bounds[-1] != entry.rows:
            raise ShardError(
                f"{file.name}: its footer belongs to dataset {file.info.fingerprint[:12]} with "
                f"{file.group_bounds[-1]} rows, the manifest says {self._info.fingerprint[:12]} with "
                f"{entry.rows}; restore the file"
            )
        self._open[index] = file
        if index + 1 < len(self._files):
            self._folder.prefetch(self._files[index + 1], self._info.fingerprint)
        while len(self._open) > _OPEN_FILES:
            self._open.popitem(last=False)[1].close()
        return file
