"""Reads the words of labels as English nouns: "place of birth", "awards won", "TV programs".

What is no plain English is quoted, and so is a noun all the same.
"""

import re

from transforms.synthesis.language import english_verbs as verbs
from transforms.synthesis.language import english_words as words
from transforms.synthesis.language.words import Noun

_ACRONYMS = {
    name.lower(): name
    for name in [
        "GDP",
        "GNI",
        "PPP",
        "TV",
        "DVD",
        "URL",
        "ID",
        "UK",
        "USA",
        "US",
        "EU",
        "UN",
        "NFL",
        "NBA",
        "NHL",
        "NCAA",
        "IMDb",
        "ISBN",
        "ISSN",
        "DNA",
        "RNA",
        "IATA",
        "ICAO",
        "HUD",
        "CEO",
        "GPS",
        "API",
        "PDF",
        "SQL",
        "NATO",
        "FIFA",
        "UEFA",
        "MVP",
        "BBC",
        "IP",
    ]
}
_UNREADABLE = re.compile(r"^[A-Za-z]{0,2}\d[\w.\-]*$|^[^A-Za-z]*$")
_QUOTED_WORDS = frozenset(
    [
        "and",
        "or",
        "not",
        "but",
        "both",
        "either",
        "how",
        "what",
        "which",
        "who",
        "where",
        "when",
        "why",
        "than",
    ]
)
FILLERS = frozenset(["the", "a", "an", "its", "their"])
_NOUN_PREPOSITIONS = frozenset(
    ["of", "in", "with", "for", "to", "by", "from", "at", "on", "within", "per"]
)


def label_words(label: str) -> str:
    """Return a label in plain lower-case words: identifiers parted, paths cut to their end."""
    text = label.strip().strip("<>")
    if re.match(r"https?:", text) or text.startswith("/"):
        text = re.split(r"[/#:]", text.rstrip("/#"))[-1]
    text = re.sub(r"\((?:s|es)\)", "", text.replace("_", " "))
    text = re.sub(r"(?<=[a-z0-9])(?=[A-Z][a-z])|(?<=[a-z])(?=[A-Z])", " ", text)
    shouted = text.upper() == text
    out = []
    for word in text.split():
        low = word.lower()
        if low in _ACRONYMS:
            out.append(_ACRONYMS[low])
        elif (word.isupper() and not shouted and len(word) > 1) or any(c.isdigit() for c in word):
            out.append(word)
        else:
            out.append(low)
    if len(out) > 1 and out[-1] == "ID":
        del out[-1]
    return re.sub(r"[\x00-\x1f<>|\[\]{}]", "", " ".join(out)).strip()


def readable(text: str) -> bool:
    """Return whether a label in words can be used as English."""
    parts = text.split()
    if not parts or any(_UNREADABLE.match(part) for part in parts[:1]) or not text.isascii():
        return False
    if any(len(part) > 17 for part in parts) or re.search(r"[^A-Za-z0-9 '.\-]", text):
        return False
    return not any(part in _QUOTED_WORDS for part in parts)


def quoted(text: str) -> Noun:
    """Return a noun that names a label without reading it."""
    inner = re.sub(r"[\x00-\x1f<>|\[\]{}]", "", text.replace('"', "'"))
    return Noun(f'"{inner}" entry', f'"{inner}" entries')


def noun_of(text: str, after: str = "") -> Noun:
    """Return the noun of a phrase in words, from its singular or plural."""
    if not readable(text):
        return quoted(f"{text} {after}".strip())
    parts = text.split()
    odd = words.BE | FILLERS | words.HAVE | frozenset(("also",))
    if any(part in odd for part in parts) or parts[0] in words.PREPOSITIONS:
        return quoted(f"{text} {after}".strip())
    head = len(parts) - 1
    for place in range(1, len(parts)):
        after_it = parts[place + 1 : place + 2]
        posed = verbs.is_participle(parts[place]) and set(after_it) & words.PREPOSITIONS
        if parts[place] in _NOUN_PREPOSITIONS or posed:
            head = place - 1
            break
    if head == len(parts) - 1 and head > 0 and parts[head].isdigit():
        head -= 1
    single = words.singular_word(parts[head])
    before, behind = parts[:head], parts[head + 1 :] + ([after] if after else [])
    if behind[:1] == ["of"] and not behind[1:]:
        return quoted(text)
    return Noun(
        " ".join([*before, single, *behind]),
        " ".join([*before, words.plural_word(single), *behind]),
        words.is_animate(single),
        single in words.MASS,
    )
