"""A run with zone plans: proved, shown by the catalog, made anew by replan."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from small_runs import recipe_of

from catalog.store import query, to_json_rows
from packing.verify import verify
from packing.verify_zones import ZONE_CHECKS
from packing.zone_file import load_zones
from pipelines.dataset import replan_dataset
from pipelines.run import run


def test_run_with_zones(corpus, tmp_path):
    """Every piece is divided once; the views show it; replan divides the slots of its plan."""
    balance = {"dp": 4, "global_batch": 8, "ranks_per_node": 2, "topology": {"slack": 1.1}}
    summary = run(recipe_of(corpus, tmp_path, balance=balance))
    findings = verify(summary.dataset)
    assert findings.ok, findings.failed
    assert set(ZONE_CHECKS) <= set(findings.held)
    sql = "SELECT sum(length)::BIGINT AS tokens, count(DISTINCT zone) AS zones FROM zones"
    [found] = to_json_rows(query(tmp_path, sql))
    assert found["tokens"] == summary.tokens
    assert found["zones"] > 1
    [found] = to_json_rows(query(tmp_path, "SELECT min(tokens) AS least FROM transfers"))
    assert found["least"] >= 1
    made = replan_dataset(Path(summary.dataset), dp=2, global_batch=4)
    info, table = load_zones(made.zones)
    assert (info.nodes, info.capacity) == (1, 564)
    assert info.plan_fingerprint == made.plan.plan_fingerprint
    plan = pq.read_table(made.path)
    assert table["row_id"].unique().to_pylist() == plan["row_id"].to_pylist()
    with pytest.raises(ValueError, match="ranks_per_node = 2"):
        replan_dataset(Path(summary.dataset), dp=3, global_batch=3)
    assert replan_dataset(Path(summary.dataset), dp=3, global_batch=3, ranks_per_node=3).zones


@pytest.mark.parametrize(
    ("balance", "message"),
    [
        ({"dp": 12, "global_batch": 12, "ranks_per_node": 8}, "set dp to 8 or 16"),
        ({"topology": {}}, "set ranks_per_node"),
        ({"ranks_per_node": 0}, "balance.ranks_per_node"),
        ({"ranks_per_node": 1, "topology": {"slack": 0.9}}, "balance.topology.slack"),
        ({"ranks_per_node": 1, "topology": {"zone_mode": "costs"}}, "balance.topology.zone_mode"),
    ],
)
def test_senseless_topologies_are_refused(corpus, tmp_path, balance, message):
    """Nodes that ranks do not fill, rates without nodes, and values out of range."""
    with pytest.raises(ValueError, match=message):
        recipe_of(corpus, tmp_path, balance=balance)
