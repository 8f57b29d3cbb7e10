"""Drawing the rows of a figure as SVG, by hand: no library, no script, no outside file."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from catalog.report import svg
from catalog.report.figure import Answer
from catalog.report.text import number

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Series:
    """A column of numbers; missing ones are None."""

    name: str
    values: list[float | None]
    most: float
    """What fills the whole length of its axis."""


def draw(answer: Answer) -> str:
    """Return legend and drawing of a figure; nothing for one that is shown as text."""
    painter = _PAINTERS.get(answer.figure.chart)
    if painter is None or not answer.rows:
        return ""
    names, height, parts = painter(answer)
    mark = f"drawing-{answer.figure.id}"
    return svg.legend(names) + svg.chart(answer.figure.title, mark, height, parts)


_Drawing = tuple[list[str], float, list[str]]
"""Names of the series, height, parts."""


def _bars(answer: Answer) -> _Drawing:
    series = _series(answer, 1)
    thick = 14 if len(series) == 1 else 12
    step = thick * len(series) + 8
    parts = []
    for i, row in enumerate(answer.rows):
        top = i * step + 4
        parts.append(svg.row_label(_label(row[0]), top + (step - 8) / 2))
        for s, one in enumerate(series):
            value = one.values[i]
            if value is None:
                continue
            width = svg.ROOM * max(0.0, value) / one.most
            y, shown = top + s * thick, number(row[answer.columns.index(one.name)], digits=4)
            said = f"{_label(row[0])}, {one.name}: {shown}"
            parts.append(svg.box(svg.LABELS, y, width, thick - 1, s, said))
            parts.append(svg.words(svg.LABELS + width + 5, y + thick / 2 + 3.5, shown))
    return [one.name for one in series], len(answer.rows) * step + 8, parts


def _shares(answer: Answer) -> _Drawing:
    labels = _distinct(_label(row[0]) for row in answer.rows)
    names = _distinct(_label(row[1]) for row in answer.rows)
    parts = []
    for i, label in enumerate(labels):
        found = [
            (_label(row[1]), _float(row[2]) or 0.0)
            for row in answer.rows
            if _label(row[0]) == label
        ]
        top, left, total = i * 24 + 4, float(svg.LABELS), sum(value for _, value in found)
        parts.append(svg.row_label(label, top + 8))
        for name, value in found:
            share = value / total if total else 0.0
            width = (svg.WIDTH - svg.LABELS - 8) * share
            said = f"{label}, {name}: {number(value)} ({100 * share:.1f} %)"
            parts.append(svg.box(left, top, width, 16, names.index(name), said))
            left += width
    return names, len(labels) * 24 + 8, parts


def _histogram(answer: Answer) -> _Drawing:
    series = _series(answer, 2)
    slot = svg.PLANE_WIDTH / len(answer.rows)
    thick = min(48.0, slot * 0.86 / len(series))
    same = len({one.most for one in series}) == 1
    parts = svg.height_axis(0.0, series[0].most) if same else []
    for i, row in enumerate(answer.rows):
        first = svg.LEFT + i * slot + (slot - thick * len(series)) / 2
        bin_ = number(row[0]) if row[0] == row[1] else f"{number(row[0])} to {number(row[1])}"
        for s, one in enumerate(series):
            value = one.values[i] or 0.0
            tall = svg.PLANE_HEIGHT * value / one.most
            said = f"{bin_}: {number(value)} {one.name}"
            width = max(thick - 1, 0.5)
            parts.append(svg.box(first + s * thick, svg.BASE - tall, width, tall, s, said))
        if i % math.ceil(len(answer.rows) / 14) == 0:
            middle = svg.LEFT + (i + 0.5) * slot
            parts.append(svg.words(middle, svg.BASE + 16, number(row[0], short=True), "middle"))
    names = [one.name if same else f"{one.name} (most: {number(one.most)})" for one in series]
    return names, svg.HEIGHT, parts


def _lines(answer: Answer) -> _Drawing:
    xs = [_float(row[0]) or 0.0 for row in answer.rows]
    series = _series(answer, 1)
    found = [v for one in series for v in one.values if v is not None] or [0.0]
    low, high = min(found), max(found)
    if 0 <= low < 0.5 * high:
        low = 0.0
    spread = (high - low) or abs(high) or 1.0
    parts = svg.height_axis(low, low + spread)
    first, width = xs[0], (xs[-1] - xs[0]) or 1.0
    for s, one in enumerate(series):
        points = [
            (
                svg.LEFT + svg.PLANE_WIDTH * (x - first) / width,
                svg.BASE - svg.PLANE_HEIGHT * (v - low) / spread,
            )
            for x, v in zip(xs, one.values, strict=True)
            if v is not None
        ]
        parts.append(svg.line(points, s))
    for x in (first, xs[-1]) if len(xs) > 1 else (first,):
        at = svg.LEFT + svg.PLANE_WIDTH * (x - first) / width
        said = f"{answer.columns[0]} {number(x)}"
        parts.append(svg.words(at, svg.BASE + 16, said, "start" if x == first else "end"))
    return [one.name for one in series], svg.HEIGHT, parts


def _ranges(answer: Answer) -> _Drawing:
    labels = _distinct(_label(row[0]) for row in answer.rows)
    names = _distinct(_label(row[1]) for row in answer.rows)
    most = max((_float(row[4]) or 0.0 for row in answer.rows), default=0.0) or 1.0
    step = 14 * len(names) + 10
    parts = [svg.row_label(label, i * step + 4 + 7 * len(names)) for i, label in enumerate(labels)]
    for row in answer.rows:
        low, middle, high = (_float(value) or 0.0 for value in row[2:5])
        s = names.index(_label(row[1]))
        y = labels.index(_label(row[0])) * step + 4 + s * 14
        left, right, mark = (svg.LABELS + svg.ROOM * v / most for v in (low, high, middle))
        said = f"{_label(row[0])}, {names[s]}: {number(low)}, {number(middle)}, {number(high)}"
        parts.append(svg.box(left, y + 3, max(right - left, 1.0), 7, s, said))
        parts.append(f'<path class="mark" d="M{svg.place(mark)} {svg.place(y)} v13"/>')
        shown = ", ".join(number(v, short=True) for v in (low, middle, high))
        parts.append(svg.words(right + 6, y + 10, shown))
    return names, len(labels) * step + 8, parts


def _areas(answer: Answer) -> _Drawing:
    xs = _distinct(row[0] for row in answer.rows)
    names = _distinct(_label(row[1]) for row in answer.rows)
    slot = svg.PLANE_WIDTH / len(xs)
    parts = svg.height_axis(0.0, 1.0)
    for i, x in enumerate(xs):
        found = {_label(r[1]): _float(r[2]) or 0.0 for r in answer.rows if r[0] == x}
        total, y = sum(found.values()) or 1.0, float(svg.BASE)
        for s, name in enumerate(names):
            share = found.get(name, 0.0) / total
            y -= svg.PLANE_HEIGHT * share
            if share:
                said = f"from {answer.columns[0]} {number(x)}: {100 * share:.1f} % {name}"
                tall = svg.PLANE_HEIGHT * share
                parts.append(svg.box(svg.LEFT + i * slot, y, slot, tall, s, said))
    parts.append(svg.words(svg.LEFT, svg.BASE + 16, f"{answer.columns[0]} {number(xs[0])}"))
    end = svg.LEFT + svg.PLANE_WIDTH
    parts.append(svg.words(end, svg.BASE + 16, f"from {number(xs[-1])}", "end"))
    return names, svg.HEIGHT, parts


_PAINTERS: dict[str, Callable[[Answer], _Drawing]] = {
    "bars": _bars,
    "shares": _shares,
    "histogram": _histogram,
    "lines": _lines,
    "ranges": _ranges,
    "areas": _areas,
}


def _series(answer: Answer, first: int) -> list[_Series]:
    """Return the columns that hold numbers, from one on."""
    columns = []
    for at in range(first, len(answer.columns)):
        values = [_float(row[at]) for row in answer.rows]
        if any(value is not None for value in values):
            columns.append((answer.columns[at], values))
    peaks = [max((v for v in values if v is not None), default=0.0) for _, values in columns]
    if not answer.figure.own_scales:
        peaks = [max(peaks, default=0.0)] * len(peaks)
    return [
        _Series(name, values, peak if peak > 0 else 1.0)
        for (name, values), peak in zip(columns, peaks, strict=True)
    ] or [_Series("", [None] * len(answer.rows), 1.0)]


def _float(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value)


def _label(value: object) -> str:
    return "none" if value is None else str(value)


def _distinct(values: Iterable[T]) -> list[T]:
    return list(dict.fromkeys(values))
