"""The narrow columns that mixing and packing need, one entry per document."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq

from pipelines.corpus import Corpus
from pipelines.steps.columns import row_groups


@dataclass(frozen=True, slots=True)
class Lengths:
    """Lengths and domains of documents, by ``doc_uid``."""

    doc_uid: npt.NDArray[np.int64]
    n_tokens: npt.NDArray[np.int32]
    domain: npt.NDArray[np.int16]
    domains: tuple[str, ...]


def read_lengths(corpus: Corpus) -> Lengths:
    """Read the lengths and domains of all encoded documents, sorted by ``doc_uid``."""
    uids, tokens, codes, names = [], [], [], []
    for entry in corpus.manifest("encode").entries():
        path = corpus.folder("encode") / entry.name
        for group in row_groups(path, ("doc_uid", "n_tokens", "domain")):
            uids.append(group["doc_uid"].to_numpy())
            tokens.append(group["n_tokens"].to_numpy())
            domain = group["domain"].combine_chunks().dictionary_encode()
            codes.append(domain.indices.to_numpy(zero_copy_only=False))
            names.append(domain.dictionary.to_pylist())
    domains = tuple(sorted({name for group in names for name in group}))
    number = {name: place for place, name in enumerate(domains)}
    domain_of = [
        np.array([number[name] for name in group] or [0], np.int16)[code]
        if len(code)
        else np.empty(0, np.int16)
        for group, code in zip(names, codes, strict=True)
    ]
    doc_uid = np.concatenate([np.empty(0, np.int64), *uids])
    order = np.argsort(doc_uid, kind="stable")
    return Lengths(
        doc_uid[order],
        np.concatenate([np.empty(0, np.int32), *tokens])[order],
        np.concatenate([np.empty(0, np.int16), *domain_of])[order],
        domains,
    )


def read_copies(corpus: Corpus, doc_uid: npt.NDArray[np.int64]) -> npt.NDArray[np.int16]:
    """Return how often each document is drawn: once where there is no mixture.

    Args:
        corpus: a corpus that is encoded.
        doc_uid: [n] addresses, ascending.

    Returns:
        [n] copies; 1 for a document that the mixture did not decide on (one without tokens).
    """
    copies = np.ones(len(doc_uid), np.int16)
    for uid, count in _drawn(corpus, "copies"):
        copies[np.searchsorted(doc_uid, uid)] = count
    return copies


def read_weights(corpus: Corpus, doc_uid: npt.NDArray[np.int64]) -> npt.NDArray[np.float32] | None:
    """Return the weights of documents in the loss, or None where all are 1.

    Args:
        corpus: a corpus that is encoded.
        doc_uid: [n] addresses of drawn documents, in any order and with repeats.

    Returns:
        [n] weights.
    """
    if not corpus.has("mixture") or not corpus.manifest("mixture").counters["weighted"]:
        return None
    known, weight = (
        np.concatenate(columns) for columns in zip(*_drawn(corpus, "weight"), strict=True)
    )
    found: npt.NDArray[np.float32] = weight[np.searchsorted(known, doc_uid)]
    return found


def _drawn(corpus: Corpus, column: str) -> Iterator[tuple[npt.NDArray[Any], npt.NDArray[Any]]]:
    """Yield addresses, ascending over all, and a column of what the mixture decided."""
    if not corpus.has("mixture"):
        return
    for entry in corpus.manifest("mixture").entries():
        path = corpus.folder("mixture") / entry.name
        table = pq.read_table(path, columns=["doc_uid", column], use_threads=False)
        yield table["doc_uid"].to_numpy(), table[column].to_numpy()
