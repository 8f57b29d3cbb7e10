"""Pieces of the charts: a plane with axes, boxes, lines, words. Places are in pixels."""

import math
from collections.abc import Sequence

from catalog.report.text import cut, escaped, number

WIDTH = 760
HEIGHT = 230
"""Of charts with a vertical axis."""
LABELS = 190
"""Width of the labels of horizontal bars."""
ROOM = WIDTH - LABELS - 140
"""Width of the longest horizontal bar; the rest is for its value."""
COLOURS = 8
"""Classes ``s0``, ``s1``, ...: colours of the page's style, for light and dark."""

LEFT, TOP = 52, 8
PLANE_WIDTH = WIDTH - LEFT - 12
PLANE_HEIGHT = HEIGHT - TOP - 30
BASE = TOP + PLANE_HEIGHT


def place(value: float) -> str:
    """Return a coordinate, to the tenth of a pixel."""
    return f"{value:.1f}".removesuffix(".0")


def box(x: float, y: float, width: float, height: float, colour: int, said: str) -> str:
    """Return a filled box that says what it is when pointed at."""
    return (
        f'<rect class="s{colour % COLOURS}" x="{place(x)}" y="{place(y)}" width="{place(width)}" '
        f'height="{place(height)}"><title>{escaped(said)}</title></rect>'
    )


def words(x: float, y: float, text: str, anchor: str = "start") -> str:
    """Return a text; anchor: start, middle or end."""
    return f'<text x="{place(x)}" y="{place(y)}" text-anchor="{anchor}">{escaped(text)}</text>'


def row_label(label: str, y: float) -> str:
    """Return the label of a horizontal bar whose middle is at y."""
    shown = words(LABELS - 8, y + 4, cut(label, 28), "end")
    return shown.replace("<text ", "<text class='label' ").replace(
        "</text>", f"<title>{escaped(label)}</title></text>"
    )


def line(points: Sequence[tuple[float, float]], colour: int) -> str:
    """Return a line through points, with dots where these are few."""
    shown = f"s{colour % COLOURS}"
    dots = [f'<circle class="{shown}" cx="{place(x)}" cy="{place(y)}" r="2"/>' for x, y in points]
    path = " L".join(f"{place(x)} {place(y)}" for x, y in points)
    drawn = f'<path class="line {shown}" d="M{path}"/>' if len(points) > 1 else ""
    return drawn + ("".join(dots) if len(points) <= 60 else "")


def height_axis(low: float, high: float) -> list[str]:
    """Return the lines and numbers of a vertical axis."""
    parts = []
    for tick in nice_ticks(low, high):
        y = BASE - PLANE_HEIGHT * (tick - low) / ((high - low) or 1.0)
        parts.append(f'<path class="grid" d="M{LEFT} {place(y)} h{PLANE_WIDTH}"/>')
        parts.append(words(LEFT - 6, y + 4, number(tick, short=True), "end"))
    return parts


def nice_ticks(low: float, high: float) -> list[float]:
    """Return some round numbers from low to high."""
    spread = high - low
    if not (spread > 0 and math.isfinite(spread)):
        return [low]
    step = 10.0 ** math.floor(math.log10(spread / 4))
    step *= next((m for m in (1, 2, 5) if spread / (step * m) <= 5), 10)
    first = math.ceil(low / step - 1e-9)
    return [n * step for n in range(first, math.floor(high / step + 1e-9) + 1)]


def chart(title: str, mark: str, height: float, parts: Sequence[str]) -> str:
    """Return a whole drawing; its parts have titles of their own.

    Args:
        title: what the drawing shows, for those who do not see it.
        mark: a name for the title, unique in the page.
        height: of the drawing.
        parts: what is in it.
    """
    return (
        f'<svg viewBox="0 0 {WIDTH} {place(height)}" role="img" aria-labelledby="{escaped(mark)}">'
        f'<title id="{escaped(mark)}">{escaped(title)}</title>{"".join(parts)}</svg>'
    )


def legend(names: Sequence[str]) -> str:
    """Return the names of the series with their colours; nothing for a single one."""
    if len(names) < 2:
        return ""
    items = "".join(
        f'<li><span class="key k{i % COLOURS}"></span>{escaped(name.strip("_").replace("_", " "))}</li>'
        for i, name in enumerate(names)
    )
    return f'<ul class="legend">{items}</ul>'
