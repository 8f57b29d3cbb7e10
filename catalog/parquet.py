"""Naming Parquet files in SQL: which files of an artifact, and the function that reads them."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from catalog.store import quote
from catalog.workdir import Artifact

Artifacts = Mapping[str, Artifact]
"""A run's artifacts by stage."""

SHARD_FILES = r"[0-9a-f]{10}-.*\.parquet"
"""Files of a per-document stage: one per shard, named by its number."""


def scan(paths: Iterable[str | Path], *, union: bool = False) -> str:
    """Return the table function that reads Parquet files.

    Folders like ``run=3`` are no columns, and ``[``, ``*`` and ``?`` in a path stand for themselves.

    Args:
        paths: absolute paths, at least one.
        union: whether the files may differ in their columns.
    """
    names = ", ".join(quote(literal_path(str(path))) for path in paths)
    options = ", union_by_name = true" if union else ""
    return f"read_parquet([{names}], hive_partitioning = false{options})"


def literal_path(path: str) -> str:
    """Return the glob that matches just this path."""
    return "".join(f"[{c}]" if c in "*?[" else c for c in path)


def files_of(artifacts: Artifacts, stage: str, pattern: str) -> list[str]:
    """Return the paths of a stage's files by a regular expression of their names."""
    return artifacts[stage].paths(pattern) if stage in artifacts else []
