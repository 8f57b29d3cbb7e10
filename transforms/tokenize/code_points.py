"""Classes of code points for the split patterns, each proved against the library before its use.

The libraries bring Unicode tables of their own. The classes come from Python's, and before a code
point is trusted, the library splits a text around it that tells every class from the others. Where
it disagrees, documents with that code point go to the library.
"""

import functools
import threading
import unicodedata
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from transforms.kernel import kernel
from transforms.tokenize.characters import load_word, read_character
from transforms.tokenize.splits import LETTER, LOWER, NUMBER, OTHER, SPACE, UPPER
from transforms.tokenize.vocabulary import CODE_POINTS

PROVED, REFUSED, COMPOSING = 1, 2, 4
"""Bits of a code point's state: the library agrees on its class; it does not; it may change under
canonical composition (NFC)."""

Bytes = npt.NDArray[np.uint8]
Bools = npt.NDArray[np.bool_]
Int64s = npt.NDArray[np.int64]
Agreement = Callable[[Sequence[str]], Bools]
"""For each text, whether the library splits it as the kernels do."""

WHITE_SPACE = (
    *range(0x09, 0x0E),
    *(0x20, 0x85, 0xA0, 0x1680),
    *range(0x2000, 0x200B),
    *(0x2028, 0x2029, 0x202F, 0x205F, 0x3000),
)
"""Unicode's property White_Space."""
SAMPLED_RANGES = ((0x4E00, 0x9FA6), (0xAC00, 0xD7A4))
"""Ideographs and Hangul syllables: letters since Unicode 2.0, so that a few stand for all."""
_SAMPLES = 16
_TABLE_END = 0x32400
"""Beyond it there are no letters, numbers or spaces, and only variation selectors are marks."""
_HANGUL_JAMO = ((0x1161, 0x1176), (0x11A8, 0x11C3))

_CLASS_OF_CATEGORY = {
    **dict.fromkeys(("Lu", "Lt"), LETTER | UPPER),
    "Ll": LETTER | LOWER,
    **dict.fromkeys(("Lm", "Lo"), LETTER | UPPER | LOWER),
    **dict.fromkeys(("Mn", "Mc", "Me"), OTHER | UPPER | LOWER),
    **dict.fromkeys(("Nd", "Nl", "No"), NUMBER),
}


@functools.cache
def code_point_classes() -> Bytes:
    """Return the class bits of all code points, uint8 [0x110000]."""
    categories = map(unicodedata.category, map(chr, range(_TABLE_END)))
    classes = np.full(CODE_POINTS, OTHER, dtype=np.uint8)
    classes[:_TABLE_END] = [_CLASS_OF_CATEGORY.get(category, OTHER) for category in categories]
    classes[0xE0100:0xE01F0] = OTHER | UPPER | LOWER
    classes[list(WHITE_SPACE)] = SPACE
    return classes


@functools.cache
def composing_code_points() -> Int64s:
    """Return the code points that canonical composition may change or join to one before them."""
    found = {point for low, high in _HANGUL_JAMO for point in range(low, high)}
    for point in range(0x80, _TABLE_END):
        character = chr(point)
        parts = unicodedata.decomposition(character)
        if parts and not parts.startswith("<"):
            found.update(int(part, 16) for part in parts.split()[1:])
        if unicodedata.combining(character) or unicodedata.normalize("NFC", character) != character:
            found.add(point)
    return np.array(sorted(found), dtype=np.int64)


def probe(character: str) -> str:
    """Return a text whose pre-tokens tell a character's class, in each of the patterns."""
    c = character
    return f"x{c} X{c}x 1{c} !{c} !!{c} {c}Xx\n{c}1 {c}!  {c}\nx{c}X"


class CodePoints:
    """What is known of each code point: proved, refused, or not asked yet."""

    def __init__(self, agreement: Agreement, composes: bool) -> None:
        self.state = np.zeros(CODE_POINTS, dtype=np.uint8)
        self.state[:0x80] = PROVED  # by the texts that the split rules are proved with
        if composes:
            self.state[composing_code_points()] = COMPOSING
        self._agreement = agreement
        self._lock = threading.Lock()

    def unsafe(self, data: Bytes, offsets: Int64s) -> tuple[Bools, Bools]:
        """Prove the code points of some documents, and find those that need another way.

        Args:
            data: UTF-8.
            offsets: int64 [documents + 1].

        Returns:
            bool [documents], whether the document has a refused code point; and whether it has one
            that composition may change.
        """
        found = np.zeros((len(offsets) - 1, 2), dtype=np.uint8)
        combined_state(self.state, data, offsets, found)
        unknown = np.flatnonzero(found[:, 1] & PROVED)
        if len(unknown):
            seen = np.zeros(CODE_POINTS, dtype=np.uint8)
            mark_code_points(data, offsets, unknown, seen)
            self._prove(np.flatnonzero(seen))
            combined_state(self.state, data, offsets, found)
        return found[:, 0] & REFUSED != 0, found[:, 0] & COMPOSING != 0

    def _prove(self, points: Int64s) -> None:
        """Compare code points with the library, and mark them as proved or refused."""
        with self._lock:
            for low, high in SAMPLED_RANGES:
                inside = self._unknown(points[(points >= low) & (points < high)])
                if len(inside):
                    ends = np.linspace(low, high - 1, _SAMPLES).astype(np.int64)
                    agreed = self._agree(np.concatenate((ends, inside[:_SAMPLES])))
                    self.state[low:high] |= PROVED if agreed.all() else REFUSED
            points = self._unknown(points)
            agreed = self._agree(points)
            self.state[points[agreed]] |= PROVED
            self.state[points[~agreed]] |= REFUSED

    def _unknown(self, points: Int64s) -> Int64s:
        unknown: Int64s = points[self.state[points] & (PROVED | REFUSED) == 0]
        return unknown

    def _agree(self, points: Int64s) -> Bools:
        return self._agreement([probe(chr(point)) for point in points.tolist()])


@kernel
def combined_state(state: Bytes, data: Bytes, offsets: Int64s, found: Bytes) -> None:
    """Combine the state bits of each document's characters outside ASCII.

    Args:
        state: uint8 [0x110000].
        data: UTF-8.
        offsets: int64 [documents + 1].
        found: uint8 [documents, 2], written: the bits that some character has, and the bits that
            some character lacks.
    """
    high = np.uint64(0x8080808080808080)
    for document in range(len(offsets) - 1):
        place, stop = offsets[document], offsets[document + 1]
        some = lacking = 0
        while place < stop:
            if place + 8 <= stop and load_word(data, place) & high == np.uint64(0):
                place += 8
            elif data[place] < 0x80:
                place += 1
            else:
                point, place = read_character(data, place)
                some |= int(np.int64(state[point]))
                lacking |= int(~np.int64(state[point]))
        found[document, 0] = np.uint8(some)
        found[document, 1] = np.uint8(lacking & 0xFF)


@kernel
def mark_code_points(data: Bytes, offsets: Int64s, documents: Int64s, seen: Bytes) -> None:
    """Set ``seen`` (uint8 [0x110000]) at each code point of some documents."""
    for document in documents:
        place, stop = offsets[document], offsets[document + 1]
        while place < stop:
            point, place = read_character(data, place)
            seen[point] = 1
