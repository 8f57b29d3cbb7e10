"""Tokens on their way from their documents' shards into the rows of a dataset."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from packing.loss_spans import cut_spans, from_arrow, row_spans, taken, to_arrow, weighted
from packing.rows import LossSpans, RowGroup
from transforms.tokenize.runs import LOSS_SPANS_TYPE


def moved_tokens(group: pa.Table, moves: pa.Table) -> pa.Table:
    """Return the moves of a row group's documents, with their tokens and next tokens."""
    uids = group["doc_uid"].to_numpy()
    lists = group["input_ids"].combine_chunks()
    offsets, values = lists.offsets.to_numpy().astype(np.int64), lists.values.to_numpy()
    all_uids = moves["doc_uid"].to_numpy()
    low, high = np.searchsorted(all_uids, [uids[0], uids[-1] + 1])
    place = np.searchsorted(uids, all_uids[low:high])
    known = uids[place] == all_uids[low:high]
    mine = moves.slice(low, high - low)
    if not known.all():
        mine, place = mine.filter(pa.array(known)), place[known]
    start = offsets[place] + mine["token_start"].to_numpy()
    end = offsets[place] + mine["token_end"].to_numpy()
    goes_on = end < offsets[place + 1]
    following = (
        np.where(goes_on, values[np.minimum(end, len(values) - 1)], -1) if len(values) else end
    )
    spans = [values[a:b] for a, b in zip(start.tolist(), end.tolist(), strict=True)]
    tokens = np.concatenate([np.empty(0, np.int32), *spans])
    bounds = np.concatenate([[0], np.cumsum(end - start)])
    found = (
        mine.drop_columns(["token_end"])
        .append_column("next_token", pa.array(following.astype(np.int32)))
        .append_column(
            "tokens", pa.LargeListArray.from_arrays(pa.array(bounds, pa.int64()), pa.array(tokens))
        )
    )
    has_spans, has_weights = "loss_spans" in group.column_names, "weight" in mine.column_names
    if not has_spans and not has_weights:
        return found
    loss = LossSpans.none(len(mine))
    if has_spans:
        loss = taken(from_arrow(group["loss_spans"].combine_chunks()), place)
    if has_weights:
        loss = weighted(loss, mine["weight"].to_numpy(), np.diff(offsets)[place])
        found = found.drop_columns(["weight"])
    loss = cut_spans(
        loss,
        np.arange(len(mine)),
        mine["token_start"].to_numpy().astype(np.int64),
        mine["token_end"].to_numpy().astype(np.int64),
        np.diff(offsets)[place],
        mine["row_offset"].to_numpy().astype(np.int64),
    )
    return found.append_column("loss_spans", to_arrow(loss, LOSS_SPANS_TYPE))


class PackedRows:
    """Pieces of one file from all segments, found by row."""

    def __init__(self, tables: list[pa.Table]) -> None:
        self._values: list[npt.NDArray[np.int32]] = []
        spans: list[LossSpans] = []
        columns: dict[str, list[Any]] = {}
        for table in tables:
            for batch in table.to_batches():
                tokens = batch["tokens"]
                offsets = tokens.offsets.to_numpy()
                segment = np.full(len(batch), len(self._values), np.int32)
                found = {"segment": segment, "start": offsets[:-1], "end": offsets[1:]}
                self._values.append(tokens.values.to_numpy())
                has_spans = "loss_spans" in batch.schema.names
                spans.append(
                    from_arrow(batch["loss_spans"]) if has_spans else LossSpans.none(len(batch))
                )
                for name in batch.schema.names:
                    if name not in ("tokens", "loss_spans"):
                        found[name] = batch[name].to_numpy()
                for name, column in found.items():
                    columns.setdefault(name, []).append(column)
        joined = {name: np.concatenate(parts) for name, parts in columns.items()}
        order = np.lexsort((joined["row_offset"], joined["row_id"]))
        self._columns = {name: column[order] for name, column in joined.items()}
        self._spans = taken(LossSpans.concat(spans), order)

    def group(self, first: int, last: int) -> RowGroup:
        """Return the rows [first, last) as one row group."""
        row_id = self._columns["row_id"]
        low, high = np.searchsorted(row_id, [first, last])
        part = {name: column[low:high] for name, column in self._columns.items()}
        tokens = [
            self._values[segment][start:end]
            for segment, start, end in zip(
                part["segment"].tolist(), part["start"].tolist(), part["end"].tolist(), strict=True
            )
        ]
        pieces_per_row = np.bincount(part["row_id"] - first, minlength=last - first)
        length = (part["end"] - part["start"]).astype(np.int32)
        return RowGroup(
            row_id=np.arange(first, last, dtype=np.int64),
            pieces_per_row=pieces_per_row.astype(np.int32),
            doc_uid=part["doc_uid"],
            doc_copy=part["copy"],
            doc_offset=part["token_start"],
            length=length,
            next_token=part["next_token"],
            domain=part["domain"],
            input_ids=np.concatenate(tokens),
            loss_spans=row_spans(
                self._spans.slice(int(low), int(high)),
                pieces_per_row.astype(np.int32),
                part["row_offset"],
                length,
                part["next_token"],
            ),
        )
