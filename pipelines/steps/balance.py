"""Stage ``balance``: the plan of steps, and the packed shards in its order."""

import itertools
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import apache_beam as beam
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from packing.cost import attention_squares, row_cost
from packing.fit import PackSettings
from packing.format import PLAN_FILE, DatasetInfo, PlanInfo
from packing.layout import file_bounds, group_bounds
from packing.rows import offsets_of
from packing.shared_rows import ranks_of
from packing.slots import BalanceSettings, plan_steps
from packing.trained import even_trained
from packing.writer import RowFileWriter, write_plan
from packing.zone_file import TRANSFERS_FILE, ZONES_FILE, write_zones
from pipelines.artifacts import FileEntry, Receipt, Workdir, fingerprint, link_or_copy
from pipelines.barrier import Barrier
from pipelines.corpus import Corpus
from pipelines.runners import ShuffleKind
from pipelines.shuffle import Partition, Partitioned, Shuffle
from pipelines.steps.columns import row_groups, write_table
from pipelines.steps.lengths import read_weights
from pipelines.steps.packed_rows import PackedRows, moved_tokens
from pipelines.steps.sculpt import pack_stage
from pipelines.steps.stage import Apply, Stage, settings_json
from pipelines.steps.trained import read_targets
from pipelines.tasks import Clock, ListTasks, Phase, Result, Task, Work, dealt, record_cost

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Planned:
    """The corpus with its plan made, on the way to its packed shards."""

    corpus: Corpus
    receipt: Receipt
    moves: str
    """Arrow file: where every piece goes, sorted by document."""
    bounds: str
    """npz file: first row of every row group and of every file."""
    info: DatasetInfo

    @property
    def store(self) -> Workdir:
        """The work directory."""
        return self.corpus.store


@dataclass(frozen=True)
class BalanceStage(Stage):
    """Deal rows to steps and ranks, then bring every row's tokens together and write them."""

    settings: BalanceSettings = field(default_factory=BalanceSettings)
    seed: int = 0
    shuffle: ShuffleKind = "files"

    name: ClassVar[str] = "balance"
    version: ClassVar[int] = 2
    parents: ClassVar[tuple[str, ...]] = (
        "ingest",
        "decontaminate",
        "dedupe.exact",
        "dedupe.near",
        "dedupe.sentence",
        "synthesize",
        "tokenizer",
        "encode",
        "mixture",
        "pack",
    )

    def config(self) -> dict[str, Any]:
        """Return the settings that the result depends on."""
        return {**settings_json(self.settings), "seed": self.seed}

    def identity(self) -> dict[str, Any]:
        """Return what the fingerprint holds besides the parents."""
        return self.config()

    def expand(self, corpora: beam.PCollection) -> beam.PCollection:
        """Apply the stage."""
        planned = corpora | "Plan" >> Phase("Plan", self._plan_tasks, self._plan, self._planned)
        listed = planned | "List tokens" >> beam.ParDo(ListTasks(self._tasks)).with_outputs(
            "adopted", main="missing"
        )
        written = (
            dealt(listed.missing, "Tokens")
            | "To rows" >> Shuffle(self._to_rows, self.shuffle)
            | "Write rows" >> beam.Map(self._write)
        )
        return (planned, (written,)) | "Barrier" >> Barrier(self._finish)

    # The plan, on one worker.

    def _plan_tasks(self, corpus: Corpus) -> list[Task]:
        artifact = self.fingerprint(corpus)
        mark = fingerprint(stage=self.name, artifact=artifact, phase="plan")
        return [Task(mark, corpus, self.name, artifact, cached=False)]

    def _plan(self, task: Task) -> Work:
        corpus = task.corpus
        pieces = _read_pieces(corpus)
        row, length = pieces["row"], pieces["token_end"] - pieces["token_start"]
        rows = int(row[-1]) + 1 if len(row) else 0
        n_tokens = np.bincount(row, length, minlength=rows).astype(np.int32)
        shape = self.settings.shape
        squares = np.bincount(row, attention_squares(length, shape), minlength=rows)
        cost = row_cost(n_tokens, squares, shape)
        domain = _dominant_domain(row, length, pieces["domain"], rows)
        cp = ranks_of(n_tokens, corpus.manifest("pack").config["seq_len"])
        plan = plan_steps(cost, n_tokens, self.settings, self.seed, domain, cp)
        targets = read_targets(corpus, pieces)
        if targets is not None:
            trained = np.bincount(row, targets, minlength=rows).astype(np.int64)
            plan = even_trained(plan, cost, trained, cp, self.settings.dp)
        row_id = np.empty(rows, np.int64)
        row_id[plan.order] = np.arange(rows)
        pieces["row_id"] = row_id[row]
        weight = read_weights(corpus, pieces["doc_uid"])
        if weight is not None:
            pieces["weight"] = weight
        tokens_in_order = n_tokens[plan.order]
        table = pa.table(
            {
                "row_id": np.arange(rows, dtype=np.int64),
                "step": plan.step,
                "slot": plan.slot,
                "rank": plan.rank,
                "cp": cp[plan.order],
                "cost": cost[plan.order],
            }
        )
        plan_info = write_plan(
            task.folder / PLAN_FILE,
            table,
            self._info(corpus),
            dp=self.settings.dp,
            micro_batch=self.settings.micro_batch,
            slots_per_step=self.settings.slots_per_step,
            horizon=self.settings.horizon,
        )
        files = [
            FileEntry.of(task.folder / PLAN_FILE, rows=rows, kind="plan"),
            _write_placements(task.folder, pieces),
            *self._write_zones(task, table, pieces, plan_info),
        ]
        groups = group_bounds(plan.step, plan.slot, tokens_in_order)
        group_tokens = np.diff(
            np.concatenate([[0], np.cumsum(tokens_in_order, dtype=np.int64)])[groups]
        )
        in_files = groups[file_bounds(group_tokens)]
        scratch = task.store.scratch
        scratch.mkdir(parents=True, exist_ok=True)
        bounds = scratch / f"{uuid.uuid4().hex}.npz"
        np.savez(bounds, groups=groups, files=in_files)
        moves = _write_moves(scratch, pieces, in_files)
        counters = {"rows": rows, "steps": int(plan.step[-1]) + 1 if rows else 0}
        return Work(files, counters, value=(str(moves), str(bounds)))

    def _write_zones(
        self, task: Task, table: pa.Table, pieces: dict[str, Any], plan: PlanInfo
    ) -> list[FileEntry]:
        """Write the zone plans, where ranks per node are given."""
        info = self._info(task.corpus)
        topology = self.settings.zone_topology(info.seq_len)
        if topology is None:
            return []
        order = np.lexsort((pieces["row_offset"], pieces["row_id"]))
        length = (pieces["token_end"] - pieces["token_start"])[order].astype(np.int64)
        counts = np.bincount(pieces["row_id"], minlength=len(table))
        written = write_zones(
            task.folder,
            (ZONES_FILE, TRANSFERS_FILE),
            table,
            (table["row_id"].to_numpy(), offsets_of(counts), length),
            topology,
            (info, plan),
        )
        names = zip((ZONES_FILE, TRANSFERS_FILE), written, strict=True)
        return [FileEntry.of(task.folder / n, rows=rows, kind="zones") for n, rows in names]

    def _planned(self, corpus: Corpus, results: list[Result]) -> Planned:
        [result] = results
        moves, bounds = result.value
        return Planned(corpus, result.receipt, moves, bounds, self._info(corpus))

    def _info(self, corpus: Corpus) -> DatasetInfo:
        tokenizer = corpus.manifest("tokenizer")
        [model] = tokenizer.entries("tokenizer")
        pack = corpus.manifest("pack").config
        return DatasetInfo(
            fingerprint=self.fingerprint(corpus),
            seq_len=pack["seq_len"],
            strategy=pack["strategy"],
            vocab_size=tokenizer.config["vocab_size"],
            bos_id=tokenizer.config["bos_id"],
            eos_id=tokenizer.config["eos_id"],
            pad_id=tokenizer.config["pad_id"],
            tokenizer=model.name,
            tokenizer_sha256=model.sha256,
            domains=tuple(pack["domains"]),
            seed=self.seed,
            align=pack["align"],
            widest=pack["widest"],
        )

    # The rows: tokens go from their shards to the files of the dataset.

    def _tasks(self, planned: Planned) -> list[Task]:
        corpus = planned.corpus
        artifact = self.fingerprint(corpus)
        shared = {"moves": planned.moves, "bounds": planned.bounds, "info": planned.info}
        return [
            Task(
                fingerprint=fingerprint(stage=self.name, artifact=artifact, file=entry.name),
                corpus=corpus,
                stage=self.name,
                artifact=artifact,
                payload=str(corpus.folder("encode") / entry.name),
                shared=shared,
                weight=entry.bytes,
                cached=False,
            )
            for entry in corpus.manifest("encode").entries()
        ]

    def _to_rows(self, task: Task) -> Partitioned:
        with pa.memory_map(task.shared["moves"]) as file:
            moves = pa.ipc.open_file(file).read_all().combine_chunks()
        parts: dict[int, list[pa.Table]] = {}
        stored = pq.read_schema(task.payload).names
        # Only conversations have loss spans; other documents are trained throughout.
        columns = [name for name in ("doc_uid", "input_ids", "loss_spans") if name in stored]
        for group in row_groups(task.payload, columns):
            found = moved_tokens(group, moves)
            for number in np.unique(found["file"].to_numpy()).tolist():
                mine = found.filter(pc.equal(found["file"], number))
                parts.setdefault(number, []).append(mine)
        for number in sorted(parts):
            yield number, pa.concat_tables(parts[number])

    def _write(self, partition: Partition) -> Result:
        clock = Clock()
        path = partition.folder / f"rows-{partition.order:05d}.parquet"
        with np.load(partition.shared["bounds"]) as bounds:
            groups, files = bounds["groups"], bounds["files"]
        low, high = files[partition.order : partition.order + 2]
        inside = groups[(groups >= low) & (groups <= high)]
        rows = PackedRows(partition.tables())
        info = partition.shared["info"]
        with RowFileWriter(path, info, info.seq_len * info.widest) as writer:
            for first, last in itertools.pairwise(inside):
                writer.write(rows.group(int(first), int(last)))
        record_cost(partition.folder, clock)
        entry = FileEntry.of(path, rows=int(high - low), kind="rows")
        return Result(partition.order, Receipt(task="", files=(entry,)))

    def _finish(self, planned: Planned, results: list[Result]) -> Corpus:
        corpus = planned.corpus
        [model] = corpus.manifest("tokenizer").entries("tokenizer")
        folder = corpus.store.folder(self.name, self.fingerprint(corpus))
        link_or_copy(corpus.folder("tokenizer") / model.name, folder / model.name)
        receipts = [planned.receipt, Receipt(task="", files=(model,))]
        receipts += [result.receipt for result in results]
        return self.commit(
            corpus, receipts, counters={"tokens": corpus.manifest("pack").counters["tokens"]}
        )


def _read_pieces(corpus: Corpus) -> dict[str, Any]:
    folder = corpus.folder("pack")
    tables = [
        pq.read_table(folder / e.name, use_threads=False) for e in corpus.manifest("pack").entries()
    ]
    table = pa.concat_tables(tables)
    return {name: table[name].to_numpy() for name in table.column_names}


def _dominant_domain(
    row: Ints, length: npt.NDArray[np.int32], domain: npt.NDArray[np.int16], rows: int
) -> npt.NDArray[np.int16]:
    """Return, for every row, the domain that has most of its tokens."""
    if not len(row):
        return np.empty(0, np.int16)
    many = int(domain.max()) + 1
    share = np.bincount(row * many + domain, length, minlength=rows * many)
    dominant: npt.NDArray[np.int16] = share.reshape(rows, many).argmax(axis=1).astype(np.int16)
    return dominant


def _write_placements(folder: Path, pieces: dict[str, Any]) -> FileEntry:
    order = np.lexsort((pieces["row_offset"], pieces["row_id"]))
    names = ("row_id", "doc_uid", "copy", "token_start", "token_end", "row_offset")
    table = pa.table({name: pieces[name][order] for name in names})
    return write_table(folder / "placements.parquet", table, kind="placements")


def _write_moves(scratch: Path, pieces: dict[str, Any], files: Ints) -> Path:
    order = np.lexsort((pieces["token_start"], pieces["copy"], pieces["doc_uid"]))
    names = ["doc_uid", "copy", "token_start", "token_end", "row_id", "row_offset", "domain"]
    if "weight" in pieces:
        names.append("weight")
    columns = {name: pieces[name][order] for name in names}
    columns["file"] = (np.searchsorted(files, columns["row_id"], side="right") - 1).astype(np.int32)
    table = pa.table(columns)
    path = scratch / f"{uuid.uuid4().hex}.arrow"
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=max(len(table), 1))
    return path


class WriteRows(Apply):
    """Deal rows to steps and write the packed shards: Corpus -> Corpus."""

    def __init__(
        self,
        settings: BalanceSettings | None = None,
        *,
        seed: int = 0,
        shuffle: ShuffleKind = "files",
    ) -> None:
        super().__init__(BalanceStage(settings or BalanceSettings(), seed, shuffle))


class Pack(beam.PTransform):
    """Fit documents into rows, plan the steps and write the packed shards: Corpus -> Corpus."""

    def __init__(
        self,
        settings: PackSettings | None = None,
        balance: BalanceSettings | None = None,
        *,
        seed: int = 0,
        shuffle: ShuffleKind = "files",
    ) -> None:
        super().__init__("pack and balance")
        balance = balance or BalanceSettings()
        self._pack = pack_stage(settings or PackSettings(), seed, balance.dp, shuffle)
        self._balance = BalanceStage(balance, seed, shuffle)

    def expand(self, corpora: beam.PCollection) -> beam.PCollection:
        """Apply both stages."""
        return corpora | Apply(self._pack) | Apply(self._balance)
