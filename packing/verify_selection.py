"""What the stages before packing selected: how often, and with which weight."""

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq


class Selected:
    """How often each document should be there: by the packer's drops, and by the mixture.

    Attributes:
        counts_known: whether :meth:`of` counts, and does not only say which are selected.

    Args:
        pack: folder of the pack artifact.
        mixture: folder of the mixture's, or None.
        known: whether documents that are not listed are selected just once.
    """

    def __init__(self, pack: Path, mixture: Path | None, *, known: bool) -> None:
        self.counts_known = known or mixture is not None
        uids, counts = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        weights = [np.empty(0, np.float32)]
        for path in sorted(pack.glob("drops-*.parquet")):
            dropped = pq.read_table(path, columns=["doc_uid"], use_threads=False)
            uids.append(dropped["doc_uid"].to_numpy())
            counts.append(np.zeros(len(dropped), np.int64))
            weights.append(np.ones(len(dropped), np.float32))
        for path in sorted(mixture.glob("copies-*.parquet")) if mixture is not None else ():
            names = ["doc_uid", "copies", "weight"]
            drawn = pq.read_table(path, columns=names, use_threads=False)
            uids.append(drawn["doc_uid"].to_numpy())
            counts.append(drawn["copies"].to_numpy().astype(np.int64))
            weights.append(drawn["weight"].to_numpy())
        uid = np.concatenate(uids)
        order = np.argsort(uid, kind="stable")
        self._uid, self._count = uid[order], np.concatenate(counts)[order]
        self._weight = np.concatenate(weights)[order]

    def of(
        self, uid: npt.NDArray[np.int64]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
        """Return [n] the copies of each document, and [n] its weight; 1 where it is not listed."""
        at = np.searchsorted(self._uid, uid)
        listed = at < len(self._uid)
        listed[listed] = self._uid[at[listed]] == uid[listed]
        copies, weight = np.ones(len(uid), np.int64), np.ones(len(uid), np.float32)
        copies[listed] = self._count[at[listed]]
        weight[listed] = self._weight[at[listed]]
        return copies, weight
