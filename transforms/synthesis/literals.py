"""Literal values: which are numbers with a unit, which are dates, which are texts."""

import datetime
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TypeVar

from transforms.synthesis.graph import Kind

T = TypeVar("T")

_LEAST_SHARE = 0.8

_NUMBER = re.compile(
    r"""(?P<sign>[-−+])?\s*(?P<prefix>US\$|[$¥€£￥])?\s*
    (?P<digits>\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)\s*
    (?P<times>万亿|千万|百万|亿|万|thousand|million|billion|trillion)?\s*
    (?P<unit>[^\d\s()（）,，;；:：~～、/+-][^\d()（）,，;；:：~～、+]{0,11})?
    \s*(?:[(（][^()（）]*[)）])?""",
    re.VERBOSE,
)
_TIMES: dict[str, int] = {
    "万": 10**4,
    "百万": 10**6,
    "千万": 10**7,
    "亿": 10**8,
    "万亿": 10**12,
    "thousand": 10**3,
    "million": 10**6,
    "billion": 10**9,
    "trillion": 10**12,
}
_SAME_UNITS = (("$", "US$", "美元", "美金"), ("¥", "￥", "元", "人民币", "元人民币"))
_ISO = re.compile(r"(\d{4})([-/.])(\d{1,2})(?:\2(\d{1,2}))?(?:[T ][\d:.]+(?:Z|[+-]\d\d:?\d\d)?)?Z?")
_CHINESE = re.compile(r"(\d{4})\s*年(?:\s*(\d{1,2})\s*月(?:\s*(\d{1,2})\s*[日号])?)?")
_MONTHS = "january february march april may june july august september october november december"
_MONTH = {
    name[:length]: number
    for number, name in enumerate(_MONTHS.split(), 1)
    for length in (3, len(name))
}
_DAY_FIRST = re.compile(r"(\d{1,2}) ([A-Za-z]{3,9})\.?,? (\d{4})")
_MONTH_FIRST = re.compile(r"([A-Za-z]{3,9})\.? (?:(\d{1,2}),? )?(\d{4})")
_BRACKETS = re.compile(r"\s*[(（][^()（）]*[)）]$")

_HUGE = 1e15
"""Larger numbers are identifiers."""


@dataclass(frozen=True, slots=True)
class Values:
    """The values of one attribute, read.

    Attributes:
        kind: what they are.
        unit: unit of numbers, or ``""``.
        read: [values] (text, number) or None where a value is not of this kind; the text of a date
            is ISO.
    """

    kind: Kind
    unit: str
    read: list[tuple[str, float] | None]


def read_values(texts: Sequence[str]) -> Values:
    """Decide what the values of an attribute are, and read them.

    They are dates or numbers where at least 80 % of them can be read as such with one precision or
    unit; the others among them are then no values.
    """
    dates = [read_date(text) for text in texts]
    length = _common(len(one) for one in dates if one)
    if _share(dates, lambda one: one is not None and len(one) == length):
        return Values(
            "date",
            "",
            [(one, math.nan) if one and len(one) == length else None for one in dates],
        )
    numbers = [read_number(text) for text in texts]
    unit = _common(one[1] for one in numbers if one and one[1]) or ""
    # 13 may well be 13 songs, but an amount without its currency is not known.
    good = next((set(same) for same in _SAME_UNITS if unit in same), {"", unit})
    if _share(numbers, lambda one: one is not None and one[1] in good):
        return Values(
            "number",
            unit,
            [
                (text.strip(), one[0]) if one and one[1] in good else None
                for text, one in zip(texts, numbers, strict=True)
            ],
        )
    return Values(
        "text", "", [(text.strip(), math.nan) if text.strip() else None for text in texts]
    )


def _common(items: Iterable[T]) -> T | None:
    """Return the most frequent item, the smallest of equals; None where there is none."""
    counts = Counter(items)
    return min(counts, key=lambda one: (-counts[one], str(one))) if counts else None


def _share(items: Sequence[T], good: Callable[[T], bool]) -> bool:
    return bool(items) and sum(map(good, items)) >= _LEAST_SHARE * len(items)


def read_number(text: str) -> tuple[float, str] | None:
    """Read a number and its unit: ``$1,200``, ``183cm``, ``2900万美元``, ``1.5 million``.

    Returns:
        The number and the unit, or None where the text is something else. Digits that begin with a
        zero, and numbers over 10**15, are names.
    """
    match = _NUMBER.fullmatch(text.strip())
    if match is None:
        return None
    digits = match["digits"].replace(",", "")
    if len(digits) > 1 and digits[0] == "0" and digits[1].isdigit():
        return None
    number = float(Decimal(digits) * _TIMES.get(match["times"] or "", 1))
    if number >= _HUGE:
        return None
    unit = (match["unit"] or "").strip()
    if len(unit.split()) > 2 or (unit and match["prefix"]):
        return None
    if match["sign"] in ("-", "−"):
        number = -number
    return number, unit or (match["prefix"] or "")


def read_date(text: str) -> str | None:
    """Read a date of the precision of a day, a month or a (Chinese) year as ISO text.

    Returns:
        ``2009-05-08``, ``2009-05`` or ``2009``; None where the text is no date, or none that
        exists. Four digits alone are a number.
    """
    text = _BRACKETS.sub("", text.strip())
    if match := _ISO.fullmatch(text):
        return _iso(match[1], match[3], match[4])
    if match := _CHINESE.fullmatch(text):
        return _iso(match[1], match[2], match[3])
    if match := _DAY_FIRST.fullmatch(text):
        return _iso(match[3], _MONTH.get(match[2].lower()), match[1])
    if match := _MONTH_FIRST.fullmatch(text):
        month = _MONTH.get(match[1].lower())
        return _iso(match[3], month, match[2]) if month else None
    return None


def _iso(year: str, month: str | int | None, day: str | None) -> str | None:
    try:
        date = datetime.date(int(year), int(month or 1), int(day or 1))
    except ValueError:
        return None
    if month is None:
        return f"{date.year:04d}" if day is None else None
    return date.isoformat() if day is not None else date.isoformat()[:7]
