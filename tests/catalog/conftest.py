"""Miniature work directories, written by hand as the stages write them, with their truth beside."""

import hashlib
import json
import os
import random
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from catalog.ingest import rebuild
from transforms.ingest import INGEST_SCHEMA
from transforms.record import REJECT_SCHEMA, shard_number

SEQ_LEN = 16
INT16, INT32, INT64 = pa.int16(), pa.int32(), pa.int64()
DUPLICATE_SCHEMA = pa.schema(
    [
        ("doc_uid", INT64),
        ("cluster", INT64),
        ("keeper_uid", INT64),
        ("keeper_ingest", pa.string()),
        ("kind", pa.string()),
        ("jaccard", pa.float64()),
        ("cluster_size", INT64),
    ]
)
ROW_SCHEMA = pa.schema(
    [
        ("row_id", INT64),
        ("n_tokens", INT32),
        ("input_ids", pa.list_(INT32)),
        ("cu_seqlens", pa.list_(INT32)),
        ("doc_uid", pa.list_(INT64)),
        ("doc_copy", pa.list_(INT16)),
        ("doc_offset", pa.list_(INT32)),
        ("next_token", pa.list_(INT32)),
    ]
)
PLAN_SCHEMA = pa.schema(
    [
        ("row_id", INT64),
        ("step", INT64),
        ("slot", INT32),
        ("rank", INT32),
        ("cp", INT16),
        ("cost", pa.float64()),
    ]
)


@dataclass
class Doc:
    """A document and its fate."""

    source: str
    path: str
    line: int
    uid: int
    id: str
    text: str
    fate: str = "kept"
    """kept, rejected, under min_chars, dedupe.exact, empty, too long."""
    keeper: "Doc | None" = None
    n_tokens: int = 0
    extra: dict = field(default_factory=dict)

    @property
    def new_id(self) -> str:
        """The id that the catalog shows."""
        return self.extra.get("_new_id", self.id)

    @property
    def exact_hash(self) -> bytes:
        """128 bits of the text."""
        return hashlib.md5(self.text.encode()).digest()


class World:
    """Documents with their fates, and the pieces of the packed rows: the truth."""

    def __init__(self, seed: int, sizes: dict[tuple[str, str], int]) -> None:
        rng = random.Random(seed)
        self.docs: list[Doc] = []
        self.rejects = [("web", "a/bad.jsonl", line, "bad JSON", "x'y") for line in (3, 7)]
        for (source, path), size in sizes.items():
            shard = shard_number(source, path, 0)
            for row in range(size):
                words = rng.choices(["stone", "mür", "石", "o'hare", 'q"'], k=rng.randint(1, 6))
                text = f"{source} {path} {row} " + " ".join(words)
                doc = Doc(source, path, row + 1, (shard << 24) | row, f"{path}#{row}", text)
                doc.n_tokens = rng.choice([1, 3, 7, 12, 15, 16, 37])
                self.docs.append(doc)
        self._fates(rng)
        self.rows = self._pack()

    def _fates(self, rng: random.Random) -> None:
        for number, doc in enumerate(self.docs):
            doc.extra["edu"] = number if doc.source == "web" else None
            kept = [d for d in self.docs[:number] if d.fate == "kept" and d.keeper is None]
            draw = rng.random()
            if draw < 0.1:
                doc.fate, doc.text = "under min_chars", ""
            elif draw < 0.3 and kept:
                doc.fate, doc.keeper = "dedupe.exact", rng.choice(kept)
                doc.text = doc.keeper.text
            elif draw < 0.4:
                doc.fate, doc.n_tokens = "empty", 0
            elif doc.n_tokens > 2 * SEQ_LEN:
                doc.fate = "too long"

    def _pack(self) -> list[list[tuple[Doc, int, int]]]:
        """Pieces (document, start, end) of each row, next-fit."""
        rows: list[list[tuple[Doc, int, int]]] = []
        room = 0
        for doc in self.docs:
            if doc.fate != "kept":
                continue
            if doc.n_tokens > room:
                rows.append([])
                room = SEQ_LEN
            rows[-1].append((doc, 0, doc.n_tokens))
            room -= doc.n_tokens
        return rows

    @property
    def ingested(self) -> list[Doc]:
        """Documents that were not rejected for their id."""
        return [d for d in self.docs if d.fate != "rejected"]

    def placements(self) -> set[tuple[int, int, int, int, int, int]]:
        """(row_id, doc_uid, copy, token_start, token_end, row_offset) of every piece."""
        found = set()
        for row_id, row in enumerate(self.rows):
            offset = 0
            for doc, start, end in row:
                found.add((row_id, doc.uid, 0, start, end, offset))
                offset += end - start
        return found


class MiniWorkdir:
    """Writes artifacts and runs."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.path.mkdir(parents=True, exist_ok=True)

    def artifact(self, stage, tables, *, parents=None, config=None, mark="") -> str:
        """Write one committed artifact; returns its fingerprint."""
        digest = hashlib.sha256(
            repr((stage, sorted(tables), mark, sorted((parents or {}).items()))).encode()
        ).hexdigest()
        folder = self.folder(stage, digest)
        folder.mkdir(parents=True)
        files = []
        for name, table in tables.items():
            if isinstance(table, bytes):
                (folder / name).write_bytes(table)
                rows = 0
            else:
                pq.write_table(table, folder / name)
                rows = len(table)
            size = (folder / name).stat().st_size
            entry = {"name": name, "rows": rows, "bytes": size, "sha256": "0" * 64}
            files.append({**entry, "task": "", "kind": "data"})
        manifest = {
            "format": 1,
            "stage": stage,
            "fingerprint": digest,
            "parents": parents or {},
            "config": config or {},
            "files": files,
            "counters": {},
            "versions": {},
        }
        (folder / "manifest.json").write_text(json.dumps(manifest))
        return digest

    def folder(self, stage: str, fingerprint: str) -> Path:
        """Folder of an artifact."""
        return self.path / "artifacts" / f"{stage}-{fingerprint[:12]}"

    def run(self, run_id, stages, *, day=1, status="ok", recipe=None, **summary) -> str:
        """Write the record of a run over artifacts {stage: fingerprint}."""
        folder = self.path / "runs" / run_id
        folder.mkdir(parents=True)
        record = {
            "run_id": run_id,
            "name": "mini",
            "status": status,
            "started": f"2026-03-{day:02d}T10:00:00.000000+00:00",
            "finished": f"2026-03-{day:02d}T12:00:30.500000+02:00",
            "fingerprint": hashlib.sha256(repr(stages).encode()).hexdigest(),
            "recipe": recipe or {"name": "mini", "seed": 7},
            "stages": [
                {
                    "stage": stage,
                    "fingerprint": fingerprint,
                    "cached": False,
                    "path": f"artifacts/{stage}-{fingerprint[:12]}",
                    "rows_in": 1,
                    "rows_out": 2,
                    "bytes": 3,
                    "cpu_s": 0.5,
                    "wall_s": 0.25,
                }
                for stage, fingerprint in stages.items()
            ],
            **summary,
        }
        (folder / "run.json").write_text(json.dumps(record))
        finished = 1772359200 + 86400 * day  # later than every file of the artifacts is set to
        os.utime(folder / "run.json", (finished, finished))
        return run_id

    def world(self, world: World, *, until="balance", **options) -> dict[str, str]:
        """Write the artifacts of a run over a world; returns {stage: fingerprint}."""
        writers = [_ingest, _dedupe, _tokenizer, _encode, _pack, _balance]
        names = ["ingest", "dedupe.exact", "tokenizer", "encode", "pack", "balance"]
        done: dict[str, str] = {}
        for name, writer in zip(names, writers, strict=True):
            mark = options.get("mark", "")
            done[name] = self.artifact(name, writer(world), parents=dict(done), mark=mark)
            if name == until:
                break
        return done


def _shards(docs: list[Doc]) -> dict[str, list[Doc]]:
    shards: dict[str, list[Doc]] = {}
    for doc in docs:
        shards.setdefault(f"{doc.uid >> 24:010x}-0123456789ab.parquet", []).append(doc)
    return shards


def _ingest(world: World) -> dict:
    tables = {name: _documents(docs) for name, docs in _shards(world.docs).items()}
    overlay = [d for d in world.docs if d.fate == "rejected" or "_new_id" in d.extra]
    if overlay:
        ids = [None if d.fate == "rejected" else d.new_id for d in overlay]
        tables["ids-00000.parquet"] = pa.table(
            {"doc_uid": pa.array([d.uid for d in overlay], INT64), "id": pa.array(ids, pa.string())}
        )
    names = REJECT_SCHEMA.names
    rejects = [dict(zip(names, row, strict=True)) for row in world.rejects]
    tables["rejects-0000000000-0123456789ab.parquet"] = pa.Table.from_pylist(rejects, REJECT_SCHEMA)
    return tables


def _documents(docs: list[Doc]) -> pa.Table:
    rows = [
        {
            "doc_uid": d.uid,
            "id": d.id,
            "source": d.source,
            "domain": f"domain-{d.source}",
            "lang": None,
            "n_chars": len(d.text),
            "n_bytes": len(d.text.encode()),
            "exact_hash": d.exact_hash,
            "reason": "under min_chars" if d.fate == "under min_chars" else None,
            "text": d.text,
            "source_path": d.path,
            "source_line": d.line,
        }
        for d in docs
    ]
    table = pa.Table.from_pylist(rows, INGEST_SCHEMA)
    if docs[0].source == "web":
        table = table.append_column("edu", pa.array([d.extra["edu"] for d in docs], INT64))
    return table


def _dedupe(world: World) -> dict:
    sizes: dict[int, int] = {}
    lost = sorted((d for d in world.docs if d.keeper), key=lambda d: d.uid)
    for d in lost:
        sizes[d.keeper.uid] = sizes.get(d.keeper.uid, 1) + 1
    rows = [
        (d.uid, d.keeper.uid, d.keeper.uid, None, "exact", 1.0, sizes[d.keeper.uid]) for d in lost
    ]
    names = DUPLICATE_SCHEMA.names
    rows = [dict(zip(names, row, strict=True)) for row in rows]
    half = len(rows) // 2
    return {
        "duplicates-00000.parquet": pa.Table.from_pylist(rows[:half], DUPLICATE_SCHEMA),
        "duplicates-00001.parquet": pa.Table.from_pylist(rows[half:], DUPLICATE_SCHEMA),
        "duplicates-00002.parquet": DUPLICATE_SCHEMA.empty_table(),
    }


def _tokenizer(world: World) -> dict:
    return {"tokenizer.model": b"a model"}


def _encode(world: World) -> dict:
    alive = [d for d in world.docs if d.fate in ("kept", "empty", "too long")]
    return {
        name: pa.table(
            {
                "doc_uid": pa.array([d.uid for d in docs], INT64),
                "n_tokens": pa.array([d.n_tokens for d in docs], INT32),
                "input_ids": pa.array([list(range(d.n_tokens)) for d in docs], pa.list_(INT32)),
            }
        )
        for name, docs in _shards(alive).items()
    }


def _pack(world: World) -> dict:
    long = [d.uid for d in world.docs if d.fate == "too long"]
    drops = {"doc_uid": pa.array(long, INT64), "reason": ["too long"] * len(long)}
    pieces = pa.table({"row": pa.array([], INT64), "doc_uid": pa.array([], INT64)})
    return {"pieces-00000.parquet": pieces, "drops-00000.parquet": pa.table(drops)}


def _balance(world: World) -> dict:
    rows = []
    for row_id, row in enumerate(world.rows):
        lengths = [end - start for _, start, end in row]
        rows.append(
            {
                "row_id": row_id,
                "n_tokens": sum(lengths),
                "input_ids": list(range(sum(lengths))),
                "cu_seqlens": [sum(lengths[:i]) for i in range(len(lengths) + 1)],
                "doc_uid": [doc.uid for doc, _, _ in row],
                "doc_copy": [0] * len(row),
                "doc_offset": [start for _, start, _ in row],
                "next_token": [-1] * len(row),
            }
        )
    plan = [
        {"row_id": r, "step": r // 2, "slot": 0, "rank": r % 2, "cp": 1, "cost": 0.5 + r}
        for r in range(len(rows))
    ]
    half = len(rows) // 2
    return {
        "rows-00000.parquet": pa.Table.from_pylist(rows[:half], ROW_SCHEMA),
        "rows-00001.parquet": pa.Table.from_pylist(rows[half:], ROW_SCHEMA),
        "plan.parquet": pa.Table.from_pylist(plan, PLAN_SCHEMA),
        "tokenizer.model": b"a model",
    }


SIZES = {("web", "a/one.jsonl"): 30, ("web", "a/two.jsonl"): 25, ("books", "it's.txt"): 20}
RECIPE = {
    "name": "mini",
    "seed": 7,
    "sources": [{"name": "web", "path": "a/*.jsonl"}, {"name": "books", "path": "*.txt"}],
    "ingest": {"min_chars": 1},
    "pack": {"seq_len": SEQ_LEN, "long": "drop"},
}


@dataclass
class Mini:
    """A work directory with a catalog, and its truth."""

    path: Path
    world: World
    run_id: str
    stages: dict[str, str]
    workdir: MiniWorkdir


@pytest.fixture
def workdir(tmp_path) -> MiniWorkdir:
    """An empty work directory in a folder whose name wants quoting."""
    return MiniWorkdir(tmp_path / "it's [a] run=3")


@pytest.fixture
def make_world():
    """Return the maker of worlds."""
    return lambda seed=1, sizes=None: World(seed, sizes or SIZES)


@pytest.fixture
def world_writer():
    """Return the functions that write one artifact of a world."""
    return {"ingest": _ingest, "encode": _encode, "balance": _balance}


def build_mini(path: Path) -> Mini:
    """Write one whole run and its catalog: ids resolved, one document rejected late."""
    workdir, world = MiniWorkdir(path), World(1, SIZES)
    kept = [d for d in world.docs if d.fate == "kept"]
    kept[0].extra["_new_id"] = f"{kept[0].id}#2"
    loser = next(d for d in world.docs if d.fate == "empty")
    loser.fate = "rejected"
    stages = workdir.world(world)
    fates = [d.fate for d in world.ingested]
    summary = {
        "ingested": len(fates),
        "kept": fates.count("kept"),
        "dropped": {f: fates.count(f) for f in sorted(set(fates) - {"kept"})},
        "lines": len(fates) + 3,
        "rejected": 3,
    }
    run_id = workdir.run("20260301-mini", stages, recipe=RECIPE, **summary)
    rebuild(path)
    return Mini(path, world, run_id, stages, workdir)


@pytest.fixture
def mini(tmp_path) -> Mini:
    """One whole run, for a test that changes something."""
    return build_mini(tmp_path / "it's [a] run=3")


@pytest.fixture(scope="session")
def standing(tmp_path_factory) -> Mini:
    """One whole run, for tests that only ask."""
    return build_mini(tmp_path_factory.mktemp("standing") / "it's [a] run=3")
