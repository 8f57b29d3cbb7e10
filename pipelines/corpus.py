"""The reference that travels through a pipeline: a work directory and its artifacts so far."""

from dataclasses import dataclass, replace
from pathlib import Path

from pipelines.artifacts import FileEntry, Manifest, StorageError, Workdir

DOCUMENT_STAGES = ("ingest", "synthesize")
"""Stages whose artifacts hold documents: what was read, and what was made."""


@dataclass(frozen=True, slots=True)
class Corpus:
    """A corpus under construction: which artifact holds the result of each stage.

    A pipeline's collections have one element of this type between stages; documents and tokens stay
    in the artifacts' Parquet files, which every worker reads from the shared work directory.
    """

    workdir: str
    artifacts: tuple[tuple[str, str], ...] = ()
    """(stage, fingerprint) in the order in which the stages ran."""

    @property
    def store(self) -> Workdir:
        """The work directory."""
        return Workdir(self.workdir)

    def has(self, stage: str) -> bool:
        """Say whether a stage has run."""
        return any(name == stage for name, _ in self.artifacts)

    def fingerprint(self, stage: str) -> str:
        """Return the fingerprint of a stage's artifact.

        Raises:
            StorageError: the stage has not run.
        """
        for name, value in self.artifacts:
            if name == stage:
                return value
        raise StorageError(
            f"stage {stage} has not run in this pipeline; apply its transform before this one"
        )

    def folder(self, stage: str) -> Path:
        """Return the folder of a stage's artifact."""
        return self.store.folder(stage, self.fingerprint(stage))

    def manifest(self, stage: str) -> Manifest:
        """Return the manifest of a stage's committed artifact.

        Raises:
            StorageError: it is not there.
        """
        found = self.store.manifest(stage, self.fingerprint(stage))
        if found is None:
            raise StorageError(f"{self.folder(stage)}: not committed; run the stage again")
        return found

    def documents(self) -> list[tuple[FileEntry, Path]]:
        """Return the files of documents so far, with their paths: those read, then those made."""
        return [
            (entry, self.folder(stage) / entry.name)
            for stage in DOCUMENT_STAGES
            if self.has(stage)
            for entry in self.manifest(stage).entries()
        ]

    def parents(self, *stages: str) -> dict[str, str]:
        """Return the fingerprints of those stages that have run."""
        return {name: value for name, value in self.artifacts if name in stages}

    def with_artifact(self, stage: str, fingerprint: str) -> "Corpus":
        """Return the corpus after a stage."""
        return replace(self, artifacts=(*self.artifacts, (stage, fingerprint)))
