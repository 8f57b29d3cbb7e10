"""The keys of tables: which column names a row, which refer to other tables, which hold words."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from transforms.record import RecordError
from transforms.synthesis.names import singular

TABLES_FILE = "tables.toml"
"""Names keys, labels and foreign keys of the tables of a folder."""

_LABELS = ("name", "label", "title", "full_name", "display_name", "名称", "名字", "姓名", "标题")
_DESCRIPTIONS = ("description", "comment", "summary", "abstract", "描述", "简介")
_LEAST_INSIDE = 0.9
_LEAST_NAMES = 0.9


@dataclass(slots=True)
class Table:
    """One table and its keys.

    Attributes:
        name: its name in the database, or its file's.
        path: what ``rejects`` call it.
        data: its rows.
        lines: line of each row, from 1; of a CSV file as far as no text in it holds line breaks.
        key: the column that names a row; None for a table that relates others.
        label: the column that holds a row's label; None where the key is the label.
        description: the column that describes a row, or None.
        foreign: table by column.
        ignored: columns that are left out.
    """

    name: str
    path: str
    data: pa.Table
    lines: Sequence[int] = ()
    key: str | None = None
    label: str | None = None
    description: str | None = None
    foreign: dict[str, str] = field(default_factory=dict)
    ignored: tuple[str, ...] = ()

    def column(self, name: str) -> list[Any]:
        """Return the values of a column."""
        return self.data[name].to_pylist()  # type: ignore[no-any-return]


def settle_keys(tables: Mapping[str, Table]) -> None:
    """Find the keys that nobody told, and the columns that hold words.

    Raises:
        RecordError: nothing names the rows of a table.
    """
    for table in tables.values():
        table.key = table.key or _usual_key(table)
    for table in tables.values():
        _find_foreign(table, tables)
    for table in tables.values():
        table.key = table.key or _distinct_key(table)
    for table in tables.values():
        _find_foreign(table, tables)
        if table.key is None and len(table.foreign) < 2:
            raise RecordError(
                f"{table.path}: no column has distinct values without gaps, so that nothing names "
                f'its rows; name one in {TABLES_FILE}: [{table.name}] key = "column"'
            )
        _find_words(table)


def _distinct(table: Table, column: str) -> bool:
    values = [one for one in table.column(column) if one is not None]
    full = len(values) == table.data.num_rows > 0
    return full and len(set(map(str, values))) == len(values)


def _usual_key(table: Table) -> str | None:
    names = table.data.column_names
    lower = {name.lower(): name for name in reversed(names)}
    own = [singular(table.name.lower()), table.name.lower()]
    usual = ["id", *(f"{one}{end}" for one in own for end in ("_id", "id", "_key", "_code"))]
    for name in (lower[one] for one in usual if one in lower):
        # A key that the name promises may repeat in a few rows, which are then rejected.
        values = {str(one) for one in table.column(name) if one is not None}
        if name not in table.foreign and len(values) >= _LEAST_INSIDE * table.data.num_rows:
            return str(name)
    return None


def _distinct_key(table: Table) -> str | None:
    if len(table.foreign) > 1:
        return None
    for name in table.data.column_names:
        kind = table.data.schema.field(name).type
        good = pa.types.is_integer(kind) or _is_text(table, name)
        if good and name not in table.foreign and _distinct(table, name):
            return str(name)
    return None


def _find_foreign(table: Table, tables: Mapping[str, Table]) -> None:
    for column in table.data.column_names:
        if column == table.key or column in table.foreign or column in table.ignored:
            continue
        other = _named_after(column, table, tables) or _only_match(column, table, tables)
        if other is not None:
            table.foreign[column] = other


def _named_after(column: str, table: Table, tables: Mapping[str, Table]) -> str | None:
    """Return the table that a column is named after, if the column's values are its keys."""
    words = column.lower()
    for end in ("_id", "_key", "_code", "id"):
        if words.endswith(end) and len(words) > len(end):
            words = words.removesuffix(end)
            break
    values = [str(one) for one in table.column(column) if one is not None]
    if not values:
        return None
    for name in sorted(tables, key=lambda one: (-len(one), one)):
        one = singular(name.lower())
        if one in (words, singular(words)) or singular(words).endswith(f"_{one}"):
            key = tables[name].key
            keys = set(map(str, tables[name].column(key))) if key is not None else set()
            if sum(one in keys for one in values) >= _LEAST_INSIDE * len(values):
                return name
    return None


def _only_match(column: str, table: Table, tables: Mapping[str, Table]) -> str | None:
    """Return the only table, or else the own one, whose keys a column named like a key holds."""
    if not column.lower().endswith("_id"):
        return None
    values = {str(one) for one in table.column(column) if one is not None}
    fitting = [
        name
        for name, other in tables.items()
        if other.key is not None and values and values <= set(map(str, other.column(other.key)))
    ]
    if table.name in fitting:
        return table.name
    return fitting[0] if len(fitting) == 1 else None


def _find_words(table: Table) -> None:
    lower = {name.lower(): name for name in reversed(table.data.column_names)}
    free = {one: name for one, name in lower.items() if name not in table.foreign}
    own = (f"{singular(table.name.lower())}_name", f"{singular(table.name.lower())}name")
    for name in (free[one] for one in (*_LABELS, *own) if one in free):
        if table.label is None and _is_text(table, name) and name not in table.ignored:
            table.label = name
    for name in (free[one] for one in _DESCRIPTIONS if one in free):
        if table.description is None and _is_text(table, name) and name not in table.ignored:
            table.description = name
    if table.label is None and table.key is not None and not _is_text(table, table.key):
        for name in free.values():
            texts = (
                table.column(name) if _is_text(table, name) and name != table.description else []
            )
            filled = [one for one in texts if one]
            if filled and len(set(filled)) >= _LEAST_NAMES * table.data.num_rows:
                table.label = name
                return


def _is_text(table: Table, column: str) -> bool:
    kind = table.data.schema.field(column).type
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def columns_left(table: Table) -> Sequence[str]:
    """Return the columns that are values: no key, label, description or foreign key."""
    used = {table.key, table.label, table.description, *table.foreign, *table.ignored}
    return [name for name in table.data.column_names if name not in used]
