"""The report: every number is its SQL's, the page is whole, harmless and always the same bytes."""

import decimal
import hashlib
import json
import re
from collections import Counter, defaultdict
from html.parser import HTMLParser
from pathlib import Path

import duckdb
import pytest

from catalog.ingest import rebuild
from catalog.report.build import build_report
from catalog.report.charts import draw
from catalog.report.figure import Answer, Figure
from catalog.report.page import to_html
from catalog.report.text import escaped, number
from catalog.report.write import to_json_text, write_report
from catalog.store import CatalogError, QueryError

VOID = {"meta", "br", "hr", "img", "link", "input"}
MOST_ROWS = 600
NASTY = "</pre></script><script>alert(1)</script><img src=http://x.example/y onerror='z'>\u202e\x00&amp;"


class Page(HTMLParser):
    """Reads a page; notes what is unbalanced or reaches outside."""

    def __init__(self, text):
        super().__init__()
        self.open, self.wrong, self.ids, self.refs = [], [], [], []
        self.tags = Counter()
        self.sql, self.figure = defaultdict(list), None
        self.feed(text)
        self.close()
        self.wrong += self.open

    def handle_starttag(self, tag, attrs):
        self.tags[tag] += 1
        for name, value in attrs:
            outside = name in ("src", "href", "srcset", "data", "action") and value[:1] != "#"
            if outside or name.startswith("on") or "http" in (value or ""):
                self.wrong.append((tag, name, value))
            if name == "id":
                self.ids.append(value)
            if name in ("aria-labelledby", "href"):
                self.refs.append(value.removeprefix("#"))
        if tag == "figure":
            self.figure = dict(attrs)["id"]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.wrong.append(("end", tag))

    def handle_data(self, data):
        if self.open and self.open[-1] == "pre":
            self.sql[self.figure].append(data)


def answers_of(report):
    """All figures of a report, by id."""
    found = {a.figure.id: a for _, answers in report.sections for a in answers}
    assert len(found) == sum(len(answers) for _, answers in report.sections)
    return found


def rows_of(report, figure):
    """The rows of a figure as dictionaries."""
    answer = answers_of(report)[figure]
    return [dict(zip(answer.columns, row, strict=True)) for row in answer.rows]


def plain(value):
    """A value of the plain client as JSON has it."""
    if isinstance(value, decimal.Decimal):
        return int(value) if value == int(value) else float(value)
    return value.isoformat() if hasattr(value, "isoformat") else value


def assert_every_figure_is_its_sql(path: Path, report) -> None:
    """Run each SQL of report.json in a plain client on the catalog and compare all rows."""
    told = json.loads(to_json_text(report))
    with duckdb.connect(str(path / "catalog.duckdb"), read_only=True) as client:
        for section in told["sections"]:
            for figure in section["figures"]:
                result = client.execute(figure["sql"])
                assert [c[0] for c in result.description] == figure["columns"]
                rows = [[plain(v) for v in row] for row in result.fetchall()]
                assert rows == figure["rows"], figure["id"]
                assert len(rows) <= MOST_ROWS


def test_every_number_is_what_its_sql_gives_in_a_plain_client(standing):
    """For all figures: the rows of report.json are those of its SQL, and the page shows that SQL."""
    report = build_report(standing.path)
    assert_every_figure_is_its_sql(standing.path, report)
    page = Page(to_html(report))
    for answer in answers_of(report).values():
        assert answer.sql in page.sql[answer.figure.id]


def test_an_older_run_has_its_own_numbers(mini):
    """After a newer run the older one's report is the same bytes, and its SQL still gives them."""
    before = build_report(mini.path, mini.run_id)
    stages = mini.workdir.world(mini.world, until="encode", mark="again")
    mini.workdir.run("20260302-mini", stages, day=2)
    rebuild(mini.path)
    after = build_report(mini.path, mini.run_id)
    assert to_html(after) == to_html(before)
    assert_every_figure_is_its_sql(mini.path, after)
    assert build_report(mini.path).run_id == "20260302-mini"


def test_the_page_is_balanced_and_loads_nothing(standing):
    """Tags close in order, ids are unique, every reference is inside, there is no script."""
    page = Page(to_html(build_report(standing.path)))
    assert page.wrong == []
    assert len(page.ids) == len(set(page.ids))
    assert set(page.refs) <= set(page.ids)
    assert page.tags["script"] == page.tags["link"] == page.tags["iframe"] == 0
    assert page.tags["svg"] >= 10
    assert page.tags["svg"] == len([i for i in page.ids if i.startswith("drawing-")])


def test_hostile_text_stays_text(workdir, make_world):
    """Markup, NUL and turns of direction in texts, ids, sources and details do nothing."""
    world = make_world(sizes={("<b>s'", "a/</pre>.jsonl"): 12})
    for doc in world.docs:
        if doc.text:
            doc.text = (doc.keeper or doc).id + NASTY + "long" * 5000
    world.rejects = [("<b>s'", "a/<i>.jsonl", 1, "bad JSON", NASTY)]
    workdir.run("r", workdir.world(world))
    rebuild(workdir.path)
    report = build_report(workdir.path)
    html = to_html(report)
    page = Page(html)
    assert page.wrong == []
    assert page.tags["script"] == page.tags["img"] == page.tags["i"] == 0
    assert "\x00" not in html
    assert "\u202e" not in html
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html
    assert "more characters]" in html
    assert "long" * 500 not in html
    assert_every_figure_is_its_sql(workdir.path, report)


def test_text_is_escaped_whatever_it_holds():
    """Half a surrogate pair and control characters get a sign; line breaks and tabs stay."""
    assert escaped("a\ud800b\x00\x1b\n\t") == "a\ufffdb\u2400\u241b\n\t"
    assert escaped("\u202eabc\u2066") == "&lt;U+202E&gt;abc&lt;U+2066&gt;"
    assert escaped("<&\"'>") == "&lt;&amp;&quot;&#x27;&gt;"


def test_numbers_are_readable():
    """Thousands are separated; where room is short there is a unit."""
    assert [number(v) for v in (1234567, 0.25, 1e-7, True)] == [
        "1,234,567",
        "0.25",
        "1e-07",
        "True",
    ]
    assert [number(v, short=True) for v in (999, 1024, 2.5e6, 3e9)] == [
        "999",
        "1.02k",
        "2.5M",
        "3G",
    ]


def test_the_same_run_gives_the_same_bytes(mini, tmp_path):
    """Asked again, after a rebuild, and into another folder."""
    first = write_report(build_report(mini.path), tmp_path / "a" / "b")
    rebuild(mini.path)
    second = write_report(build_report(mini.path), tmp_path / "c")
    assert [p.read_bytes() for p in first] == [p.read_bytes() for p in second]
    assert sorted(p.name for p in (tmp_path / "c").iterdir()) == ["report.html", "report.json"]


def test_what_was_left_and_why_are_the_worlds(standing):
    """Funnel, reasons, sources and domains against the fates of the documents."""
    report, docs = build_report(standing.path), standing.world.ingested
    fates = Counter(doc.fate for doc in docs)
    stage = {
        "under min_chars": "ingest",
        "dedupe.exact": "dedupe.exact",
        "empty": "encode",
        "too long": "pack",
    }
    left, expected = len(docs), {"ingested": len(docs)}
    for fate in stage:
        left -= fates[fate]
        expected[stage[fate]] = left
    assert {r["after"]: r["documents"] for r in rows_of(report, "funnel")} == expected
    reasons = {r["reason"]: r["documents"] for r in rows_of(report, "reasons")}
    assert reasons == {k: v for k, v in fates.items() if k != "kept"}
    for row in rows_of(report, "sources"):
        mine = [d for d in docs if d.source == row["source"]]
        kept = [d for d in mine if d.fate == "kept"]
        assert row["documents"] == len(mine)
        assert row["kept"] == len(kept)
        assert row["characters"] == sum(len(d.text) for d in mine)
        assert row["tokens"] == sum(d.n_tokens for d in kept)
    fates_of = {
        (r["source"], r["fate"]): r["documents"] for r in rows_of(report, "reasons-by-source")
    }
    assert fates_of == Counter((d.source, d.fate) for d in docs)
    lengths = Counter(2 ** (max(len(d.text), 1).bit_length() - 1) for d in docs)
    shown = {r["from"]: r["ingested"] for r in rows_of(report, "document-characters")}
    assert {k: v for k, v in shown.items() if v} == lengths
    assert sorted(shown) == [
        2**k for k in range(min(shown).bit_length() - 1, max(shown).bit_length())
    ]


def test_samples_are_texts_of_the_documents(standing):
    """Each sample is the beginning of the text of a document with that fate."""
    report = build_report(standing.path)
    by_id = {(d.source, d.new_id): d for d in standing.world.ingested}
    for figure, key in (("samples-kept", None), ("samples-dropped", "reason")):
        rows = rows_of(report, figure)
        assert rows
        for row in rows:
            doc = by_id[row["source"], row["id"]]
            assert row["text"] == doc.text
            assert doc.fate == (row[key] if key else "kept")
    for row in rows_of(report, "largest-clusters"):
        member = by_id[tuple(row["member"].split(" ", 1))]
        assert row["keeper"] == f"{member.keeper.source} {member.keeper.new_id}"
        assert row["keeper_text"] == member.keeper.text


def random_order(world):
    """The rows in the order of their hashes: what the report calls random, in plain Python."""
    return sorted(range(len(world.rows)), key=lambda r: hashlib.md5(str(r).encode()).hexdigest())


def test_the_random_order_is_the_one_of_the_hashes(standing):
    """Imbalance, domain shares and lengths of plan and random order against plain Python."""
    report, world = build_report(standing.path), standing.world
    # The fixture's plan: row r stands in step r // 2, rank r % 2, and costs 0.5 + r.
    orders = {"plan": list(range(len(world.rows))), "random": random_order(world)}
    assert orders["plan"] != orders["random"]
    steps = -(-len(world.rows) // 2)
    assert steps <= 100
    uneven = {r["step"]: r for r in rows_of(report, "imbalance")}
    shares = {(r["domain"], r["order"]): r for r in rows_of(report, "step-domains")}
    lengths = {(r["quantile"], r["order"]): r for r in rows_of(report, "step-lengths")}
    for name, order in orders.items():
        found, medians = defaultdict(list), []
        for step in range(steps):
            mine = order[2 * step : 2 * step + 2]
            costs = [0.5 + r for r in mine]
            ratio = max(costs) * 2 / sum(costs)
            assert uneven[step][name] == pytest.approx(ratio, abs=1e-5)
            pieces = [(d.source, end - start) for r in mine for d, start, end in world.rows[r]]
            total = sum(n for _, n in pieces)
            for source in ("web", "books"):
                found[source].append(sum(n for s, n in pieces if s == source) / total)
            sizes = sorted(n for _, n in pieces)
            medians.append(sizes[max(0, -(-len(sizes) // 2) - 1)])
        for source, values in found.items():
            row = shares[f"domain-{source}", name]
            assert row["p5"] <= row["p50"] <= row["p95"]
            values = sorted(round(v, 6) for v in values)
            assert row["p50"] == values[max(0, -(-len(values) // 2) - 1)]
            assert {row["p5"], row["p95"]} <= set(values)
        assert lengths["50 %", name]["p50"] == sorted(medians)[max(0, -(-len(medians) // 2) - 1)]


def test_a_row_that_ranks_share_costs_each_its_part(workdir, make_world, world_writer):
    """With cp = 2 the cost is halved onto two ranks, and the row has twice the places."""
    import pyarrow as pa

    world = make_world()
    stages = workdir.world(world, until="pack")
    tables = world_writer["balance"](world)
    plan = tables["plan.parquet"].to_pylist()
    for row in plan:
        row |= {"cp": 2, "rank": 0, "step": row["row_id"]}
    tables["plan.parquet"] = pa.Table.from_pylist(plan, tables["plan.parquet"].schema)
    stages["balance"] = workdir.artifact("balance", tables, parents=stages)
    workdir.run("r", stages, recipe={"pack": {"seq_len": 16}})
    rebuild(workdir.path)
    report = build_report(workdir.path)
    [packing] = rows_of(report, "packing")
    assert packing["ranks"] == 2
    assert packing["fill"] == pytest.approx(packing["tokens"] / (32 * packing["rows"]), abs=1e-6)
    assert all(r["plan"] == r["random"] == 1 for r in rows_of(report, "imbalance"))
    total = sum(row["cost"] for row in plan)
    assert [r["plan"] for r in rows_of(report, "rank-cost")] == [total / 2, total / 2]


def test_sections_are_those_of_the_run(workdir, make_world):
    """Without packing there is nothing about rows; without duplicates' stage nothing about them."""
    world = make_world()
    workdir.run("packed", workdir.world(world), day=1)
    workdir.run("short", workdir.world(world, until="encode", mark="b"), day=2)
    workdir.run("raw", workdir.world(world, until="ingest", mark="c"), day=3)
    rebuild(workdir.path)
    has = {
        run: {section.id for section, _ in build_report(workdir.path, run).sections}
        for run in ("packed", "short", "raw")
    }
    assert has["packed"] - has["short"] == {"rows", "costs", "order"}
    assert has["short"] - has["raw"] == {"duplicates"}
    assert {"summary", "sources", "lengths", "losses", "samples"} <= has["raw"]
    for run in has:
        assert Page(to_html(build_report(workdir.path, run))).wrong == []


def test_a_corpus_without_documents_has_a_report(workdir, make_world):
    """Nothing was ingested: every figure answers, and the page says that there is nothing."""
    workdir.run("empty", workdir.world(make_world(sizes={("web", "x"): 0})), recipe={"name": "e"})
    rebuild(workdir.path)
    report = build_report(workdir.path)
    assert_every_figure_is_its_sql(workdir.path, report)
    assert rows_of(report, "sources") == []
    page = to_html(report)
    assert Page(page).wrong == []
    assert "No document was kept." in page


def test_a_failed_run_is_told_as_far_as_it_is_known(mini):
    """Its record is shown, nothing of documents; by default the newest ok run is taken."""
    mini.workdir.run("20260305-bad", {}, day=5, status="failed", lines=0)
    rebuild(mini.path)
    report = build_report(mini.path, "20260305-bad")
    assert [section.id for section, _ in report.sections] == ["summary"]
    assert report.status == "failed"
    assert_every_figure_is_its_sql(mini.path, report)
    assert Page(to_html(report)).wrong == []
    assert build_report(mini.path).run_id == mini.run_id


def test_a_catalog_of_another_version_is_to_be_rebuilt(mini):
    """A view without a column that the report asks for: the error says which, and what to do."""
    path = mini.path / "catalog.duckdb"
    with duckdb.connect(str(path)) as client:
        schema = f'"run_{mini.run_id}"'
        client.execute(f"DROP VIEW {schema}.rejects")
        client.execute(f"CREATE VIEW {schema}.rejects AS SELECT 1 AS other WHERE false")
    with pytest.raises(CatalogError, match=r"figure 'rejects'.*drystone catalog rebuild"):
        build_report(mini.path)
    rebuild(mini.path)
    assert build_report(mini.path).run_id == mini.run_id


def test_an_unknown_run_names_those_there_are(standing):
    """The message has the run asked for and the known ones."""
    with pytest.raises(QueryError, match=r"no run 'nope'.*20260301-mini"):
        build_report(standing.path, "nope")


def test_many_sources_give_a_bounded_report(workdir, make_world):
    """Seventy sources: no figure grows without end, and the page stays small."""
    sizes = {(f"source-{n:03d}", "a.jsonl"): 2 for n in range(70)}
    workdir.run("wide", workdir.world(make_world(sizes=sizes)), recipe={"pack": {"seq_len": 16}})
    rebuild(workdir.path)
    report = build_report(workdir.path)
    assert all(len(a.rows) <= MOST_ROWS for a in answers_of(report).values())
    assert len(to_html(report)) < 2_000_000


def test_training_runs_show_their_curves(mini, tmp_path):
    """Events of the run's dataset, and the loss from metrics.jsonl, as far as it is there."""
    out = tmp_path / "o'ut [1]"
    out.mkdir()
    steps = [{"step": n, "loss": 5.0 - n / 10, "grad_norm": 1.0, "lr": 0.1} for n in range(10)]
    (out / "metrics.jsonl").write_text("".join(json.dumps(s) + "\n" for s in steps) + '{"step": 1')
    events = [
        {"run_id": mini.run_id, "out": str(out), "step": 0, "event": "start", "row_id": None},
        {"run_id": mini.run_id, "out": str(out), "step": 4, "event": "spike", "row_id": 3},
        {"run_id": mini.run_id, "out": "/gone", "step": 0, "event": "start", "row_id": None},
    ]
    log = mini.path / "runs" / mini.run_id / "training.jsonl"
    log.write_text("".join(json.dumps(e) + "\n" for e in events))
    report = build_report(mini.path)
    assert {(r["out"], r["event"]) for r in rows_of(report, "training-events")} == {
        (str(out), "start"),
        (str(out), "spike"),
        ("/gone", "start"),
    }
    [incident] = rows_of(report, "training-incidents")
    documents = {p[1] for p in mini.world.placements() if p[0] == 3}
    assert (incident["step"], incident["row_id"]) == (4, 3)
    assert incident["documents"] == len(documents) > 0
    loss = {r["step"]: r["loss"] for r in rows_of(report, "training-0-loss")}
    assert loss == {s["step"]: s["loss"] for s in steps}
    assert_every_figure_is_its_sql(mini.path, report)


def drawn(chart, columns, rows, **options):
    """The drawing of rows."""
    figure = Figure(id="f", title="t", sql="", chart=chart, **options)
    return draw(Answer(figure, "", tuple(columns), tuple(rows)))


def boxes(drawing, side):
    """Lengths of the boxes of a drawing by what they say."""
    found = re.findall(rf'<rect [^>]*?{side}="([0-9.]+)"[^>]*><title>([^<]*)</title>', drawing)
    return {said: float(size) for size, said in found}


def test_lengths_of_bars_are_in_the_ratio_of_the_numbers():
    """Bars, histograms, shares: twice the number, twice the length."""
    bars = boxes(drawn("bars", ("x", "n"), [("a", 10), ("b", 5), ("c", None)]), "width")
    assert bars["a, n: 10"] == 2 * bars["b, n: 5"] > 100
    assert len(bars) == 2
    rows = [(1, 1, 4, 100), (2, 3, 1, 50)]
    own = boxes(drawn("histogram", ("from", "to", "a", "b"), rows, own_scales=True), "height")
    assert own["1: 4 a"] == own["1: 100 b"] == 2 * own["2 to 3: 50 b"] == 4 * own["2 to 3: 1 a"]
    one = boxes(drawn("histogram", ("from", "to", "a", "b"), rows), "height")
    assert one["1: 100 b"] == pytest.approx(25 * one["1: 4 a"], rel=0.02)
    parts = drawn("shares", ("x", "part", "n"), [("a", "p", 3), ("a", "q", 1), ("b", "p", 7)])
    widths = boxes(parts, "width")
    assert widths["a, p: 3 (75.0 %)"] == pytest.approx(3 * widths["a, q: 1 (25.0 %)"], rel=0.01)
    assert widths["b, p: 7 (100.0 %)"] == pytest.approx(4 * widths["a, q: 1 (25.0 %)"], rel=0.01)


def test_lines_and_areas_are_drawn_to_scale():
    """Points lie where the numbers are; a missing one is left out; shares fill the height."""
    rows = [(0, 1.0), (5, None), (10, 3.0)]
    points = re.findall(r'cx="([0-9.]+)" cy="([0-9.]+)"', drawn("lines", ("step", "y"), rows))
    (x0, y0), (x1, y1) = [(float(x), float(y)) for x, y in points]
    assert x0 < x1
    assert y0 > y1
    area = [(0, "a", 1), (0, "b", 3), (9, "a", 2)]
    heights = boxes(drawn("areas", ("step", "part", "n"), area), "height")
    low, high, whole = (heights[k] for k in sorted(heights, key=heights.get))
    assert high == pytest.approx(3 * low, rel=0.01)
    assert whole == pytest.approx(4 * low, rel=0.01)


@pytest.mark.parametrize("chart", ["bars", "shares", "histogram", "lines", "ranges", "areas"])
@pytest.mark.parametrize("values", [(0, 0, 0), (None, None, None), (1e300, 1e-300, 0)])
def test_any_numbers_can_be_drawn(chart, values):
    """Zeros, missing and extreme numbers give a drawing without nan or inf."""
    rows = [(1, "x", *values), (2, None, *values)]
    drawing = drawn(chart, ("a", "b", "c", "d", "e"), rows)
    assert Page(drawing).wrong == []
    assert not re.search(r'="-?(nan|inf)', drawing)
