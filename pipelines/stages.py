"""The stages of a recipe in their order, with fingerprints and what is known of their artifacts."""

from dataclasses import dataclass
from typing import Any

from pipelines.against import earlier_runs
from pipelines.artifacts import Manifest, Workdir
from pipelines.corpus import Corpus
from pipelines.recipe import Recipe
from pipelines.steps.balance import BalanceStage
from pipelines.steps.conversations import chat_plan
from pipelines.steps.decontaminate import DecontaminateStage
from pipelines.steps.dedupe import ExactDedupeStage
from pipelines.steps.earlier import EarlierRun
from pipelines.steps.embed import EmbedStage
from pipelines.steps.encode import EncodeStage
from pipelines.steps.ingest import IngestStage
from pipelines.steps.mixture import MixtureStage
from pipelines.steps.near import NearDedupeStage
from pipelines.steps.sculpt import pack_stage
from pipelines.steps.sentences import SentenceStage
from pipelines.steps.stage import Stage
from pipelines.steps.synthesize import SynthesizeStage
from pipelines.steps.tokenizer import TokenizerStage
from pipelines.steps.utility import UtilityStage
from transforms.embed import EmbedSettings


def stages_of(recipe: Recipe) -> list[Stage]:
    """Return the stages that a recipe asks for, in the order in which they run.

    Source files are hashed here (their hashes are remembered), so this may take a while.

    Raises:
        RecipeError: a folder of ``dedupe.against`` holds nothing to compare with.
        RecordError: a source names no files, a file that the settings name is missing or cannot be
            used, or the target of utility weights cannot be used.
        StorageError: what an earlier run left is damaged.
    """
    shuffle = recipe.runner.shuffle
    against = earlier_runs(recipe)
    stages: list[Stage] = [
        IngestStage.prepare(recipe.sources, recipe.ingest, recipe.workdir, shuffle)
    ]
    if recipe.decontaminate is not None:
        stages.append(DecontaminateStage.prepare(recipe.decontaminate))
    if recipe.dedupe.exact is not None:
        stages.append(ExactDedupeStage(recipe.dedupe.exact, shuffle, against))
    if recipe.dedupe.near is not None:
        stages.append(NearDedupeStage(recipe.dedupe.near, shuffle, against))
    if recipe.dedupe.sentence is not None:
        stages.append(SentenceStage(recipe.dedupe.sentence, shuffle))
    if recipe.synthesize:
        stages.append(SynthesizeStage.prepare(recipe.synthesize, recipe.seed))
    stages += [
        TokenizerStage(recipe.tokenizer, recipe.seed),
        EncodeStage(
            recipe.tokenizer,
            recipe.seed,
            chat_plan(recipe.sources, recipe.tokenizer, recipe.synthesize),
            tuple(source.name for source in recipe.sources if source.holds_tokens),
        ),
    ]
    sculpts = recipe.pack.enabled and recipe.pack.strategy == "sculpt"
    if recipe.embed is not None or sculpts:
        stages.append(EmbedStage.prepare(recipe.embed or EmbedSettings(), recipe.seed))
    if recipe.mixture is not None:
        longest = (
            recipe.pack.seq_len if recipe.pack.enabled and recipe.pack.long == "drop" else None
        )
        if recipe.mixture.utility is not None:
            stages.append(UtilityStage.prepare(recipe.mixture.utility, recipe.ingest, recipe.seed))
        stages.append(MixtureStage(recipe.mixture, recipe.seed, longest))
    if recipe.pack.enabled:
        stages += [
            pack_stage(recipe.pack, recipe.seed, recipe.balance.dp, shuffle),
            BalanceStage(recipe.balance, recipe.seed, shuffle),
        ]
    return stages


def compared_with(stages: list[Stage]) -> tuple[EarlierRun, ...]:
    """Return the earlier runs that the stages of a recipe compare documents with."""
    for stage in stages:
        if isinstance(stage, ExactDedupeStage | NearDedupeStage):
            return stage.against
    return ()


@dataclass(frozen=True, slots=True)
class Planned:
    """A stage of a recipe, bound to its inputs."""

    stage: Stage
    before: Corpus
    """The corpus that the stage is applied to."""
    fingerprint: str
    manifest: Manifest | None
    """The committed artifact, where it exists."""

    @property
    def after(self) -> Corpus:
        """The corpus after the stage."""
        return self.before.with_artifact(self.stage.name, self.fingerprint)


def bind(stages: list[Stage], workdir: str) -> list[Planned]:
    """Give every stage its fingerprint and look its artifact up."""
    corpus = Corpus(str(Workdir(workdir).path))
    planned = []
    for stage in stages:
        fingerprint = stage.fingerprint(corpus)
        manifest = corpus.store.committed(stage.name, fingerprint)
        planned.append(Planned(stage, corpus, fingerprint, manifest))
        corpus = planned[-1].after
    return planned


@dataclass(frozen=True, slots=True)
class StagePlan:
    """One line of ``drystone plan``."""

    stage: str
    fingerprint: str
    state: str
    """``cached``, ``partial`` (some tasks are finished) or ``to run``."""
    rows: int | None
    """Rows of the artifact, where it exists."""
    bytes: int | None
    """Its size; for ``ingest`` to run, the size of the input."""
    tasks_done: int
    tasks_total: int | None
    note: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the line as plain JSON values."""
        return {name: getattr(self, name) for name in self.__slots__}


def plan(recipe: Recipe) -> list[StagePlan]:
    """Say for every stage of a recipe whether it has to run, and what is known of it."""
    lines = []
    for planned in bind(stages_of(recipe), recipe.workdir):
        stage, manifest = planned.stage, planned.manifest
        if manifest is not None:
            rows = sum(entry.rows for entry in manifest.files if entry.kind in ("data", "rows"))
            lines.append(
                StagePlan(
                    stage.name,
                    planned.fingerprint,
                    "cached",
                    rows,
                    manifest.bytes,
                    0,
                    0,
                    stage.note(planned.before),
                )
            )
            continue
        folder = planned.before.store.folder(stage.name, planned.fingerprint)
        done, total = tasks_done(folder), stage.expected_tasks()
        lines.append(
            StagePlan(
                stage=stage.name,
                fingerprint=planned.fingerprint,
                state="partial" if done else "to run",
                rows=None,
                bytes=stage.expected_bytes(),
                tasks_done=done,
                tasks_total=total,
                note=stage.note(planned.before),
            )
        )
    return lines


def tasks_done(folder: Any) -> int:
    """Return the number of finished tasks of an artifact."""
    receipts = folder / "receipts"
    return sum(1 for _ in receipts.glob("*.json")) if receipts.is_dir() else 0
