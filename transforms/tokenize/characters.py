"""Reading code points and words from bytes."""

from typing import Any

import numba
import numpy as np
import numpy.typing as npt
from numba.extending import intrinsic

from transforms.kernel import kernel

SPACE = 0x20
SPACE_SYMBOL = 0x2581
"""sentencepiece's sign for the space; in text it means a space as well."""

Bytes = npt.NDArray[np.uint8]


@kernel
def read_character(data: Bytes, place: int) -> tuple[int, int]:
    """Return the code point at ``place`` of valid UTF-8, and the place after it."""
    first = int(np.int64(data[place]))
    if first < 0x80:
        return first, place + 1
    if first < 0xE0:
        return (first & 0x1F) << 6 | int(np.int64(data[place + 1]) & 0x3F), place + 2
    middle = int(np.int64(data[place + 1]) & 0x3F)
    if first < 0xF0:
        return (first & 0x0F) << 12 | middle << 6 | int(np.int64(data[place + 2]) & 0x3F), place + 3
    low = int((np.int64(data[place + 2]) & 0x3F) << 6 | (np.int64(data[place + 3]) & 0x3F))
    return (first & 0x07) << 18 | middle << 12 | low, place + 4


def _load_word(data: Bytes, place: int) -> np.uint64:
    """Return ``data[place:place + 8]`` as a little-endian word; the bytes must exist."""
    return np.uint64(int.from_bytes(data[place : place + 8].tobytes(), "little"))


@intrinsic  # type: ignore[untyped-decorator]
def _load_word_intrinsic(typing_context: Any, data: Any, place: Any) -> Any:
    """Compile :func:`_load_word` to one unaligned load, which numpy indexing cannot express."""
    from llvmlite import ir  # type: ignore[import-untyped]
    from numba.core import types

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        address = builder.gep(array.data, [arguments[1]])
        word = builder.load(builder.bitcast(address, ir.IntType(64).as_pointer()))
        word.align = 1
        return word

    return types.uint64(data, types.intp), generate


load_word = _load_word if numba.config.DISABLE_JIT else _load_word_intrinsic
