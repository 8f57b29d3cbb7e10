"""What to take from a record of a source, and how a document is named."""

import reprlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pipelines.sources import DEFAULT_ID, SourceSettings


class RecordProblem(Exception):  # noqa: N818 - a state of the data, not a failure of the program
    """Why a record cannot become a document."""

    def __init__(self, reason: str, detail: str | None = None) -> None:
        super().__init__(reason, detail)
        self.reason = reason
        self.detail = detail


@dataclass(frozen=True, slots=True)
class Fields:
    """Names of the values that a reader takes from each record of one file."""

    path: str
    """Relative path of the file."""
    text: str
    id: str
    lang: str
    columns: Mapping[str, str]

    @classmethod
    def of(cls, source: SourceSettings, path: str) -> "Fields":
        """Return the fields of a source's file."""
        return cls(path, source.text, source.id, source.lang, source.columns)

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
