"""Text as it is ingested: Unicode form, line ends, control characters, and its lengths."""

import functools
import re
import unicodedata
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import numba
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from annotated_types import Ge, Gt, Le


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestSettings:
    """How records become documents (`[ingest]`)."""

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid", "strict": True}

    min_chars: Annotated[int, Ge(0)] = 1
    """A document with fewer characters, after normalization, is dropped (`under min_chars`)."""
    max_chars: Annotated[int, Gt(0)] | None = None
    """A record with more characters, after normalization, is rejected (`over max_chars`)."""
    unicode: Literal["NFC", "none"] = "NFC"
    """Unicode normalization form of the text; `none` leaves it as it is."""
    line_ends: Literal["lf", "keep"] = "lf"
    """`lf` turns CR LF and lone CR into LF."""
    control: Literal["remove", "keep"] = "remove"
    """`remove` takes out C0 and C1 control characters but tab and line ends, DEL, and a byte order
    mark at the start; joiners and other format characters stay."""
    part_size_mib: Annotated[int, Gt(0), Le(128)] = 64
    """MiB of decompressed input per part: the unit of work, of caching and of output files."""
    max_rejected: Annotated[float, Ge(0), Le(1)] = 1.0
    """The share of rejected lines above which the run ends with exit code 3."""
    ids: Literal["suffix", "unique"] = "suffix"
    """A repeated id of a source gets `#2`, `#3` (`suffix`) or is rejected (`unique`)."""

    def __post_init__(self) -> None:
        """Check the rules across fields.

        Raises:
            ValueError: no length satisfies both `min_chars` and `max_chars`.
        """
        if self.max_chars is not None and self.max_chars < self.min_chars:
            raise ValueError(
                f"max_chars = {self.max_chars} is below min_chars = {self.min_chars}: "
                "no document could pass; raise max_chars or lower min_chars"
            )


def normalize_text(text: str, settings: IngestSettings) -> str:
    """Return one text as it is ingested; the definition that :func:`normalize` follows in bulk.

    Line ends first, then control characters, then a byte order mark at the start, then the Unicode
    form. Applied twice it changes nothing more.
    """
    if settings.line_ends == "lf":
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    if settings.control == "remove":
        text = _CONTROL.sub("", text).lstrip("\ufeff")
    if settings.unicode == "NFC":
        text = unicodedata.normalize("NFC", text)
    return text


def normalize(
    texts: pa.StringArray, settings: IngestSettings
) -> tuple[pa.StringArray, npt.NDArray[np.int64]]:
    """Normalize many texts; only those that may change become Python strings.

    Args:
        texts: valid UTF-8, no nulls.
        settings: what to change.

    Returns:
        The texts, and their lengths in characters, shape [len(texts)], int64.
    """
    offsets, data = string_buffers(texts)
    flags, n_chars = _scan(offsets, data, _ascii_classes(), _unstable_characters())
    wanted = np.uint8(
        (_CR if settings.line_ends == "lf" else 0)
        | (_CONTROLS if settings.control == "remove" else 0)
        | (_UNSTABLE if settings.unicode == "NFC" else 0)
    )
    mask = (flags & wanted) != 0
    if not mask.any():
        return texts, n_chars
    places = np.flatnonzero(mask)
    changed = [normalize_text(texts[place].as_py(), settings) for place in places.tolist()]
    n_chars[places] = [len(text) for text in changed]
    return pc.replace_with_mask(texts, pa.array(mask), pa.array(changed, pa.string())), n_chars


def string_buffers(
    texts: pa.StringArray,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]]:
    """Return the offsets (int64, one more than texts) and the bytes (uint8) of a string array.

    Both are read-only views or copies of the array's buffers; nulls read as empty strings.
    """
    _, ends, content = texts.buffers()
    # An empty array may come without buffers.
    bounds = np.frombuffer(ends, np.int32) if len(texts) else np.zeros(texts.offset + 1, np.int32)
    offsets = bounds[texts.offset : texts.offset + len(texts) + 1].astype(np.int64)
    data = np.frombuffer(content if content is not None else b"", np.uint8)
    offsets.flags.writeable = data.flags.writeable = False
    return offsets, data


_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]+")

_CR, _CONTROLS, _UNSTABLE = 1, 2, 4
"""What a text may contain: CR; control characters or a leading byte order mark; characters that
make its NFC form uncertain."""

_TABLE_END = 0x30000
"""Characters from here on are unchanged by NFC and never combine."""


@functools.cache
def _ascii_classes() -> npt.NDArray[np.uint8]:
    """Return what each ASCII character says about its text, shape [128]."""
    classes = np.zeros(128, np.uint8)
    classes[:0x20] = classes[0x7F] = _CONTROLS
    classes[[0x09, 0x0A]] = 0
    classes[0x0D] = _CR
    classes.flags.writeable = False
    return classes


@functools.cache
def _unstable_characters() -> npt.NDArray[np.uint8]:
    """Return 1 for each character whose presence can make a text not NFC, shape [_TABLE_END].

    These are the characters that NFC replaces, those with a combining class, and those that may
    compose with the one before them; a text of others is in NFC (UAX #15, section 9).
    """
    table = np.zeros(_TABLE_END, np.uint8)
    for low, high in _COMPOSED_BLOCKS:
        for code in range(low, high):
            character = chr(code)
            if (
                unicodedata.combining(character)
                or unicodedata.normalize("NFC", character) != character
            ):
                table[code] = 1
            parts = unicodedata.decomposition(character).split()
            if len(parts) == 2 and not parts[0].startswith("<"):
                table[int(parts[1], 16)] = 1
    # Vowels and final consonants of Hangul compose by rule, without table entries.
    table[0x1161:0x1176] = table[0x11A8:0x11C3] = 1
    table.flags.writeable = False
    return table


_COMPOSED_BLOCKS = (
    (0xC0, 0x3400),
    (0xA000, 0xAC00),
    (0xF900, 0x17000),
    (0x18D00, 0x20000),
    (0x2F800, 0x2FA20),
)
"""Everything below _TABLE_END but unified ideographs, Hangul syllables, surrogates and private use,
which take no part in composition."""


@numba.njit(cache=True, nogil=True)
def _scan(
    offsets: npt.NDArray[np.int64],
    data: npt.NDArray[np.uint8],
    classes: npt.NDArray[np.uint8],
    unstable: npt.NDArray[np.uint8],
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """Return for each text its flags and its number of characters."""
    n = len(offsets) - 1
    flags = np.zeros(n, np.uint8)
    n_chars = np.empty(n, np.int64)
    for text in range(n):
        start, end = offsets[text], offsets[text + 1]
        found, continued, place = 0, 0, start
        if _starts_with_mark(data[start:end]):
            found = _CONTROLS
        while place < end:
            lead = data[place]
            if lead < 0x80:
                found |= classes[lead]
                place += 1
            elif lead < 0xCC:
                # U+0080 to U+02FF: only the C1 controls matter.
                if lead == 0xC2 and data[place + 1] < 0xA0:
                    found |= _CONTROLS
                continued += 1
                place += 2
            else:
                code, size = _decode(data, place)
                if code < _TABLE_END and unstable[code]:
                    found |= _UNSTABLE
                continued += size - 1
                place += size
        flags[text] = found
        n_chars[text] = end - start - continued
    return flags, n_chars


@numba.njit(cache=True, nogil=True)
def _starts_with_mark(text: npt.NDArray[np.uint8]) -> bool:
    """Return whether a text starts with the byte order mark, U+FEFF."""
    return len(text) >= 3 and text[0] == 0xEF and text[1] == 0xBB and text[2] == 0xBF


@numba.njit(cache=True, nogil=True)
def _decode(data: npt.NDArray[np.uint8], place: int) -> tuple[int, int]:
    """Return the character whose two or more bytes start at ``place``, and their number."""
    lead, second = int(data[place]), int(data[place + 1]) & 0x3F
    if lead < 0xE0:
        return (lead & 0x1F) << 6 | second, 2
    third = int(data[place + 2]) & 0x3F
    if lead < 0xF0:
        return (lead & 0x0F) << 12 | second << 6 | third, 3
    return (lead & 0x07) << 18 | second << 12 | third << 6 | int(data[place + 3]) & 0x3F, 4
