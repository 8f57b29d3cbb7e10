"""A corpus on its way through the phases of ``dedupe.sentence``."""

from collections import Counter
from dataclasses import dataclass, field

from pipelines.artifacts import Receipt, Workdir
from pipelines.corpus import Corpus
from pipelines.steps.near_pairs import Written
from pipelines.steps.sentence_counts import Counted
from pipelines.steps.sentence_decide import Decided
from pipelines.steps.sentence_groups import Forms


@dataclass(frozen=True, slots=True)
class Search:
    """A corpus on its way through the phases."""

    corpus: Corpus
    receipts: tuple[Receipt, ...]
    """Of the sentences, in the order of the ingest files."""
    counted: tuple[Counted, ...] = ()
    """By ingest file that is searched."""
    searched: tuple[int, ...] = ()
    """Numbers of those files."""
    forms: Forms = field(default_factory=Forms)
    """Merged counts, by partition."""
    groups: str | None = None
    """Scratch table: forms that are counted together."""
    decided: Decided | None = None
    counters: tuple[tuple[str, int], ...] = ()

    @property
    def store(self) -> Workdir:
        """The work directory."""
        return self.corpus.store

    def counted_with(self, results: list[Written]) -> tuple[tuple[str, int], ...]:
        """Return the counters with those of some tables added."""
        total = Counter(dict(self.counters))
        for result in results:
            total.update(dict(result.counters))
        return tuple(total.items())

    @property
    def documents(self) -> int:
        """Documents that are searched."""
        return sum(counted.documents for counted in self.counted)

    def files(self, stage: str, artifact: str) -> list[tuple[str, str, str, int]]:
        """Return for each ingest file its name, its documents', its forms' paths and their number."""
        folder = self.store.folder(stage, artifact)
        found = []
        entries = self.corpus.manifest("ingest").entries()
        for entry, receipt in zip(entries, self.receipts, strict=True):
            [units] = [file for file in receipt.files if file.kind == "units"]
            [forms] = [file for file in receipt.files if file.kind == "forms"]
            found.append(
                (entry.name, str(folder / units.name), str(folder / forms.name), forms.rows)
            )
        return found
