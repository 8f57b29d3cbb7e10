"""A view of the catalog: its columns, and the SELECT that fills them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from catalog.parquet import Artifacts, files_of, scan


@dataclass(frozen=True, slots=True)
class View:
    """One view of the catalog."""

    name: str
    columns: tuple[tuple[str, str], ...]
    """Names and SQL types that the view has at least."""
    select: Callable[[Artifacts], str | None]
    """Return its SELECT, or None where the run has no such data."""

    def sql(self, artifacts: Artifacts) -> str:
        """Return the SELECT that defines the view; one without rows where there is no data."""
        found = self.select(artifacts)
        if found is not None:
            return found
        nulls = ", ".join(f'CAST(NULL AS {kind}) AS "{name}"' for name, kind in self.columns)
        return f"SELECT {nulls} WHERE false"


def stage_files(
    stage: str | Sequence[str], pattern: str, columns: str
) -> Callable[[Artifacts], str | None]:
    """Return the select of a view that shows files of one stage, or of several."""
    stages = (stage,) if isinstance(stage, str) else tuple(stage)

    def select(artifacts: Artifacts) -> str | None:
        paths = [path for stage in stages for path in files_of(artifacts, stage, pattern)]
        return f"SELECT {columns} FROM {scan(paths)}" if paths else None

    return select


def no_files(artifacts: Artifacts) -> str | None:
    """Select nothing: no stage writes the view yet."""
    return None
