"""Compiled kernels, kept on disk until a source that they are compiled from changes.

numba keeps a compiled function until the function's own file changes. It does not look at the files
of the kernels that the function calls, though their code is compiled into it: after a change there
it would go on with the old one. So what is kept here bears the hash of the function's own source and
of all that it imports from the packages of kernels.
"""

import functools
import hashlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numba

Function = TypeVar("Function", bound=Callable[..., Any])


def kernel(function: Function) -> Function:
    """Compile a function over arrays; it releases the GIL, and is kept on disk."""
    return _compiled(function)


def inlined_kernel(function: Function) -> Function:
    """Compile a small function that is copied into the kernels that call it."""
    return _compiled(function, inline="always")


def _compiled(function: Function, **options: Any) -> Function:
    compiled: Any = numba.njit(cache=True, nogil=True, **options)(function)
    if not numba.config.DISABLE_JIT:
        compiled._cache._cache_file._source_stamp = sources_stamp(function.__module__)
    return compiled  # type: ignore[no-any-return]


@functools.cache
def sources_stamp(module: str) -> str:
    """Return the hash of a module's source and of those it imports, at any depth.

    Args:
        module: its name; imports are absolute, and stand at the beginning of a line. What comes from
            another package than the module's and this one is left out.
    """
    packages = "|".join(sorted({name.partition(".")[0] for name in (module, __name__)}))
    imports = re.compile(rf"^(?:from|import) ((?:{packages})(?:\.\w+)+)", re.MULTILINE)
    sources: dict[str, bytes] = {}
    waiting = [module]
    while waiting:
        name = waiting.pop()
        file = _ROOT.joinpath(*name.split(".")).with_suffix(".py")
        if name not in sources and file.is_file():
            sources[name] = file.read_bytes()
            waiting += imports.findall(sources[name].decode())
    digest = hashlib.sha256()
    for name in sorted(sources):
        digest.update(name.encode() + b"\0" + sources[name])
    return digest.hexdigest()


_ROOT = Path(__file__).parent.parent
