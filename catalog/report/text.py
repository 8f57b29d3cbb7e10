"""Values as text of a page: escaped, cut, and numbers to be read."""

import html
import re

_CONTROLS = {code: 0x2400 + code for code in range(32) if code not in (9, 10)} | {0x7F: 0x2421}
# Signs that turn the direction of what follows; shown, since a text is to be read as it is stored.
_TURNS = {code: f"<U+{code:04X}>" for code in (*range(0x202A, 0x202F), *range(0x2066, 0x206A))}
_SURROGATES = re.compile("[\ud800-\udfff]")
_UNITS = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def escaped(value: object) -> str:
    """Return any text for HTML and SVG: no markup, no control characters, no lone surrogates."""
    shown = str(value).translate(_CONTROLS).translate(_TURNS)
    return html.escape(_SURROGATES.sub("\ufffd", shown), quote=True)


def cut(text: str, most: int) -> str:
    """Return a text of at most so many characters, with a mark where it was cut."""
    return text if len(text) <= most else text[: most - 1] + "…"


def number(value: object, *, short: bool = False, digits: int = 6) -> str:
    """Return a number with thousands separated, or with a unit where it has to be short."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return "" if value is None else str(value)
    if short:
        for size, unit in _UNITS:
            if abs(value) >= size:
                return f"{value / size:.3g}{unit}"
        return f"{value:.3g}"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.0f}" if abs(value) >= 1e6 else f"{value:,.{digits}g}"
