"""The graph of a Python installation: its standard library's code, and its packages.

Modules, classes, bases, methods, functions, parameters and imports are read from the sources,
without running them; dependencies, licences and modules of installed packages from their metadata.
The same installation gives the same graph.
"""

import importlib.metadata
import math
import re
from collections import defaultdict
from collections.abc import Collection, Iterable
from pathlib import Path

from transforms.synthesis.graph_settle import LoadedGraph, NamedGraph, settle
from transforms.synthesis.graph_tables import (
    NamedAttribute,
    NamedEntity,
    NamedRelation,
    places,
)
from transforms.synthesis.python_code import (
    ModuleCode,
    modules_below,
    read_module,
    standard_library,
)

PYTHON = "python"
"""What the graph is called, also in place of a path."""

_RELATIONS: dict[str, NamedRelation] = {
    "class/module": NamedRelation("defining module", "class", "module", True, complete=True),
    "class/base": NamedRelation("base class", "class", "class"),
    "class/method": NamedRelation("method", "class", "method", complete=True),
    "function/module": NamedRelation("home module", "function", "module", True, complete=True),
    "function/parameter": NamedRelation("parameter", "function", "parameter", complete=True),
    "module/import": NamedRelation("imported module", "module", "module"),
    "module/package": NamedRelation("parent package", "module", "module", True),
    "module/distribution": NamedRelation("distribution", "module", "distribution"),
    "distribution/dependency": NamedRelation("dependency", "distribution", "distribution"),
    "distribution/licence": NamedRelation("licence", "distribution", "licence"),
}
_ATTRIBUTES: dict[str, NamedAttribute] = {
    "module/lines": NamedAttribute("number of lines", "number"),
    "class/methods": NamedAttribute("number of methods", "number"),
    "function/parameters": NamedAttribute("number of parameters", "number"),
    "distribution/version": NamedAttribute("version", "text"),
    "distribution/python": NamedAttribute("required Python version", "text"),
}
_TYPES = {
    "module": "module",
    "class": "class",
    "exception": "exception",
    "method": "method name",
    "function": "function",
    "parameter": "parameter name",
    "distribution": "distribution",
    "licence": "licence",
}
_MOST_BYTES = 1 << 20
_MOST_IMPORTS = 8
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def python_graph(name: str = PYTHON, only: Collection[str] | None = None) -> LoadedGraph:
    """Build the graph of the running interpreter's installation.

    Of a distribution over a megabyte of sources, what it requires is in the graph, its code is not.

    Args:
        name: the graph's name.
        only: distributions to look at; default: all that are installed.
    """
    build = _Build()
    modules = [code for one in standard_library() if (code := read_module(*one)) is not None]
    installed = _installed(importlib.metadata.distributions())
    if only is not None:
        wanted = set(map(_canonical, only))
        installed = {one: found for one, found in installed.items() if one in wanted}
    shipped: dict[str, str] = {}
    for distribution, one in installed.items():
        for module, path in _sources(one):
            if module not in shipped and (code := read_module(module, path)) is not None:
                shipped[module] = distribution
                modules.append(code)
    build.modules(modules)
    build.distributions(installed, shipped)
    return settle(build.named(), name, "the Python installation")


class _Build:
    def __init__(self) -> None:
        self._entities: dict[str, NamedEntity] = {}
        self._facts: dict[str, list[tuple[str, str]]] = defaultdict(list)
        self._attributes = {
            key: NamedAttribute(one.label, one.kind) for key, one in _ATTRIBUTES.items()
        }

    def named(self) -> NamedGraph:
        relations = {
            key: NamedRelation(one.label, one.domain, one.range, one.functional, one.complete)
            for key, one in _RELATIONS.items()
        }
        facts = {key: places(self._entities, pairs) for key, pairs in sorted(self._facts.items())}
        named = NamedGraph(self._entities, relations, facts, self._attributes, dict(_TYPES))
        named.counters = {"triples": sum(map(len, self._facts.values()))}
        return named

    def _entity(self, kind: str, name: str, summary: str = "", alias: str = "") -> str:
        key = f"{kind}:{name}"
        aliases = (alias,) if alias and alias != name else ()
        self._entities.setdefault(key, NamedEntity(name, aliases, summary, (kind,)))
        return key

    def _number(self, attribute: str, entity: str, number: int) -> None:
        self._attributes[attribute].values[entity] = (str(number), float(number))

    def modules(self, modules: Iterable[ModuleCode]) -> None:
        """Add modules and what they define."""
        known = {one.name: one for one in modules}
        classes = {f"{one.name}.{code.name}" for one in known.values() for code in one.classes}
        for one in known.values():
            module = self._entity("module", one.name, one.summary)
            self._number("module/lines", module, one.lines)
            if (parent := one.name.rpartition(".")[0]) in known:
                self._facts["module/package"].append((module, f"module:{parent}"))
            for name in sorted(one.imports & known.keys() - {one.name}):
                self._facts["module/import"].append((module, f"module:{name}"))
            self._classes(one, module, known, classes)
            for function in one.functions:
                key = self._entity("function", f"{one.name}.{function.name}", function.summary)
                self._facts["function/module"].append((key, module))
                self._number("function/parameters", key, len(function.parameters))
                for parameter in function.parameters:
                    tail = self._entity("parameter", parameter)
                    self._facts["function/parameter"].append((key, tail))
        self._mark_exceptions()

    def _classes(
        self, one: ModuleCode, module: str, known: dict[str, ModuleCode], classes: set[str]
    ) -> None:
        for code in one.classes:
            name = f"{one.name}.{code.name}"
            key = self._entity("class", name, code.summary, alias=code.name)
            self._facts["class/module"].append((key, module))
            self._number("class/methods", key, len(code.methods))
            for method in code.methods:
                self._facts["class/method"].append((key, self._entity("method", method)))
            for base in code.bases:
                found = _resolved(base, one, known, classes)
                if found is not None and found != name:
                    self._facts["class/base"].append((key, f"class:{found}"))
                elif base in _BUILTIN_ERRORS:
                    self._facts["class/base"].append(
                        (key, self._entity("class", f"builtins.{base}", alias=base))
                    )

    def _mark_exceptions(self) -> None:
        """Give the classes that descend from an exception that type too."""
        derived: dict[str, list[str]] = defaultdict(list)
        for head, tail in self._facts["class/base"]:
            derived[tail].append(head)
        waiting = [key for key in derived if key.startswith("class:builtins.")]
        seen: set[str] = set()
        while waiting:
            key = waiting.pop()
            if key not in seen:
                seen.add(key)
                waiting.extend(derived[key])
                self._entities[key].types = ("exception", "class")

    def distributions(
        self, known: dict[str, importlib.metadata.Distribution], shipped: dict[str, str]
    ) -> None:
        """Add installed distributions, what they require, their licences and their modules."""
        for one in known.values():
            meta = one.metadata
            key = self._entity("distribution", meta["Name"], meta["Summary"] or "")
            self._text("distribution/version", key, one.version)
            self._text("distribution/python", key, meta["Requires-Python"])
            for licence in _licences(meta):
                tail = self._entity("licence", licence)
                self._facts["distribution/licence"].append((key, tail))
        for name, one in known.items():
            head = f"distribution:{one.metadata['Name']}"
            for needed in sorted(set(_required(one.requires or []))):
                if needed in known and needed != name:
                    tail = f"distribution:{known[needed].metadata['Name']}"
                    self._facts["distribution/dependency"].append((head, tail))
        for module, name in shipped.items():
            tail = f"distribution:{known[name].metadata['Name']}"
            self._facts["module/distribution"].append((f"module:{module}", tail))

    def _text(self, attribute: str, entity: str, text: str | None) -> None:
        if text:
            self._attributes[attribute].values[entity] = (text, math.nan)


_BUILTIN_ERRORS = frozenset(
    name
    for name, one in vars(__import__("builtins")).items()
    if isinstance(one, type) and issubclass(one, BaseException)
)


def _resolved(
    base: str, module: ModuleCode, known: dict[str, ModuleCode], classes: set[str]
) -> str | None:
    """Return the absolute name of a class that is written in a module, following imports."""
    first, _, rest = base.partition(".")
    imported = module.names.get(first, first) + (f".{rest}" if rest else "")
    for start in (f"{module.name}.{base}", imported):
        name: str | None = start
        # A module may hand on what it imports itself.
        for _ in range(_MOST_IMPORTS):
            if name in classes:
                return name
            holder, _, last = str(name).rpartition(".")
            name = known[holder].names.get(last) if holder in known else None
            if name is None:
                break
    return None


def _installed(
    found: Iterable[importlib.metadata.Distribution],
) -> dict[str, importlib.metadata.Distribution]:
    """Return the installed distributions by canonical name, in its order."""
    known: dict[str, importlib.metadata.Distribution] = {}
    for one in found:
        if (name := one.metadata["Name"]) is not None:
            known.setdefault(_canonical(name), one)
    return dict(sorted(known.items()))


def _sources(one: importlib.metadata.Distribution) -> list[tuple[str, Path]]:
    """Return the public modules of a distribution; none where they are over a megabyte."""
    tops = {
        path.parts[0].removesuffix(".py")
        for path in one.files or ()
        if path.suffix == ".py" and path.parts[0] != ".."
    }
    found: list[tuple[str, Path]] = []
    for top in sorted(tops):
        if top.startswith("_") or not top.isidentifier():
            continue
        folder = Path(str(one.locate_file(top)))
        if (folder / "__init__.py").is_file():
            found += [(top, folder / "__init__.py"), *modules_below(folder, f"{top}.")]
        elif folder.with_suffix(".py").is_file():
            found.append((top, folder.with_suffix(".py")))
    size = sum(path.stat().st_size for _, path in found)
    return found if size <= _MOST_BYTES else []


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _required(requires: Iterable[str]) -> Iterable[str]:
    """Yield the distributions that are required whatever extras are asked for."""
    for one in requires:
        match = _NAME.match(one)
        if match is not None and "extra ==" not in one.replace("extra==", "extra =="):
            yield _canonical(match[0])


def _licences(meta: importlib.metadata.PackageMetadata) -> list[str]:
    """Return the licences of a distribution: its SPDX expression, or else its classifiers."""
    expression = meta["License-Expression"]
    if expression:
        return sorted(set(re.findall(r"[A-Za-z0-9][A-Za-z0-9.+-]*", expression)) - _WORDS)
    found = [
        one.rpartition(" :: ")[2]
        for one in meta.get_all("Classifier") or []
        if one.startswith("License ::") and one.count(" :: ") > 1
    ]
    return sorted(set(found))


_WORDS = frozenset(("AND", "OR", "WITH"))
