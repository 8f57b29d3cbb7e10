r"""Functions of other projects, loaded unchanged from their own source files.

Nothing of theirs is part of this repository. Fetch what you want to compare with into one folder:

    for r in huggingface/trl axolotl-ai-cloud/axolotl allenai/OLMo-core NVIDIA-NeMo/NeMo \
             pytorch/torchtune volcengine/verl 8023looker/DataSculpt; do
        git clone --depth 1 https://github.com/$r RIVALS/${r#*/}; done
"""

import ast
from pathlib import Path
from typing import Any


class AbsentError(Exception):
    """A rival's source is not there, or no longer holds what is loaded from it."""


def load(rivals: Path | None, file: str, wanted: set[str], names: dict[str, Any]) -> dict[str, Any]:
    """Run the wanted top-level functions and classes of one source file, and nothing else of it.

    Args:
        rivals: folder of the fetched repositories.
        file: path of the source within it.
        wanted: names of functions, classes and constants; imports are not run.
        names: what they find as globals, instead of the file's imports.

    Returns:
        The globals after they were defined.

    Raises:
        AbsentError: with what is missing.
    """
    if rivals is None:
        raise AbsentError("no --rivals folder given")
    path = rivals / file
    if not path.is_file():
        raise AbsentError(f"{path} is not there")
    tree = ast.parse(path.read_text())
    tree.body = [node for node in tree.body if getattr(node, "name", "") in wanted]
    found = {getattr(node, "name", "") for node in tree.body}
    if found != wanted:
        raise AbsentError(f"{path} has no {', '.join(sorted(wanted - found))}")
    names = dict(names)
    exec(compile(tree, str(path), "exec"), names)
    return names
