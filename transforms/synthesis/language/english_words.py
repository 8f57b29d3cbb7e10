"""English nouns and the words around them: number, articles, possessives.

The tables hold closed classes and common words of relation labels; what they do not hold follows
the regular rules (Quirk et al., "A Comprehensive Grammar of the English Language", 5.73-5.103).
"""

import functools
import re
import unicodedata


def _pairs(text: str) -> dict[str, str]:
    return dict(pair.split(":") for pair in text.split())


def word_set(text: str) -> frozenset[str]:
    """Return the words of a text."""
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
SAME = word_set(
    "series species aircraft spacecraft means sheep deer fish offspring headquarters crossroads "
    "olympics barracks sperm salmon trout corps chassis rendezvous swine bison moose shrimp squid"
)
"""Nouns whose plural is their singular."""
MASS = word_set(
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
PLURAL_ONLY = word_set(
    "assets proceeds goods premises surroundings earnings belongings outskirts people"
)
"""Nouns that have no singular here; they agree as plurals."""
ENDS_IN_S = word_set(
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
ANIMATE = word_set(
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
PREPOSITIONS = word_set(
    "of in at on for with to from into near under through about as within by against over after "
    "before during between among beyond behind inside outside upon onto toward towards without"
)
BE = word_set("is are was were be been being")
HAVE = word_set("has have had having")
ADVERBS = word_set(
    "partially partly mainly mostly formerly currently originally previously initially jointly "
    "officially directly indirectly also often closely historically primarily executive first"
)
ADJECTIVES_WITH_PREPOSITION = word_set(
    "similar adjacent different close equal available native famous responsible opposite parallel "
    "related identical equivalent due contrary relevant compatible dependent independent subject "
    "superior inferior next prior active present aware capable member-like typical characteristic "
    "parallel perpendicular tangent endemic indigenous resistant sensitive notable eligible valid"
)
_VOWELS = "aeiou"


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
    if low in ENDS_IN_S or low in SAME or low in MASS or low in PLURAL_ONLY:
        return word
    if low.endswith("men") and len(low) > 4 and low not in ("specimen", "abdomen", "regimen"):
        return word[:-2] + "an"
    if low.endswith("ies") and len(low) > 4:
        return word[:-3] + "y"
    if re.search(r"(ss|x|zz|ch|sh|us)es$", low):
        return word[:-2]
    if low.endswith("ses") and low[:-2] in ENDS_IN_S:
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
