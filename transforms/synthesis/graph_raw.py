"""A graph as its files say it: numbered names, triples in columns, descriptions, rejects."""

from array import array
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from transforms.ingest import Reject
from transforms.synthesis.graph_reading import (
    InputFile,
    OnReject,
    Row,
    list_files,
    name_of,
    object_rows,
    objects_of,
    tsv_rows,
)
from transforms.synthesis.graph_tables import NamedEntity, NamedRelation
from transforms.synthesis.ntriples import ntriples_rows

UNSAID, LITERAL, ENTITY = -1, 0, 1
"""Whether a tail is an entity: not said, said no, said yes."""

_SAID = {None: UNSAID, False: LITERAL, True: ENTITY}
_ENTITY, _RELATION, _TYPE = "malformed entity", "malformed relation", "malformed type"


@dataclass(frozen=True, slots=True)
class Place:
    """Where something was said."""

    file: str
    line: int


@dataclass(frozen=True, slots=True)
class Wider:
    """That a type has a wider one, where that is said, and the triple that says it or -1."""

    type: str
    wider: str
    place: Place
    triple: int = -1


@dataclass(slots=True)
class RawGraph:
    """What the files of a graph say, before anything is judged.

    Attributes:
        names: names of heads and tails, and literal values, each once.
        relation_names: names of relations, each once.
        head: [triples] int32 places in ``names``.
        relation: [triples] int32 places in ``relation_names``.
        tail: [triples] int32 places in ``names``.
        said: [triples] int8: UNSAID, LITERAL or ENTITY.
        file: [triples] int16 places in ``files``.
        line: [triples] int64 line or row, from 1.
        files: names of the files of triples.
        entities: descriptions by id; None where no file describes entities.
        described_at: where each entity is described.
        relations: descriptions by id; None where no file describes relations.
        type_labels: words by type name, as far as given.
        told: descriptions of relations by the triples themselves.
        parents: that types have wider types, in the order of the input.
        rejects: what could not be read.
    """

    names: list[str]
    relation_names: list[str]
    head: npt.NDArray[np.int32]
    relation: npt.NDArray[np.int32]
    tail: npt.NDArray[np.int32]
    said: npt.NDArray[np.int8]
    file: npt.NDArray[np.int16]
    line: npt.NDArray[np.int64]
    files: list[str]
    entities: dict[str, NamedEntity] | None = None
    described_at: dict[str, Place] = field(default_factory=dict)
    relations: dict[str, NamedRelation] | None = None
    type_labels: dict[str, str] = field(default_factory=dict)
    told: dict[str, NamedRelation] = field(default_factory=dict)
    parents: list[Wider] = field(default_factory=list)
    rejects: list[Reject] = field(default_factory=list)

    def place(self, triple: int) -> Place:
        """Return where a triple stands."""
        return Place(self.files[self.file[triple]], int(self.line[triple]))

    def first_places(self, wanted: Collection[str]) -> dict[str, Place]:
        """Return where each of some entities is described, or else first named by a triple."""
        found = {name: self.described_at[name] for name in wanted if name in self.described_at}
        codes = {code for code, name in enumerate(self.names) if name in wanted}
        codes -= {code for code in codes if self.names[code] in found}
        for triple in np.flatnonzero(
            np.isin(self.head, list(codes)) | np.isin(self.tail, list(codes))
        ):
            for code in (int(self.head[triple]), int(self.tail[triple])):
                if code in codes:
                    found.setdefault(self.names[code], self.place(int(triple)))
        return found

    def reject(self, place: Place, reason: str, detail: str) -> None:
        """Reject what stands somewhere."""
        self.rejects.append(Reject(place.line, reason, detail, place.file))


def read_raw(path: Path, lang: str = "en") -> RawGraph:
    """Read the files of a graph.

    Args:
        path: a file of triples, or a folder.
        lang: which language's texts to take where the input marks languages.

    Raises:
        RecordError: there is no graph, or a Parquet file cannot be read.
    """
    files = list_files(path)
    rejects: list[Reject] = []
    raw = _triples(files.triples, lang, rejects)
    if files.entities is not None:
        raw.entities = _entities(files.entities, raw)
    if files.relations is not None:
        raw.relations = _relations(files.relations, raw)
    if files.types is not None:
        _types(files.types, raw)
    return raw


def _rows(file: InputFile, lang: str, reject: OnReject) -> Iterator[Row]:
    if file.form == "tsv":
        return tsv_rows(file, reject)
    return ntriples_rows(file, reject, lang) if file.form == "nt" else object_rows(file, reject)


def _triples(files: tuple[InputFile, ...], lang: str, rejects: list[Reject]) -> RawGraph:
    names: dict[str, int] = {}
    relations: dict[str, int] = {}
    heads, kinds, tails = array("i"), array("i"), array("i")
    said, places, lines = array("b"), array("h"), array("q")
    for place, file in enumerate(files):
        for number, head, relation, tail, is_entity in _rows(file, lang, rejects.append):
            heads.append(names.setdefault(head, len(names)))
            kinds.append(relations.setdefault(relation, len(relations)))
            tails.append(names.setdefault(tail, len(names)))
            said.append(_SAID[is_entity])
            places.append(place)
            lines.append(number)
    return RawGraph(
        names=list(names),
        relation_names=list(relations),
        head=np.array(heads, np.int32),
        relation=np.array(kinds, np.int32),
        tail=np.array(tails, np.int32),
        said=np.array(said, np.int8),
        file=np.array(places, np.int16),
        line=np.array(lines, np.int64),
        files=[file.name for file in files],
        rejects=rejects,
    )


def _entities(file: InputFile, raw: RawGraph) -> dict[str, NamedEntity]:
    found: dict[str, NamedEntity] = {}
    for number, row in objects_of(file, raw.rejects.append, _ENTITY):
        name = name_of(row.get("id"))
        problem = "id is absent or no name" if name is None else _wrong_entity(row)
        if name in found:
            problem = f"the id {name!r} stands in line {raw.described_at[name].line} already"
        if name is None or problem:
            reason = "repeated entity" if name in found else _ENTITY
            raw.rejects.append(Reject(number, reason, problem, file.name))
            continue
        label = row.get("label")
        found[name] = NamedEntity(
            label if isinstance(label, str) else "",
            tuple(_texts(row.get("aliases"))),
            row.get("description") or "",
            tuple(_texts(row.get("types"))),
        )
        raw.described_at[name] = Place(file.name, number)
    return found


def _wrong_entity(row: dict[str, Any]) -> str | None:
    for key in ("label", "description"):
        if not isinstance(row.get(key, ""), str | None):
            return f"{key} is {row[key]!r}, expected a text"[:200]
    for key in ("aliases", "types"):
        value = row.get(key)
        if value is None or isinstance(value, str):
            continue
        if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
            return f"{key} is {value!r}, expected a list of texts"[:200]
    return None


def _texts(value: Any) -> list[str]:
    """Return a list of texts that are not blank; one text stands for a list of one."""
    texts = [value] if isinstance(value, str) else value or []
    return [one.strip() for one in texts if one.strip()]


def _relations(file: InputFile, raw: RawGraph) -> dict[str, NamedRelation]:
    found: dict[str, NamedRelation] = {}
    for number, row in objects_of(file, raw.rejects.append, _RELATION):
        name = name_of(row.get("id"))
        problem = "id is absent or no name" if name is None else _wrong_relation(row)
        if name in found:
            problem = f"the id {name!r} stands in the file already"
        if name is None or problem:
            raw.rejects.append(Reject(number, _RELATION, problem, file.name))
            continue
        found[name] = NamedRelation(
            row.get("label") or "",
            row.get("domain") or None,
            row.get("range") or None,
            row.get("functional"),
            bool(row.get("complete")),
        )
    return found


def _wrong_relation(row: dict[str, Any]) -> str | None:
    for key in ("label", "domain", "range"):
        if not isinstance(row.get(key, ""), str | None):
            return f"{key} is {row[key]!r}, expected a text"[:200]
    for key in ("functional", "complete"):
        if not isinstance(row.get(key), bool | None):
            return f"{key} is {row[key]!r}, expected true or false"[:200]
    return None


def _types(file: InputFile, raw: RawGraph) -> None:
    """Read types: {id, label, parents}."""
    for number, row in objects_of(file, raw.rejects.append, _TYPE):
        name = name_of(row.get("id"))
        parents = row.get("parents")
        label = row.get("label") or ""
        good = isinstance(label, str) and isinstance(parents, str | list | None)
        if good and isinstance(parents, list):
            good = all(isinstance(one, str) for one in parents)
        if name is None or not good:
            detail = "expected id, label and a list of parents"
            raw.rejects.append(Reject(number, _TYPE, detail, file.name))
            continue
        if label:
            raw.type_labels[name] = label
        place = Place(file.name, number)
        raw.parents.extend(Wider(name, parent, place) for parent in _texts(parents))
