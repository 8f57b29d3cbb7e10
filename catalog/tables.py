"""Plans answered by SQL: the oracle of synthesized records, independent of how plans are executed.

Plans of one shape differ in entities, relations and values alone. They become the rows of one
table, and one query over the graph's facts answers them all: a common table expression for each
operation, which holds the members (plan, entity) of its set.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from catalog.relational import is_relational
from catalog.table_graph import load_tables
from transforms.synthesis.graph import Graph
from transforms.synthesis.graph_input import load_graph
from transforms.synthesis.graph_settle import LoadedGraph
from transforms.synthesis.plan import (
    Anchor,
    Compare,
    Count,
    Filter,
    Intersect,
    Plan,
    Project,
    Result,
    SetPlan,
    Subtract,
    Top,
    Unite,
    Value,
)
from transforms.synthesis.python_graph import PYTHON, python_graph

_SIGNS = {"min": ">=", "max": "<=", "is": "="}
_TYPES: dict[str, pa.DataType] = {
    "entity": pa.int32(),
    "edge": pa.int32(),
    "attribute": pa.int32(),
    "k": pa.int32(),
    "number": pa.float64(),
    "text": pa.string(),
}


class PlanOracle:
    """Answers plans over one graph by SQL; a connection of its own, in memory.

    Args:
        graph: the normalized graph, of whose tables alone it is made.
        threads: threads of a query.
    """

    def __init__(self, graph: Graph, threads: int = 1) -> None:
        self._connection = duckdb.connect(config={"threads": threads})
        # Nothing but the tables below is ever asked for.
        self._connection.execute("SET enable_external_access = false")
        tables = graph.tables
        self._columns = ["number" if one.kind == "number" else "text" for one in tables.attributes]
        facts = pa.table({"relation": tables.relation, "head": tables.head, "tail": tables.tail})
        values = pa.table(
            {
                "attribute": tables.attribute,
                "entity": tables.holder,
                "number": pa.array(tables.number, pa.float64(), from_pandas=True),
                "text": pa.array(tables.text, pa.string()),
            }
        )
        kinds = pa.table(
            {
                "attribute": pa.array(range(len(tables.attributes)), pa.int32()),
                "is_number": pa.array(
                    [one.kind == "number" for one in tables.attributes], pa.bool_()
                ),
            }
        )
        for name, table in (("facts", facts), ("given", values), ("kinds", kinds)):
            self._connection.register(f"{name}_arrow", table)
            self._connection.execute(f"CREATE TABLE {name} AS SELECT * FROM {name}_arrow")
            self._connection.unregister(f"{name}_arrow")
        self._connection.execute(
            """
            CREATE TABLE edges AS
              SELECT 2 * relation AS edge, head AS source, tail AS target FROM facts
              UNION ALL
              SELECT 2 * relation + 1, tail, head FROM facts
              ORDER BY 1, 2, 3;
            CREATE TABLE vals AS
              SELECT attribute, entity, number,
                     CASE WHEN is_number THEN NULL ELSE text END AS text
              FROM given JOIN kinds USING (attribute)
              ORDER BY 1, 2;
            """
        )

    def answers(self, plans: Sequence[Plan]) -> list[Result]:
        """Answer plans, as :func:`transforms.synthesis.plan.evaluate` does.

        Args:
            plans: of any shapes; each shape takes one query.

        Returns:
            For each plan the sorted entities, the number counted, the value, or the winner.
        """
        shapes: dict[str, list[tuple[int, _Query]]] = defaultdict(list)
        for place, plan in enumerate(plans):
            query = _Query(self._columns)
            query.finish(plan)
            shapes[query.sql].append((place, query))
        found: list[Result] = [None] * len(plans)
        for sql, group in shapes.items():
            answers = self._run(sql, [query for _, query in group])
            for (place, _), answer in zip(group, answers, strict=True):
                found[place] = answer
        return found

    def _run(self, sql: str, queries: Sequence["_Query"]) -> list[Result]:
        first = queries[0]
        columns: dict[str, pa.Array] = {"plan": pa.array(range(len(queries)), pa.int32())}
        for name, kind in first.kinds.items():
            columns[name] = pa.array([one.parameters[name] for one in queries], _TYPES[kind])
        self._connection.register("plans", pa.table(columns))
        table = self._connection.sql(sql).to_arrow_table()
        self._connection.unregister("plans")
        plans = np.asarray(table["plan"])
        if first.of_sets:
            members = np.asarray(table["member"]).astype(np.int32)
            bounds = np.searchsorted(plans, np.arange(len(queries) + 1))
            return [members[bounds[n] : bounds[n + 1]] for n in range(len(queries))]
        single: list[Result] = [None] * len(queries)
        for plan, value in zip(plans.tolist(), table["value"].to_pylist(), strict=True):
            single[plan] = value
        return single

    def close(self) -> None:
        """Give the memory back."""
        self._connection.close()


@dataclass(slots=True)
class _Query:
    """The SQL of one plan's shape, and this plan's parameters."""

    columns: Sequence[str]
    """Column of ``vals`` that holds the values, by attribute."""
    parts: list[str] = field(default_factory=list)
    kinds: dict[str, str] = field(default_factory=dict)
    parameters: dict[str, Any] = field(default_factory=dict)
    of_sets: bool = True
    sql: str = ""

    def finish(self, plan: Plan) -> None:
        """Write the SQL of a whole plan."""
        if isinstance(plan, Count):
            self.of_sets, last = False, f"SELECT plan, value FROM {self._count(plan)}"
        elif isinstance(plan, Value):
            self.of_sets, last = False, f"SELECT plan, value FROM {self._value(plan)}"
        elif isinstance(plan, Compare):
            last = self._compare(plan)
        else:
            last = f"SELECT plan, member FROM {self._set(plan)} ORDER BY 1, 2"
        self.sql = "WITH " + ",\n".join(self.parts) + "\n" + last

    def _part(self, body: str) -> str:
        name = f"part{len(self.parts)}"
        self.parts.append(f"{name} AS MATERIALIZED ({body})")
        return name

    def _parameter(self, kind: str, value: Any) -> str:
        name = f"{kind}{len(self.kinds)}"
        self.kinds[name] = kind
        self.parameters[name] = value
        return name

    def _set(self, plan: SetPlan) -> str:
        match plan:
            case Anchor(entity):
                return self._part(
                    f"SELECT plan, {self._parameter('entity', entity)} AS member FROM plans"
                )
            case Project(source, relation, inverse):
                return self._project(self._set(source), 2 * relation + inverse)
            case Intersect(parts):
                return self._combined("INTERSECT", parts)
            case Unite(parts):
                return self._combined("UNION", parts)
            case Subtract(keep, remove):
                return self._combined("EXCEPT", (keep, remove))
            case Filter():
                return self._filter(plan)
            case Top():
                return self._top(plan)

    def _combined(self, word: str, parts: Sequence[SetPlan]) -> str:
        names = [self._set(part) for part in parts]
        return self._part(f" {word} ".join(f"SELECT plan, member FROM {name}" for name in names))

    def _project(self, source: str, edge: int) -> str:
        parameter = self._parameter("edge", edge)
        return self._part(
            f"SELECT DISTINCT plan, target AS member FROM {source} JOIN plans USING (plan) "
            f"JOIN edges ON edge = {parameter} AND source = member"
        )

    def _filter(self, plan: Filter) -> str:
        kind = "text" if isinstance(plan.value, str) else "number"
        source = self._set(plan.source)
        attribute = self._parameter("attribute", plan.attribute)
        value = self._parameter(kind, plan.value)
        return self._part(
            f"SELECT plan, member FROM {source} JOIN plans USING (plan) "
            f"JOIN vals ON attribute = {attribute} AND entity = member "
            f"WHERE vals.{kind} {_SIGNS[plan.op]} {value}"
        )

    def _top(self, plan: Top) -> str:
        source = self._set(plan.source)
        attribute = self._parameter("attribute", plan.attribute)
        k = self._parameter("k", plan.k)
        order = "DESC" if plan.largest else "ASC"
        return self._part(
            f"SELECT plan, member FROM {source} JOIN plans USING (plan) "
            f"JOIN vals ON attribute = {attribute} AND entity = member "
            f"QUALIFY row_number() OVER (PARTITION BY plan "
            f"ORDER BY vals.number {order}, vals.text {order}, member) <= {k}"
        )

    def _count(self, plan: Count) -> str:
        source = self._set(plan.source)
        return self._part(
            f"SELECT plan, count(member) AS value FROM plans LEFT JOIN {source} USING (plan) "
            "GROUP BY plan"
        )

    def _value(self, plan: Value) -> str:
        source = self._set(plan.source)
        attribute = self._parameter("attribute", plan.attribute)
        column = self.columns[plan.attribute]
        return self._part(
            f"SELECT plan, vals.{column} AS value FROM "
            f"(SELECT plan, min(member) AS single FROM {source} GROUP BY plan HAVING count(*) = 1) "
            f"JOIN plans USING (plan) JOIN vals ON attribute = {attribute} AND entity = single"
        )

    def _compare(self, plan: Compare) -> str:
        sides = []
        for side in (plan.left, plan.right):
            before = len(self.kinds)
            name = self._count(side) if isinstance(side, Count) else self._value(side)
            named = [one for one in list(self.kinds)[before:] if self.kinds[one] == "entity"]
            sides.append((name, named))
        (left, left_named), (right, right_named) = sides
        signs = (">", "<") if plan.largest else ("<", ">")
        winners = [
            f"SELECT plan, {name} AS member FROM plans JOIN {left} AS l USING (plan) "
            f"JOIN {right} AS r USING (plan) WHERE l.value {sign} r.value"
            for sign, named in zip(signs, (left_named, right_named), strict=True)
            for name in named
        ]
        return " UNION ".join(winners) + " ORDER BY 1, 2"


def read_graph(
    path: Path, *, name: str | None = None, lang: str = "en", closed_world: bool = False
) -> LoadedGraph:
    """Read a graph from triples or from relational tables, whichever a path holds.

    Args:
        path: a file or a folder (``transforms.synthesis.graph_reading``, ``catalog.relational``);
            ``python`` for the graph of this Python installation, where no file is called so.
        name: the graph's name; default: the file's or folder's.
        lang: which language's texts to take where triples mark languages.
        closed_world: whether what triples do not say is false; of tables it is.

    Raises:
        RecordError: nothing there is a graph.
    """
    if str(path) == PYTHON and not path.exists():
        return python_graph(name or PYTHON)
    if is_relational(path):
        return load_tables(path, name)
    return load_graph(path, name=name, lang=lang, closed_world=closed_world)
