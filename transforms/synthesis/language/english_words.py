"""English words: number, articles, possessives and the forms of verbs.

The tables hold closed classes and common words of relation labels; what they do not hold follows
the regular rules (Quirk et al., "A Comprehensive Grammar of the English Language", 5.73-5.103 for
plurals, 3.2-3.20 for verbs).
"""

import functools
import re
import unicodedata


def _pairs(text: str) -> dict[str, str]:
    return dict(pair.split(":") for pair in text.split())


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_PLURALS = _pairs(
    "person:people man:men woman:women child:children foot:feet tooth:teeth mouse:mice goose:geese "
    "ox:oxen crisis:crises thesis:theses analysis:analyses basis:bases axis:axes diagnosis:diagnoses "
    "hypothesis:hypotheses emphasis:emphases criterion:criteria phenomenon:phenomena datum:data "
    "bacterium:bacteria curriculum:curricula alumnus:alumni nucleus:nuclei fungus:fungi "
    "stimulus:stimuli radius:radii genus:genera index:indices vertex:vertices matrix:matrices "
    "appendix:appendices life:lives wife:wives knife:knives leaf:leaves half:halves shelf:shelves "
    "loaf:loaves thief:thieves wolf:wolves calf:calves self:selves elf:elves hero:heroes "
    "potato:potatoes tomato:tomatoes echo:echoes veto:vetoes cargo:cargoes volcano:volcanoes "
    "quiz:quizzes bus:buses gas:gases virus:viruses campus:campuses status:statuses bonus:bonuses "
    "census:censuses corpus:corpora chorus:choruses atlas:atlases lens:lenses iris:irises "
    "taxon:taxa medium:media larva:larvae alumna:alumnae octopus:octopuses walrus:walruses "
    "synopsis:synopses passer-by:passers-by brother-in-law:brothers-in-law daughter-in-law:daughters-in-law "
    "mother-in-law:mothers-in-law father-in-law:fathers-in-law sister-in-law:sisters-in-law "
    "son-in-law:sons-in-law runner-up:runners-up canvas:canvases alias:aliases bias:biases"
)
_SINGULARS = {
    **{plural: single for single, plural in _PLURALS.items()},
    "matrixes": "matrix", "indexes": "index", "persons": "person", "movies": "movie",
    "cookies": "cookie", "calories": "calorie", "zombies": "zombie", "ties": "tie", "pies": "pie",
    "lies": "lie", "caches": "cache", "axes": "axis", "bases": "base", "niches": "niche",
    "shoes": "shoe", "toes": "toe", "canoes": "canoe", "headaches": "headache",
}  # fmt: skip
SAME = _words(
    "series species aircraft spacecraft means sheep deer fish offspring headquarters crossroads "
    "olympics barracks sperm salmon trout corps chassis rendezvous swine bison moose shrimp squid"
)
"""Nouns whose plural is their singular."""
MASS = _words(
    "music cinematography information equipment software hardware money furniture advice evidence "
    "knowledge literature research progress weather clothing luggage traffic health education "
    "nationality-data geography mathematics physics economics politics ethics statistics athletics "
    "gymnastics aesthetics linguistics genetics news electricity water air food wealth ancestry "
    "citizenship funding financing training housing membership ownership parentage residence-data "
    "revenue income gdp gni tuition rent staff cast crew biography choreography photography "
    "topography demography lighting makeup sound editing distribution-data produce climate "
    "background merchandise content publicity feedback homework legislation machinery scenery"
)
"""Nouns that are not counted: no plural, no "a"."""
PLURAL_ONLY = _words(
    "assets proceeds goods premises surroundings earnings belongings outskirts people"
)
"""Nouns that have no singular here; they agree as plurals."""
_ENDS_IN_S = _words(
    "status campus virus bus gas bonus census corpus chorus genus nucleus focus radius stimulus lens "
    "atlas iris basis axis crisis analysis thesis hypothesis diagnosis class process address business "
    "process access success congress mass pass cross boss loss princess actress waitress witness "
    "fitness illness awareness express glass grass brass dress press series species means headquarters "
    "alias canvas bias chaos cosmos pathos ethos rhinoceros tennis pelvis penis synopsis emphasis "
    "prognosis metropolis oasis parenthesis synthesis circus cactus fungus apparatus consensus "
    "exodus genius hiatus surplus syllabus thesaurus walrus octopus platypus abacus always news "
    "physics mathematics economics politics ethics athletics gymnastics aesthetics linguistics "
    "genetics statistics diabetes rabies scabies measles plus us this its previous various famous "
    "religious indigenous continuous numerous hazardous venomous poisonous olympics"
)
ANIMATE = _words(
    "person people man woman child actor actress author writer artist director producer composer "
    "singer musician player athlete politician president minister governor mayor senator judge "
    "lawyer doctor nurse teacher professor student pupil alumnus graduate employee employer owner "
    "founder creator inventor designer architect engineer scientist physicist chemist biologist "
    "mathematician philosopher historian economist poet novelist journalist editor screenwriter "
    "playwright critic photographer painter sculptor dancer choreographer conductor guitarist "
    "drummer pianist bassist vocalist instrumentalist performer celebrity model comedian "
    "king queen prince princess emperor monarch pope bishop priest saint parent mother father "
    "brother sister sibling son daughter husband wife spouse partner friend cousin uncle aunt "
    "grandfather grandmother grandparent ancestor descendant relative colleague coach captain manager "
    "goalkeeper athlete champion winner nominee recipient laureate honoree inductee candidate "
    "deputy chancellor secretary ambassador general admiral soldier officer pilot astronaut explorer "
    "customer client user visitor patient citizen inhabitant resident human character hero villain "
    "contributor maintainer developer programmer speaker listener author co-author advisor adviser "
    "mentor supervisor leader chairman chairperson chairwoman ceo boss chef farmer fisherman "
    "crewmember cinematographer voice-actor impersonator impressionist vacationer officeholder "
    "celebrity screenwriter lyricist songwriter rapper host presenter narrator translator "
    "illustrator librarian head-of-state head-of-government suspect victim killer murderer "
    "graduate alumnus instrumentalist star lover fiancé member-person mp composer-person rider driver"
)
"""Nouns that name people: who, not which."""

PREPOSITIONS = _words(
    "of in at on for with to from into near under through about as within by against over after "
    "before during between among beyond behind inside outside upon onto toward towards without"
)
BE = _words("is are was were be been being")
HAVE = _words("has have had having")
ADVERBS = _words(
    "partially partly mainly mostly formerly currently originally previously initially jointly "
    "officially directly indirectly also often closely historically primarily executive first"
)
ADJECTIVES_WITH_PREPOSITION = _words(
    "similar adjacent different close equal available native famous responsible opposite parallel "
    "related identical equivalent due contrary relevant compatible dependent independent subject "
    "superior inferior next prior active present aware capable member-like typical characteristic "
    "parallel perpendicular tangent endemic indigenous resistant sensitive notable eligible valid"
)

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
_REGULAR = _words(
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
INTRANSITIVE = _words(
    "die live work play act appear star compete participate study graduate serve belong report "
    "depend consist happen occur result originate evolve descend flow end start travel migrate "
    "settle reside reign retire debut fight border interact correspond contribute specialize trade "
    "go come sit stand stay sleep run swim fly rise fall grow sing speak-in perform drain flee lead"
)
"""Verbs that take a preposition in the active: "X died in Y", not "X was died in Y"."""
STATIVE = _words(
    "locate situate base own know relate affiliate marry connect use make name call contain include "
    "associate register twin follow precede speak border surround adjoin classify categorize "
    "headquarter license involve find define employ inhabit operate govern rule represent require "
    "maintain characterize interest interested engaged involved based join bind measure manage store ship-in-progress encode express"
)
"""Verbs whose passive is told in the present: "X is located in Y"."""
# Third persons that are no plural noun.
_VERB_ONLY = _words(
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
_AMBIGUOUS_NOUN = _words("works covers samples exports imports returns borders shares reports wins")
TWO_WAYS = _words(
    "uses causes hosts likes loves rules leads supplies funds sponsors supports attacks influences "
    "mentions plays stars deals holds raises"
)
"""Nouns that would mean the other direction of the verb: "the causes of X" cause X."""
_VOWELS = "aeiou"


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
    if word in SAME or word in _ENDS_IN_S:
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


@functools.lru_cache(maxsize=1 << 14)
def plural_word(word: str) -> str:
    """Return the plural of one noun."""
    low = word.lower()
    if low in MASS or low in SAME or low in PLURAL_ONLY:
        return word
    if low in _PLURALS:
        return _as_cased(word, _PLURALS[low])
    if "-" in low and not low.startswith("co-"):
        front, _, last = word.rpartition("-")
        return f"{front}-{plural_word(last)}" if last else word
    if low.endswith(("man",)) and low not in ("human", "roman", "german", "norman", "shaman"):
        return word[:-2] + "en"
    if re.search(r"(s|x|z|ch|sh)$", low) and not low.endswith(("arch", "loch", "stomach", "epoch")):
        return word + "es"
    if low.endswith("y") and len(low) > 1 and low[-2] not in _VOWELS:
        return word[:-1] + "ies"
    return word + "s"


@functools.lru_cache(maxsize=1 << 14)
def singular_word(word: str) -> str:
    """Return the singular of a noun in the plural; other words as they are."""
    low = word.lower()
    if low in _SINGULARS:
        return _as_cased(word, _SINGULARS[low])
    if low in _ENDS_IN_S or low in SAME or low in MASS or low in PLURAL_ONLY:
        return word
    if low.endswith("men") and len(low) > 4 and low not in ("specimen", "abdomen", "regimen"):
        return word[:-2] + "an"
    if low.endswith("ies") and len(low) > 4:
        return word[:-3] + "y"
    if re.search(r"(ss|x|zz|ch|sh|us)es$", low):
        return word[:-2]
    if low.endswith("ses") and low[:-2] in _ENDS_IN_S:
        return word[:-2]
    if low.endswith("s") and not low.endswith(("ss", "us", "is")) and len(low) > 2:
        return word[:-1]
    return word


def is_plural_word(word: str) -> bool:
    """Return whether a noun stands in the plural."""
    return word.lower() in ("people", "data", "media") or singular_word(word) != word


def _as_cased(word: str, form: str) -> str:
    return form.capitalize() if word[:1].isupper() else form


_AN_LETTERS = frozenset("AEFHILMNORSX")
_A_SOUND = re.compile(
    r"(?:uni(?!n|mp|d)|us[aei]|uk|ut[ei]|eu|ewe|one\b|once|ubiq|ufo|ura|uro|ure)", re.IGNORECASE
)
_AN_SOUND = re.compile(r"(?:hour|honest|honor|honour|heir)", re.IGNORECASE)


def article(following: str) -> str:
    """Return "a" or "an" for the words that follow."""
    text = following.lstrip("\"'“‘(")
    text = unicodedata.normalize("NFD", text)
    match = re.match(r"[A-Za-z0-9]+", text)
    if not match:
        return "a"
    word = match.group()
    if word[0].isdigit():
        return "an" if word[0] == "8" or re.match(r"(11|18)(?!\d)", word) else "a"
    if len(word) == 1 or (word.isupper() and len(word) <= 5):
        return "an" if word[0].upper() in _AN_LETTERS else "a"
    if _AN_SOUND.match(word):
        return "an"
    if _A_SOUND.match(word):
        return "a"
    return "an" if word[0].lower() in _VOWELS else "a"


def with_article(phrase: str) -> str:
    """Return a phrase after "a" or "an"."""
    return f"{article(phrase)} {phrase}"


def possessive(phrase: str, plural: bool) -> str:
    """Return the possessive of a noun phrase."""
    bare = phrase.endswith("s") and (plural or " " in phrase)
    return phrase + ("'" if bare else "'s")


def is_animate(noun: str) -> bool:
    """Return whether the last word of a noun names people."""
    last = noun.split()[-1].lower() if noun else ""
    single = singular_word(last)
    return single in ANIMATE or last in ANIMATE
