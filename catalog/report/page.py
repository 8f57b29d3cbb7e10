"""The report as one HTML page: no script, nothing from outside, to be read by anyone anywhere."""

import json
from pathlib import Path

from catalog.report.charts import draw
from catalog.report.figure import Answer, Report, Section
from catalog.report.text import escaped, number

_STYLE = Path(__file__).with_name("style.css")
_SHOWN_ROWS = 120
"""Rows of a table on the page; report.json has all."""
_PLAIN = ("facts", "table", "texts", "json")
"""Charts that are text themselves."""

# The page may load nothing, whatever text it holds.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def to_html(report: Report) -> str:
    """Return the page of a report."""
    title = f"{report.name}, run {report.run_id}"
    links = "".join(
        f'<li><a href="#section-{section.id}">{escaped(section.title)}</a></li>'
        for section, _ in report.sections
    )
    body = "\n".join(_section(section, answers) for section, answers in report.sections)
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{escaped(_POLICY)}">
<title>{escaped(title)}</title>
<style>
{_STYLE.read_text(encoding="utf-8")}</style>
</head>
<body>
<header>
<h1>{escaped(report.name)}</h1>
<p>Run {escaped(report.run_id)}{_failed(report)}. Below every figure is the SQL that gives it, for
<code>drystone query</code> or any DuckDB client on catalog.duckdb.</p>
</header>
<nav aria-label="Sections"><ul>{links}</ul></nav>
<main>
{body}
</main>
</body>
</html>
"""


def _failed(report: Report) -> str:
    return "" if report.status == "ok" else f', <span class="bad">{escaped(report.status)}</span>'


def _section(section: Section, answers: tuple[Answer, ...]) -> str:
    figures = "\n".join(_figure(answer) for answer in answers)
    return f'<section id="section-{section.id}">\n<h2>{escaped(section.title)}</h2>\n{figures}\n</section>'


def _figure(answer: Answer) -> str:
    figure = answer.figure
    note = f'<p class="note">{escaped(figure.note)}</p>' if figure.note else ""
    if not answer.rows:
        shown = f'<p class="none">{escaped(figure.none)}</p>'
    elif figure.chart == "facts":
        shown = _facts(answer)
    elif figure.chart == "table":
        shown = _table(answer)
    elif figure.chart == "json":
        shown = _json(answer)
    elif figure.chart == "texts":
        shown = "\n".join(_text(answer, row) for row in answer.rows)
    else:
        shown = draw(answer)
    numbers = ""
    if answer.rows and figure.chart not in _PLAIN:
        numbers = f"<details><summary>Numbers</summary>{_table(answer)}</details>\n"
    return f"""<figure id="{figure.id}">
<figcaption><h3>{escaped(figure.title)}</h3>{note}</figcaption>
{shown}
{numbers}<details><summary>SQL</summary><pre dir="ltr">{escaped(answer.sql)}</pre></details>
</figure>"""


def _facts(answer: Answer) -> str:
    [row] = answer.rows
    tiles = "".join(
        f"<div><dt>{escaped(_words(name))}</dt><dd>{_value(value)}</dd></div>"
        for name, value in zip(answer.columns, row, strict=True)
        if value is not None
    )
    return f'<dl class="facts">{tiles}</dl>'


def _table(answer: Answer) -> str:
    head = "".join(f'<th scope="col">{escaped(_words(name))}</th>' for name in answer.columns)
    rows = []
    for row in answer.rows[:_SHOWN_ROWS]:
        cells = (
            f'<td class="n">{_value(value)}</td>'
            if _numeric(value)
            else f"<td>{_value(value)}</td>"
            for value in row
        )
        rows.append(f"<tr>{''.join(cells)}</tr>")
    left_out = len(answer.rows) - len(rows)
    more = f'<p class="note">{left_out:,} more rows in report.json</p>' if left_out else ""
    return (
        f'<div class="wide" tabindex="0"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>{more}"
    )


def _cell(name: str, value: object) -> str:
    """Return a cell of a table; a claim that does not hold is marked."""
    wrong = name == "holds" and value is False
    kind = ' class="n"' if _numeric(value) else ' class="bad"' if wrong else ""
    return f"<td{kind}>{_value(value)}</td>"


def _json(answer: Answer) -> str:
    [[value]] = answer.rows
    pretty = json.dumps(json.loads(value or "null"), ensure_ascii=False, indent=2)
    return f"<details><summary>Show</summary><pre>{escaped(pretty)}</pre></details>"


def _text(answer: Answer, row: tuple[object, ...]) -> str:
    """Return one sample: what is known of it, and its texts side by side."""
    facts, sides = [], []
    for name, value in zip(answer.columns, row, strict=True):
        if name == "text" or name.endswith("_text"):
            heading = name.removesuffix("text").strip("_")
            label = f"<h4>{escaped(_words(heading))}</h4>" if heading else ""
            missing = '<p class="none">not at hand</p>'
            shown = missing if value is None else f'<pre dir="auto">{escaped(value)}</pre>'
            sides.append(f"<div>{label}{shown}</div>")
        elif value is not None:
            facts.append(f"{escaped(_words(name))} <b><bdi>{_value(value)}</bdi></b>")
    about = f"<p>{' · '.join(facts)}</p>" if facts else ""
    return f'<div class="text">{about}<div class="sides">{"".join(sides)}</div></div>'


def _words(name: str) -> str:
    return name.strip("_").replace("_", " ")


def _numeric(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _value(value: object) -> str:
    if value is None:
        return '<span class="none">none</span>'
    if isinstance(value, bool):
        return "yes" if value else "no"
    if _numeric(value):
        return number(value)
    return escaped(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
