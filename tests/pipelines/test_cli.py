"""The command line on a real run: what is printed where, exit codes, the next command."""

import csv
import io
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from typer.testing import CliRunner

from pipelines import cli
from pipelines.commands.output import print_table
from pipelines.commands.setup import run_child

DOCUMENTS = 40
SUMMARY_KEYS = [
    "run_id",
    "name",
    "status",
    "fingerprint",
    "lines",
    "rejected",
    "ingested",
    "kept",
    "dropped",
    "tokens",
    "packed_rows",
    "padding",
    "cpu_s",
    "wall_s",
    "peak_rss_bytes",
    "dataset",
    "catalog",
    "stages",
]
STAGE_KEYS = [
    "stage",
    "fingerprint",
    "cached",
    "path",
    "rows_in",
    "rows_out",
    "bytes",
    "cpu_s",
    "wall_s",
]


def call(*args):
    """Run a command in this process; every argument as text."""
    return CliRunner().invoke(cli.app, [str(arg) for arg in args])


def drystone(*args, **options):
    """Run a command in a process of its own."""
    command = [sys.executable, "-m", "pipelines.cli", *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with input, a recipe and its finished run: (folder, summary)."""
    folder = tmp_path_factory.mktemp("cli")
    lines = []
    for i in range(DOCUMENTS):
        words = (
            "the same text again" if i in (5, 9) else f"document {i} has words {i * i} " * (i + 1)
        )
        lines.append(json.dumps({"id": f"d{i}", "text": words, "size": i}))
    lines += ["{broken", json.dumps({"id": "blank", "text": ""})]
    (folder / "in.jsonl").write_text("\n".join(lines) + "\n")
    (folder / "r.toml").write_text(
        'name = "small"\nworkdir = "w"\n[[sources]]\nname = "a"\npath = "in.jsonl"\n'
        'columns = { size = "size" }\n[dedupe.exact]\n[tokenizer]\nvocab_size = 400\n'
        "[pack]\nseq_len = 64\n[balance]\ndp = 2\nglobal_batch = 4\n"
    )
    done = drystone("run", "r.toml", "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder, json.loads(done.stdout), done.stderr


@pytest.fixture
def summary(place, monkeypatch):
    """The run's summary, with the recipe's folder as the current one."""
    monkeypatch.chdir(place[0])
    return place[1]


# plan and run


def test_run_prints_one_object_with_the_contract_keys(place, summary):
    """`run --json` is one JSON object on standard output, and its accounts close."""
    assert [key for key in SUMMARY_KEYS if key not in summary] == []
    assert [key for s in summary["stages"] for key in STAGE_KEYS if key not in s] == []
    assert summary["lines"] == summary["ingested"] + summary["rejected"] == DOCUMENTS + 2
    assert summary["ingested"] == summary["kept"] + sum(summary["dropped"].values())
    assert summary["dropped"] == {"under min_chars": 1, "dedupe.exact": 1}
    assert Path(summary["dataset"]).is_dir()
    assert re.search(r"^encode +1/1 tasks", place[2], re.MULTILINE)
    assert "WARNING" not in place[2]


def test_run_again_is_cached_and_ends_with_table_and_paths(summary):
    """A second run does nothing, prints the accounts, and names what to ask next."""
    result = call("run", "r.toml")
    assert result.exit_code == 0, result.output
    assert result.stdout.count("cached") == len(summary["stages"])
    assert re.search(r"dropped: dedupe.exact +1\n", result.stdout)
    assert re.search(rf"^dataset +{re.escape(summary['dataset'])}$", result.stdout, re.MULTILINE)
    assert result.stderr.count("next: drystone query") == 1


def test_named_next_commands_work(summary):
    """Every command that a run names as the next one can be pasted and succeeds."""
    named = re.findall(
        r"^(?:next:|  or:) drystone (.*)$", call("run", "r.toml").stderr, re.MULTILINE
    )
    assert len(named) == 2
    for line in named:
        assert call(*shlex.split(line)).exit_code == 0, line


def test_plan_says_what_is_cached_and_what_a_change_costs(summary):
    """An unchanged recipe is cached throughout; another seq_len re-does packing alone."""
    plan = json.loads(call("plan", "r.toml", "--json").stdout)
    assert {s["state"] for s in plan["stages"]} == {"cached"}
    assert plan["disk_needed_bytes"] == 0
    changed = json.loads(call("plan", "r.toml", "--json", "--set", "pack.seq_len=32").stdout)
    waiting = [s["stage"] for s in changed["stages"] if s["state"] != "cached"]
    assert waiting == ["pack", "balance"]
    assert changed["disk_needed_bytes"] > 0
    shown = call("plan", "r.toml", "--set", "pack.seq_len=32")
    assert "disk needed" in shown.stdout
    assert shown.stderr.strip() == "next: drystone run r.toml --set pack.seq_len=32"


def test_until_stops_after_a_stage_and_unknown_stages_are_named(summary):
    """`--until` runs the stages up to one; a stage the recipe lacks exits 2 and lists them."""
    done = call("run", "r.toml", "--json", "--until", "dedupe.exact", "--set", "workdir='u'")
    assert [s["stage"] for s in json.loads(done.stdout)["stages"]] == ["ingest", "dedupe.exact"]
    assert done.stderr.endswith("next: drystone run r.toml --set 'workdir='\"'\"'u'\"'\"''\n")
    wrong = call("run", "r.toml", "--until", "signals")
    assert wrong.exit_code == 2
    assert "its stages are ingest, dedupe.exact" in wrong.stderr


def test_beam_options_stand_behind_two_dashes(summary):
    """Options for Beam pass after `--`; a stray word or option before it is a usage error."""
    assert call("run", "r.toml", "--json", "--", "--job_name=x").exit_code == 0
    assert call("run", "r.toml", "stray").exit_code == 2
    assert call("run", "r.toml", "--job_name=x").exit_code == 2


# exit codes


def test_recipe_mistakes_exit_2_with_a_line_each_and_no_traceback(tmp_path):
    """Seven mistakes in a recipe print exactly seven lines, each with its key."""
    (tmp_path / "r.toml").write_text(
        'name = "x"\nseed = "seven"\nworkdri = "w"\n[[sources]]\nname = "a"\npath = 3\n'
        '[ingest]\nmin_chars = -5\n[tokenizer]\nkind = "sentencepeice"\n'
        '[pack]\nseq_len = -1\nstrategy = "sculptt"\n'
    )
    done = drystone("run", tmp_path / "r.toml")
    assert done.returncode == 2
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 7
    assert "did you mean" in done.stderr


def test_too_many_rejects_exit_3(summary):
    """A share of rejected lines above `max_rejected` ends the run with the code of bad input."""
    result = call("run", "r.toml", "--set", "ingest.max_rejected=0.0", "--set", "workdir='x3'")
    assert result.exit_code == 3
    assert "ingest.max_rejected" in result.stderr


def test_missing_input_exits_3(summary):
    """A glob without files is named."""
    result = call("run", "r.toml", "--set", "sources.a.path='none/*.jsonl'")
    assert result.exit_code == 3
    assert "none/*.jsonl" in result.stderr


def test_locked_workdir_exits_4(summary):
    """While another process holds the work directory, a run is refused."""
    import fcntl

    with Path("w/.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        result = call("run", "r.toml")
    assert result.exit_code == 4
    assert "another run holds" in result.stderr


def test_workdir_that_cannot_be_made_exits_4(summary):
    """A work directory below a file is a storage error, in one line."""
    result = call("run", "r.toml", "--set", "workdir='in.jsonl/w'")
    assert result.exit_code == 4
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("raised", "code", "trace"),
    [
        (RuntimeError("odd"), 5, True),
        (OSError(28, "No space left on device", "/w"), 4, False),
        (KeyboardInterrupt(), 130, False),
    ],
)
def test_what_goes_wrong_has_its_exit_code(summary, monkeypatch, raised, code, trace):
    """Faults of the program keep their traceback and exit 5; others are one line with their code."""

    def fail(*_):
        raise raised

    monkeypatch.setattr("pipelines.recipe.load_recipe", fail)
    result = call("plan", "r.toml")
    assert result.exit_code == code
    assert ("Traceback" in result.stderr) == trace


def test_every_error_of_the_map_exists():
    """The errors that have exit codes are real classes."""
    import importlib

    for name in cli.EXIT_CODES:
        module, _, cls = name.rpartition(".")
        found = getattr(importlib.import_module(module), cls)
        assert cli.exit_code(found("x")) == cli.EXIT_CODES[name]


def test_a_reader_that_leaves_is_no_error(place):
    """`drystone query | head` ends quietly."""
    sql = "select * from range(200000)"
    code = f"{sys.executable} -m pipelines.cli query '{sql}' --format csv --workdir w | head -1"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", code],
        cwd=place[0],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "range\n"
    assert "Traceback" not in done.stderr
    assert done.returncode == 0


# the catalog


def query(*args):
    result = call("query", *args)
    assert result.exit_code == 0, result.stderr
    return result.stdout


def test_json_is_one_array_with_plain_values(summary):
    """Booleans, 64-bit integers, sums, nulls and nested values arrive as JSON has them."""
    sql = (
        "select true as b, 9223372036854775807 as big, null as n, sum(1) as s, 'ü' as t, "
        "[1, 2] as l, 0.5 as f, 'nan'::double as nan"
    )
    [row] = json.loads(query(sql, "--format", "json", "--workdir", "w"))
    assert row == {
        "b": True, "big": 2**63 - 1, "n": None, "s": 1, "t": "ü", "l": [1, 2], "f": 0.5, "nan": None,
    }  # fmt: skip
    assert query("select 1 where false", "--format", "json", "--workdir", "w") == "[]\n"


def test_json_and_csv_have_no_row_limit_and_are_not_wrapped(summary):
    """All rows arrive, and a long value stays on its line."""
    sql = "select range as i, repeat('x', 500) as x from range(5000)"
    assert len(json.loads(query(sql, "--format", "json", "--workdir", "w"))) == 5000
    rows = list(csv.DictReader(io.StringIO(query(sql, "--format", "csv", "--workdir", "w"))))
    assert [int(row["i"]) for row in rows] == list(range(5000))
    table = query(sql, "--workdir", "w")
    assert len(table.splitlines()) == 5001


def test_arrow_is_an_ipc_stream(place):
    """`--format arrow` gives the result's own types on standard output."""
    sql = "select doc_uid, size from documents order by size"
    command = [sys.executable, "-m", "pipelines.cli", "query", sql, "--format", "arrow"]
    done = subprocess.run(
        [*command, "--workdir", "w"], cwd=place[0], capture_output=True, check=True
    )
    table = pa.ipc.open_stream(done.stdout).read_all()
    assert table.schema.field("doc_uid").type == pa.int64()
    assert len(table) == DOCUMENTS + 1


def test_workdir_is_found_from_inside(summary, monkeypatch):
    """Inside the work directory nothing has to be named, and hints name nothing either."""
    monkeypatch.chdir("w/artifacts")
    result = call("query", "select count(*) n from documents", "--format", "json")
    assert json.loads(result.stdout) == [{"n": DOCUMENTS + 1}]
    assert "--workdir" not in result.stderr


def test_named_queries_are_listed_and_run(summary):
    """Without SQL the shipped queries are listed, and each of them runs."""
    names = [line.split()[0] for line in query("--workdir", "w").splitlines()[1:]]
    assert "dropped" in names
    for name in names:
        assert query("--name", name, "--workdir", "w")


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["selec 1", "--workdir", "w"], "syntax error"),
        (["delete from runs", "--workdir", "w"], "read-only"),
        (["--name", "droppd", "--workdir", "w"], "did you mean dropped?"),
        (["select 1", "--name", "dropped", "--workdir", "w"], "exclude each other"),
        (["select 1", "--run", "nope", "--workdir", "w"], "no run 'nope'"),
        (["select 1", "--format", "xml", "--workdir", "w"], "xml"),
        (["select 1", "--workdir", "elsewhere"], "no work directory"),
        (["select 1"], "give --workdir"),
    ],
)
def test_query_mistakes_exit_2(summary, args, says):
    """A mistake in the question exits 2 and says what to do."""
    result = call("query", *args)
    assert result.exit_code == 2
    assert says in result.stderr
    assert result.stdout == ""


def test_explain_follows_a_duplicate_to_its_keeper(summary):
    """A dropped duplicate names its keeper, and the next command explains that one."""
    dropped = call("explain", "d9", "--workdir", "w")
    assert "dropped: dedupe.exact" in dropped.stdout
    assert "lost to d5 of a" in dropped.stdout
    [following] = re.findall(r"next: drystone (.*)", dropped.stderr)
    kept = call(*shlex.split(following))
    assert "1 document lost to it" in kept.stdout
    assert "rows that hold it" in kept.stdout
    told = json.loads(call("explain", "d9", "--workdir", "w", "--json").stdout)
    assert (told["kept"], told["reason"], told["keeper"]["id"]) == (False, "dedupe.exact", "d5")


def test_explain_of_an_unknown_id_suggests_near_ones(summary):
    """An id that is not there exits 2; near ids are suggested and the next command uses one."""
    result = call("explain", "d399", "--workdir", "w")
    assert result.exit_code == 2
    assert "did you mean" in result.stderr
    assert "next: drystone explain d" in result.stderr


def test_diff_of_two_runs_names_the_changed_key(summary):
    """Two runs that differ in one key show that key with both values, and no document changes."""
    changed = json.loads(call("run", "r.toml", "--json", "--set", "pack.seq_len=32").stdout)
    a, b = summary["run_id"], changed["run_id"]
    result = call("diff", a, b, "--workdir", "w")
    assert re.search(r"pack\.seq_len +64 +32", result.stdout)
    assert "documents added: 0" in result.stdout
    told = json.loads(call("diff", a, b, "--workdir", "w", "--json").stdout)
    assert told["config"] == {"pack.seq_len": [64, 32]}


def test_rebuild_makes_the_catalog_anew(summary):
    """The catalog comes back from manifests alone."""
    path = Path("w/catalog.duckdb")
    path.unlink()
    result = call("catalog", "rebuild", "--workdir", "w")
    assert (result.exit_code, path.exists()) == (0, True)
    assert query("select count(*) from documents", "--workdir", "w")


def test_gc_frees_what_only_older_runs_need(summary):
    """A dry run removes nothing and names the command that does."""
    call("run", "r.toml", "--json", "--set", "pack.seq_len=16")
    call("run", "r.toml", "--json")
    before = sorted(Path("w/artifacts").iterdir())
    dry = call("gc", "--dry-run", "--workdir", "w")
    assert sorted(Path("w/artifacts").iterdir()) == before
    assert "would be freed" in dry.stdout
    assert "next: drystone gc --keep-runs 1" in dry.stderr
    assert call("gc", "--workdir", "w").exit_code == 0
    assert len(sorted(Path("w/artifacts").iterdir())) < len(before)
    assert call("verify", summary["dataset"]).exit_code == 0


# datasets


def test_show_decodes_a_row_by_number_and_by_step(summary):
    """A row is shown with its documents' text, by folder, run id, step and rank."""
    by_number = call("show", summary["dataset"], "--row", "0")
    assert "copy 0 (a), tokens 0 to" in by_number.stdout
    assert "has words" in by_number.stdout
    run = [summary["run_id"], "--workdir", "w"]
    by_step = json.loads(call("show", *run, "--step", 0, "--rank", 1, "--json").stdout)
    assert {(row["step"], row["rank"]) for row in by_step} == {(0, 1)}
    assert call("show", summary["dataset"]).exit_code == 2
    assert call("show", summary["dataset"], "--row", 0, "--step", 0).exit_code == 2
    assert call("show", summary["dataset"], "--row", 10**6).exit_code == 3


def test_verify_exits_1_when_a_byte_is_wrong(summary, tmp_path):
    """A sound dataset exits 0; one with a damaged shard exits 1 and says which check failed."""
    good = call("verify", summary["run_id"], "--workdir", "w", "--json")
    assert good.exit_code == 0
    assert json.loads(good.stdout)["ok"] is True
    copy = tmp_path / "copy"
    copy.mkdir()
    for file in Path(summary["dataset"]).iterdir():
        (copy / file.name).write_bytes(file.read_bytes())
    shard = next(copy.glob("rows-*.parquet"))
    damaged = bytearray(shard.read_bytes())
    damaged[200] ^= 1
    shard.write_bytes(damaged)
    bad = call("verify", copy)
    assert bad.exit_code == 1
    assert "FAILED  files have the manifest's sha256" in bad.stdout


@pytest.mark.parametrize(
    ("dataset", "says"),
    [("nope", "no such run"), ("no/where", "no such folder"), (".", "no packed dataset")],
)
def test_datasets_that_are_none(summary, dataset, says):
    """What is no dataset and no run exits 2 with what to give instead."""
    result = call("verify", dataset, "--workdir", "w")
    assert result.exit_code == 2
    assert says in result.stderr


def test_replan_writes_another_plan_that_show_obeys(summary):
    """Another plan leaves the dataset as it is, deals the rest of the rows, and can be shown."""
    rows = summary["packed_rows"]
    before = (Path(summary["dataset"]) / "plan.parquet").read_bytes()
    args = ["replan", summary["run_id"], "--dp", 1, "--global-batch", 2, "--workdir", "w"]
    made = json.loads(call(*args, "--json").stdout)
    assert made["rows"] == rows
    plan = pq.read_table(made["plan"])
    assert sorted(plan["row_id"].to_pylist()) == list(range(rows))
    later = json.loads(call(*args, "--from-step", 1, "--json").stdout)
    assert (later["rows"], later["first_step"]) == (rows - 4, 1)
    assert (Path(summary["dataset"]) / "plan.parquet").read_bytes() == before
    [following] = re.findall(r"next: drystone (.*)", call(*args).stderr)
    assert call(*shlex.split(following)).exit_code == 0
    wrong = call("replan", summary["dataset"], "--dp", 2, "--global-batch", 3)
    assert wrong.exit_code == 2
    assert "set global_batch to 2 or 4" in wrong.stderr


def exported(path):
    files = [path] if path.is_file() else sorted(path.rglob("*.zst"))
    lines = [line for f in files for line in zstandard.open(f, "rt", encoding="utf-8")]
    return [json.loads(line) for line in lines]


def test_documents_are_exported_as_they_were_kept(summary, tmp_path):
    """The export holds exactly the kept documents, in address order, with columns and copies."""
    run = [summary["run_id"], "--documents", "--workdir", "w"]
    assert call("export", *run, "--to", "jsonl.zst", tmp_path / "out").exit_code == 0
    rows = exported(tmp_path / "out")
    assert len(rows) == summary["kept"]
    assert list(rows[0]) == ["source", "id", "text", "domain", "lang", "size", "copies"]
    sql = "select id from selection join documents using (doc_uid) where kept order by doc_uid"
    kept = json.loads(query(sql, "--format", "json", "--workdir", "w"))
    assert [row["id"] for row in rows] == [row["id"] for row in kept]
    given = [json.loads(line) for line in Path("in.jsonl").read_text().splitlines() if "}" in line]
    assert {r["id"]: r["text"] for r in rows}.items() <= {g["id"]: g["text"] for g in given}.items()


def test_exports_of_one_run_are_equal_and_choose_by_condition(summary, tmp_path):
    """Two exports give the same bytes; a condition on the columns chooses among the kept."""
    run = [summary["run_id"], "--documents", "--workdir", "w"]
    for name in ("a.zst", "b.zst"):
        assert call("export", *run, "--to", "jsonl.zst", tmp_path / name).exit_code == 0
    assert (tmp_path / "a.zst").read_bytes() == (tmp_path / "b.zst").read_bytes()
    some = tmp_path / "some.parquet"
    args = ["--to", "parquet", some, "--where", "size >= 30 -- a comment"]
    assert call("export", *run, *args).exit_code == 0
    table = pq.read_table(some)
    assert sorted(table["size"].to_pylist()) == list(range(30, DOCUMENTS))
    assert set(table["copies"].to_pylist()) == {1}
    none = tmp_path / "none"
    assert call("export", *run, "--to", "hf", none, "--where", "false").exit_code == 0
    [file] = none.rglob("*.parquet")
    assert file.name == "train-00000-of-00001.parquet"
    assert len(pq.read_table(file)) == 0


def test_export_never_writes_into_a_full_folder(summary, tmp_path):
    """An export refuses a folder with files, and leaves nothing behind when it fails."""
    run = [summary["run_id"], "--documents", "--workdir", "w"]
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").write_text("")
    full = call("export", *run, "--to", "parquet", tmp_path / "out")
    assert full.exit_code == 2
    assert "is no empty folder" in full.stderr
    wrong = call("export", *run, "--to", "parquet", tmp_path / "new", "--where", "nonsense = 1")
    assert wrong.exit_code == 2
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("to", ["jsonl", "hf", "megatron"])
def test_packed_rows_are_exported_and_losses_named(summary, tmp_path, to):
    """Every packed format writes files; what it cannot hold is said on standard error."""
    result = call("export", summary["dataset"], "--to", to, tmp_path / "x")
    assert result.exit_code == 0, result.stderr
    assert all(Path(line).exists() for line in result.stdout.splitlines())
    assert "not kept: " in result.stderr


def test_export_formats_that_do_not_exist_are_listed(summary, tmp_path):
    """A format of the other kind is refused with those that are possible."""
    packed = call("export", summary["dataset"], "--to", "parquet", tmp_path / "x")
    documents = call("export", summary["run_id"], "--documents", "--to", "mds", tmp_path / "x")
    where = call("export", summary["dataset"], "--to", "hf", tmp_path / "x", "--where", "true")
    assert [r.exit_code for r in (packed, documents, where)] == [2, 2, 2]
    assert "megatron" in packed.stderr
    assert "jsonl.zst" in documents.stderr
    assert "--documents" in where.stderr


def test_vendored_reader_is_written(tmp_path):
    """The reader arrives as one file that Python compiles."""
    result = call("vendor", "reader", tmp_path)
    path = Path(result.stdout.strip())
    compile(path.read_text(), str(path), "exec")


# the rest


def test_schema_is_json(tmp_path):
    """`recipe schema` prints a JSON Schema and nothing else on standard output."""
    assert json.loads(call("recipe", "schema").stdout)["type"] == "object"


def test_doctor_reports_every_check():
    """`doctor` lists its checks and ends well on a sound installation."""
    checks = json.loads(call("doctor", "--json").stdout)
    assert {c["status"] for c in checks} <= {"ok", "note"}
    shown = call("doctor")
    assert all(c["name"] in shown.stdout for c in checks)
    assert "next: drystone plan" in shown.stderr


def test_doctor_exits_1_when_something_must_be_repaired(monkeypatch):
    """A failed check is printed and exits 1."""
    from pipelines import doctor

    failed = doctor.Check("package names", "failed", "taken")
    monkeypatch.setattr(doctor, "_owners", lambda: failed)
    result = call("doctor")
    assert result.exit_code == 1
    assert "taken" in result.stdout


def test_train_without_torch_says_how_to_get_it(monkeypatch):
    """Without PyTorch `train` names the extra to install."""
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    result = call("train", "c.toml")
    assert result.exit_code == 1
    assert "pip install 'drystone[train]'" in result.stderr


def test_train_passes_the_trainers_exit_code(monkeypatch, tmp_path):
    """The trainer runs as a program of its own, and its exit code is that of `train`."""
    import importlib.util

    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())
    monkeypatch.setattr(
        "pipelines.commands.setup.run_child", lambda command: 7 * (command[-1] == "c")
    )
    assert importlib.util.find_spec("torch")
    assert call("train", "c").exit_code == 7
    assert call("train", "other").exit_code == 0


def test_child_gets_terminations_and_its_signal_is_its_exit_code():
    """A SIGTERM to drystone ends the trainer, and the code is 128 + the signal's number."""
    assert run_child([sys.executable, "-c", "import sys; sys.exit(3)"]) == 3
    code = (
        "from pipelines.commands.setup import run_child; import sys\n"
        "sys.exit(run_child([sys.executable, '-c', "
        "'print(1, flush=True); import time; time.sleep(60)']))"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    time.sleep(0.1)
    os.kill(process.pid, signal.SIGTERM)
    assert process.wait(20) == 128 + signal.SIGTERM


def test_help_and_version_need_no_heavy_import():
    """`--help` and `--version` load neither Beam nor pyarrow, DuckDB, numba or pydantic's models."""
    code = (
        "import sys\nfrom pipelines.cli import app\n"
        "try:\n    app([sys.argv[1]])\nexcept SystemExit as end:\n    print(end.code)\n"
        "print([m for m in ('apache_beam', 'pyarrow', 'duckdb', 'numba') if m in sys.modules])"
    )
    for option in ("--help", "--version"):
        done = subprocess.run(
            [sys.executable, "-c", code, option], capture_output=True, text=True, check=True
        )
        assert done.stdout.splitlines()[-2:] == ["0", "[]"], option


def test_no_arguments_print_the_help():
    """`drystone` alone lists the commands."""
    result = call()
    assert "explain" in result.output


def test_tables_hold_any_value(capsys):
    """Nulls, markup-like text and nested values are shown as they are."""
    print_table(["a", "b"], [{"a": None, "b": "[red]x[/red]"}, {"a": [1], "b": True}])
    assert capsys.readouterr().out.splitlines() == ["a    b", "-    [red]x[/red]", "[1]  true"]


def test_the_command_ends_after_what_libraries_asked_for(tmp_path):
    """The process ends with the code of the command, its output whole and exit handlers called."""
    program = (
        "import atexit, sys, pathlib, pipelines.cli\n"
        "atexit.register(pathlib.Path(sys.argv[1]).touch)\n"
        "sys.argv[1:] = sys.argv[2:]\n"
        "pipelines.cli.main()\n"
    )
    codes = {}
    for args in (["--version"], ["--nonsense"], ["query", "SELECT 1", "--workdir", "nowhere"]):
        called = tmp_path / args[0]
        done = subprocess.run(
            [sys.executable, "-c", program, called, *args], capture_output=True, text=True
        )
        assert called.exists()
        assert done.stdout or done.stderr
        codes[args[0]] = done.returncode
    assert codes == {"--version": 0, "--nonsense": 2, "query": 2}
