"""What to take from a record of a source, and how a document is named."""

import reprlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from pipelines.sources import DEFAULT_ID, SourceSettings
from transforms.text import IngestSettings, normalize_text
from transforms.tokenize.conversation import ConversationError, Training, conversation_text


class RecordProblem(Exception):  # noqa: N818 - a state of the data, not a failure of the program
    """Why a record cannot become a document."""

    def __init__(self, reason: str, detail: str | None = None) -> None:
        super().__init__(reason, detail)
        self.reason = reason
        self.detail = detail


@dataclass(frozen=True, slots=True)
class ChatFields:
    """Names of the values that make a conversation, and what is asked of it."""

    messages: str
    tools: str | None
    training: Training
    ingest: IngestSettings

    def text(self, record: Any) -> str:
        """Return a record's conversation as the text of a document.

        Raises:
            TypeError: the record is no object.
            RecordProblem: it holds no conversation that can be trained on.
        """
        if not isinstance(record, dict):
            raise TypeError
        if record.get(self.messages) is None:
            found = ", ".join(map(repr, list(record)[:8])) or "no keys"
            raise RecordProblem("missing messages", f"nothing under {self.messages!r}; {found}")
        tools = record.get(self.tools) if self.tools is not None else None
        normalize = partial(normalize_text, settings=self.ingest)
        try:
            return conversation_text(record[self.messages], tools, self.training, normalize)
        except ConversationError as error:
            raise RecordProblem(error.reason, error.detail) from error


@dataclass(frozen=True, slots=True)
class Fields:
    """Names of the values that a reader takes from each record of one file."""

    path: str
    """Relative path of the file."""
    text: str
    id: str
    lang: str
    columns: Mapping[str, str]
    chat: ChatFields | None = None
    """Of a source of conversations; ``text`` is not read then."""
    tokens: str | None = None
    """Column of token ids; ``text`` is not read then either."""

    @classmethod
    def of(cls, source: SourceSettings, path: str, ingest: IngestSettings) -> "Fields":
        """Return the fields of a source's file."""
        chat = None
        if source.messages is not None:
            chat = ChatFields(source.messages, source.tools, source.training, ingest)
        return cls(path, source.text, source.id, source.lang, source.columns, chat, source.tokens)

    @property
    def text_columns(self) -> tuple[str, ...]:
        """Names of the values that a document's text is made of; the first must be there."""
        if self.chat is None:
            return (self.text if self.tokens is None else self.tokens,)
        return (self.chat.messages, *([self.chat.tools] if self.chat.tools else []))

    def record_id(self, value: Any, number: int) -> str:
        """Return the id of a record: a string as it is, an integer as text, `path#row` for none.

        Raises:
            RecordProblem: the id is empty, of another type, or missing under a name that the
                source's settings give.
        """
        if value is None:
            if self.id != DEFAULT_ID:
                raise RecordProblem("missing id", f"nothing under {self.id!r}")
            return f"{self.path}#{number}"
        if type(value) is int:
            return str(value)
        if type(value) is not str:
            raise RecordProblem("id is not a string", snippet(value))
        if not value:
            raise RecordProblem("id is empty")
        return value


def snippet(value: Any) -> str:
    """Return a short printable form of a value of any size."""
    return f"{type(value).__name__}: {_SHORT.repr(value)}"


_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = _SHORT.maxlong = 80
