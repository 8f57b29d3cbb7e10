"""From TOML to frozen dataclasses, strictly: every mistake in one go, with a remedy.

A field's annotation says what it takes: ``int``, ``float``, ``bool``, ``str``, a dataclass, a
``Literal``, a fixed ``tuple``, any of these ``| None``, and ``Annotated`` with a bound.
"""

import dataclasses
import difflib
import math
import tomllib
import types
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")

_NAMES = {int: "a whole number", float: "a number", bool: "true or false", str: "a text in quotes"}


@dataclasses.dataclass(frozen=True, slots=True)
class Minimum:
    """A bound: the value is not below ``limit``."""

    limit: float

    def __str__(self) -> str:
        return f"at least {self.limit:g}"

    def holds(self, value: float) -> bool:
        """Say whether a value is within the bound."""
        return value >= self.limit


@dataclasses.dataclass(frozen=True, slots=True)
class Maximum:
    """A bound: the value is not above ``limit``."""

    limit: float

    def __str__(self) -> str:
        return f"at most {self.limit:g}"

    def holds(self, value: float) -> bool:
        """Say whether a value is within the bound."""
        return value <= self.limit


@dataclasses.dataclass(frozen=True, slots=True)
class MoreThan:
    """A bound: the value is above ``limit``."""

    limit: float

    def __str__(self) -> str:
        return f"more than {self.limit:g}"

    def holds(self, value: float) -> bool:
        """Say whether a value is within the bound."""
        return value > self.limit


@dataclasses.dataclass(frozen=True, slots=True)
class Below:
    """A bound: the value is below ``limit``."""

    limit: float

    def __str__(self) -> str:
        return f"below {self.limit:g}"

    def holds(self, value: float) -> bool:
        """Say whether a value is within the bound."""
        return value < self.limit


class Problem(ValueError):  # noqa: N818 - collected far more often than raised
    """One mistake: a key (empty for the file as a whole), and what is wrong and to be done."""

    def __init__(self, key: str, text: str) -> None:
        super().__init__(key, text)
        self.key = key
        self.text = text

    def line(self, origin: str) -> str:
        """Return the mistake as one line; ``origin`` is the file."""
        text = " ".join(self.text.split())
        return f"{origin}: {self.key}: {text}" if self.key else f"{origin}: {text}"

    @classmethod
    def choice(cls, key: str, found: object, choices: Iterable[object]) -> "Problem":
        """Return the mistake of a value that is none of those to choose from."""
        names = [str(choice) for choice in choices]
        return cls(key, f"{_show(found)} is none of {', '.join(names)}{_hint(str(found), names)}")


def read_toml(path: Path) -> dict[str, Any]:
    """Parse a TOML file.

    Raises:
        Problem: it cannot be read, or is no TOML.
    """
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise Problem("", "not found; give the path of a TOML file") from None
    except OSError as error:
        raise Problem("", f"cannot be read ({error.strerror}); give a TOML file") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise Problem("", f"is no TOML ({error}); mend that line") from None


def read_settings(
    kind: type[T], raw: Mapping[str, Any], refused: Mapping[tuple[str, Any], str]
) -> tuple[T | None, list[Problem]]:
    """Build a dataclass from parsed TOML.

    Args:
        kind: the dataclass.
        raw: the parsed file.
        refused: (key, value) pairs with a message of their own.

    Returns:
        The settings, or None where there are mistakes; and the mistakes.
    """
    reader = _Reader(refused)
    value = reader.table(kind, raw, "")
    return (None if reader.problems else value), reader.problems


class _Reader:
    """Walks a dataclass and the TOML beside it, collecting mistakes."""

    def __init__(self, refused: Mapping[tuple[str, Any], str]) -> None:
        self.problems: list[Problem] = []
        self._refused = refused

    def table(self, kind: type[Any], raw: Mapping[str, Any], prefix: str) -> Any:
        hints = get_type_hints(kind, include_extras=True)
        fields = {f.name: f for f in dataclasses.fields(kind)}
        for name in raw:
            if name not in fields:
                hint = _hint(name, fields)
                self._say(
                    prefix + name, f"unknown key{hint or '; it can have ' + ', '.join(fields)}"
                )
        values = {}
        before = len(self.problems)
        for name, field in fields.items():
            key = prefix + name
            if name in raw:
                values[name] = self.value(hints[name], raw[name], key)
            elif dataclasses.is_dataclass(hints[name]) and _required(field):
                # An absent table has the mistakes of an empty one: the keys that it must hold.
                values[name] = self.table(_class(hints[name]), {}, key + ".")
            elif _required(field):
                self._say(key, f"missing; {_expected(hints[name])} is needed")
        return kind(**values) if len(self.problems) == before else None

    def value(self, hint: Any, raw: Any, key: str) -> Any:
        if (key, raw if isinstance(raw, str) else None) in self._refused:
            return self._say(key, f"{_show(raw)}: {self._refused[key, raw]}")
        kind, bounds = _unwrap(hint)
        if dataclasses.is_dataclass(kind):
            if isinstance(raw, dict):
                return self.table(_class(kind), raw, key + ".")
            return self._say(key, f"expected a table [{key}], found {_show(raw)}")
        if get_origin(kind) is Literal:
            if raw in get_args(kind) and isinstance(raw, str):
                return raw
            self.problems.append(Problem.choice(key, raw, get_args(kind)))
            return None
        if get_origin(kind) is tuple:
            return self._items(get_args(kind), raw, key)
        return self._scalar(kind, bounds, raw, key)

    def _items(self, kinds: tuple[Any, ...], raw: Any, key: str) -> Any:
        if not isinstance(raw, list) or len(raw) != len(kinds):
            wanted = ", ".join(_expected(kind) for kind in kinds)
            return self._say(key, f"expected a list of {len(kinds)} ({wanted}), found {_show(raw)}")
        return tuple(
            self.value(kind, item, f"{key}[{i}]")
            for i, (kind, item) in enumerate(zip(kinds, raw, strict=True))
        )

    def _scalar(self, kind: type, bounds: tuple[Any, ...], raw: Any, key: str) -> Any:
        value: Any = float(raw) if kind is float and type(raw) is int else raw
        fits = type(value) is kind and not (isinstance(value, float) and not math.isfinite(value))
        if not fits or not all(bound.holds(value) for bound in bounds):
            return self._say(key, f"expected {_expected(kind, bounds)}, found {_show(raw)}")
        return value

    def _say(self, key: str, text: str) -> None:
        self.problems.append(Problem(key, text))


def _required(field: "dataclasses.Field[Any]") -> bool:
    missing = dataclasses.MISSING
    return field.default is missing and field.default_factory is missing


def _class(hint: Any) -> type[Any]:
    kind: type[Any] = hint
    return kind


def _unwrap(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    """Return (type, bounds) of an annotation; ``| None`` says only that the key may be absent."""
    if get_origin(hint) in (Union, types.UnionType):
        (hint,) = (arg for arg in get_args(hint) if arg is not type(None))
    if get_origin(hint) is Annotated:
        kind, *bounds = get_args(hint)
        return kind, tuple(bounds)
    return hint, ()


def _expected(hint: Any, bounds: tuple[Any, ...] = ()) -> str:
    kind, own = _unwrap(hint)
    name = _NAMES.get(kind, "a value")
    limits = " and ".join(str(bound) for bound in (*own, *bounds))
    return f"{name} {limits}".rstrip()


def _hint(found: str, names: Iterable[str]) -> str:
    close = difflib.get_close_matches(found, list(names), n=1, cutoff=0.6)
    return f"; did you mean {close[0]}?" if close else ""


def _show(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return f'"{value}"' if isinstance(value, str) else str(value)
