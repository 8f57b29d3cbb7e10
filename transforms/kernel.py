"""Compiled kernels, kept on disk until the source of any of them changes.

numba keeps a compiled function until the function's own file changes. It does not look at the files
of the kernels that the function calls, though their code is compiled into it: after a change there
it would go on with the old one. So what is kept here bears the hash of all kernels' sources.
"""

import functools
import hashlib
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
        compiled._cache._cache_file._source_stamp = sources_stamp()
    return compiled  # type: ignore[no-any-return]


@functools.cache
def sources_stamp() -> str:
    """Return the hash of all sources below this folder that hold kernels."""
    digest = hashlib.sha256()
    for file in sorted(Path(__file__).parent.rglob("*.py")):
        source = file.read_bytes()
        if b"kernel\n" in source:
            digest.update(source)
    return digest.hexdigest()
