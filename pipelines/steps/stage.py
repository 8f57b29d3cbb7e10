"""What every stage is: a fingerprint, a piece of a pipeline, and an artifact committed at its end."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, ClassVar

import apache_beam as beam

from pipelines.artifacts import FileEntry, Manifest, Receipt, fingerprint
from pipelines.corpus import Corpus
from pipelines.runners import keep_elements_whole


class Stage:
    """One stage of the pipeline: settings in, an artifact per corpus out.

    A stage is a plain object, so that workers can receive its methods; :class:`Apply` makes it a
    PTransform.
    """

    name: ClassVar[str]
    version: ClassVar[int] = 1
    """Raised whenever the same settings and inputs give other bytes than before."""
    parents: ClassVar[tuple[str, ...]] = ()
    """Stages whose artifacts this one reads, where they ran."""

    def config(self) -> dict[str, Any]:
        """Return the settings that the result depends on, as JSON values."""
        raise NotImplementedError

    def identity(self) -> dict[str, Any]:
        """Return what the fingerprint holds besides the parents."""
        return self.config()

    def fingerprint(self, corpus: Corpus) -> str:
        """Return the fingerprint of this stage's artifact for a corpus."""
        return fingerprint(
            stage=self.name,
            version=self.version,
            settings=self.identity(),
            parents=corpus.parents(*self.parents),
        )

    def expand(self, corpora: beam.PCollection) -> beam.PCollection:
        """Apply the stage to a collection of one corpus."""
        raise NotImplementedError

    def note(self, corpus: Corpus) -> str:
        """Return what ``drystone plan`` should say beside the stage."""
        return ""

    def expected_tasks(self) -> int | None:
        """Return the number of tasks where it is known before the run."""
        return None

    def expected_bytes(self) -> int | None:
        """Return the bytes to read where they are known before the run."""
        return None

    def commit(
        self,
        corpus: Corpus,
        receipts: Iterable[Receipt],
        *,
        counters: Mapping[str, int] | None = None,
        config: Mapping[str, Any] | None = None,
    ) -> Corpus:
        """Write the manifest over the receipts' files; return the corpus with the artifact."""
        receipts = list(receipts)
        total: Counter[str] = Counter()
        files: list[FileEntry] = []
        for receipt in receipts:
            total.update(receipt.counters)
            files.extend(receipt.files)
        total.update(counters or {})
        manifest = Manifest(
            stage=self.name,
            fingerprint=self.fingerprint(corpus),
            parents=corpus.parents(*self.parents),
            config={**self.config(), **(config or {})},
            files=tuple(sorted(files, key=lambda entry: entry.name)),
            counters=dict(sorted(total.items())),
        )
        corpus.store.commit(manifest)
        return corpus.with_artifact(self.name, manifest.fingerprint)


class Apply(beam.PTransform):
    """A stage as a PTransform; does nothing where its artifact exists already."""

    def __init__(self, stage: Stage) -> None:
        super().__init__(f"{stage.name}")
        self.stage = stage

    def expand(self, corpora: beam.PCollection) -> beam.PCollection:
        """Apply the stage."""
        # Pipelines of others come without our options of the runner.
        keep_elements_whole()
        return self.stage.expand(corpora)


def settings_json(settings: Any, *, without: Iterable[str] = ()) -> dict[str, Any]:
    """Return a settings dataclass as JSON values, less the fields that change no bytes."""
    left_out = set(without)
    if not is_dataclass(settings):
        raise TypeError(f"settings must be a dataclass, got {type(settings).__name__}")
    return {
        f.name: _json(getattr(settings, f.name)) for f in fields(settings) if f.name not in left_out
    }


def _json(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return settings_json(value)
    if isinstance(value, tuple | list):
        return [_json(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): _json(item) for key, item in value.items()}
    return value
