"""The documents of one shard as tokens: text, conversations, and text rearranged to be filled in."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipelines.steps.conversations import ChatPlan, encode_conversations, load_renderer
from pipelines.steps.earlier_tokens import EarlierTokens, interleaved
from transforms.record import RecordError
from transforms.tokenize.chat import ChatRenderer
from transforms.tokenize.conversation import Training
from transforms.tokenize.encoder import (
    Encoded,
    SpecialTokenError,
    load_encoder,
    with_special_tokens,
)
from transforms.tokenize.fim import FimTokens, fim_tokens, rearrange
from transforms.tokenize.given import outside, read_ids
from transforms.tokenize.runs import LOSS_SPANS_TYPE, Run, encode_runs
from transforms.tokenize.settings import TokenizerSettings
from transforms.tokenize.special_vocabulary import added_vocabulary
from transforms.tokenize.text_spans import LossSpan, apply_spans, span_runs

TOKEN_SCHEMA = pa.schema(
    [
        pa.field("doc_uid", pa.int64(), nullable=False),
        pa.field("domain", pa.string(), nullable=False),
        pa.field("n_tokens", pa.int32(), nullable=False),
        pa.field(
            "input_ids", pa.list_(pa.field("item", pa.int32(), nullable=False)), nullable=False
        ),
    ]
)
"""One row per document that is not dropped before; ``n_tokens`` 0 means dropped as ``empty``, or
for the reason that ``drops-*.parquet`` gives."""

SPANNED_TOKEN_SCHEMA = TOKEN_SCHEMA.append(pa.field("loss_spans", LOSS_SPANS_TYPE))
"""Of shards that have loss spans: what is trained of a document, null for all of it."""


class ShardEncoder:
    """A loaded tokenizer with all that encoding a shard needs; shared by the worker threads."""

    def __init__(
        self,
        file: Path,
        settings: TokenizerSettings,
        seed: int,
        chat: ChatPlan | None,
        given: tuple[str, ...] = (),
    ) -> None:
        self.settings = settings
        self.given = frozenset(given)
        """Sources whose documents come as token ids."""
        self.seed = seed
        self.chat = chat
        self.encoder = load_encoder(file, settings)
        self.bos = self.encoder.bos_id if settings.bos else None
        self.eos = self.encoder.eos_id if settings.eos else None
        self.renderer = load_renderer(chat, file, settings) if chat is not None else None
        self.fim: FimTokens | None = None
        self.facts: dict[str, Any] = {}
        if settings.fim is not None:
            known = added_vocabulary(file, settings)
            ids = {text: token.id for text, token in known.items()}
            self.fim = fim_tokens(settings.fim, ids, str(file))
            names = (settings.fim.prefix, settings.fim.middle, settings.fim.suffix)
            reserved = all(known[name].reserved for name in names)
            self.facts = {"fim": {"tokens": self.fim.all, "reserved": reserved}}

    @property
    def path(self) -> str:
        """Which way the text goes, and why."""
        return self.encoder.path

    def open(self, path: str, known: str | None, spans: pa.Table | None) -> "OpenShard":
        """Begin a shard.

        Args:
            path: the ingested shard.
            known: tokens of the same shard from an earlier run, or None.
            spans: character spans of its documents, or None.
        """
        training = None
        given = False
        if self.chat is not None or self.given:
            source = pq.read_table(path, columns=["source"], use_threads=False)["source"]
            name = source[0].as_py() if len(source) else ""
            training = self.chat.sources.get(name) if self.chat is not None else None
            given = name in self.given
        return OpenShard(self, training, path, known, spans, given=given)


class OpenShard:
    """One shard while it is encoded."""

    def __init__(
        self,
        by: ShardEncoder,
        training: Training | None,
        path: str,
        known: str | None,
        spans: pa.Table | None,
        *,
        given: bool = False,
    ) -> None:
        self._by = by
        self._given = given
        self._path = path
        self._training = training
        self._spans = spans
        has_loss = spans is not None and bool(pc.any(pc.equal(spans["action"], "loss")).as_py())
        self.has_spans = training is not None or has_loss
        # Spans and reasons are not kept beside earlier tokens in a form to be taken over.
        self._earlier = EarlierTokens(None if self.has_spans else known)
        self.dropped: list[tuple[int, str, str]] = []
        """Address, reason and detail of each conversation that cannot be encoded."""

    def encode(self, kept: pa.Table) -> pa.Table:
        """Encode documents in the order of their addresses; columns as the shard's schema."""
        uids = kept["doc_uid"].to_numpy()
        if self._training is not None:
            encoded, loss_spans = self._conversations(kept, uids, self._training)
        elif self._given:
            encoded = self._ids(kept["text"].combine_chunks(), uids)
            loss_spans = pa.nulls(len(uids), LOSS_SPANS_TYPE)
        else:
            encoded, loss_spans = self._texts(kept, uids)
        lists = pa.ListArray.from_arrays(
            pa.array(encoded.offsets.astype(np.int32)),
            pa.array(encoded.ids),
            TOKEN_SCHEMA.field("input_ids").type,
        )
        n_tokens = pa.array(encoded.lengths.astype(np.int32))
        columns = [kept["doc_uid"], kept["domain"], n_tokens, lists]
        if self.has_spans:
            return pa.table([*columns, loss_spans], schema=SPANNED_TOKEN_SCHEMA)
        return pa.table(columns, schema=TOKEN_SCHEMA)

    def _ids(self, texts: pa.StringArray, uids: npt.NDArray[np.int64]) -> Encoded:
        """Return documents that came as ids, as they are.

        Raises:
            RecordError: an id is outside the vocabulary.
        """
        encoded = read_ids(texts)
        size = self._by.encoder.vocab_size
        wrong = outside(encoded, size)
        if wrong is not None:
            document, token = wrong
            found = texts[document].as_py().split(" ")[token]
            raise RecordError(
                f"document {self._name(int(uids[document]))}, token {token}: id {found} is outside "
                f"the vocabulary of {size}; give the tokenizer that wrote it as tokenizer.model, or "
                "correct the file"
            )
        return encoded

    def _name(self, uid: int) -> str:
        """Return id and source of a document, for messages."""
        names = pq.read_table(self._path, columns=["doc_uid", "source", "id"])
        row = pc.index(names["doc_uid"], uid).as_py()
        return f"{names['id'][row].as_py()!r} of source {names['source'][row].as_py()!r}"

    def _conversations(
        self, kept: pa.Table, uids: npt.NDArray[np.int64], training: Training
    ) -> tuple[Encoded, pa.Array]:
        renderer = self._by.renderer
        if not isinstance(renderer, ChatRenderer):
            raise TypeError("a chat source without a chat template")
        texts = kept["text"].combine_chunks()
        found = encode_conversations(texts, self._by.encoder, renderer, training)
        self.dropped += [(int(uids[row]), reason, detail) for row, reason, detail in found.dropped]
        return found.encoded, found.loss_spans

    def _texts(self, kept: pa.Table, uids: npt.NDArray[np.int64]) -> tuple[Encoded, pa.Array]:
        spanned = apply_spans(kept["text"].combine_chunks(), uids, self._spans)
        reused = self._earlier.find(uids)
        in_runs = np.zeros(len(uids), np.bool_)
        in_runs[list(spanned.loss)] = True
        missing = (reused < 0) & ~in_runs
        fresh = self._encoded(spanned.text.filter(pa.array(missing)), uids[missing])
        fresh = self._rearranged(fresh, uids[missing], kept["domain"].filter(pa.array(missing)))
        parts = [
            (missing, with_special_tokens(fresh, self._by.bos, self._by.eos)),
            (reused >= 0, self._earlier.take(reused[reused >= 0])),
        ]
        spans: pa.Array = pa.nulls(len(uids), LOSS_SPANS_TYPE)
        if in_runs.any():
            rows = np.flatnonzero(in_runs).tolist()
            documents = [self._runs(spanned.text[row].as_py(), spanned.loss[row]) for row in rows]
            encoded, found = encode_runs(self._by.encoder, documents)
            parts.append((in_runs, encoded))
            # The first of the joined arrays is null: the spans of all other documents.
            place = np.where(in_runs, np.cumsum(in_runs), 0)
            spans = pa.concat_arrays([pa.nulls(1, LOSS_SPANS_TYPE), found]).take(pa.array(place))
        return interleaved(parts), spans

    def _encoded(self, text: pa.Array, uids: npt.NDArray[np.int64]) -> Encoded:
        try:
            return self._by.encoder.encode(text)
        except SpecialTokenError as error:
            name = self._name(int(uids[error.row]))
            raise SpecialTokenError(error.row, error.token, name) from error

    def _runs(self, text: str, loss: list[LossSpan]) -> list[Run]:
        """Return a document's runs, bos and eos among them; an end that is trained trains its eos."""
        runs = span_runs(text, loss)
        if runs and self._by.eos is not None:
            runs.append(Run("", self._by.eos, runs[-1].weight))
        if runs and self._by.bos is not None:
            runs.insert(0, Run("", self._by.bos))
        return runs

    def _rearranged(
        self, encoded: Encoded, uids: npt.NDArray[np.int64], domain: pa.ChunkedArray
    ) -> Encoded:
        settings, tokens = self._by.settings.fim, self._by.fim
        if settings is None or tokens is None:
            return encoded
        eligible = np.ones(len(uids), np.bool_)
        if settings.domains:
            eligible = pc.is_in(domain, value_set=pa.array(settings.domains)).to_numpy()
        return rearrange(encoded, uids, eligible, tokens, settings, self._by.seed).encoded
