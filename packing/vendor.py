"""The reader as one Python file, for a training repository that does not install Drystone."""

import ast
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path

from packing.format import FORMAT_VERSION, ShardError
from packing.writer import published

MODULES = ("format", "rows", "state", "schedule", "shard", "storage", "fetch", "reader")
"""What the reader is made of, in the order in which the modules need each other."""

FILE_NAME = "drystone_reader.py"

_HEADER = '''\
# Drystone's reader of packed datasets, shard format {format}, from Drystone {version}.
#
# Made by `drystone vendor reader` from packing/{{{modules}}}.py.
# It needs numpy and pyarrow alone. Do not edit it: make it again with a newer Drystone.
#
# Licensed under the Apache License, Version 2.0 (the "License"); you may not use this file except
# in compliance with the License. You may obtain a copy of the License at
#
#     http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software distributed under the License
# is distributed on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express
# or implied. See the License for the specific language governing permissions and limitations under
# the License.
#
# ruff: noqa
# mypy: ignore-errors
"""Reads packed datasets: ``PackedReader(folder).steps(rank, world)``."""
'''


def reader_source() -> str:
    """Return the reader and what it needs as the source of one module.

    Raises:
        ShardError: two modules define the same name, so they cannot be joined.
    """
    imports: set[str] = set()
    imported: dict[str, set[str]] = {}
    bodies: list[str] = []
    owner: dict[str, str] = {}
    for module in MODULES:
        source = files("packing").joinpath(f"{module}.py").read_text(encoding="utf-8")
        tree = ast.parse(source)
        dropped: set[int] = set()
        for node in tree.body:
            lines = range(node.lineno, (node.end_lineno or node.lineno) + 1)
            if isinstance(node, ast.Import | ast.ImportFrom):
                dropped.update(lines)
                if isinstance(node, ast.Import):
                    imports.add(ast.unparse(node))
                elif not (node.module or "").startswith("packing"):
                    names = imported.setdefault(node.module or "", set())
                    names.update(ast.unparse(alias) for alias in node.names)
            elif node is tree.body[0] and ast.get_docstring(tree) is not None:
                dropped.update(lines)
            for name in _defined(node):
                if name in owner:
                    raise ShardError(
                        f"packing.{module} and packing.{owner[name]} both define {name}; rename "
                        "one of them"
                    )
                owner[name] = module
        kept = [line for number, line in enumerate(source.splitlines(), 1) if number not in dropped]
        bodies.append(f"# From packing/{module}.py\n\n" + "\n".join(kept).strip())
    header = _HEADER.format(
        format=FORMAT_VERSION, version=version("drystone"), modules=",".join(MODULES)
    )
    imports |= {f"from {name} import {', '.join(sorted(imported[name]))}" for name in imported}
    return header + "\n" + "\n".join(sorted(imports)) + "\n\n" + "\n\n\n".join(bodies) + "\n"


def vendor_reader(folder: str | Path) -> Path:
    """Write the reader into a folder.

    Args:
        folder: where the file goes; it is made when absent.

    Returns:
        The file written.
    """
    target = Path(folder) / FILE_NAME
    target.parent.mkdir(parents=True, exist_ok=True)
    with published(target) as temporary:
        temporary.write_text(reader_source(), encoding="utf-8")
    return target


def _defined(node: ast.stmt) -> list[str]:
    """Return the names that a statement of a module defines."""
    if isinstance(node, ast.ClassDef | ast.FunctionDef):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else []
    if isinstance(node, ast.AnnAssign):
        targets = [node.target]
    return [target.id for target in targets if isinstance(target, ast.Name)]
