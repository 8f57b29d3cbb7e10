"""The raw input of a removal of duplicates, prepared to judge any number of outputs."""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Annotated

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from annotated_types import Gt, Le

from pipelines.audit.documents import (
    AuditedFiles,
    Block,
    Hashes128,
    Identities,
    IdentityList,
    refuse_unreadable,
)
from pipelines.audit.sets import Int64s, SetStore
from transforms.minhash import set_hashes
from transforms.row_matching import group_equal
from transforms.set_prefixes import Counters, count_shingles, new_counters, prefixes
from transforms.shingles import ShingleSets, shingle_sets, text_blocks

Mask = npt.NDArray[np.bool_]

HELD_VALUES = 1 << 22
"""Values of sets that are held at a time."""

_NO_TOKENS = np.uint64(0xA5A5A5A5A5A5A5A5)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditSettings:
    """What two documents are duplicates by."""

    threshold: Annotated[float, Gt(0), Le(1)] = 0.8
    """Jaccard similarity of their sets of n-grams from which on they are."""
    ngram: Annotated[int, Gt(0), Le(64)] = 5
    """Tokens per n-gram."""
    show: int = 5
    """How many of the worst pairs are named, of each kind."""


class RawInput:
    """Documents of the input, grouped by equal sets of n-grams, and those sets in temporary files.

    Memory is some 150 bytes per document and a few hundred MiB; the files take about twice the
    bytes of the text.

    Args:
        files: the input.
        settings: what duplicates are.
        progress: told what is done.

    Raises:
        RecordError: no record can be read.
    """

    def __init__(
        self,
        files: AuditedFiles,
        settings: AuditSettings,
        progress: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.files = files
        self.settings = settings
        self._folder = tempfile.TemporaryDirectory(prefix="drystone-audit-")
        self._sets = SetStore(Path(self._folder.name) / "sets")
        self.prefixes = SetStore(Path(self._folder.name) / "prefixes")
        """Keys of the rarest n-grams of each group's set."""
        try:
            progress(f"reading {files.option}: {len(files.files)} files")
            counters = self._read()
            progress(f"{len(self.documents):,} documents, {len(self.sizes):,} distinct")
            self._write_prefixes(counters)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> "RawInput":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Remove the temporary files."""
        self._folder.cleanup()

    def sets(self, groups: Int64s) -> ShingleSets:
        """Return the sets of n-grams of some groups, ascending."""
        return self._sets.read(self._first[groups])

    def _read(self) -> Counters:
        counters, found = new_counters(), IdentityList()
        keys, empty, files, rows = [], [], [], []
        for block in self.files.blocks():
            texts = found.add(block)
            keys.append(self._add_sets(block, texts, counters))
            empty.append(block.texts.to_numpy(zero_copy_only=False) == "")
            files.append(np.full(len(texts), block.file, np.int64))
            rows.append(block.row + np.arange(len(texts)))
        refuse_unreadable(self.files, sum(map(len, rows)))
        self._sets.finish()
        self.documents: Identities = found.finish()
        self.empty: Mask = np.concatenate(empty).astype(bool)
        """Documents without a text."""
        self.file: Int64s = np.concatenate(files)
        """File of each document."""
        self.row: Int64s = np.concatenate(rows)
        """Place of each document in its file."""
        groups = group_equal(np.concatenate(keys))
        self.group: Int64s = groups.group
        """Group of each document; the members of a group have equal sets."""
        self._first = groups.first
        self.sizes: Int64s = self._sets.sizes[groups.first]
        """Number of n-grams of each group's set."""
        return counters

    def _add_sets(self, block: Block, texts: Hashes128, counters: Counters) -> Hashes128:
        """Write the sets of a block; return 128 bits per document that only equal sets share.

        Documents without a token are alike where their texts are equal.
        """
        hashes, sizes = [], []
        for part in text_blocks(pa.chunked_array([block.texts])):
            sets = shingle_sets(part, self.settings.ngram)
            count_shingles(sets, counters)
            self._sets.append(sets)
            hashes.append(set_hashes(sets))
            sizes.append(sets.sizes)
        keys = np.concatenate(hashes)
        none = np.concatenate(sizes) == 0
        keys[none] = texts[none] ^ _NO_TOKENS
        return keys

    def _write_prefixes(self, counters: Counters) -> None:
        for _, sets in self._sets.blocks(self._first, HELD_VALUES):
            self.prefixes.append(prefixes(sets, counters, self.settings.threshold))
        self.prefixes.finish()
