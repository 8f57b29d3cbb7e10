"""What is reported of repeated sentences: the listed ones, and the weight of the most repeated."""

from collections import Counter

import numpy as np
import pyarrow as pa

from pipelines.steps.sentence_decide import SENTENCES, TOP, top
from pipelines.steps.sentence_spans import EXAMPLES, LOST, Mapped


def reported(listed: pa.Table, mapped: list[Mapped]) -> pa.Table:
    """Return the rows of the report: columns of SENTENCES, by documents, then hash."""
    hashes = listed["hash"].to_numpy()
    examples = pa.concat_tables([EXAMPLES.empty_table(), *(m.examples for m in mapped)])
    examples = examples.sort_by("hash")
    dropped = pa.concat_tables([LOST.empty_table(), *(m.dropped for m in mapped)])
    place = np.searchsorted(hashes, dropped["hash"].to_numpy())
    columns = {name: listed[name] for name in listed.column_names if name in SENTENCES.names}
    columns["text"] = examples["text"]
    columns["doc_uid"] = listed["first_uid"]
    for name in ("documents", "occurrences", "chars"):
        sums = np.zeros(len(hashes), np.int64)
        np.add.at(sums, place, dropped[name].to_numpy())
        columns[f"dropped_{name}"] = pa.array(sums)
    table = pa.table([columns[name] for name in SENTENCES.names], schema=SENTENCES)
    return table.sort_by([("documents", "descending"), ("hash", "ascending")]).combine_chunks()


def top_masses(listed: pa.Table) -> tuple[int, int]:
    """Return the characters of the sentences that most documents have, before and after."""
    documents, chars = listed["documents"].to_numpy(), listed["chars"].to_numpy()
    hashes = listed["hash"].to_numpy()
    before = int(chars[top(documents, hashes, TOP)].sum())
    left = ~listed["removed"].to_numpy(zero_copy_only=False)
    documents = documents[left] - listed["dropped_documents"].to_numpy()[left]
    chars = chars[left] - listed["dropped_chars"].to_numpy()[left]
    repeated = documents > 1
    best = top(documents[repeated], hashes[left][repeated], TOP)
    return before, int(chars[repeated][best].sum())


def add_masses(counters: Counter[str], listed: pa.Table) -> dict[str, float]:
    """Count what is removed of the listed sentences; return shares of the most repeated ones."""
    counters["removed forms"] = int(pa.compute.sum(listed["removed"]).as_py() or 0)
    before, after = top_masses(listed)
    counters["top 1000 characters before"] = before
    counters["top 1000 characters after"] = after
    left = counters["characters"] - counters["removed characters"] - counters["dropped characters"]
    return {
        "top_1000_share_before": round(before / max(counters["characters"], 1), 6),
        "top_1000_share_after": round(after / max(left, 1), 6),
    }
