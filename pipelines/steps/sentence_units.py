"""The sentences of an ingest file as two Parquet files: its documents' sentences, and their forms.

A form is kept once per file, with a number; a document is the list of the numbers of its sentences.
Neither thresholds nor what other stages removed changes them, so they serve later runs.
"""

import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipelines.corpus import Corpus
from pipelines.steps.columns import row_groups
from transforms.record import RecordError
from transforms.sentence_forms import Forms, unit_forms
from transforms.sentence_interning import Interner
from transforms.sentence_near import LEAST_NEAR, MOST_NEAR, copy_texts
from transforms.sentence_quality import qualities
from transforms.sentence_split import Units, split_units
from transforms.sentences import SentenceSettings
from transforms.shingles import text_blocks

DOCUMENTS = pa.schema(
    [
        pa.field("doc_uid", pa.int64(), nullable=False),
        pa.field("source", pa.string(), nullable=False),
        pa.field("domain", pa.string(), nullable=False),
        pa.field("n_chars", pa.int64(), nullable=False),
        # Of ``quality_column``.
        pa.field("value", pa.float64()),
        # Numbers of forms; see FEW, WORDLESS and HALVES for sentences that are not counted.
        pa.field("forms", pa.list_(pa.field("element", pa.int32(), nullable=False))),
        pa.field("chars", pa.list_(pa.field("element", pa.int32(), nullable=False))),
        # Whether each is a line of its own.
        pa.field("alone", pa.list_(pa.field("element", pa.bool_(), nullable=False))),
    ]
)
FORMS = pa.schema(
    [
        # 64 bits, as a signed integer.
        pa.field("hash", pa.int64(), nullable=False),
        pa.field("size", pa.int32(), nullable=False),
        # Characters, ideographs counted twice.
        pa.field("weight", pa.int32(), nullable=False),
        pa.field("quality", pa.float64(), nullable=False),
        # As the file has it first; null for forms that are compared with no other.
        pa.field("text", pa.string()),
    ]
)

WORDLESS, FEW, HALVES = -1, -2, -3
"""In place of a form's number: no word, and a sentence that stays whatever other documents have.
From HALVES down, a line that looks like half of a wrapped sentence: HALVES - the form's number. It
is not counted, and goes where the form does: such a line was put between the halves of another."""
HALF_LEAST = 20
"""Characters that such a line has at least, ideographs counted twice."""


@dataclass(frozen=True, slots=True)
class UnitFiles:
    """What :func:`write_units` wrote."""

    documents: int
    sentences: int
    forms: int


def write_units(
    path: Path,
    documents: Path,
    forms: Path,
    settings: SentenceSettings,
    weights: npt.NDArray[np.float64],
) -> UnitFiles:
    """Write the sentences of an ingest file's documents, atomically.

    Args:
        path: the ingest file.
        documents: file to write, columns of DOCUMENTS.
        forms: file to write, columns of FORMS.
        settings: what a unit is, and which ones are counted.
        weights: of the quality model.

    Raises:
        RecordError: ``quality_column`` holds no numbers.
    """
    column = _quality_column(path, settings.quality_column)
    names = ["doc_uid", "source", "domain", "n_chars", "reason", "text"]
    interner = Interner()
    found = {"documents": 0, "sentences": 0}
    with _Writer(documents, DOCUMENTS) as rows, _Writer(forms, FORMS) as distinct:
        for group in row_groups(path, [*names, *([column] if column else [])]):
            live = group.filter(pc.is_null(group["reason"]))
            del group
            ids, chars, lines, counts = [], [], [], []
            for texts in text_blocks(live["text"]):
                units = split_units(texts, sentences=settings.unit == "sentence")
                found_forms = unit_forms(units)
                alone = _lines_alone(units)
                numbers, new = _numbered(interner, units, found_forms, alone, settings)
                distinct.write(_form_rows(units, found_forms, new, weights, settings))
                ids.append(numbers)
                chars.append(found_forms.chars)
                lines.append(alone)
                counts.append(np.diff(units.offsets))
            if len(live):
                table = _document_rows(live, column, (ids, chars, lines), counts)
                rows.write(table)
                found["documents"] += len(table)
                found["sentences"] += sum(map(len, ids))
    return UnitFiles(forms=len(interner), **found)


def _numbered(
    interner: Interner,
    units: Units,
    forms: Forms,
    alone: npt.NDArray[np.bool_],
    settings: SentenceSettings,
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
    """Return the number of each unit's form, or what stands for it; and the places of new forms."""
    whole = units.places[:, 5] == 0
    enough = forms.sizes >= max(settings.min_chars, 1)
    halves = ~whole & enough & alone & (forms.weights >= HALF_LEAST)
    numbers, new = interner.add(forms.hashes, (whole & enough) | halves)
    numbers[halves] = HALVES - numbers[halves]
    numbers[(forms.sizes > 0) & (numbers == WORDLESS)] = FEW
    return numbers, new


def _lines_alone(units: Units) -> npt.NDArray[np.bool_]:
    """Return whether each unit is the only one of its line."""
    lines = units.places[:, 3]
    apart = lines[1:] != lines[:-1]
    alone: npt.NDArray[np.bool_] = np.concatenate([[True], apart]) & np.concatenate([apart, [True]])
    return alone if len(lines) else alone[:0]


def check_quality_column(corpus: Corpus, name: str | None) -> None:
    """Check that a source has the column of qualities.

    Raises:
        RecordError: none has.
    """
    folder = corpus.folder("ingest")
    entries = corpus.manifest("ingest").entries()
    if name is not None and not any(
        name in pq.read_schema(folder / entry.name).names for entry in entries
    ):
        raise RecordError(
            f"dedupe.sentence.quality_column {name!r}: no document has it; keep it with "
            "`columns` of a source"
        )


def _quality_column(path: Path, name: str | None) -> str | None:
    """Return the column's name where the file has it.

    Raises:
        RecordError: it holds no numbers.
    """
    schema = pq.read_schema(path)
    if name is None or name not in schema.names:
        return None
    kind = schema.field(name).type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_null(kind)):
        raise RecordError(
            f"dedupe.sentence.quality_column {name!r} is {kind} in {path}; name a column of numbers"
        )
    return name


def _document_rows(
    live: pa.Table,
    column: str | None,
    lists: tuple[list[npt.NDArray[np.int32]], list[npt.NDArray[np.int32]], list[Any]],
    counts: list[npt.NDArray[np.int64]],
) -> pa.Table:
    offsets = np.concatenate([[0], np.cumsum(np.concatenate(counts))]).astype(np.int32)
    values = live[column].cast(pa.float64()) if column else pa.nulls(len(live), pa.float64())
    arrays = [
        pa.ListArray.from_arrays(
            pa.array(offsets), pa.array(np.concatenate(parts)), type=DOCUMENTS.field(name).type
        )
        for name, parts in zip(("forms", "chars", "alone"), lists, strict=True)
    ]
    facts = [live[name] for name in ("doc_uid", "source", "domain", "n_chars")]
    return pa.table([*facts, values, *arrays], schema=DOCUMENTS)


def _form_rows(
    units: Units,
    forms: Forms,
    new: npt.NDArray[np.int64],
    weights: npt.NDArray[np.float64],
    settings: SentenceSettings,
) -> pa.Table:
    """Return the rows of the forms whose first units are ``new``."""
    quality = qualities(units, new, forms.labelled[new], weights)
    sizes = forms.sizes[new]
    near = ~forms.labelled[new] & (sizes >= LEAST_NEAR) & (sizes <= MOST_NEAR)
    near &= quality < settings.near_quality
    return pa.table(
        [
            pa.array(forms.hashes[new].view(np.int64)),
            pa.array(sizes),
            pa.array(forms.weights[new]),
            pa.array(quality),
            _texts(units, new, near),
        ],
        schema=FORMS,
    )


def _texts(
    units: Units, new: npt.NDArray[np.int64], wanted: npt.NDArray[np.bool_]
) -> pa.StringArray:
    """Return the texts of the wanted ones of some units, null for the others."""
    offsets, data = copy_texts(units.data, units.places, new[wanted])
    texts = pa.StringArray.from_buffers(
        len(offsets) - 1, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(data)
    )
    place = np.cumsum(wanted) - 1
    return texts.take(pa.array(place, pa.int64(), mask=~wanted))


class _Writer:
    """A Parquet file that appears when it is complete."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self._path = path
        self._temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.tmp")
        random = {"hash"}
        self._writer = pq.ParquetWriter(
            self._temporary,
            schema,
            compression={name: "none" if name in random else "zstd" for name in _leaves(schema)},
            use_dictionary=["source", "domain"],
            write_statistics=["doc_uid"],
        )

    def __enter__(self) -> "_Writer":
        return self

    def write(self, table: pa.Table) -> None:
        """Write a row group."""
        if len(table):
            self._writer.write_table(table)

    def __exit__(self, kind: object, *rest: object) -> None:
        self._writer.close()
        if kind is None:
            self._temporary.replace(self._path)


def _leaves(schema: pa.Schema) -> list[str]:
    """Return the names of the columns as Parquet knows them."""
    return [
        f"{field.name}.list.element" if pa.types.is_list(field.type) else field.name
        for field in schema
    ]
