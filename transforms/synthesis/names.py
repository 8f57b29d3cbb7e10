"""Words for ids, and labels that name one entity alone."""

import re
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from urllib.parse import unquote

from transforms.synthesis.graph import name_key
from transforms.synthesis.graph_tables import NamedEntity

_SHORT = 48
_LONG = 96
_MOST_ALIASES = 16
_PREFIX = re.compile(r"[A-Za-z][\w.-]*:(?=\w)")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_ALIKE = frozenset(("series", "species", "news", "means", "lens", "analysis"))
_BRACKETS = re.compile(r"\s*[(（][^()（）]*[)）]$")
_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff]")


def words_of(name: str) -> str:
    """Make words from the id of a relation or a type.

    ``/film/film/directed_by`` and ``http://x.org/terms#directedBy`` become ``directed by``, and the
    two halves of a Freebase path (``/a/b/cast./c/d/actor``) ``cast / actor``.
    """
    halves = [half.rstrip("/#") for half in name.split("./")]
    ends = [_PREFIX.sub("", re.split(r"[/#]", unquote(half))[-1], count=1) for half in halves]
    words = [_HUMP.sub(" ", end) if end.isascii() else end for end in ends]
    made = " / ".join(clean(re.sub(r"[_-]+", " ", one)) for one in words)
    return made.lower() if made.isascii() and made else made or clean(name)


def singular(word: str) -> str:
    """Return the singular of an English plural noun, as far as its ending tells."""
    if word in _ALIKE:
        return word
    for end, put in (("ies", "y"), ("sses", "ss"), ("ches", "ch"), ("shes", "sh"), ("xes", "x")):
        if word.endswith(end) and len(word) > len(end) + 1:
            return word.removesuffix(end) + put
    plural = word.endswith("s") and not word.endswith(("ss", "us", "is")) and len(word) > 3
    return word[:-1] if plural else word


def local_name(name: str) -> str:
    """Make a label from the id of an entity: the end of an IRI, with spaces; case stays."""
    if "://" in name:
        name = re.split(r"[/#]", unquote(name).rstrip("/#"))[-1] or name
    return clean(name.replace("_", " "))


def clean(text: str) -> str:
    """Return a text in NFC without control characters, one space between words."""
    text = unicodedata.normalize("NFC", text)
    if not text.isprintable():
        text = "".join(
            one if unicodedata.category(one)[0] != "C" or one in "\u200c\u200d" else " "
            for one in text
        )
    return " ".join(text.split())


def mostly_cjk(texts: Iterable[str]) -> bool:
    """Return whether more than half of some texts hold Chinese, Japanese or Korean letters."""
    found = [bool(_CJK.search(text)) for text in texts]
    return 2 * sum(found) > len(found)


def generic_word(labels: Iterable[str]) -> str:
    """Return the word for an entity of no known type, in the language of some labels."""
    return "实体" if mostly_cjk(labels) else "entity"


def clean_names(one: NamedEntity) -> None:
    """Tidy an entity's label and description, and its aliases: each key once, none the label's."""
    one.label = clean(one.label)
    one.description = clean(one.description)
    seen = {name_key(one.label), ""}
    kept: list[str] = []
    # Paris (Texas) is called Paris too.
    plain = _BRACKETS.sub("", one.label)
    for alias in map(clean, (plain, *one.aliases)):
        key = name_key(alias)
        if key not in seen and len(kept) < _MOST_ALIASES:
            seen.add(key)
            kept.append(alias)
    one.aliases = tuple(kept)


def settle_labels(
    entities: Mapping[str, NamedEntity],
    type_words: Callable[[str], str],
    weight: Mapping[str, int],
) -> tuple[int, list[tuple[str, str]]]:
    """Make all labels differ by :func:`name_key`; the labels of ``entities`` are changed.

    Entities that share a key get their type behind their label, else the beginning of their
    description, else all of it; the shared label becomes an alias of each. Of those that nothing
    tells apart, the one with the most facts keeps the label.

    Args:
        entities: by id, their names clean.
        type_words: words for the type of an entity, by its id; "" where there are none.
        weight: number of facts by entity id.

    Returns:
        How many labels were changed, and (id, reason) of the entities that cannot be named.
    """
    groups: dict[str, list[str]] = defaultdict(list)
    for name in entities:
        groups[name_key(entities[name].label)].append(name)
    lost = [(name, "its label is empty or made of separators") for name in groups.pop("", [])]
    taken = set(groups)
    changed = 0
    for key in sorted(groups):
        if len(groups[key]) == 1:
            continue
        left = sorted(groups[key])
        for told in _levels(entities, type_words, left):
            for name, label in told.items():
                if name in left and name_key(label) not in taken:
                    taken.add(name_key(label))
                    one = entities[name]
                    one.aliases = (one.label, *one.aliases)
                    one.label = label
                    changed += 1
                    left.remove(name)
        left.sort(key=lambda name: (-weight.get(name, 0), name))
        for name in left[1:]:
            rival = f"{entities[name].label!r} is the label of {left[0]!r} too"
            lost.append((name, f"{rival}, and neither type nor description tells them apart"))
    return changed, lost


def _levels(
    entities: Mapping[str, NamedEntity], type_words: Callable[[str], str], names: Sequence[str]
) -> Iterator[dict[str, str]]:
    """Yield, from the shortest to the longest, the suffixed labels that differ within a group."""
    suffixes: tuple[Callable[[str], str], ...] = (
        type_words,
        lambda name: _beginning(entities[name].description),
        lambda name: entities[name].description[:_LONG],
    )
    for suffix in suffixes:
        labels = {name: _suffixed(entities[name].label, suffix(name)) for name in names}
        keys = [name_key(label) for label in labels.values() if label]
        yield {
            name: label
            for name, label in labels.items()
            if label and keys.count(name_key(label)) == 1
        }


def _suffixed(label: str, suffix: str) -> str:
    # A label that was suffixed at an earlier level is not in question any more.
    if not name_key(suffix) or name_key(suffix) == name_key(label):
        return ""
    return f"{label}（{suffix}）" if _CJK.search(label) else f"{label} ({suffix})"


def _beginning(description: str) -> str:
    return re.split(r"[,;:，；：。(（]", description, maxsplit=1)[0].strip()[:_SHORT]
