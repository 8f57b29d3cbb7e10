"""Changes to a recipe from the command line: ``--set pack.seq_len=8192``."""

import tomllib
from collections.abc import Sequence
from typing import Any

from pipelines.recipe_problems import Keys, shown


def parse_override(text: str) -> tuple[Keys, Any]:
    """Split ``key.path=VALUE``; the value is TOML.

    Raises:
        ValueError: no key, or a value that is not TOML.
    """
    key, equals, value = text.partition("=")
    if not equals:
        raise ValueError(f"expected KEY=VALUE, found {text!r}; write for example seed=7")
    try:
        node: Any = tomllib.loads(f"{key} = 0")
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{key!r} is not a key path ({error}); write a.b.c=VALUE") from error
    keys: list[str | int] = []
    while isinstance(node, dict) and len(node) == 1:
        name, node = next(iter(node.items()))
        keys.append(name)
    try:
        parsed = tomllib.loads(f"value = {value}")
    except tomllib.TOMLDecodeError as error:
        raise ValueError(
            f"{value!r} is not a TOML value ({error}); strings need quotes, and the shell wants "
            f"them quoted again: --set '{key}=\"{value}\"'"
        ) from error
    if node != 0 or set(parsed) != {"value"}:
        raise ValueError(f"expected one KEY=VALUE, found {text!r}; give --set once for each key")
    return tuple(keys), parsed["value"]


def apply_overrides(
    raw: dict[str, Any], overrides: Sequence[str]
) -> tuple[dict[Keys, str], list[str]]:
    """Set the keys of a parsed recipe, in place.

    A list of tables is addressed by position or by name: ``sources.0.path``, ``sources.peps.path``.

    Args:
        raw: the parsed recipe.
        overrides: ``key.path=VALUE`` each; a later one wins.

    Returns:
        The text of the override that set each key path, and a line for each override that cannot
        be applied.
    """
    origins: dict[Keys, str] = {}
    mistakes = []
    for text in overrides:
        try:
            keys, value = parse_override(text)
            origins[_assign(raw, keys, value)] = text
        except ValueError as error:
            mistakes.append(f"--set {text}: {error}")
    return origins, mistakes


def _assign(raw: dict[str, Any], keys: Keys, value: Any) -> Keys:
    """Set one key and return its path with list positions instead of names."""
    node: Any = raw
    path: list[str | int] = []
    for key in keys[:-1]:
        if isinstance(node, dict):
            node.setdefault(key, {})
            path.append(key)
        else:
            path.append(_index(node, key, path))
        node = node[path[-1]]
        if not isinstance(node, dict | list):
            here = ".".join(map(str, path))
            raise ValueError(f"{here} is {shown(node)}, not a table; remove what follows it")
    last = keys[-1] if isinstance(node, dict) else _index(node, keys[-1], path)
    node[last] = value
    return (*path, last)


def _index(items: list[Any], key: str | int, path: list[str | int]) -> int:
    """Find an item of a list of tables by its ``name`` or its position."""
    names = [item.get("name") if isinstance(item, dict) else None for item in items]
    if key in names:
        return names.index(key)
    if str(key).isdecimal() and int(key) < len(items):
        return int(key)
    here = ".".join(map(str, path))
    known = ", ".join(f"{i} ({name})" if name else str(i) for i, name in enumerate(names))
    raise ValueError(f"{here} has no item {key}; it has {known or 'none'}")
