"""``audit packing`` through the command line, against plain Python over the same pieces."""

import itertools
import json
import struct

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from pipelines.cli import app

EOD = 0


def audit(*options, code=None):
    """Run the command with --json; returns exit code and object."""
    result = CliRunner().invoke(app, ["audit", "packing", *map(str, options), "--json"])
    assert code is None or result.exit_code == code, result.output
    return result.exit_code, json.loads(result.stdout) if result.stdout.startswith("{") else None


def lengths_of(n=4000, seed=0):
    """Lengths with a tail over a window of 512."""
    draw = np.exp(4 + np.random.default_rng(seed).standard_normal(n)).astype(int)
    return np.clip(draw, 1, 2000)


def cost_of(pieces):
    """The cost model of the default shape, for one row."""
    layers, hidden, heads, kv, dim, ffn = 16, 2048, 16, 8, 128, 8192
    weights = layers * (hidden * dim * 2 * (heads + kv) + 3 * hidden * ffn)
    return (
        6 * weights * sum(pieces) + 6 * layers * heads * dim * sum(n * n for n in pieces)
    ) / 1e12


def waiting(rows, dp, slots):
    """Mean over steps of the sum of slot maxima over the sum of means."""
    costs = [cost_of(row) for row in rows]
    ratios = []
    for s in range(0, len(costs) - len(costs) % (dp * slots), dp * slots):
        step = [costs[s + k * dp : s + (k + 1) * dp] for k in range(slots)]
        ratios.append(sum(map(max, step)) / sum(sum(slot) / dp for slot in step))
    return sum(ratios) / len(ratios)


def concat(lengths, seq_len):
    """Documents joined and cut: pieces of each row, documents in several pieces."""
    rows, cut, room = [[]], set(), seq_len
    for document, n in enumerate(lengths):
        while n:
            if not room:
                rows.append([])
                room = seq_len
            part = min(n, room)
            rows[-1].append(part)
            n, room = n - part, room - part
            if n:
                cut.add(document)
    return rows, cut


def write_lengths(folder, kind, columns):
    """Write columns as one of the formats."""
    path = folder / f"lengths.{kind}"
    if kind == "npy":
        np.save(path, columns["length"])
    elif kind == "txt":
        path.write_text(
            "\n".join(" ".join(map(str, row)) for row in zip(*columns.values(), strict=True))
        )
    elif kind == "parquet":
        pq.write_table(pa.table({k: list(v) for k, v in columns.items()}), path)
    else:
        rows = [
            dict(zip(columns, map(int, row), strict=True))
            for row in zip(*columns.values(), strict=True)
        ]
        text = "".join(json.dumps(row) + "\n" for row in rows).encode()
        path.write_bytes(zstandard.compress(text) if kind.endswith("zst") else text)
    return path


@pytest.mark.parametrize("kind", ["npy", "txt", "parquet", "jsonl", "jsonl.zst"])
def test_lengths_alone_are_joined_and_cut(tmp_path, kind):
    """All formats give what a loop over documents gives, and our plan cuts long documents only."""
    lengths = lengths_of()
    path = write_lengths(tmp_path, kind, {"length": lengths})
    code, found = audit("--lengths", path, "--seq-len", 512, "--dp", 4)
    rows, cut = concat(lengths.tolist(), 512)
    theirs, ours = found["theirs"], found["ours"]
    assert code == 1
    assert theirs["rows"] == len(rows)
    assert theirs["documents_cut"] == len(cut)
    assert theirs["cut_needlessly"] == sum(lengths[d] <= 512 for d in cut)
    assert theirs["padding"] == pytest.approx(1 - lengths.sum() / (512 * len(rows)))
    assert theirs["imbalance_micro_batch"] == pytest.approx(waiting(rows, 4, 4))
    assert theirs["documents_per_row"] == pytest.approx(sum(map(len, rows)) / len(rows))
    assert ours["documents_cut"] == (lengths > 512).sum()
    assert ours["tokens"] == lengths.sum() == theirs["tokens"]
    assert ours["imbalance_micro_batch"] - 1 < (theirs["imbalance_micro_batch"] - 1) / 2


@settings(max_examples=25, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(1, 40), st.integers(-1, 6), st.integers(0, 9)),
        min_size=1,
        max_size=40,
    )
)
def test_rows_of_others_are_counted(tmp_path_factory, pieces):
    """Any assignment: rows over the window, cut and lost documents against sets in plain Python."""
    folder = tmp_path_factory.mktemp("rows")
    path = write_lengths(
        folder, "txt", dict(zip(("length", "row", "doc"), zip(*pieces, strict=True), strict=True))
    )
    _, found = audit("--lengths", path, "--seq-len", 50, "--dp", 2)
    theirs = found["theirs"]
    rows, parts, total, lost = {}, {}, {}, 0
    for n, row, document in pieces:
        parts[document] = parts.get(document, 0) + 1
        total[document] = total.get(document, 0) + n
        if row < 0:
            lost += n
        else:
            rows.setdefault(row, []).append(n)
    assert theirs["rows"] == len(rows)
    assert theirs["rows_over"] == sum(sum(r) > 50 for r in rows.values())
    assert theirs["longest_row"] == max(map(sum, rows.values()), default=0)
    assert theirs["documents_cut"] == sum(n > 1 for n in parts.values())
    assert theirs["cut_needlessly"] == sum(n > 1 and total[d] <= 50 for d, n in parts.items())
    assert theirs["tokens_lost"] == lost
    gone = set(total) - {d for n, row, d in pieces if row >= 0}
    assert theirs["documents_lost"] == len(gone)
    assert found["documents"] == len(total)
    assert bool(found["failed"]) >= bool(theirs["rows_over"] or theirs["cut_needlessly"] or lost)


def token_rows(rng, rows=40, seq_len=64):
    """Rows of documents that end in EOD, the last of some rows unfinished; and their pieces."""
    ids, pieces, unfinished = [], [], 0
    for _ in range(rows):
        row, parts = [], []
        while len(row) < seq_len - 4:
            n = int(rng.integers(2, 30))
            piece = [*rng.integers(1, 99, n - 1).tolist(), EOD][: seq_len - len(row)]
            row += piece
            parts.append(len(piece))
        unfinished += row[-1] != EOD
        ids.append(row)
        pieces.append(parts)
    return ids, pieces, unfinished


def write_folder(folder, table, kind):
    """Write a dataset as save_to_disk does, or as Parquet."""
    folder.mkdir()
    if kind == "parquet":
        pq.write_table(table, folder / "train-00000.parquet", row_group_size=7)
    else:
        with pa.ipc.new_stream(folder / "data-00000-of-00001.arrow", table.schema) as sink:
            sink.write_table(table, max_chunksize=7)
    return folder


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
@pytest.mark.parametrize(
    "by", ["seq_lengths", "position_ids", "attention_mask", "eod", "lengths+eod"]
)
def test_folders_tell_documents_apart(tmp_path, kind, by):
    """Five ways to write the same rows give the same figures."""
    ids, pieces, unfinished = token_rows(np.random.default_rng(3))
    columns = {
        "input_ids": [row + [EOD] * (64 - len(row)) for row in ids]
        if by == "attention_mask"
        else ids
    }
    if "lengths" in by:
        columns["seq_lengths"] = pieces
    if by == "position_ids":
        columns["position_ids"] = [[i for n in row for i in range(n)] for row in pieces]
    if by == "attention_mask":
        columns["attention_mask"] = [
            [k for k, n in enumerate(row, 1) for _ in range(n)] + [0] * (64 - sum(row))
            for row in pieces
        ]
    folder = write_folder(tmp_path / "set", pa.table(columns), kind)
    options = ["--eod", EOD] if "eod" in by else []
    _, found = audit("--hf", folder, "--seq-len", 64, "--dp", 2, *options)
    theirs = found["theirs"]
    assert theirs["rows"] == len(ids)
    assert theirs["tokens"] == sum(map(sum, pieces))
    assert theirs["documents_per_row"] == pytest.approx(sum(map(len, pieces)) / len(ids))
    assert theirs["imbalance_micro_batch"] == pytest.approx(waiting(pieces, 2, 4))
    assert theirs["documents_cut"] == (unfinished if "eod" in by else None)


def write_megatron(prefix, sequences, bounds, code=4):
    """Write an IndexedDataset of version 1."""
    dtype = {4: np.int32, 8: np.uint16}[code]
    data = [np.array(s, dtype=dtype).tobytes() for s in sequences]
    prefix.with_suffix(".bin").write_bytes(b"".join(data))
    pointers = np.cumsum([0] + [len(d) for d in data])[:-1]
    prefix.with_suffix(".idx").write_bytes(
        b"MMIDIDX\x00\x00"
        + struct.pack("<QBQQ", 1, code, len(sequences), len(bounds))
        + np.array([len(s) for s in sequences], "<i4").tobytes()
        + pointers.astype("<i8").tobytes()
        + np.array(bounds, "<i8").tobytes()
    )
    return prefix


@pytest.mark.parametrize("code", [4, 8])
def test_megatron_documents_are_joined_and_cut(tmp_path, code):
    """Documents of several sequences, cut as GPTDataset cuts them; with --eod sequences are rows."""
    rng = np.random.default_rng(1)
    lengths = rng.integers(1, 200, 300).tolist()
    bounds = [0, *sorted(rng.choice(np.arange(1, 300), 150, replace=False).tolist()), 300]
    prefix = write_megatron(tmp_path / "data", [[5] * n for n in lengths], bounds, code)
    _, found = audit("--megatron", prefix, "--seq-len", 256, "--dp", 2)
    documents = [sum(lengths[a:b]) for a, b in itertools.pairwise(bounds)]
    rows, cut = concat(documents, 256)
    assert found["documents"] == len(documents)
    assert found["theirs"]["rows"] == len(rows)
    assert found["theirs"]["documents_cut"] == len(cut)
    ids, _, unfinished = token_rows(rng)
    full = [row + [EOD] * (64 - len(row)) for row in ids]
    packed = write_megatron(tmp_path / "packed", full, list(range(len(full) + 1)), code)
    _, found = audit("--megatron", packed, "--seq-len", 64, "--dp", 2, "--eod", EOD)
    assert found["theirs"]["documents_cut"] == unfinished
    # Filling behind a finished document is padding; behind an unfinished one its first EOD ends it.
    padded = sum(64 - len(row) for row in ids if row[-1] == EOD)
    assert found["theirs"]["padding"] == pytest.approx(padded / (64 * len(ids)))


def test_what_is_whole_and_balanced_passes(tmp_path):
    """Equal documents that fill their rows: exit 0; the same with a row too long: exit 1."""
    path = write_lengths(tmp_path, "txt", {"length": [32] * 128, "row": np.arange(128) // 2})
    code, found = audit("--lengths", path, "--seq-len", 64, "--dp", 2)
    assert (code, found["failed"]) == (0, [])
    assert found["theirs"]["imbalance_micro_batch"] == pytest.approx(1)
    code, found = audit("--lengths", path, "--seq-len", 63, "--dp", 2)
    assert code == 1
    assert found["failed"][0].startswith("64 rows over 63 tokens")
    text = CliRunner().invoke(app, ["audit", "packing", "--lengths", str(path), "--seq-len", "63"])
    assert "FAILED  64 rows over 63 tokens" in text.stdout
    assert "rows over" in text.stdout


def test_models_price_rows(tmp_path):
    """A config.json of the 8b sizes gives the figures of the preset, other than the default's."""
    path = write_lengths(tmp_path, "npy", {"length": lengths_of()})
    config = tmp_path / "config.json"
    config.write_text(
        json.dumps({
            "num_hidden_layers": 32, "hidden_size": 4096, "num_attention_heads": 32,
            "num_key_value_heads": 8, "intermediate_size": 14336,
        })
    )  # fmt: skip
    by = {
        m: audit("--lengths", path, "--seq-len", 512, "--model", m)[1] for m in ("1b", "8b", config)
    }
    assert by["8b"]["theirs"] == by[config]["theirs"]
    assert by["8b"]["theirs"]["imbalance_step"] != by["1b"]["theirs"]["imbalance_step"]


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        ([], 2, "give one of --lengths"),
        (["--lengths", "a.txt", "--hf", "."], 2, "give one of --lengths"),
        (["--lengths", "lengths.txt"], 3, "give --seq-len"),
        (["--lengths", "lengths.txt", "--seq-len", 8, "--dp", 3, "--global-batch", 4], 2, "not a multiple"),
        (["--lengths", "lengths.txt", "--seq-len", 8, "--model", "9x"], 2, "--model 9x: give one of"),
        (["--lengths", "zero.txt", "--seq-len", 8], 3, "document 1 (from 0) has the length 0"),
        (["--lengths", "word.txt", "--seq-len", 8], 3, "word.txt:2: 'many' is no length"),
        (["--lengths", "list.npy", "--seq-len", 8], 3, "save one length a document"),
        (["--lengths", "no.parquet", "--seq-len", 8], 3, "no.parquet: cannot be read"),
        (["--lengths", "other.jsonl", "--seq-len", 8], 3, "give --length-column"),
        (["--lengths", "lengths.xml", "--seq-len", 8], 3, "is neither .npy"),
        (["--lengths", "absent.txt", "--seq-len", 8], 4, "absent.txt"),
        (["--megatron", "absent", "--seq-len", 8], 3, "absent.idx: is not there"),
        (["--megatron", "short", "--seq-len", 8], 3, "it is truncated"),
        (["--megatron", "back", "--seq-len", 8], 3, "bounds must grow"),
        (["--megatron", "cut", "--seq-len", 8], 3, "points to byte"),
        (["--hf", "empty"], 3, "has no .arrow or .parquet file"),
        (["--hf", "text"], 3, "has no column input_ids"),
        (["--hf", "uneven"], 3, "row 1 has other numbers of input_ids and attention_mask"),
    ],
)  # fmt: skip
def test_bad_input_is_refused(tmp_path, monkeypatch, options, code, message):
    """Each with what is wrong, the value and what to do."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lengths.txt").write_text("3\n4\n")
    (tmp_path / "zero.txt").write_text("3\n0\n")
    (tmp_path / "word.txt").write_text("3\nmany\n")
    (tmp_path / "other.jsonl").write_text('{"size": 3}\n')
    (tmp_path / "no.parquet").write_bytes(b"PAR1")
    (tmp_path / "lengths.xml").write_text("<n/>")
    np.save(tmp_path / "list.npy", np.ones((2, 2), dtype=int))
    write_megatron(tmp_path / "short", [[1, 2]] * 4, [0, 2, 4])
    index = (tmp_path / "short.idx").read_bytes()
    (tmp_path / "short.idx").write_bytes(index[:-9])
    write_megatron(tmp_path / "back", [[1, 2]] * 4, [0, 3, 2, 4])
    write_megatron(tmp_path / "cut", [[1, 2]] * 4, [0, 2, 4])
    (tmp_path / "cut.bin").write_bytes(b"1234")
    (tmp_path / "empty").mkdir()
    write_folder(tmp_path / "text", pa.table({"text": ["a"]}), "parquet")
    uneven = {"input_ids": [[1, 2], [3]], "attention_mask": [[1, 1], [1, 1]]}
    write_folder(tmp_path / "uneven", pa.table(uneven), "parquet")
    result = CliRunner().invoke(app, ["audit", "packing", *map(str, options)])
    assert result.exit_code == code, result.output
    assert message in " ".join(result.output.replace("│", " ").split())
