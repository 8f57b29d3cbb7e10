"""A small packed dataset made by plain Python, with the artifacts it came from beside it."""

import hashlib
import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from packing.cost import ModelShape, row_cost
from packing.format import ROW_SCHEMA, DatasetInfo
from packing.rows import LossSpans, RowGroup
from packing.writer import RowFileWriter, write_plan

EOS = 2
SHAPE = {"layers": 2, "hidden": 8, "heads": 2, "kv_heads": 1, "head_dim": 4, "ffn": 16}


@dataclass
class Piece:
    """One piece of a document, as plain values."""

    uid: int
    tokens: list[int]
    offset: int = 0
    copy: int = 0
    next: int = -1
    domain: int = 0


Spans = list[tuple[int, int, float]] | None


@dataclass
class Row:
    """One row, as plain values."""

    id: int
    pieces: list[Piece]
    spans: Spans = None


def group_of(rows: list[Row]) -> RowGroup:
    """Turn plain rows into the flat columns that are written."""
    pieces = [p for r in rows for p in r.pieces]
    spans = None
    if any(r.spans is not None for r in rows):
        flat = [s for r in rows for s in r.spans or []]
        spans = LossSpans(
            np.array([r.spans is None for r in rows], np.bool_),
            np.cumsum([0, *(len(r.spans or []) for r in rows)]).astype(np.int64),
            np.array([s[0] for s in flat], np.int32),
            np.array([s[1] for s in flat], np.int32),
            np.array([s[2] for s in flat], np.float32),
        )
    return RowGroup(
        np.array([r.id for r in rows], np.int64),
        np.array([len(r.pieces) for r in rows], np.int32),
        np.array([p.uid for p in pieces], np.int64),
        np.array([p.copy for p in pieces], np.int16),
        np.array([p.offset for p in pieces], np.int32),
        np.array([len(p.tokens) for p in pieces], np.int32),
        np.array([p.next for p in pieces], np.int32),
        np.array([p.domain for p in pieces], np.int16),
        np.array([t for p in pieces for t in p.tokens], np.int32),
        spans,
    )


@dataclass
class World:
    """A dataset on disk and everything it was made from, as plain values."""

    folder: Path
    info: DatasetInfo
    rows: list[Row]
    """In the order of the shards."""
    documents: dict[int, list[int]]
    """Tokens of every selected document."""
    dp: int
    micro_batch: int
    slots_per_step: int
    parents: dict[str, str] = field(default_factory=dict)
    spans: dict[int, Spans] = field(default_factory=dict)
    """Loss spans of documents, in positions of their tokens."""
    groups: int = 3
    """Rows of a row group."""

    @property
    def place(self) -> list[tuple[int, int, int]]:
        """(step, slot, rank) of every row, dealt in shard order."""
        slot = self.dp * self.micro_batch
        step = slot * self.slots_per_step
        found = []
        for i in range(len(self.rows)):
            start = i - i % slot
            # The short last slot deals its rows to the ranks one by one.
            if len(self.rows) - start < slot:
                each = [
                    (len(self.rows) - start + self.dp - 1 - k) // self.dp for k in range(self.dp)
                ]
                rank = [k for k in range(self.dp) for _ in range(each[k])][i - start]
            else:
                rank = i % slot // self.micro_batch
            found.append((i // step, i % step // slot, rank))
        return found

    def write(self) -> Path:
        """Write rows, plan and manifest."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for old in self.folder.glob("*.*"):
            old.unlink()
        half = len(self.rows) // 2
        names = []
        for number, part in enumerate((self.rows[:half], self.rows[half:])):
            name = f"rows-{number:05d}.parquet"
            names.append((name, len(part)))
            with RowFileWriter(self.folder / name, self.info) as writer:
                for at in range(0, len(part), self.groups):
                    writer.write(group_of(part[at : at + self.groups]))
        (self.folder / self.info.tokenizer).write_bytes(b"a tokenizer")
        write_plan(
            self.folder / "plan.parquet",
            self.plan_table(),
            self.info,
            dp=self.dp,
            micro_batch=self.micro_batch,
            slots_per_step=self.slots_per_step,
        )
        names += [("plan.parquet", len(self.rows)), (self.info.tokenizer, 0)]
        self.write_manifest(names)
        return self.folder

    def plan_table(self) -> pa.Table:
        """Return the plan as a table."""
        lengths = [[len(p.tokens) for p in r.pieces] for r in self.rows]
        cost = row_cost(
            [sum(n) for n in lengths], [sum(x * x for x in n) for n in lengths], ModelShape(**SHAPE)
        )
        place = self.place
        return pa.table(
            {
                "row_id": pa.array([r.id for r in self.rows], pa.int64()),
                "step": pa.array([s for s, _, _ in place], pa.int32()),
                "slot": pa.array([s for _, s, _ in place], pa.int32()),
                "rank": pa.array([r for _, _, r in place], pa.int32()),
                "cp": pa.array([1] * len(self.rows), pa.int16()),
                "cost": pa.array(cost, pa.float64()),
            }
        )

    def write_manifest(self, names: list[tuple[str, int]] | None = None) -> None:
        """Write the manifest over what the files hold now."""
        path = self.folder / "manifest.json"
        if names is None:
            names = [(f["name"], f["rows"]) for f in json.loads(path.read_text())["files"]]
        manifest(self.folder, "balance", self.info.fingerprint, names, self.parents, SHAPE)


def manifest(
    folder: Path,
    stage: str,
    fingerprint: str,
    names: list[tuple[str, int]],
    parents: dict[str, str],
    config: dict[str, Any],
) -> None:
    """Write an artifact's manifest."""
    files = []
    for name, rows in names:
        content = (folder / name).read_bytes()
        digest = hashlib.sha256(content).hexdigest()
        files.append(
            {"name": name, "rows": rows, "bytes": len(content), "sha256": digest, "kind": "data"}
        )
    value = {
        "format": 1,
        "stage": stage,
        "fingerprint": fingerprint,
        "parents": parents,
        "config": config,
        "files": files,
        "counters": {},
        "versions": {},
    }
    (folder / "manifest.json").write_text(json.dumps(value))


def packed_by_hand(documents: dict[int, list[int]], seq_len: int) -> list[Row]:
    """Put documents into rows, one behind the other; only those longer than a row are cut."""
    rows: list[list[Piece]] = []
    open_row: list[Piece] = []
    for uid, tokens in documents.items():
        pieces = []
        for at in range(0, len(tokens), seq_len):
            part = tokens[at : at + seq_len]
            following = tokens[at + seq_len] if at + seq_len < len(tokens) else -1
            pieces.append(Piece(uid, part, at, 0, following, uid % 2))
        rows += [[piece] for piece in pieces[:-1]]
        if sum(len(p.tokens) for p in open_row) + len(pieces[-1].tokens) > seq_len:
            rows.append(open_row)
            open_row = []
        open_row.append(pieces[-1])
    rows.append(open_row)
    return [Row(i, pieces) for i, pieces in enumerate(row for row in rows if row)]


def row_spans(row: Row, spans: dict[int, Spans]) -> Spans:
    """Return the spans of a row from those of its documents, target by target."""
    if all(spans.get(p.uid) is None for p in row.pieces):
        return None
    found: list[tuple[int, int, float]] = []
    at = 0
    for piece in row.pieces:
        of = spans.get(piece.uid)
        for i in range(len(piece.tokens) if piece.next >= 0 else len(piece.tokens) - 1):
            token = piece.offset + i + 1
            weights = [1.0] if of is None else [w for a, b, w in of if a <= token < b]
            found += [(at + i + 1, at + i + 2, w) for w in weights]
        at += len(piece.tokens)
    joined: list[tuple[int, int, float]] = []
    for start, end, weight in found:
        if joined and joined[-1][1] == start and joined[-1][2] == weight:
            joined[-1] = (joined[-1][0], end, weight)
        else:
            joined.append((start, end, weight))
    return joined


def write_parents(world: World, root: Path) -> None:
    """Write the tokens artifact and the packer's, and name them as parents.

    Two shards follow each other; a third, as of many small source files, lies across both.
    """
    uids = sorted(world.documents)
    cut = len(uids) // 2
    encode = root / f"encode-{'e' * 12}"
    encode.mkdir(parents=True, exist_ok=True)
    names = []
    empty = max(uids) + 1
    spread = uids[1::5]
    first, second = (sorted(set(half) - set(spread)) for half in (uids[:cut], uids[cut:]))
    for number, part in enumerate((first, spread, [*second, empty])):
        lists = [world.documents.get(uid, []) for uid in part]
        table = pa.table(
            {
                "doc_uid": pa.array(part, pa.int64()),
                "domain": [world.info.domains[uid % 2] for uid in part],
                "n_tokens": pa.array([len(x) for x in lists], pa.int32()),
                "input_ids": pa.array(lists, pa.list_(pa.int32())),
            }
        )
        if world.spans:
            of = [world.spans.get(uid) for uid in part]
            names_ = ("start", "end", "weight")
            plain = [x and [dict(zip(names_, span, strict=True)) for span in x] for x in of]
            kind = ROW_SCHEMA.field("loss_spans").type
            table = table.append_column("loss_spans", pa.array(plain, kind))
        name = f"{number:010x}-{'0' * 12}.parquet"
        pq.write_table(table, encode / name, row_group_size=7)
        names.append((name, len(part)))
    manifest(encode, "encode", "e" * 64, names, {}, {})
    pack = root / f"pack-{'f' * 12}"
    pack.mkdir(exist_ok=True)
    drops = pa.table({"doc_uid": pa.array([], pa.int64()), "reason": pa.array([], pa.string())})
    pq.write_table(drops, pack / "drops-00000.parquet")
    manifest(pack, "pack", "f" * 64, [("drops-00000.parquet", 0)], {}, {})
    world.parents = {"encode": "e" * 64, "pack": "f" * 64}


@pytest.fixture
def make_world(tmp_path: Path) -> Callable[..., World]:
    """Return a function that makes a dataset of random documents and writes it."""

    def make(
        *,
        seed: int = 1,
        documents: int = 60,
        seq_len: int = 64,
        dp: int = 4,
        micro_batch: int = 2,
        slots_per_step: int = 2,
        spans: bool = False,
        rows: int | None = None,
    ) -> World:
        rng = random.Random(seed)
        texts = {}
        for _ in range(documents):
            uid = (rng.randrange(8) << 24) | rng.randrange(1 << 20)
            n = rng.choice([1, 3, rng.randrange(2, 40), rng.randrange(30, 200)])
            texts[uid] = [rng.randrange(3, 500) for _ in range(n)] + [EOS]
        packed = packed_by_hand(texts, seq_len)[:rows]
        rng.shuffle(packed)
        of = {uid: random_spans(rng, len(texts[uid]) - 2) for uid in texts if rng.random() < 0.3}
        for i, row in enumerate(packed):
            row.id = i
            row.spans = row_spans(row, of) if spans else None
        info = DatasetInfo(
            fingerprint="d" * 64,
            seq_len=seq_len,
            strategy="best_fit",
            vocab_size=500,
            eos_id=EOS,
            tokenizer="tokenizer.model",
            tokenizer_sha256=hashlib.sha256(b"a tokenizer").hexdigest(),
            domains=("even", "odd"),
            seed=seed,
        )
        root = tmp_path / "artifacts"
        world = World(
            root / f"balance-{'d' * 12}", info, packed, texts, dp, micro_batch, slots_per_step
        )
        world.spans = of if spans else {}
        if rows is None:
            write_parents(world, root)
        world.write()
        return world

    return make


def random_spans(rng: random.Random, n_tokens: int) -> list[tuple[int, int, float]]:
    """Return a few ordered spans of target positions."""
    count = min(2 * rng.randrange(3), (n_tokens + 2) // 2 * 2)
    marks = sorted(rng.sample(range(n_tokens + 2), count))
    weights = [0.0, 0.5, 1.0, 2.0]
    return [(a, b, rng.choice(weights)) for a, b in zip(marks[::2], marks[1::2], strict=True)]


@pytest.fixture(scope="session")
def plain() -> Any:
    """Return the plain-Python pieces of this file, for tests that build rows of their own."""

    class Plain:
        Piece = Piece
        Row = Row
        group_of = staticmethod(group_of)
        random_spans = staticmethod(random_spans)
        manifest = staticmethod(manifest)

    return Plain
