"""English verbs of labels: bases, third persons, pasts and participles.

The tables hold what stands in relation labels; what they do not hold follows the regular rules (Quirk
et al., "A Comprehensive Grammar of the English Language", 3.2-3.20).
"""

import re

from transforms.synthesis.language.english_words import ENDS_IN_S, SAME, word_set

_VOWELS = "aeiou"

# base past participle of irregular verbs that stand in labels
_IRREGULAR = (
    "write wrote written|win won won|find found found|build built built|speak spoke spoken|"
    "sing sang sung|lead led led|hold held held|make made made|give gave given|take took taken|"
    "bear bore born|know knew known|see saw seen|choose chose chosen|draw drew drawn|"
    "drive drove driven|eat ate eaten|fall fell fallen|fight fought fought|fly flew flown|"
    "grow grew grown|hide hid hidden|leave left left|lend lent lent|lose lost lost|meet met met|"
    "pay paid paid|ride rode ridden|run ran run|sell sold sold|send sent sent|shoot shot shot|"
    "spend spent spent|stand stood stood|steal stole stolen|swim swam swum|teach taught taught|"
    "tell told told|think thought thought|throw threw thrown|wear wore worn|buy bought bought|"
    "bring brought brought|catch caught caught|begin began begun|become became become|"
    "come came come|go went gone|get got got|keep kept kept|split split split|set set set|"
    "cut cut cut|put put put|cast cast cast|beat beat beaten|bind bound bound|"
    "breed bred bred|feed fed fed|forbid forbade forbidden|overthrow overthrew overthrown|"
    "oversee oversaw overseen|undergo underwent undergone|rewrite rewrote rewritten|"
    "withdraw withdrew withdrawn|sit sat sat|sleep slept slept|rise rose risen|blow blew blown"
)
# Verbs of labels with a regular past; "e" and doubled consonants are handled below.
_REGULAR = word_set(
    "direct produce create found own contain include influence follow precede succeed publish "
    "release locate base name educate employ marry bury register nominate award present perform "
    "record compose edit play work live die star appear act compete participate study graduate "
    "serve belong report depend consist border adjoin connect join associate affiliate relate use "
    "manufacture develop design invent discover operate manage distribute broadcast-air air film "
    "portray depict describe cite reference mention translate adapt inspire dedicate honor honour "
    "kill defeat attack occupy govern rule represent elect appoint visit travel attend host organize "
    "organise sponsor fund finance acquire replace supersede supply sell-regular export import trade "
    "speak-regular treat cause prevent inhibit activate regulate express encode bind-regular interact "
    "affect complicate diagnose indicate produce-result measure assess define declare implement "
    "extend inherit call return raise catch-regular require provide support contribute maintain "
    "license document test deprecate alias wrap subclass generalize specialize instantiate classify "
    "categorize label tag store ship order purchase deliver invoice assign approve review rate rank "
    "recommend like love hate admire befriend date divorce engage parent adopt raise train coach mentor "
    "teach-regular advise supervise examine draft sign transfer loan trade-player captain score "
    "announce launch establish dissolve merge incorporate headquarter twin partner ally oppose "
    "voice narrate score-music arrange mix master sample cover remix feature illustrate photograph "
    "paint sculpt sketch construct restore renovate demolish inhabit populate surround cross flow "
    "drain originate derive evolve descend characterize compare correspond match equal exceed happen "
    "occur result involve end start finish open close move migrate settle flee imprison execute "
    "exhibit collect display curate store commission present-show screen dub subtitle program host "
    "crew impersonate draw-regular entail reside reign retire debut enroll enrol major"
)
INTRANSITIVE = word_set(
    "die live work play act appear star compete participate study graduate serve belong report "
    "depend consist happen occur result originate evolve descend flow end start travel migrate "
    "settle reside reign retire debut fight border interact correspond contribute specialize trade "
    "go come sit stand stay sleep run swim fly rise fall grow sing speak-in perform drain flee lead"
)
"""Verbs that take a preposition in the active: "X died in Y", not "X was died in Y"."""
STATIVE = word_set(
    "locate situate base own know relate affiliate marry connect use make name call contain include "
    "associate register twin follow precede speak border surround adjoin classify categorize "
    "headquarter license involve find define employ inhabit operate govern rule represent require "
    "maintain characterize interest interested engaged involved based join bind measure manage store ship-in-progress encode express"
)
"""Verbs whose passive is told in the present: "X is located in Y"."""
# Third persons that are no plural noun.
_VERB_ONLY = word_set(
    "contains includes owns follows precedes adjoins belongs depends consists inhibits treats "
    "regulates activates affects encodes speaks lives works plays serves manages employs defines "
    "implements inherits extends requires provides contributes wrote publishes produces directs "
    "creates manufactures develops becomes has is uses causes prevents stars appears borders leads "
    "writes sings teaches knows hosts likes loves marries influences represents reports competes "
    "participates happens occurs replaces cites mentions depicts describes acquires operates "
    "governs rules distributes supplies maintains supports raises returns attends sponsors funds "
    "entails involves surrounds crosses shares receives wins holds deals instantiates derives "
    "originates corresponds equals exceeds interacts indicates diagnoses complicates coincides "
    "eats sees chooses grows tells brings begins gets wears builds sells sends spends steals loses "
    "meets pays hides portrays adapts inspires dedicates elects appoints visits organizes finances "
    "supersedes expresses assesses declares invokes generalizes specializes classifies categorizes "
    "approves recommends admires befriends adopts advises supervises examines announces launches "
    "establishes dissolves merges incorporates opposes narrates composes arranges illustrates "
    "photographs constructs restores renovates demolishes inhabits populates drains evolves "
    "descends characterizes compares matches migrates settles imprisons executes collects curates "
    "dubs impersonates resides retires enrolls extends "
    "co-occurs exhibits performs occupies kills defeats attacks connects joins flows"
)
_AMBIGUOUS_NOUN = word_set(
    "works covers samples exports imports returns borders shares reports wins"
)
TWO_WAYS = word_set(
    "uses causes hosts likes loves rules leads supplies funds sponsors supports attacks influences "
    "mentions plays stars deals holds raises"
)
"""Nouns that would mean the other direction of the verb: "the causes of X" cause X."""


def _doubles(base: str) -> bool:
    """Whether the last consonant is doubled before -ed and -ing: one syllable, one vowel."""
    return bool(re.fullmatch(r"[^aeiou]*[aeiou][bdgklmnprt]", base)) or base in {
        "refer", "transfer", "occur", "admit", "commit", "permit", "prefer", "program", "equip",
        "control", "enrol", "rebel", "compel", "submit", "format",
    }  # fmt: skip


def _regular_past(base: str) -> str:
    if base.endswith("e"):
        return base + "d"
    if base.endswith("y") and base[-2] not in _VOWELS:
        return base[:-1] + "ied"
    return base + base[-1] + "ed" if _doubles(base) else base + "ed"


def _build_verbs() -> tuple[dict[str, tuple[str, str, str]], dict[str, str], dict[str, str]]:
    forms: dict[str, tuple[str, str, str]] = {}
    for entry in _IRREGULAR.split("|"):
        base, past, participle = entry.split()
        forms[base] = (base, past, participle)
    for base in sorted(_REGULAR):
        if "-" not in base:
            forms.setdefault(base, (base, _regular_past(base), _regular_past(base)))
    return (
        forms,
        {past: base for base, past, _ in forms.values()},
        {participle: base for base, _, participle in forms.values()},
    )


_VERBS, _PASTS, _PARTICIPLES = _build_verbs()
_PASTS["found"] = "find"
_PASTS["founded"] = _PARTICIPLES["founded"] = "found"


def base_of_participle(word: str) -> str | None:
    """Return the base of a participle in the table (directed: direct), or None."""
    return _PARTICIPLES.get(word)


def base_of_past(word: str) -> str | None:
    """Return the base of a simple past in the table (wrote: write), or None."""
    return _PASTS.get(word)


def base_of_third(word: str) -> str | None:
    """Return the base of a third person that is surely a verb or in the table, or None."""
    if word in SAME or word in ENDS_IN_S:
        return None
    base = _third_base(word)
    return base if base in _VERBS or word in _VERB_ONLY else None


def only_verb(word: str) -> bool:
    """Return whether a word in -s is read as a verb where it stands alone."""
    return word in _VERB_ONLY and word not in _AMBIGUOUS_NOUN


def is_verb(word: str) -> bool:
    """Return whether a word is the base of a verb in the table."""
    return word in _VERBS


def past_of(base: str) -> str:
    """Return the simple past of a verb's base."""
    return _VERBS[base][1] if base in _VERBS else _regular_past(base)


def is_participle(word: str) -> bool:
    """Return whether a word looks like a past participle."""
    if word in _PARTICIPLES:
        return True
    return len(word) > 4 and word.endswith("ed") and not word.endswith("eed")


def third(base: str) -> str:
    """Return the third person singular of a verb's base."""
    if base in ("have", "be", "do", "go"):
        return {"have": "has", "be": "is", "do": "does", "go": "goes"}[base]
    if re.search(r"(s|x|z|ch|sh)$", base):
        return base + "es"
    if base.endswith("y") and base[-2] not in _VOWELS:
        return base[:-1] + "ies"
    return base + "s"


def _third_base(word: str) -> str:
    if word in ("has", "is", "does", "goes"):
        return {"has": "have", "is": "be", "does": "do", "goes": "go"}[word]
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if re.search(r"(ss|x|zz|ch|sh)es$", word):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith("ss") else ""


def gerund(base: str) -> str:
    """Return the present participle of a verb's base."""
    if base.endswith("ie"):
        return base[:-2] + "ying"
    if base.endswith("e") and not base.endswith(("ee", "ye", "oe")) and base != "be":
        return base[:-1] + "ing"
    return base + base[-1] + "ing" if _doubles(base) else base + "ing"
