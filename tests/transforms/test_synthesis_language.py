"""The sentences of synthesized conversations: agreement, variety, one meaning, lexicon files."""

import time
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import pytest
from agreement import problems

from transforms.record import RecordError
from transforms.synthesis.draw import Draw
from transforms.synthesis.graph import Graph
from transforms.synthesis.graph_tables import NamedAttribute, NamedEntity, NamedRelation, tables_of
from transforms.synthesis.language.english_labels import read_label
from transforms.synthesis.language.english_verbs import gerund, past_of, third
from transforms.synthesis.language.english_words import article, plural_word, singular_word
from transforms.synthesis.language.overrides import read_overrides
from transforms.synthesis.language.realizer import Realizer
from transforms.synthesis.limits import Limits
from transforms.synthesis.plan import (
    FOURTEEN,
    PATTERNS,
    Anchor,
    Compare,
    Count,
    Filter,
    Intersect,
    Plan,
    Project,
    SetPlan,
    Subtract,
    Top,
    Unite,
    Value,
    anchors,
    canonical,
    evaluate,
    relations,
)
from transforms.synthesis.sampler import Sampler
from transforms.synthesis.synthetic_graph import synthetic_graph
from transforms.synthesis.voice import Correct, Other, Recall, Refine, Relax, Save, UseSaved

LABELS = {
    "director": "noun",
    "directed by": "passive",
    "born in": "passive",
    "hasCapital": "noun",
    "parent_of": "noun of",
    "authorOf": "noun of",
    "located in": "passive",
    "isLocatedIn": "passive",
    "diedIn": "active",
    "P36": "noun",
    "regular cast / actor": "noun",
    "titles": "noun",
    "contains": "active",
    "costume design by": "noun by",
    "countries spoken in": "stranded",
    "similar_to": "copular",
    "speaks language": "verb object",
    "countries within": "within",
    "headquarters": "noun",
    "member of sports team": "noun of",
    "drug used for treatment": "noun",
    "eats": "active",
    "hasWonPrize": "verb object",
    "exports": "noun",
    "influences": "noun",
    "worksAt": "active",
    "/film/film/edited_by": "passive",
    "http://example.org/ontology#birthPlace": "noun",
    "fraternities and sororities": "noun",
    "<odd|label/{x}>": "noun",
}


@lru_cache(maxsize=1)
def typed() -> Graph:
    return synthetic_graph(3, 10)


@lru_cache(maxsize=1)
def labelled() -> Graph:
    """Every kind of label over films and people, types partly unknown."""
    people = [f"p{n}" for n in range(6)]
    films = [f"f{n}" for n in range(6)]
    entities = {p: NamedEntity(f"Ana {p.upper()}", types=("person",)) for p in people}
    entities |= {f: NamedEntity(f"Mola {f.upper()}", types=("film",)) for f in films}
    facts = [(f, p) for f in films for p in people if (films.index(f) + people.index(p)) % 3]
    pairs = _pairs(facts, list(entities))
    told = {label: NamedRelation(label) for label in LABELS}
    runtime = NamedAttribute(
        "runtime", "number", "minutes", {f: ("90", 90.0 + n) for n, f in enumerate(films)}
    )
    return Graph(
        "labels",
        tables_of(
            entities,
            {"person": "person", "film": "film"},
            told,
            dict.fromkeys(LABELS, pairs),
            {"runtime": runtime},
        ),
    )


def _pairs(facts: list[tuple[str, str]], ids: list[str]) -> object:
    import numpy as np

    number = {name: place for place, name in enumerate(ids)}
    return np.array([[number[h], number[t]] for h, t in facts], np.int32)


@lru_cache(maxsize=16)
def plans(graph: Graph, count: int, seed: int = 0) -> list[tuple[str, Plan]]:
    sampler = Sampler(graph, Limits(), seed)
    able = [pattern for pattern in PATTERNS if sampler.can(pattern)]
    found = []
    for place in range(3 * count):
        pattern = able[place % len(able)]
        sample = sampler.draw(pattern, place // len(able), Draw(seed, pattern, place))
        if sample is not None:
            found.append((pattern, sample.plan))
        if len(found) == count:
            break
    return found


@pytest.mark.parametrize(("label", "kind"), LABELS.items())
def test_labels_are_read_by_kind(label: str, kind: str) -> None:
    """A label is read as what it is; what cannot be read is quoted and stays a noun."""
    assert read_label(label).kind == kind


def test_labels_keep_their_direction() -> None:
    """The noun of a label names the tails, or the heads in "N of"; its plural is that of its head."""
    nouns = {
        "drug used for treatment": "drugs used for treatment",
        "place of birth": "places of birth",
        "member_of": "members",
        "member of sports team": "members",
        "awards won": "awards won",
        "influences": '"influences" entries',
        "P36": '"P36" entries',
        "customer_id": "customers",
        "spouse s / spouse": "spouses",
        "has part(s)": "parts",
    }
    for label, plural in nouns.items():
        noun = read_label(label).noun
        assert noun is not None
        assert noun.plural == plural


def test_english_inflection() -> None:
    """Plurals, singulars, verbs and articles, regular and irregular."""
    words = {
        "company": "companies", "city": "cities", "day": "days", "person": "people", "child": "children",
        "class": "classes", "box": "boxes", "church": "churches", "wife": "wives", "series": "series",
        "woman": "women", "crisis": "crises", "status": "statuses", "country": "countries", "hero": "heroes",
    }  # fmt: skip
    for one, many in words.items():
        assert plural_word(one) == many
        assert singular_word(many) == one
    assert [third(v) for v in ("have", "carry", "watch", "own")] == [
        "has",
        "carries",
        "watches",
        "owns",
    ]
    assert [past_of(v) for v in ("write", "direct", "marry", "plan")] == [
        "wrote",
        "directed",
        "married",
        "planned",
    ]
    assert [gerund(v) for v in ("write", "star", "own")] == ["writing", "starring", "owning"]
    nouns = [
        "actor",
        "university",
        "hour",
        "European",
        "one-act",
        "NFL draft",
        "UN body",
        "8th",
        "18",
        "user",
        "umbrella",
    ]
    assert [article(n) for n in nouns] == [
        "an",
        "a",
        "an",
        "a",
        "a",
        "an",
        "a",
        "an",
        "an",
        "a",
        "an",
    ]


@pytest.mark.parametrize("make", [typed, labelled])
def test_english_agrees(make: object) -> None:
    """An independent checker finds no wrong agreement in questions of any pattern."""
    graph = make()  # type: ignore[operator]
    realizer = Realizer(graph, "en")
    for place, (_, plan) in enumerate(plans(graph, 1000)):
        said = realizer.question(plan, Draw(5, place))
        assert not problems(said.skeleton, lower="lower" in said.noise), said.text


@pytest.mark.parametrize(
    "wrong",
    [
        "Which film were directed by [E]?",
        "List the films that was directed by [E].",
        "Find the companys of [E].",
        "Name the films who star [E].",
        "What is the directors of [E]?",
        "I need those film.",
        "How many film are there?",
        "Give me a actor of [E].",
        "Give me an university of [E].",
        "Find the the films of [E].",
        "Which people do [E] have?",
        "find the films of [E].",
        "Find the {F} of [E].",
        "List the childs of [E].",
        "List the classses of [E].",
        "Is it the films's director ?",
    ],
)
def test_the_checker_sees_errors(wrong: str) -> None:
    """The oracle is no rubber stamp: each of these is wrong."""
    assert problems(wrong)


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_questions_differ(lang: str) -> None:
    """At least 900 of 1,000 questions have a skeleton of their own."""
    graph = typed()
    realizer = Realizer(graph, lang)
    skeletons = {
        realizer.question(p, Draw(9, n)).skeleton for n, (_, p) in enumerate(plans(graph, 1000))
    }
    assert len(skeletons) >= 900


def _small_plans(graph: Graph) -> Iterator[Plan]:
    """All plans of some shapes over few entities and relations: near each other on purpose."""
    hops: list[SetPlan] = [
        Project(Anchor(entity), relation, inverse)
        for relation in range(min(4, len(graph.relations)))
        for inverse in (False, True)
        for entity in graph.heads(relation, inverse)[:2].tolist()
    ]
    yield from hops
    for one in hops:
        for number in range(3):
            for inverse in (False, True):
                yield Project(one, number, inverse)
        yield Count(one)
        for other in hops:
            if canonical(one, graph) < canonical(other, graph):
                yield Intersect((one, other))
                yield Unite((one, other))
            if one != other:
                yield Subtract(one, other)
    for a, b, c in zip(hops, hops[3:], hops[5:], strict=False):
        yield from (Subtract(Intersect((a, b)), c), Intersect((Subtract(a, c), b)))
        yield from (Unite((Intersect((a, b)), c)), Intersect((Unite((a, c)), b)))
        yield from (Project(Unite((a, b)), 0), Unite((Project(a, 0), b)), Unite((a, Project(b, 0))))
        yield from (Project(Subtract(a, b), 0), Subtract(Project(a, 0), b))
    for attribute in range(len(graph.attributes)):
        for one in hops[:6]:
            yield from (Top(one, attribute, k, big) for k in (1, 2) for big in (False, True))
            if graph.attributes[attribute].kind == "number":
                yield from (Filter(one, attribute, op, 5.0) for op in ("min", "max"))  # type: ignore[arg-type]


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("make", [typed, labelled])
def test_a_question_means_one_plan(make: object, lang: str) -> None:
    """No text is said for two different plans, whatever the frame: operators keep their scope."""
    graph = make()  # type: ignore[operator]
    realizer = Realizer(graph, lang)
    meaning: dict[str, str] = {}
    for plan in _small_plans(graph):
        key = canonical(plan, graph)
        for seed in range(6):
            text = realizer.question(plan, Draw(seed, key)).text
            assert meaning.setdefault(text.lower(), key) == key, text


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_every_anchor_and_number_is_named(lang: str) -> None:
    """A question names every anchor of its plan, and nothing is typed wrong inside a mention."""
    graph = typed()
    realizer = Realizer(graph, lang)
    for place, (_, plan) in enumerate(plans(graph, 1000)[:600]):
        said = realizer.question(plan, Draw(2, place))
        assert {entity for entity, _, _ in said.mentions} >= set(anchors(plan)), said.text
        for entity, start, end in said.mentions:
            assert graph.labels[entity] in said.text[start:end]
        if isinstance(plan, Top) and plan.k > 1:
            assert str(plan.k) in said.text


def test_deep_plans_are_told_in_steps() -> None:
    """Three projections, or a projection of a combined set, take more than one sentence."""
    graph = typed()
    realizer = Realizer(graph, "en")
    for place, (pattern, plan) in enumerate(plans(graph, 1000)):
        if pattern in ("3p", "ip", "up", "pi", "inp", "pin", "pni"):
            text = realizer.grammar.core(plan, Draw(1, place), "imperative")
            assert ". " in text or "\n" in text, text


def test_questions_are_deterministic() -> None:
    """The same plan and draw give the same words, also from a realizer made anew."""
    graph = typed()
    for place, (_, plan) in enumerate(plans(graph, 1000)[:50]):
        one, other = (Realizer(graph, "en").question(plan, Draw(1, place)) for _ in range(2))
        assert one == other


def test_mentions_can_be_replaced() -> None:
    """An alias, or "that film", stands where the label would, and noise leaves it alone."""
    graph = typed()
    realizer = Realizer(graph, "en")
    for place, (_, plan) in enumerate(plans(graph, 1000)[:200]):
        entity = anchors(plan)[0]
        said = realizer.question(plan, Draw(3, place), names={entity: "The OTHER Name"})
        assert "The OTHER Name" in said.text
        vague = realizer.vague(plan, Draw(3, place)).text
        assert graph.labels[entity] not in vague


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_the_voice_says_everything(lang: str) -> None:
    """Every sentence of the protocol is said, without slots left open."""
    graph = typed()
    realizer = Realizer(graph, lang)
    said: list[str] = []
    for place, (_, plan) in enumerate(plans(graph, 1000)[:120]):
        draw = Draw(place)
        result = evaluate(plan, graph)
        first = anchors(plan)[0]
        said += [realizer.answer(plan, result, draw), realizer.thought(plan, draw)]
        said += [realizer.refusal(plan, plan, draw), realizer.clarify(plan, draw)]
        said.append(realizer.clarify(plan, draw, name="X", candidates=[0, 1]))
        said += [realizer.supply(first, draw).text, realizer.system_prompt(draw)]
        said.append(realizer.follow_up(Other(plan, plan, first, place % 2 == 0), draw).text)
        said.append(realizer.follow_up(Correct(plan, first, 0), draw).text)
        said.append(realizer.follow_up(Recall(plan, first if place % 2 else -1), draw).text)
        said.append(realizer.correction("a", "b", draw))
        said += list(realizer.small_talk(draw)[1:])
        if not isinstance(plan, Count | Value | Compare):
            extra = Project(Anchor(first), *relations(plan)[0]) if relations(plan) else plan
            said.append(realizer.follow_up(Refine(plan, extra), draw).text)
            said.append(realizer.follow_up(UseSaved("later", plan, extra), draw).text)
            said.append(realizer.follow_up(Relax(plan, plan), draw).text)
            said.append(realizer.follow_up(Save(plan, "later"), draw).text)
            said.append(realizer.done(Save(plan, "later"), draw))
            said.append(realizer.partial(plan, plan, result, plan, draw))
            said.append(realizer.answer(plan, result, draw, edit=Recall(plan)))
        for trouble in ("rate_limit", "timeout", "bad_response", "unavailable"):
            said.append(realizer.retry(trouble, draw))  # type: ignore[arg-type]
    ops: list[tuple[str | int | bool, ...]] = [
        ("project", 0, False),
        ("project", 1, True),
        ("value", 0),
    ]
    ops += [("filter", 0), ("top", 0), ("intersect",), ("unite",), ("subtract",), ("count",)]
    ops += [("search",), ("save",), ("load",), ("deprecated", "project", 2, False)]
    said += [realizer.tool_description(op, Draw(seed)) for op in ops for seed in range(12)]
    for text in said:
        assert text
        assert not set("{}\x01\x02\x03\x04\x05\x06") & set(text), text


def test_answers_name_the_result() -> None:
    """A list is told whole up to twenty names, beyond that its length and its first ten."""
    graph = typed()
    realizer = Realizer(graph, "en")
    plan = Project(Anchor(0), 0)
    import numpy as np

    for count in (0, 1, 2, 7, 20, 34):
        for seed in range(20):
            text = realizer.answer(plan, np.arange(count, dtype=np.int32), Draw(seed, count))
            shown = count if count <= 20 else 10
            assert all(graph.labels[entity] in text for entity in range(shown)), text
            if count > 20:
                assert "34" in text
                assert "10" in text
    assert "7" in realizer.answer(Count(plan), 7, Draw(1))


def test_system_prompts_are_many() -> None:
    """The grammar of system prompts gives thousands of different ones."""
    realizer = Realizer(typed(), "en")
    assert len({realizer.system_prompt(Draw(n)) for n in range(5000)}) > 4500


def test_relations_have_words_of_their_own() -> None:
    """Two relations with one label that the same entities have are told apart."""
    people = {f"p{n}": NamedEntity(f"Person {n}", types=("person",)) for n in range(4)}
    pairs = _pairs([("p0", "p1"), ("p2", "p3")], list(people))
    told = {"/a/b/film": NamedRelation("film"), "/a/c/film": NamedRelation("film")}
    graph = Graph(
        "g", tables_of(people, {"person": "person"}, told, dict.fromkeys(told, pairs), {})
    )
    for lang in ("en", "zh"):
        realizer = Realizer(graph, lang)
        texts = [
            {realizer.grammar.thing(Project(Anchor(0), relation), Draw(n))[0] for n in range(40)}
            for relation in (0, 1)
        ]
        assert not texts[0] & texts[1]


def test_lexicon_files_give_better_words(tmp_path: Path) -> None:
    """Labels, nouns, types and units of a lexicon file are used."""
    path = tmp_path / "lexicon.toml"
    path.write_text(
        '[en.relations.director]\nnoun = "helmsman"\nplural = "helmsmen"\nanimate = true\n[en.types.film]\nnoun = "movie"\n[zh.types.film]\nnoun = "影片"\nmeasure = "部"\n',
        "utf-8",
    )
    graph = labelled()
    number = [one.id for one in graph.relations].index("director")
    realizer = Realizer(graph, "en", read_overrides(path, "en", graph))
    head = int(graph.heads(number)[0])
    texts = {realizer.question(Project(Anchor(head), number), Draw(n)).text for n in range(30)}
    assert all("helmsm" in text for text in texts)
    tail = int(graph.heads(number, True)[0])
    assert "movies" in realizer.grammar.thing(Project(Anchor(tail), number, True), Draw(0))[0]
    zh = Realizer(graph, "zh", read_overrides(path, "zh", graph))
    assert "影片" in zh.grammar.thing(Project(Anchor(tail), number, True), Draw(0))[0]


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ('[en.relations.direktor]\nlabel = "x"\n', 'en.relations."direktor"'),
        (
            '[en.relations.director]\nlabell = "x"\n',
            "en.relations.\"director\": unknown key 'labell'",
        ),
        ("[en.relations.director]\nlabel = 3\n", 'en.relations."director".label: 3'),
        ('[en.relations.director]\nlabel = ""\n', 'en.relations."director".label'),
        ('[en.relations.director]\nlabel = "a"\nnoun = "b"\n', 'en.relations."director"'),
        ('[en.types.film]\nplural = "b"\n', 'en.types."film"'),
        ('[en.types.film]\nnoun = "{x}"\n', 'en.types."film".noun'),
        ("[en.words]\n", "en.words"),
        ("[fr.relations]\n", "'fr'"),
        ("en = 3\n", "lexicon"),
        ("[en\n", "not TOML"),
    ],
)
def test_a_broken_lexicon_entry_is_named(tmp_path: Path, text: str, named: str) -> None:
    """What is wrong in a lexicon file is refused with the entry's name."""
    path = tmp_path / "lexicon.toml"
    path.write_text(text, "utf-8")
    with pytest.raises(RecordError, match=r".") as caught:
        read_overrides(path, "en", labelled())
    assert named in str(caught.value)
    with pytest.raises(RecordError, match="No such file"):
        read_overrides(tmp_path / "none.toml", "en", labelled())


def test_questions_are_fast() -> None:
    """At least 3,000 questions a second of processor time (measured: over 10,000)."""
    graph = typed()
    realizer = Realizer(graph, "en")
    ours = plans(graph, 1000)
    start = time.process_time()
    for place, (_, plan) in enumerate(ours):
        realizer.question(plan, Draw(1, place))
    assert len(ours) / (time.process_time() - start) > 3000


def test_all_patterns_are_asked() -> None:
    """The graph of these tests has plans of all fourteen patterns, and of those over values."""
    found = {pattern for pattern, _ in plans(typed(), 1000)}
    assert found >= {*FOURTEEN, "count", "compare", "filter", "top", "value"}
