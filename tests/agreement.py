"""Checks the agreement of English sentences; it knows nothing of the grammar that made them.

What is checked is a closed class with rules of its own: the number of a head and of its verb, of
demonstratives and of "how many"; "a" and "an"; who for people and which for things; plurals;
possessives; doubled words; capitals, stops and leftovers of templates. It reads skeletons, where
mentions are ``[E]`` and numbers ``[N]``, and skips what stands in quotes.
"""

import re

_IRREGULAR = {
    "people",
    "children",
    "men",
    "women",
    "feet",
    "teeth",
    "mice",
    "criteria",
    "phenomena",
    "data",
    "media",
    "alumni",
    "indices",
    "vertices",
    "matrices",
    "analyses",
    "theses",
    "bases",
    "crises",
    "taxa",
    "corpora",
    "brothers-in-law",
    "runners-up",
    "chairmen",
    "women's",
    "fishermen",
    "sportsmen",
}
_SINGULAR_S = {
    "status",
    "campus",
    "virus",
    "bus",
    "gas",
    "genus",
    "basis",
    "crisis",
    "analysis",
    "thesis",
    "class",
    "process",
    "address",
    "business",
    "access",
    "success",
    "congress",
    "mass",
    "pass",
    "cross",
    "loss",
    "princess",
    "actress",
    "waitress",
    "glass",
    "dress",
    "press",
    "politics",
    "physics",
    "mathematics",
    "economics",
    "news",
    "athletics",
    "music's",
    "this",
    "its",
    "alias",
    "lens",
    "olympics",
    "headquarters",
    "series",
    "species",
    "hypothesis",
    "focus",
    "census",
}
_EITHER = {
    "series",
    "species",
    "headquarters",
    "aircraft",
    "sheep",
    "deer",
    "fish",
    "offspring",
    "olympics",
    "means",
    "staff",
    "crew",
}
_PREPOSITIONS = {
    "of",
    "in",
    "for",
    "with",
    "from",
    "to",
    "by",
    "at",
    "on",
    "among",
    "within",
    "under",
    "listed",
    "recorded",
    "given",
    "after",
    "before",
    "that",
    "responsible",
    "credited",
    "split",
    "similar",
    "who",
    "whom",
    "whose",
    "which",
    "and",
    "or",
    "but",
    "are",
    "is",
    "was",
    "were",
    "has",
    "have",
    "had",
    "does",
    "do",
    "did",
}
_MASS = {
    "music",
    "information",
    "cinematography",
    "software",
    "equipment",
    "knowledge",
    "evidence",
    "research",
}
_THINGS = [
    "films?",
    "movies?",
    "cit(?:y|ies)",
    "countr(?:y|ies)",
    "compan(?:y|ies)",
    "genres?",
    "awards?",
    "books?",
    "songs?",
    "albums?",
    "languages?",
    "places?",
    "locations?",
    "teams?",
    "universit(?:y|ies)",
    "classes",
    "class",
    "modules?",
    "packages?",
]
_AN = {"hour", "honest", "honor", "honour", "heir", "x-ray", "mp"}
_A = re.compile(r"uni(?!n|mp)|us[aei]|eu|one\b|once|u[kt]i|ur[aoi]")
_BAD_PLURAL = re.compile(
    r"\b(\w*[^aeiou\W]ys|childs|mans|womans|persons?s{2,}|peoples|childrens|mens|musics|informations|"
    r"cinematographies|softwares|\w+ssses|criterions|thesises|analysises|foots|tooths|\w+(?:ch|sh|x)s)\b"
)
_RELATIVE = re.compile(
    r"\b(?:the|which|those) ((?:(?!the |those |which |that |who )[a-z'\-]+ ){1,6}?)"
    r"(that|who) (is|are|was|were|has|have)\b"
)
_DOUBLED = re.compile(r"\b(?!that )([a-z]+) \1\b")


def problems(text: str, *, lower: bool = False) -> list[str]:
    """Return what is wrong with a sentence.

    Args:
        text: a skeleton.
        lower: it was written in lower case on purpose.
    """
    plain = re.sub(r'"[^"]*"', '"q"', text)
    found = [
        f"leftover {m.group()!r}" for m in re.finditer(r"[{}<>\x00-\x08]|\[[a-z]+/|\bNone\b", plain)
    ]
    low = (
        re.sub(r"\bgroup [A-H]\b", "group q", plain)
        .lower()
        .replace("[e]", "Ent")
        .replace("[n]", "Num")
    )
    found += [f"bad plural {m.group()!r}" for m in _BAD_PLURAL.finditer(low)]
    found += [f"doubled {m.group()!r}" for m in _DOUBLED.finditer(low)]
    found += _articles(low) + _heads(low) + _determined(low) + _questions(low) + _people(low)
    if re.search(r"s's\b", re.sub(r"Ent's", "", low)) or "'s's" in low:
        found.append("possessive of a plural")
    if re.search(r"\s[,.;?!]|[,;]{2}|\.\.| {2}", low):
        found.append("spacing of stops")
    if not lower:
        for sentence in re.split(r"(?<=[.?!])\s+|\n(?:Num\. )?", re.sub(r"\[N\]\. ", "", plain)):
            if sentence[:1].islower():
                found.append(f"no capital: {sentence[:20]!r}")
    return found


def number(noun: str) -> str:
    """Return ``one``, ``many`` or ``any`` for a noun in lower case."""
    last = noun.split("-")[-1]
    if noun in _EITHER:
        return "any"
    if noun in _IRREGULAR or last in _IRREGULAR:
        return "many"
    if noun in _SINGULAR_S or noun.endswith(("ss", "us", "is")):
        return "one"
    return "many" if noun.endswith("s") else "one"


def _head(words: list[str]) -> str:
    """Return the head of a noun phrase: the word before its first preposition."""
    for place, word in enumerate(words):
        gerund = word.endswith("ing") and number(words[place - 1]) != "one"
        if (word in _PREPOSITIONS or gerund) and place:
            return words[place - 1]
    return words[-1] if words else ""


_PARTICIPLES = {"awarded", "involved", "represented", "presented", "produced", "distributed"}


def _agrees(noun: str, verb: str) -> bool:
    one = verb in ("is", "was", "has")
    return number(noun) in ("any", "one" if one else "many")


def _phrase_number(phrase: str) -> str | None:
    words = list(re.findall(r"[a-z'\-]+|Ent|Num|\"", phrase))
    if not words or '"' in words or "Ent" in words[:1]:
        return None
    return _head(words)


def _heads(low: str) -> list[str]:
    """Check "the films that were": the relative verb agrees with its head."""
    found = []
    for match in _RELATIVE.finditer(low):
        words = match.group(1).split()
        if (
            len(words) > 5
            or "of" in words[:1]
            or any(w in ("whose", "that", "which", "who") for w in words)
        ):
            continue
        nouns = [_head(words)]
        if _is_participle(nouns[0]) and len(words) > 1:
            nouns = [words[0] if len(words) == 2 else words[-2]]
        if "of" in words:
            nouns.append(_head(words[words.index("of") + 1 :]))
        if match.group(3) not in ("is", "was", "has"):
            nouns = words
        if "but" in words:
            continue
        nouns = [noun for noun in nouns if noun and noun not in _PREPOSITIONS]
        if nouns and not any(_agrees(noun, match.group(3)) for noun in nouns):
            found.append(f"number: {match.group().strip()!r}")
    return found


def _is_participle(word: str) -> bool:
    return word.endswith("ed") or word in ("won", "spoken", "held", "born", "available", "written")


def _determined(low: str) -> list[str]:
    found = []
    for match in re.finditer(
        r"\b(those|these) ((?:[a-z'\-]+ )*?[a-z'\-]+)(?=[.?,;]| (?:that|are|have|is|has|include|and|but)\b)",
        low,
    ):
        words = match.group(2).split()
        if words[0] in _PREPOSITIONS:
            continue
        if not any(number(word) != "one" for word in words):
            found.append(f"demonstrative: {match.group()!r}")
    for match in re.finditer(r"\bhow many (?:different )?([a-z'\-]+(?: [a-z'\-]+){0,3})", low):
        words = match.group(1).removeprefix("different").split()
        if not words or words[0] in ("are", "in", "entries"):
            continue
        if not any(number(word) != "one" for word in words):
            found.append(f"how many: {match.group()!r}")
    return found


def _questions(low: str) -> list[str]:
    found = []
    for match in re.finditer(
        r"\bwhich (?!those )((?:[a-z'\-]+ ){1,4}?)(is|are|was|were|has|have)\b(?! Ent)", low
    ):
        words = match.group(1).split()
        if (
            words[0] in _PREPOSITIONS
            or words[0] in ("one", "there", "of")
            or {"do", "does"} & set(words)
        ):
            continue
        noun = _head(words)
        if _is_participle(noun) and len(words) > 1:
            noun = words[-2]
        if not _agrees(noun, match.group(2)):
            found.append(f"question: {match.group()!r}")
    for match in re.finditer(
        r"\b(?:what|who)(?: exactly)? (is|are) the ((?:[a-z'\-]+ ){1,6})", low
    ):
        words = match.group(2).split()
        noun = _head(words)
        if _is_participle(noun) and len(words) > 1:
            noun = words[max(0, words.index(noun) - 1)]
        if (
            noun not in ("number", "size", "name")
            and noun not in _MASS
            and not _agrees(noun, match.group(1))
        ):
            found.append(f"question: {match.group()!r}")
    found += [f"auxiliary: {m.group()!r}" for m in re.finditer(r"\bdo Ent\b|\bdoes those\b", low)]
    return found


def _people(low: str) -> list[str]:
    things = "|".join(_THINGS)
    found = [f"who for a thing: {m.group()!r}" for m in re.finditer(rf"\b(?:{things}) who\b", low)]
    found += [
        f"which for people: {m.group()!r}"
        for m in re.finditer(r"\b(?:people|actors|directors|persons)(?: for)? which\b", low)
    ]
    return found


def _articles(low: str) -> list[str]:
    found = []
    for match in re.finditer(r"\b(an?) \"?([a-z]+|Num|Ent)", low):
        word = match.group(2)
        if word in ("q", "Num", "Ent"):
            continue
        vowel = word[0] in "aeiou"
        if _A.match(word):
            vowel = False
        if word in _AN or word.startswith(
            ("honor", "honour", "hour", "heir", "ncaa", "nba", "nfl")
        ):
            vowel = True
        if vowel != (match.group(1) == "an"):
            found.append(f"article: {match.group()!r}")
    return found
