"""The page about the shard format: its programs run, and its tables are those of the code."""

import re
from pathlib import Path

import duckdb
import pytest

from packing.export.formats import FORMATS
from packing.format import PLAN_SCHEMA, ROW_SCHEMA, DatasetInfo, PlanInfo
from packing.zone_file import TRANSFERS_SCHEMA, ZONES_SCHEMA, ZoneInfo

PAGE = (Path(__file__).parents[2] / "docs" / "shard-format.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("number", range(PAGE.count("```python")))
def test_programs_of_the_page_run(make_world, number):
    """Each Python block runs as it stands on a dataset."""
    block = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)[number]
    exec(block, {"DATASET": str(make_world().folder)})


def test_query_of_the_page_runs(make_world):
    """The SQL block answers one line per slot."""
    world = make_world()
    [sql] = re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL)
    found = duckdb.sql(sql.replace("DATASET", str(world.folder))).fetchall()
    assert len(found) == len({place[:2] for place in world.place})
    assert sum(line[2] for line in found) == sum(map(len, world.documents.values()))


def test_page_names_every_column_and_footer():
    """Columns of all schemas, footer keys and export formats are all on the page, in order."""
    columns = re.findall(r"^\| `(\w+)` \| (?:int|list|double|string)", PAGE, re.MULTILINE)
    schemas = (ROW_SCHEMA, PLAN_SCHEMA, ZONES_SCHEMA, TRANSFERS_SCHEMA)
    assert columns == [name for schema in schemas for name in schema.names]
    for record in (DatasetInfo, PlanInfo, ZoneInfo):
        for name in record.__dataclass_fields__:
            assert f"`.{name}`" in PAGE or f"`drystone.{name}`" in PAGE, name
    assert re.findall(r"^\| `([\w-]+)` \| .* \| .* \|$", PAGE, re.MULTILINE)[-5:] == list(FORMATS)
