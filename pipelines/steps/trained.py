"""The trained targets of pieces, for dealing conversations."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc
import pyarrow.parquet as pq

from packing.loss_spans import from_arrow
from packing.trained import piece_targets
from pipelines.corpus import Corpus
from pipelines.steps.columns import row_groups

_COLUMNS = ("doc_uid", "n_tokens", "loss_spans")


def read_targets(corpus: Corpus, pieces: dict[str, Any]) -> npt.NDArray[np.int64] | None:
    """Return the trained targets of each piece, or None where every target is trained.

    Args:
        corpus: a corpus that is encoded.
        pieces: doc_uid, token_start and token_end of the pieces, in any order.
    """
    paths = [corpus.folder("encode") / entry.name for entry in corpus.manifest("encode").entries()]
    paths = [path for path in paths if "loss_spans" in pq.read_schema(path).names]
    if not paths:
        return None
    # Of documents without spans every target is trained; that the last token has none is left out.
    found: npt.NDArray[np.int64] = (pieces["token_end"] - pieces["token_start"]).astype(np.int64)
    order = np.argsort(pieces["doc_uid"], kind="stable")
    uids = pieces["doc_uid"][order]
    for path in paths:
        for group in row_groups(path, _COLUMNS):
            if not len(group) or pc.is_null(group["loss_spans"]).to_numpy().all():
                continue
            known = group["doc_uid"].to_numpy()
            low, high = np.searchsorted(uids, [known[0], known[-1] + 1])
            mine = order[low:high]
            document = np.searchsorted(known, uids[low:high])
            found[mine] = piece_targets(
                from_arrow(group["loss_spans"].combine_chunks()),
                document,
                pieces["token_start"][mine].astype(np.int64),
                pieces["token_end"][mine].astype(np.int64),
                group["n_tokens"].to_numpy()[document].astype(np.int64),
            )
    return found
