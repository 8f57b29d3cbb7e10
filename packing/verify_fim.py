"""Proves that fill in the middle can be undone: the document of every rearranged one is restored."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from packing.findings import Findings
from transforms.tokenize.encoder import Encoded
from transforms.tokenize.fim import FimTokens, rearrange, restore
from transforms.tokenize.settings import FimSettings

CHECK = "fill in the middle can be undone"


class FimProof:
    """Restores documents from their tokens, rearranges them again and compares.

    Args:
        findings: takes the results.
        config: settings of the tokens artifact, as its manifest has them.
    """

    def __init__(self, findings: Findings, config: Mapping[str, Any]) -> None:
        self._findings = findings
        self._lookalikes = 0
        self._bos, self._eos = bool(config.get("bos")), bool(config.get("eos"))
        fim = dict(config.get("fim") or {})
        # Without documents nobody has looked the special tokens up.
        self._active = "tokens" in fim
        if self._active:
            self._tokens = FimTokens(*fim.pop("tokens"))
            self._reserved = bool(fim.pop("reserved"))
            self._seed = int(fim.pop("seed"))
            self._settings = FimSettings(**{**fim, "domains": tuple(fim["domains"])})

    def check(self, table: pa.Table) -> None:
        """Check some encoded documents: columns ``doc_uid``, ``domain``, ``input_ids``."""
        if not self._active:
            return
        column = table["input_ids"].combine_chunks()
        lists = column.chunk(0) if isinstance(column, pa.ChunkedArray) else column
        offsets = lists.offsets.to_numpy().astype(np.int64)
        ids = lists.values.to_numpy()[offsets[0] : offsets[-1]]
        has_spans = np.zeros(len(table), np.bool_)
        if "loss_spans" in table.column_names:
            has_spans = pc.is_valid(table["loss_spans"]).to_numpy()
        found = self._without_borders(Encoded(offsets - offsets[0], ids), has_spans)
        eligible = ~has_spans
        if self._settings.domains:
            names = pa.array(self._settings.domains)
            eligible &= pc.is_in(table["domain"], value_set=names).to_numpy()
        uids = table["doc_uid"].to_numpy()
        restored, _ = restore(found, self._tokens)
        again = rearrange(restored, uids, eligible, self._tokens, self._settings, self._seed)
        wrong = ~_equal(again.encoded, found)
        if not self._reserved:
            # Text may hold these tokens, and such a document stays as it is.
            own = wrong & _holds(found, self._tokens)
            self._lookalikes += int(own.sum())
            wrong &= ~own
        if wrong.any():
            at = int(np.argmax(wrong))
            self._findings.fail(
                CHECK,
                f"document {uids[at]}: restoring it and rearranging it again gives other tokens",
                int(wrong.sum()),
            )

    def finish(self) -> None:
        """Note what could not be proved."""
        if self._lookalikes:
            self._findings.cannot(
                CHECK, f"{self._lookalikes} documents hold its tokens as text, and stay as they are"
            )

    def _without_borders(self, encoded: Encoded, bare: npt.NDArray[np.bool_]) -> Encoded:
        """Return documents without the bos and eos that encoding adds (not to ``bare`` ones)."""
        full = (encoded.lengths > 0) & ~bare
        low = encoded.offsets[:-1] + (full & self._bos)
        length = encoded.offsets[1:] - (full & self._eos) - low
        offsets = np.concatenate([[0], np.cumsum(length)])
        place = np.arange(int(offsets[-1])) + np.repeat(low - offsets[:-1], length)
        return Encoded(offsets, encoded.ids[place])


def _equal(one: Encoded, two: Encoded) -> npt.NDArray[np.bool_]:
    """Return which documents are the same."""
    same: npt.NDArray[np.bool_] = one.lengths == two.lengths
    document = np.repeat(np.arange(len(same)), one.lengths)
    in_one = same[document]
    in_two = np.repeat(same, two.lengths)
    differs = one.ids[in_one] != two.ids[in_two]
    same[document[in_one][differs]] = False
    return same


def _holds(encoded: Encoded, tokens: FimTokens) -> npt.NDArray[np.bool_]:
    """Return which documents hold one of the tokens."""
    document = np.repeat(np.arange(len(encoded.offsets) - 1), encoded.lengths)
    held = np.zeros(len(encoded.offsets) - 1, np.bool_)
    held[document[np.isin(encoded.ids, tokens.all)]] = True
    return held
