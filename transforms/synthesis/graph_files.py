"""The files of a normalized graph: Parquet tables and one JSON file, byte for byte the same."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from transforms.record import RecordError
from transforms.synthesis.graph import Attribute, GraphTables, Relation

FORMAT = 1
"""Version of the files."""

_ENTITIES, _FACTS, _VALUES, _SCHEMA = (
    "entities.parquet",
    "facts.parquet",
    "values.parquet",
    "graph.json",
)


def write_graph(name: str, fingerprint: str, tables: GraphTables, folder: Path) -> list[str]:
    """Write a graph; the JSON file comes last.

    Returns:
        The names of the files written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    entities = {
        "id": pa.array(tables.entity_ids, pa.string()),
        "label": pa.array(tables.labels, pa.string()),
        "aliases": pa.array([list(names) for names in tables.aliases], pa.list_(pa.string())),
        "description": pa.array(tables.descriptions, pa.string()),
        "main_type": pa.array(tables.main_types, pa.int32()),
        "types": pa.ListArray.from_arrays(
            pa.array(tables.type_starts, pa.int32()), pa.array(tables.type_numbers, pa.int32())
        ),
    }
    facts = {"relation": tables.relation, "head": tables.head, "tail": tables.tail}
    values = {
        "attribute": pa.array(tables.attribute, pa.int32()),
        "entity": pa.array(tables.holder, pa.int32()),
        "number": pa.array(tables.number, pa.float64()),
        "text": pa.array(tables.text, pa.string()),
    }
    for file, columns in ((_ENTITIES, entities), (_FACTS, facts), (_VALUES, values)):
        _replace(folder / file, pa.table(columns))
    schema = {
        "format": FORMAT,
        "name": name,
        "fingerprint": fingerprint,
        "types": [list(pair) for pair in zip(tables.type_names, tables.type_labels, strict=True)],
        "relations": [asdict(one) for one in tables.relations],
        "attributes": [asdict(one) for one in tables.attributes],
    }
    temporary = folder / f"{_SCHEMA}.tmp"
    temporary.write_bytes(orjson.dumps(schema, option=orjson.OPT_INDENT_2))
    temporary.replace(folder / _SCHEMA)
    return [_ENTITIES, _FACTS, _VALUES, _SCHEMA]


def _replace(path: Path, table: pa.Table) -> None:
    temporary = path.with_name(f"{path.name}.tmp")
    pq.write_table(table, temporary, compression="zstd", store_schema=True)
    temporary.replace(path)


def read_graph(folder: Path) -> tuple[str, GraphTables, str]:
    """Read a graph: its name, tables and fingerprint.

    Raises:
        RecordError: the folder holds no graph of this format.
    """
    try:
        schema: dict[str, Any] = orjson.loads((folder / _SCHEMA).read_bytes())
    except (OSError, orjson.JSONDecodeError) as error:
        raise RecordError(
            f"{folder}: holds no normalized graph ({error}); build it again"
        ) from error
    if schema.get("format") != FORMAT:
        raise RecordError(
            f"{folder}: graph format {schema.get('format')!r}, this version reads {FORMAT}; "
            "build it again"
        )
    entities = _columns(folder / _ENTITIES)
    facts = _columns(folder / _FACTS)
    values = _columns(folder / _VALUES)
    types = entities["types"]
    tables = GraphTables(
        entity_ids=entities["id"].to_pylist(),
        labels=entities["label"].to_pylist(),
        aliases=[tuple(names) for names in entities["aliases"].to_pylist()],
        descriptions=entities["description"].to_pylist(),
        main_types=_numbers(entities["main_type"]),
        type_starts=_numbers(types.offsets),
        type_numbers=_numbers(types.values),
        type_names=[pair[0] for pair in schema["types"]],
        type_labels=[pair[1] for pair in schema["types"]],
        relations=[Relation(**one) for one in schema["relations"]],
        attributes=[Attribute(**one) for one in schema["attributes"]],
        relation=_numbers(facts["relation"]),
        head=_numbers(facts["head"]),
        tail=_numbers(facts["tail"]),
        attribute=_numbers(values["attribute"]),
        holder=_numbers(values["entity"]),
        number=np.asarray(values["number"]),
        text=values["text"].to_pylist(),
    )
    return schema["name"], tables, schema["fingerprint"]


def _columns(path: Path) -> dict[str, Any]:
    table = pq.read_table(path).combine_chunks()
    return {
        name: column.chunk(0) if column.num_chunks else pa.array([], column.type)
        for name, column in zip(table.column_names, table.columns, strict=True)
    }


def _numbers(array: Any) -> Any:
    return np.asarray(array, dtype=np.int32)
