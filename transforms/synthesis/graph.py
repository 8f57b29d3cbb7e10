"""Knowledge graphs in memory: typed entities with labels, relations between them, literal values.

A graph is read once, normalized (``transforms.synthesis.normalize``) and then only asked. Entities,
types, relations and attributes are numbered in the order of their ids, so that a graph is the same
for any order of its input. All labels differ after :func:`name_key`, so that a label in a call or
an answer names one entity alone, also for checkers that compare strings loosely.

Facts lie in two copies of three arrays, by head and by tail; a worker loads them from Parquet.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt

from transforms.synthesis.adjacency import Adjacency

Ints = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]
Kind = Literal["number", "date", "text"]

NO_TYPE = -1
"""Number of a type that is not known."""

_DROPPED = str.maketrans("'", '"', " ,./-_*^")


def name_key(text: str) -> str:
    """Return what a loose comparison keeps of a name: lower case, without `` ,./-_*^``, one quote.

    This is the comparison of the Berkeley function-calling checker (``standardize_string``).
    """
    return text.translate(_DROPPED).lower()


@dataclass(frozen=True, slots=True)
class Relation:
    """A kind of fact between two entities.

    Attributes:
        id: its name in the input.
        label: its words in the input, or made from the id.
        domain: number of the type of heads; -1 where unknown.
        range: number of the type of tails; -1 where unknown.
        functional: no head has two tails.
        inverse_functional: no tail has two heads.
        complete: every fact of it is known: declared so, or functional. A functional relation is
            complete for the heads that have a tail, from head to tail alone.
        declared_complete: declared so; then it is complete in both directions.
        symmetric: every fact stands in both directions.
        n_facts: number of facts.
    """

    id: str
    label: str
    domain: int
    range: int
    functional: bool
    inverse_functional: bool
    complete: bool
    declared_complete: bool
    symmetric: bool
    n_facts: int

    def is_complete(self, inverse: bool) -> bool:
        """Return whether what one direction gives for an entity is all that is true."""
        return self.declared_complete or (self.inverse_functional if inverse else self.functional)


@dataclass(frozen=True, slots=True)
class Attribute:
    """A kind of literal value of an entity; an entity has at most one value of it.

    Attributes:
        id: its name in the input.
        label: its words in the input, or made from the id.
        kind: ``number``, ``date`` (ISO text of one precision) or ``text``.
        domain: number of the type of its holders; -1 where unknown.
        unit: unit of a number as the input writes it, or ``""``.
        n_values: number of entities that have a value.
    """

    id: str
    label: str
    kind: Kind
    domain: int
    unit: str
    n_values: int


@dataclass(frozen=True, slots=True)
class GraphTables:
    """The normalized tables of a graph; entities, types, relations, attributes in order of id.

    Attributes:
        entity_ids, labels, aliases, descriptions: [entities].
        main_types: [entities] int32 number of the main type, or -1.
        type_starts, type_numbers: CSR of the types of each entity, sorted.
        type_names, type_labels: [types].
        relations, attributes: their descriptions.
        relation, head, tail: [facts] int32, distinct, sorted by these three.
        attribute, holder: [values] int32, distinct pairs, sorted.
        number: [values] float64; NaN where the value is no number.
        text: [values] the value's text: ISO for dates, as in the input otherwise.
    """

    entity_ids: Sequence[str]
    labels: Sequence[str]
    aliases: Sequence[tuple[str, ...]]
    descriptions: Sequence[str]
    main_types: Ints
    type_starts: Ints
    type_numbers: Ints
    type_names: Sequence[str]
    type_labels: Sequence[str]
    relations: Sequence[Relation]
    attributes: Sequence[Attribute]
    relation: Ints
    head: Ints
    tail: Ints
    attribute: Ints
    holder: Ints
    number: Floats
    text: Sequence[str]

    def fingerprint(self) -> str:
        """Return the SHA-256 of everything in the tables, hex."""
        digest = hashlib.sha256(b"drystone-graph-1")
        for strings in (self.entity_ids, self.labels, self.descriptions):
            digest.update(_joined(strings))
        digest.update(_joined(["\x1f".join(names) for names in self.aliases]))
        digest.update(_joined(self.type_names) + _joined(self.type_labels) + _joined(self.text))
        digest.update(_joined([repr(one) for one in (*self.relations, *self.attributes)]))
        for array in (self.main_types, self.type_starts, self.type_numbers, self.relation):
            digest.update(array.astype("<i4").tobytes())
        for array in (self.head, self.tail, self.attribute, self.holder):
            digest.update(array.astype("<i4").tobytes())
        digest.update(self.number.astype("<f8").tobytes())
        return digest.hexdigest()


def _joined(strings: Sequence[str]) -> bytes:
    return ("\x1e".join(strings) + f"\x1d{len(strings)}\x1d").encode("utf-8", "surrogatepass")


class Graph:
    """A normalized graph to be asked.

    Attributes:
        name: what the run calls it.
        fingerprint: SHA-256 of its tables, hex.
        tables: the normalized tables; the lists below are the tables' own.
    """

    def __init__(self, name: str, tables: GraphTables, fingerprint: str | None = None) -> None:
        self.name = name
        self.tables = tables
        self.fingerprint = fingerprint or tables.fingerprint()
        self.entity_ids = tables.entity_ids
        self.labels = tables.labels
        self.aliases = tables.aliases
        self.descriptions = tables.descriptions
        self.type_names = tables.type_names
        self.type_labels = tables.type_labels
        self.relations = tables.relations
        self.attributes = tables.attributes
        count = len(tables.relations)
        self._out = Adjacency(tables.relation, tables.head, tables.tail, count)
        self._in = Adjacency(tables.relation, tables.tail, tables.head, count)
        self._out_edges = self._out.relations_by_entity(self.n_entities)
        self._in_edges = self._in.relations_by_entity(self.n_entities)
        order = np.argsort(tables.type_numbers, kind="stable")
        owners = np.repeat(np.arange(self.n_entities, dtype=np.int32), np.diff(tables.type_starts))
        self._members = owners[order]
        self._members.flags.writeable = False
        self._member_bounds = np.searchsorted(
            tables.type_numbers[order], np.arange(len(self.type_names) + 1)
        )
        self._value_bounds = np.searchsorted(tables.attribute, np.arange(len(self.attributes) + 1))
        self._values: list[dict[int, float | str] | None] = [None] * len(self.attributes)
        self._named: dict[str, tuple[int, ...]] | None = None
        self._numbers: dict[str, int] | None = None

    @property
    def n_entities(self) -> int:
        """Number of entities."""
        return len(self.entity_ids)

    @property
    def n_facts(self) -> int:
        """Number of facts between entities."""
        return len(self.tables.relation)

    def types_of(self, entity: int) -> tuple[int, ...]:
        """Return the numbers of all types of an entity, ascending."""
        starts = self.tables.type_starts
        return tuple(self.tables.type_numbers[starts[entity] : starts[entity + 1]].tolist())

    def type_of(self, entity: int) -> int:
        """Return the number of the main type of an entity; -1 where it has none."""
        return int(self.tables.main_types[entity])

    def members_of(self, type_number: int) -> Ints:
        """Return the entities of a type, ascending."""
        low, high = self._member_bounds[type_number], self._member_bounds[type_number + 1]
        return self._members[low:high]

    def targets(self, entity: int, relation: int, inverse: bool = False) -> Ints:
        """Return what an entity is related to, ascending; the heads with ``inverse``."""
        return (self._in if inverse else self._out).targets(entity, relation)

    def heads(self, relation: int, inverse: bool = False) -> Ints:
        """Return the entities that have a target, ascending."""
        return (self._in if inverse else self._out).heads(relation)

    def degrees(self, relation: int, inverse: bool = False) -> Ints:
        """Return the number of targets of each of :meth:`heads`."""
        return (self._in if inverse else self._out).degrees(relation)

    def edges_of(self, entity: int) -> list[tuple[int, bool]]:
        """Return the (relation, inverse) that an entity has targets of, in a fixed order."""
        found: list[tuple[int, bool]] = []
        for inverse, (starts, relation) in ((False, self._out_edges), (True, self._in_edges)):
            ours = relation[starts[entity] : starts[entity + 1]].tolist()
            found.extend((one, inverse) for one in ours)
        return found

    def value(self, entity: int, attribute: int) -> float | str | None:
        """Return a literal: a number, the ISO text of a date, a text, or None."""
        values = self._values[attribute]
        if values is None:
            holders = self.holders(attribute).tolist()
            values = dict(zip(holders, self.values_of(attribute), strict=True))
            self._values[attribute] = values
        return values.get(entity)

    def holders(self, attribute: int) -> Ints:
        """Return the entities that have a value, ascending."""
        low, high = self._value_bounds[attribute], self._value_bounds[attribute + 1]
        return self.tables.holder[low:high]

    def values_of(self, attribute: int) -> list[float] | list[str]:
        """Return the value of each of :meth:`holders`."""
        low, high = int(self._value_bounds[attribute]), int(self._value_bounds[attribute + 1])
        if self.attributes[attribute].kind == "number":
            return self.tables.number[low:high].tolist()  # type: ignore[no-any-return]
        return list(self.tables.text[low:high])

    def named(self, text: str) -> tuple[int, ...]:
        """Return the entities that bear a name as label or alias, compared by :func:`name_key`."""
        if self._named is None:
            found: dict[str, set[int]] = {}
            for entity, (label, aliases) in enumerate(zip(self.labels, self.aliases, strict=True)):
                for name in (label, *aliases):
                    found.setdefault(name_key(name), set()).add(entity)
            self._named = {key: tuple(sorted(ours)) for key, ours in found.items()}
        return self._named.get(name_key(text), ())

    def number_of(self, entity_id: str) -> int:
        """Return the number of an entity by its id.

        Raises:
            KeyError: no entity has this id.
        """
        if self._numbers is None:
            self._numbers = {name: number for number, name in enumerate(self.entity_ids)}
        return self._numbers[entity_id]

    def write(self, folder: Path) -> None:
        """Write the graph as Parquet files, the same bytes for the same graph."""
        from transforms.synthesis.graph_files import write_graph

        write_graph(self.name, self.fingerprint, self.tables, folder)

    @staticmethod
    def read(folder: Path) -> "Graph":
        """Read what :meth:`write` wrote.

        Raises:
            RecordError: the folder holds no graph of this format.
        """
        from transforms.synthesis.graph_files import read_graph

        return Graph(*read_graph(folder))
