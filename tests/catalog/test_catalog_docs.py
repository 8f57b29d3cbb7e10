"""docs/catalog.md says what is so: its queries run, its table lists what there is."""

import re
import shutil
from pathlib import Path

import duckdb
import pytest

from catalog.store import query
from catalog.views import VIEWS

DOC = (Path(__file__).parents[2] / "docs" / "catalog.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```sql\n(.*?)```", DOC, re.DOTALL)
PYTHON = re.findall(r"```python\n(.*?)```", DOC, re.DOTALL)
MAY_BE_EMPTY = "FROM training"


def test_every_query_of_the_page_answers(standing):
    """In Drystone and in a plain client alike, with rows where the fixture has any."""
    assert len(BLOCKS) >= 15
    with duckdb.connect(str(standing.path / "catalog.duckdb"), read_only=True) as plain:
        for sql in BLOCKS:
            table = query(standing.path, sql)
            assert table.num_rows or MAY_BE_EMPTY in sql, sql
            assert len(plain.execute(sql).fetchall()) == table.num_rows


@pytest.mark.parametrize("code", PYTHON)
def test_every_program_of_the_page_runs(standing, code, tmp_path, monkeypatch, capsys):
    """The Python blocks run as they stand, in a folder with the work directory they name."""
    shutil.copytree(standing.path / "runs", tmp_path / "runs" / "docs" / "runs")
    shutil.copyfile(standing.path / "catalog.duckdb", tmp_path / "runs" / "docs" / "catalog.duckdb")
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "docs/catalog.md", "exec"), {})
    assert capsys.readouterr().out


def test_the_table_lists_every_view_with_all_of_its_columns(standing):
    """Names and order of the columns are those of DESCRIBE, less what a source brings along."""
    table = dict(re.findall(r"^\| `(\w+)` \| ([^|]+) \|", DOC, re.MULTILINE))
    assert set(table) == {v.name for v in VIEWS} | {
        "runs",
        "stages",
        "against",
        "artifacts",
        "training",
    }
    brought = {"documents": ["edu"]}
    for view, text in table.items():
        listed = [name for name in text.strip().split(", ") if not name.startswith("and ")]
        described = query(standing.path, f"DESCRIBE {view}")["column_name"].to_pylist()
        assert listed == [name for name in described if name not in brought.get(view, [])]
