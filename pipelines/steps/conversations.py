"""Conversations of chat sources: what a run needs to encode them, and their tokens."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from pipelines.sources import SourceSettings
from transforms.synthesis.settings import SynthesisSettings
from transforms.tokenize.chat import ChatRenderer
from transforms.tokenize.chat_templates import ChatTemplate, find_template
from transforms.tokenize.conversation import ConversationError, Training
from transforms.tokenize.encoder import Encoded, Encoder
from transforms.tokenize.runs import Run, encode_runs
from transforms.tokenize.settings import TokenizerSettings
from transforms.tokenize.special_vocabulary import special_vocabulary


@dataclass(frozen=True, slots=True)
class ChatPlan:
    """Which sources hold conversations, and how they are written and trained."""

    template: ChatTemplate
    sources: Mapping[str, Training] = field(default_factory=dict)

    def config(self) -> dict[str, Any]:
        """Return what the tokens depend on, as JSON values."""
        return {
            "template": self.template.source,
            "variables": self.template.variables,
            "sources": {name: asdict(training) for name, training in self.sources.items()},
        }


def chat_plan(
    sources: Sequence[SourceSettings],
    tokenizer: TokenizerSettings,
    made: Sequence[SynthesisSettings] = (),
) -> ChatPlan | None:
    """Return the plan of a recipe, None where no source has messages and none are made.

    Raises:
        RecordError: there is no chat template, or it cannot be read.
    """
    trainings = {source.name: source.training for source in sources if source.messages is not None}
    trainings |= {table.source: Training(weights=table.weights) for table in made}
    return ChatPlan(find_template(tokenizer), trainings) if trainings else None


@dataclass(frozen=True, slots=True)
class EncodedConversations:
    """Tokens of some conversations; one that cannot be encoded has none."""

    encoded: Encoded
    loss_spans: pa.ListArray
    dropped: list[tuple[int, str, str]]
    """Row, reason and detail of each that cannot be encoded."""


def load_renderer(plan: ChatPlan, file: Path, settings: TokenizerSettings) -> ChatRenderer:
    """Return the renderer of a plan for a tokenizer's file.

    Raises:
        RecordError: the template is no Jinja, or needs a special token that the file lacks.
    """
    return ChatRenderer(plan.template, special_vocabulary(file, settings), file)


def encode_conversations(
    texts: pa.StringArray, encoder: Encoder, renderer: ChatRenderer, training: Training
) -> EncodedConversations:
    """Encode documents of a chat source, a rendered conversation each."""
    documents: list[list[Run]] = []
    dropped = []
    for row, text in enumerate(texts.to_pylist()):
        try:
            documents.append(renderer.runs(text, training))
        except ConversationError as error:
            documents.append([])
            dropped.append((row, error.reason, error.detail))
    return EncodedConversations(*encode_runs(encoder, documents), dropped)
