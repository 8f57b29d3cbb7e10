"""Runs with ``[[synthesize]]``: quotas, quarantine, the same bytes, the catalog, bad input."""

import json
import re
from collections import Counter
from pathlib import Path

import orjson
import pytest
from small_runs import digest

from catalog.report.build import build_report
from catalog.store import query
from packing.verify import verify
from pipelines.export_conversations import export_conversations
from pipelines.failures import CheckError
from pipelines.locate import UsageError
from pipelines.recipe import from_dict, load_recipe
from pipelines.run import run
from transforms.record import RecordError
from transforms.synthesis.synthetic_graph import synthetic_graph

RECORDS = 60


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    """A graph as files of triples, with lines that are none."""
    folder = tmp_path_factory.mktemp("graph") / "small"
    folder.mkdir()
    made = synthetic_graph(seed=2, size=4)
    tables = made.tables
    lines = [
        {
            "head": made.entity_ids[head],
            "relation": made.relations[relation].id,
            "tail": made.entity_ids[tail],
            "tail_is_entity": True,
        }
        for relation, head, tail in zip(tables.relation, tables.head, tables.tail, strict=True)
    ]
    text = [orjson.dumps(line).decode() for line in lines]
    text[5] = '{"head": "person/000001", "relation": '
    (folder / "triples.jsonl").write_text("\n".join(text) + "\n")
    entities = [
        {
            "id": made.entity_ids[entity],
            "label": made.labels[entity],
            "aliases": list(made.aliases[entity]),
            "types": [made.type_names[t] for t in made.types_of(entity)],
        }
        for entity in range(made.n_entities)
    ]
    (folder / "entities.jsonl").write_text("\n".join(json.dumps(e) for e in entities) + "\n")
    return folder


def recipe_of(graph, workdir, runner=None, **changes):
    table = {"graph": str(graph), "records": RECORDS, "block": 20, **changes}
    return from_dict(
        {
            "name": "made",
            "seed": 5,
            "workdir": str(workdir),
            "synthesize": [table],
            "tokenizer": {"vocab_size": 900},
            "pack": {"seq_len": 2048},
            "runner": runner or {"workers": 1},
        }
    )


@pytest.fixture(scope="module")
def made(graph, tmp_path_factory):
    """A finished run."""
    return run(recipe_of(graph, tmp_path_factory.mktemp("made") / "w"))


def test_the_records_asked_for_are_delivered_and_accounted_for(made):
    """Records count as lines and ingested, failed candidates as lines and rejected."""
    assert made.ingested == made.kept == RECORDS
    assert made.lines == made.ingested + made.rejected
    found = query(Path(made.workdir), "SELECT * FROM conversations ORDER BY record_id").to_pylist()
    assert len(found) == len({row["record_id"] for row in found}) == RECORDS
    assert {row["verdict"] for row in found} == {"ok"}
    assert len({row["pattern"] for row in found}) > 10
    quota = query(Path(made.workdir), "SELECT sum(quota), sum(delivered) FROM quotas").to_pylist()
    assert list(quota[0].values()) == [RECORDS, RECORDS]


def test_questions_are_kept_without_names(made):
    """Each conversation's first question stands in the catalog with its entities masked."""
    rows = query(Path(made.workdir), "SELECT pattern, skeleton, proof FROM conversations")
    for row in rows.to_pylist():
        assert row["skeleton"]
        gold = json.loads(row["proof"])["gold"]
        assert not any(f" {label} " in row["skeleton"] for label in gold.get("labels", ()))
    masked = [row for row in rows.to_pylist() if row["pattern"] == "1p"]
    assert masked
    assert any("[" in row["skeleton"] for row in masked)


def test_the_report_shows_what_was_made(made):
    """Quotas, cells, rejects and diversity are counted as the views have them."""
    report = build_report(Path(made.workdir))
    [answers] = [found for section, found in report.sections if section.id == "synthesis"]
    shown = {
        one.figure.id: [dict(zip(one.columns, row, strict=True)) for row in one.rows]
        for one in answers
    }
    assert shown["conversations"][0]["conversations"] == RECORDS
    assert sum(row["delivered"] for row in shown["conversation-quotas"]) == RECORDS
    assert sum(row["conversations"] for row in shown["conversation-cells"]) == RECORDS
    by_kind = {row["of"]: row for row in shown["conversation-diversity"]}
    proofs = query(Path(made.workdir), "SELECT proof, skeleton FROM conversations").to_pylist()
    answers_given = Counter(
        one for row in proofs for one in json.loads(row["proof"])["gold"].get("ids", ())
    )
    assert by_kind["answer entities"]["different"] == len(answers_given)
    share = max(answers_given.values()) / answers_given.total()
    assert by_kind["answer entities"]["largest_share"] == pytest.approx(share, abs=1e-6)
    used = Counter(
        number
        for row in proofs
        for number in re.findall(
            r'\["(?:project|inverse)","([^"]*)"', json.loads(row["proof"])["plan"]
        )
    )
    assert {row["relation"]: row["uses"] for row in shown["conversation-relations"]} == dict(
        sorted(used.items(), key=lambda item: (-item[1], item[0]))[:20]
    )
    skeletons = {row["skeleton"] for row in proofs}
    assert by_kind["skeletons"]["different_per_thousand"] == pytest.approx(
        len(skeletons) * 1000 / RECORDS, abs=0.1
    )


def test_bad_triples_are_in_the_quarantine(made):
    """With file and line."""
    [reject] = query(
        Path(made.workdir),
        "SELECT path, line, reason FROM rejects WHERE line = 6 AND path LIKE '%jsonl'",
    ).to_pylist()
    assert reject == {"path": "triples.jsonl", "line": 6, "reason": "malformed triple"}


def test_the_documents_are_conversations_with_exact_loss_spans(made):
    """The text is the record's tools and messages; only the assistant's tokens are trained."""
    [row] = query(
        Path(made.workdir),
        "SELECT text, record_id FROM texts JOIN conversations USING (doc_uid) LIMIT 1",
    ).to_pylist()
    value = json.loads(row["text"])
    assert set(value) == {"tools", "messages"}
    assert {message["role"] for message in value["messages"]} >= {"user", "assistant"}
    assert verify(made.dataset).ok


@pytest.mark.parametrize(
    ("changes", "runner"),
    [
        ({}, {"workers": 2}),
        ({"block": 7}, {"workers": 1}),
        ({}, {"workers": 2, "shuffle": "runner"}),
    ],
    ids=["two workers", "small blocks", "the other shuffle"],
)
def test_records_do_not_depend_on_workers_blocks_or_shuffle(made, graph, tmp_path, changes, runner):
    """The same records, and with the same blocks the same bytes."""
    other = run(recipe_of(graph, tmp_path / "w", runner, **changes))

    ask = "SELECT record_id, proof FROM conversations ORDER BY record_id"
    assert query(Path(other.workdir), ask) == query(Path(made.workdir), ask)
    if not changes:
        assert digest(other.dataset) == digest(made.dataset)


def test_a_graph_too_small_is_told_by_pattern(graph, tmp_path):
    """The run ends well with a warning; with ``strict`` it does not."""
    wanted = {"patterns": {"2i": 1.0}, "scenarios": {"empty_relax": 1.0, "no_tool": 0.0}}
    small = tmp_path / "tiny"
    small.mkdir()
    (small / "triples.tsv").write_text("a\tknows\tb\nb\tknows\tc\nc\tlikes\ta\na\tlikes\tb\n")

    found = run(recipe_of(small, tmp_path / "w", records=20, **wanted))

    assert found.ingested < 20
    assert any("2i empty_relax" in warning for warning in found.warnings)
    with pytest.raises(CheckError, match="2i empty_relax"):
        run(recipe_of(small, tmp_path / "w", records=20, strict=True, **wanted))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"graph": "nowhere"}, "nowhere: no such file or folder"),
        ({"lexicon": "none.toml"}, "none.toml is not a file"),
    ],
)
def test_what_cannot_be_used_is_refused(graph, tmp_path, changes, message):
    """With the setting and what was found."""
    table = {"graph": graph, **changes}
    with pytest.raises(RecordError, match=message):
        run(recipe_of(table.pop("graph"), tmp_path / "w", **table))


@pytest.mark.parametrize("form", ["openai", "sharegpt", "hermes", "swift", "rewards"])
def test_every_record_is_exported_in_every_format(made, tmp_path, form):
    """A line per record; OpenAI's holds just the document."""
    done = export_conversations(Path(made.dataset), form, tmp_path / "out.jsonl")

    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert done.rows == len(lines) == RECORDS
    if form == "openai":
        texts = query(Path(made.workdir), "SELECT text FROM texts").to_pylist()
        ours = {json.dumps(json.loads(row["text"]), sort_keys=True) for row in texts}
        assert {json.dumps(line, sort_keys=True) for line in lines} == ours
    if form == "rewards":
        assert all(line["prompt"][-1]["role"] == "user" for line in lines)
        assert all(line["check"]["gold"] == line["gold"] for line in lines)


def test_pairs_for_preference_training_are_made_where_asked_for(made, graph, tmp_path):
    """Both halves follow one prompt and differ; without the setting there are none."""
    with pytest.raises(UsageError, match="preferences = true"):
        export_conversations(Path(made.dataset), "preferences", tmp_path / "none.jsonl")
    with_pairs = run(recipe_of(graph, tmp_path / "w", preferences=True))

    done = export_conversations(Path(with_pairs.dataset), "preferences", tmp_path / "pairs.jsonl")

    lines = [json.loads(line) for line in (tmp_path / "pairs.jsonl").read_text().splitlines()]
    assert done.rows == len(lines) > 10
    assert all(line["chosen"] != line["rejected"] for line in lines)


def test_questions_are_reworded_only_where_asked_for_and_right(graph, tmp_path, monkeypatch):
    """Replies that say something else are not used, and the reasons are counted."""
    rewriter = {"base_url": "http://localhost:9/v1", "model": "m", "retries": 0}
    asked = []

    def garbage(address, headers, body, timeout):
        asked.append(address)
        return b'{"choices": [{"message": {"content": "something else"}}]}'

    monkeypatch.setattr("transforms.synthesis.rewriter._post", garbage)

    done = run(recipe_of(graph, tmp_path / "w", records=12, rewriter=rewriter))

    [stage] = [stage for stage in done.stages if stage["stage"] == "synthesize"]
    manifest = json.loads((Path(done.workdir) / stage["path"] / "manifest.json").read_text())
    counted = {k: n for k, n in manifest["counters"].items() if k.startswith("rewriter: ")}
    assert done.ingested == 12
    assert set(asked) == {"http://localhost:9/v1/chat/completions"}
    assert "rewriter: reworded" not in counted
    assert sum(counted.values()) == len(asked) > 10


def test_a_recipe_needs_sources_or_something_to_make(tmp_path):
    """Names of sources and of what is made must differ."""
    path = tmp_path / "r.toml"
    for key, name in (("patterns", "4p"), ("scenarios", "no_such")):
        path.write_text(
            f'name = "x"\n[[synthesize]]\ngraph = "g.tsv"\n{key} = {{ "{name}" = 1.0 }}\n'
        )
        with pytest.raises(ValueError, match=f"{name} is not known"):
            load_recipe(path)
    path.write_text(
        'name = "x"\n[[sources]]\nname = "synthesize-g"\npath = "a.jsonl"\n'
        '[[synthesize]]\ngraph = "g.tsv"\n'
    )
    with pytest.raises(ValueError, match="is the name of another source"):
        load_recipe(path)
