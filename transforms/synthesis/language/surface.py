r"""From marked text to an utterance: mentions are filled in, the skeleton and the spans are kept.

While a sentence is built, an entity is written as ``\x05number\x05`` and a number or value as
``\x06text\x06``. So what is done to the words (case, slips of the finger) never touches a mention.
"""

import re
from collections.abc import Callable

from transforms.synthesis.draw import Draw
from transforms.synthesis.language.words import ENTITY, Utterance

VALUE = "\x06"
_MARKED = re.compile(f"({ENTITY}[^{ENTITY}]*{ENTITY}|{VALUE}[^{VALUE}]*{VALUE})")
_PLAIN = re.compile(f"[^{ENTITY}{VALUE}]+")
_DIGITS = re.compile(r"\d+(?:[.,]\d+)*")


def entity_mark(entity: int) -> str:
    """Return what stands for an entity in a text that is being built."""
    return f"{ENTITY}{entity}{ENTITY}"


def value_mark(value: float | str) -> str:
    """Return what stands for a number or a literal in a text that is being built."""
    return f"{VALUE}{number_text(value)}{VALUE}"


def number_text(value: float | str) -> str:
    """Write a literal so that it reads back as the same value."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return value if isinstance(value, str) else repr(value)


def on_words(text: str, change: Callable[[str], str]) -> str:
    """Change the words of a marked text and leave its marks alone."""
    parts = _MARKED.split(text)
    parts[::2] = [change(part) for part in parts[::2]]
    return "".join(parts)


def upper_first(text: str) -> str:
    """Write the first letter of a marked text as a capital, where it is no mention."""
    return text[:1].upper() + text[1:]


def lower_first(text: str) -> str:
    """Write the first letter in lower case, unless it opens "I", a mention or an acronym."""
    if text[:2] in ("I ", "I'") or text[1:2].isupper():
        return text
    return text[:1].lower() + text[1:]


def typo(text: str, draw: Draw, allowed: frozenset[str]) -> str:
    """Let two letters of one allowed word change places, or one fall out."""
    places = [
        match
        for match in re.finditer(r"[A-Za-z]{4,}", text)
        if match.group().lower() in allowed and text.count(ENTITY, 0, match.start()) % 2 == 0
    ]
    if not places:
        return text
    match = draw.choose(places)
    word = match.group()
    at = 1 + draw.below(len(word) - 2)
    if draw.chance(0.5) and word[at] != word[at + 1]:
        changed = word[:at] + word[at + 1] + word[at] + word[at + 2 :]
    else:
        changed = word[:at] + word[at + 1 :]
    return text[: match.start()] + changed + text[match.end() :]


def utterance(
    marked: str, names: Callable[[int], str], style: str, noise: tuple[str, ...]
) -> Utterance:
    """Fill in the mentions of a marked text.

    Args:
        marked: the text with marks.
        names: the mention of an entity.
        style: family of the frame.
        noise: what was done to the words.
    """
    text: list[str] = []
    skeleton: list[str] = []
    at = 0
    mentions: list[tuple[int, int, int]] = []
    for place, part in enumerate(_MARKED.split(marked)):
        if place % 2 == 0:
            skeleton.append(_DIGITS.sub("[N]", part))
            if text and text[-1][-1:] in ".?!" and part[:1] == ".":
                part = part[1:]
            text.append(part)
            at += len(part)
            continue
        inner = part[1:-1]
        if part[0] == ENTITY:
            entity = int(inner)
            inner = names(entity)
            skeleton.append("[E]")
            mentions.append((entity, at, at + len(inner)))
        else:
            skeleton.append("[N]")
        text.append(inner)
        at += len(inner)
    return Utterance("".join(text), "".join(skeleton), style, noise, tuple(mentions))


_UNCLEAR = re.compile(
    r"[,;:?!&/()\[\]{}<>|]|\b(?:and|or|but|not|by|with|that|those|whose|which|from|among|than|both|either)\b",
    re.IGNORECASE,
)


_UNCLEAR_CHINESE = re.compile(r"[，。；：？！、的和与或但且中及“”,;:?!（）()]|以外|属于|包括")


def mention(label: str, quoting: int, lang: str = "en") -> str:
    """Return a label as it stands in a sentence: in quotes where its words could be read as ours.

    Args:
        label: of an entity.
        quoting: 0 quotes what is unclear, 1 also what begins in lower case, 2 everything.
        lang: of the sentence.
    """
    if lang == "zh":
        if quoting < 2 and not _UNCLEAR_CHINESE.search(label):
            return label
        return f"“{label}”" if "“" not in label and "”" not in label else f"「{label}」"
    if quoting < 2 and not _UNCLEAR.search(label) and not (quoting and label[:1].islower()):
        return label
    if '"' not in label:
        return f'"{label}"'
    return f"“{label}”" if "“" not in label and "”" not in label else label
