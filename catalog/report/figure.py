"""What a report is made of: figures, which are SQL and a way to draw its rows, in sections."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Chart = Literal[
    "facts", "table", "bars", "shares", "histogram", "lines", "ranges", "areas", "texts", "json"
]
"""How the rows of a figure are drawn; the columns are read by their place.

* ``facts``: one row; each column is a number to be read at a glance.
* ``table``: as it is.
* ``bars``: label, then a series a column.
* ``shares``: label, part, value: one bar per label, made of its parts.
* ``histogram``: from, to, then a series a column.
* ``lines``: x, then a series a column.
* ``ranges``: label, series, low, middle, high.
* ``areas``: x, part, value: the shares of the parts along x.
* ``texts``: columns named ``text`` or ``..._text`` side by side, the others above them.
* ``json``: one row of JSON text, folded away.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A question to the catalog."""

    id: str
    """Unique in the report."""
    title: str
    sql: str
    """One SELECT with a total order. ``@name`` stands for a view of the run."""
    chart: Chart = "table"
    own_scales: bool = False
    """Whether each series has an axis of its own, since they are of different kinds."""
    note: str = ""
    """What has to be known to read it."""
    none: str = "There are none."
    """What is said where it has no rows."""


@dataclass(frozen=True, slots=True)
class RunFacts:
    """What is known of a run before anything is asked about its documents."""

    run_id: str
    status: str
    views: Mapping[str, Sequence[str]]
    """The run's views with their columns; empty where the run failed or its artifacts are gone."""
    stages: Sequence[str]
    """In their order."""
    recipe: Mapping[str, Any]
    files: Mapping[str, Sequence[str]]
    """Kind -> paths of files beside the artifacts: ``metrics`` of training runs."""

    def setting(self, key: str, default: Any = None) -> Any:
        """Return a value of the recipe by dotted key."""
        value: Any = self.recipe
        for part in key.split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
        return default if value is None else value


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """Some figures about one subject."""

    id: str
    title: str
    figures: Callable[[RunFacts], Sequence[Figure]]
    stages: tuple[str, ...] = ("ingest",)
    """It is there for runs that have one of these stages ..."""
    views: tuple[str, ...] = ()
    """... and all of these views; without either, for every run."""
    only_with_rows: bool = False
    """Whether it is left out where none of its figures has rows."""

    def concerns(self, run: RunFacts) -> bool:
        """Say whether a run has what the section shows."""
        if not self.stages and not self.views:
            return True
        has_stage = not self.stages or any(stage in run.stages for stage in self.stages)
        return bool(run.views) and has_stage and all(view in run.views for view in self.views)


@dataclass(frozen=True, slots=True)
class Answer:
    """A figure with its rows."""

    figure: Figure
    sql: str
    """As any DuckDB client runs it on the catalog."""
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    """Plain JSON values."""

    def to_json(self) -> dict[str, Any]:
        """Return it as plain JSON values."""
        return {
            "id": self.figure.id,
            "title": self.figure.title,
            "chart": self.figure.chart,
            "note": self.figure.note,
            "sql": self.sql,
            "columns": list(self.columns),
            "rows": [list(row) for row in self.rows],
        }


@dataclass(frozen=True, slots=True)
class Report:
    """All that is said about a run."""

    run_id: str
    name: str
    status: str
    sections: tuple[tuple[Section, tuple[Answer, ...]], ...]

    def to_json(self) -> dict[str, Any]:
        """Return it as plain JSON values."""
        return {
            "run": self.run_id,
            "name": self.name,
            "status": self.status,
            "sections": [
                {
                    "id": section.id,
                    "title": section.title,
                    "figures": [answer.to_json() for answer in answers],
                }
                for section, answers in self.sections
            ],
        }
