"""What Python source files define, read without running them."""

import ast
import sysconfig
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

_LEFT_OUT = frozenset(
    [
        "test",
        "tests",
        "idlelib",
        "lib2to3",
        "turtledemo",
        "ensurepip",
        "site-packages",
        "dist-packages",
        "__pycache__",
        "pydoc_data",
        "msilib",
    ]
)
_MOST_BYTES = 400_000


@dataclass(slots=True)
class FunctionCode:
    """A public function at the top of a module."""

    name: str
    parameters: list[str]
    summary: str


@dataclass(slots=True)
class ClassCode:
    """A public class at the top of a module; bases as they are written."""

    name: str
    bases: list[str]
    methods: list[str]
    summary: str


@dataclass(slots=True)
class ModuleCode:
    """A public module.

    Attributes:
        name: with dots.
        summary: first line of its docstring.
        lines: lines of its file.
        imports: absolute names of modules that it imports anywhere.
        names: absolute name by the name it has in the module, for imported names.
        classes: public classes, in the order of the file.
        functions: public functions, in the order of the file.
    """

    name: str
    summary: str
    lines: int
    imports: set[str] = field(default_factory=set)
    names: dict[str, str] = field(default_factory=dict)
    classes: list[ClassCode] = field(default_factory=list)
    functions: list[FunctionCode] = field(default_factory=list)


def standard_library() -> Iterator[tuple[str, Path]]:
    """Yield the public modules of the running interpreter's standard library that have a source."""
    root = Path(sysconfig.get_path("stdlib"))
    yield from modules_below(root, "")


def modules_below(folder: Path, prefix: str) -> Iterator[tuple[str, Path]]:
    """Yield (name, file) of the public modules of a folder and its packages, by name."""
    for path in sorted(folder.iterdir(), key=lambda one: one.name):
        name = path.name
        if name.startswith("_") or name in _LEFT_OUT or not name.removesuffix(".py").isidentifier():
            continue
        if path.is_dir() and (path / "__init__.py").is_file():
            yield prefix + name, path / "__init__.py"
            yield from modules_below(path, f"{prefix}{name}.")
        elif name.endswith(".py"):
            yield prefix + name.removesuffix(".py"), path


def read_module(name: str, path: Path) -> ModuleCode | None:
    """Read a module; None where its source cannot be parsed or is a table of data."""
    data = path.read_bytes()
    if len(data) > _MOST_BYTES:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(data)
    except (SyntaxError, ValueError, RecursionError):
        return None
    found = ModuleCode(name, _summary(tree), data.count(b"\n"))
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                found.imports.add(alias.name)
                found.names[alias.asname or alias.name.partition(".")[0]] = (
                    alias.name if alias.asname else alias.name.partition(".")[0]
                )
        elif isinstance(node, ast.ImportFrom):
            _import_from(found, node, package)
    for node in _top(tree):
        if node.name.startswith("_"):
            continue
        if isinstance(node, ast.ClassDef):
            if all(one.name != node.name for one in found.classes):
                found.classes.append(_class(node))
        elif all(one.name != node.name for one in found.functions):
            arguments = [
                one.arg
                for one in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
                if one.arg not in ("self", "cls") and not one.arg.startswith("_")
            ]
            found.functions.append(FunctionCode(node.name, arguments, _summary(node)))
    return found


def _top(tree: ast.Module) -> Iterator[ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef]:
    """Yield the definitions of a module, also those under a condition of it."""
    waiting: list[ast.stmt] = list(tree.body)
    while waiting:
        node = waiting.pop(0)
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node
        elif isinstance(node, ast.If | ast.Try):
            waiting[:0] = [*node.body, *node.orelse]


def _import_from(found: ModuleCode, node: ast.ImportFrom, package: str) -> None:
    base = node.module or ""
    if node.level:
        parts = package.split(".")
        parts = parts[: len(parts) - node.level + 1]
        base = ".".join([*parts, base] if base else parts)
    if not base:
        return
    found.imports.add(base)
    for alias in node.names:
        found.names[alias.asname or alias.name] = f"{base}.{alias.name}"


def _class(node: ast.ClassDef) -> ClassCode:
    methods = [
        one.name
        for one in node.body
        if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef) and not one.name.startswith("_")
    ]
    bases = [written for one in node.bases if (written := _written(one))]
    return ClassCode(node.name, bases, sorted(set(methods)), _summary(node))


def _written(node: ast.expr) -> str:
    """Return a dotted name as it is written; "" for any other expression."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (before := _written(node.value)):
        return f"{before}.{node.attr}"
    return _written(node.value) if isinstance(node, ast.Subscript) else ""


def _summary(node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    text = ast.get_docstring(node) or ""
    return text.partition("\n\n")[0].replace("\n", " ").strip()[:160]
