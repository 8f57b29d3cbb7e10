"""Vectors that come with the documents: read from a column, checked, scaled to length 1."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa

Matrix = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class GivenVectors:
    """Some rows of a column of vectors."""

    vectors: Matrix
    """[rows, width], as they were given; rows with a problem are zero."""
    problems: dict[int, str] = field(default_factory=dict)
    """Row -> what is wrong with it, with the value found; ascending."""


def read_vectors(column: pa.Array, width: int) -> GivenVectors:
    """Read vectors of a column.

    Args:
        column: lists of numbers, or strings that hold them as JSON arrays.
        width: numbers that every vector must have.
    """
    if not pa.types.is_list(column.type):
        return _from_values([_parsed(value) for value in column.to_pylist()], width)
    vectors = np.zeros((len(column), width))
    problems: dict[int, str] = {}
    lengths = column.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
    null = column.is_null().to_numpy(zero_copy_only=False)
    for row in np.flatnonzero(null | (lengths != width)).tolist():
        problems[row] = _MISSING if null[row] else _of_width(int(lengths[row]), width)
    full = ~null & (lengths == width)
    flat = column.filter(pa.array(full)).flatten()
    numbers = flat.cast(pa.float64()).to_numpy(zero_copy_only=False)
    vectors[full] = numbers.reshape(-1, width)
    wrong = ~np.isfinite(vectors).all(axis=1)
    if wrong.any():
        places = np.cumsum(full) - 1
        for row in np.flatnonzero(wrong).tolist():
            place = int(np.flatnonzero(~np.isfinite(vectors[row]))[0])
            # A null reads as nan.
            found = flat[int(places[row]) * width + place].as_py()
            problems[row] = f"{'null' if found is None else found} at place {place} of its vector"
        vectors[wrong] = 0
    return GivenVectors(vectors, dict(sorted(problems.items())))


def unit_vectors(vectors: Matrix) -> npt.NDArray[np.float16]:
    """Return vectors of length 1, float16 of the same shape; zeros stay zeros.

    Args:
        vectors: finite numbers, [rows, width].
    """
    largest = np.abs(vectors).max(axis=1, initial=0.0, keepdims=True)
    scaled = np.divide(vectors, largest, out=np.zeros_like(vectors), where=largest > 0)
    # Summed over the first axis, which is done in its order whatever the machine.
    squares = np.ascontiguousarray((scaled * scaled).T).sum(axis=0)
    length = np.sqrt(squares)[:, None]
    unit = np.divide(scaled, length, out=np.zeros_like(vectors), where=length > 0)
    halves: npt.NDArray[np.float16] = unit.astype(np.float16)
    return halves


_MISSING = "no vector (null)"


def _of_width(found: int, width: int) -> str:
    return f"a vector of {found} numbers, not {width}"


def _from_values(values: list[Any], width: int) -> GivenVectors:
    vectors = np.zeros((len(values), width))
    problems = {}
    for row, value in enumerate(values):
        problem = _problem(value, width)
        if problem:
            problems[row] = problem
        else:
            vectors[row] = value
    return GivenVectors(vectors, problems)


def _problem(value: Any, width: int) -> str:
    if value is None:
        return _MISSING
    if not isinstance(value, list):
        return f"{str(value)[:60]!r}, which is no array of numbers"
    if len(value) != width:
        return _of_width(len(value), width)
    for place, number in enumerate(value):
        if type(number) not in (int, float) or not np.isfinite(float(number)):
            return f"{str(number)[:60] if number is not None else 'null'} at place {place} of its vector"
    return ""


def _parsed(value: Any) -> Any:
    """Return the JSON array that a string holds, any other value as it is."""
    if not isinstance(value, str):
        return value
    try:
        found = orjson.loads(value)
    except orjson.JSONDecodeError:
        return value
    return found if isinstance(found, list) else value
