"""Proving a faster way at load time: the same ids as the library's on text that is out to break it."""

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from transforms.record import RecordError
from transforms.tokenize.encoder import Encoded

ADVERSARIAL = (
    "",
    " ",
    "\n",
    "\t \n\r\n\r \v\f\x1c\x85\u2028",
    "  lead, trail  ",
    "\0\x01\x7f\x80\xa0\xad\ufeff\ufffd\U0010ffff",
    "It's I'LL we'Ve they'd DON'T 'tis 's'T 'ſ ’s",
    "a1b22c333d4444e55555 ½²Ⅷ٣४ 3.14159e-10",
    "HTTPServerÉcole ǅungla ʰʲ ªº ßẞ İıſ Kelvin K Å",
    "e\u0301\u0323 n\u0303\u0303 \u0301\u0301 क\u094dषि ก\u0e34\u0e48 א\u05b8 \u20d0",
    "👩‍👩‍👧‍👦🏳️‍🌈🇩🇪🇯🇵👍🏽☺️\ufe0f\u200d\u200d",
    "汉字漢字，。「」ひらがなカタカナー 한국어 ภาษาไทย عربي עברית",
    "<s></s><unk><pad><0x0A><|endoftext|><|im_start|><bos>[INST]<think>",
    "\u2581 \u2581\u2581a\u2581b \u2581",
    "def f(x):\n    return {'a': [1, 2]}  # !!!???\n\n\n\t\tif x /// y:\r\n",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa========------------------\n\n\n\n\n",
)
CODE_POINTS = (
    *range(0x20, 0x600),
    *range(0x600, 0x3100, 5),
    *range(0x3100, 0xD800, 41),
    *range(0xE000, 0x110000, 997),
    *range(0x1F000, 0x1FB00, 7),
)
LONG_RUN = 20_000
RANDOM_DOCUMENTS = 48
RANDOM_PIECES = 64


def proof_documents(pieces: Sequence[str]) -> list[str]:
    """Return documents that try what a vocabulary and its rules can do.

    They are the adversarial texts above, pieces of the vocabulary in random order with and without
    spaces, code points of every plane, and runs without any cut.

    Args:
        pieces: texts of the vocabulary, in the order of the ids.
    """
    random = np.random.default_rng(0)
    documents = list(ADVERSARIAL)
    documents.append("".join(ADVERSARIAL))
    texts = [piece for piece in pieces if piece.isprintable()] or ["a"]
    for i in range(RANDOM_DOCUMENTS):
        chosen = [texts[k] for k in random.integers(0, len(texts), RANDOM_PIECES)]
        documents.append((" ", "", "\n")[i % 3].join(chosen))
    documents.append("".join(map(chr, CODE_POINTS)))
    documents.append("".join(chr(point) for point in random.permutation(CODE_POINTS)))
    letters = [text.strip() for text in texts if text.strip().isalpha()] or ["a"]
    for run in ("a", " ", "-", "\n", "ab", letters[len(letters) // 2]):
        documents.append(run * (LONG_RUN // len(run.encode())))
    mixed = "".join(letters[k] for k in random.integers(0, len(letters), LONG_RUN // 8))
    return [*documents, mixed.replace("\n", "").replace(" ", "")]


def disproof(
    pieces: Sequence[str],
    encode: Callable[[pa.Array], Encoded],
    library: Callable[[pa.Array], Encoded],
) -> str | None:
    """Compare a faster way with the library on :func:`proof_documents`.

    Returns:
        None where all ids are equal, else what differs or fails.
    """
    documents = proof_documents(pieces)
    text = pa.array(documents, pa.large_string())
    try:
        found, expected = encode(text), library(text)
    except RecordError as error:
        return f"the library fails on the test text: {error}"
    for i in range(len(documents)):
        ids = expected.ids[expected.offsets[i] : expected.offsets[i + 1]]
        if not np.array_equal(found.ids[found.offsets[i] : found.offsets[i + 1]], ids):
            return f"its ids differ on the test text {documents[i][:24]!r}"
    return None
