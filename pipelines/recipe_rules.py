"""Rules across the tables of a recipe: what the type of a single key cannot say.

Each takes plain values and yields problems, so that the same rule checks a parsed file, in which
anything may be wrong (:func:`raw_rules`), and a finished recipe.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from pipelines.recipe_problems import Problem
from pipelines.sources import token_ids_expected
from transforms.synthesis.settings import DEFAULT_DOMAIN, SynthesisSettings

_NAME = re.compile(r"\w[\w.-]*")


def raw_rules(raw: dict[str, Any]) -> Iterator[Problem]:
    """Check the rules across tables on the parsed file, whatever else is wrong with it."""
    sources = raw.get("sources", [])
    if not isinstance(sources, list):
        return
    names = [source.get("name") if isinstance(source, dict) else None for source in sources]
    made = raw.get("synthesize", [])
    made = [table for table in made if isinstance(table, dict)] if isinstance(made, list) else []
    yield from name_rules(raw.get("name"), names, [_made_source(table) for table in made])
    pack, balance = raw.get("pack"), raw.get("balance")
    yield from unshared_rows(
        pack.get("long") if isinstance(pack, dict) else None,
        balance.get("dp", 1) if isinstance(balance, dict) else 1,
    )
    tokenizer = raw.get("tokenizer", {})
    if isinstance(pack, dict) and isinstance(tokenizer, dict):
        yield from short_rows(
            pack.get("seq_len"),
            tokenizer.get("bos", False),
            tokenizer.get("eos", True),
            fim=tokenizer.get("fim") is not None,
        )
    yield from _raw_without_text(raw, sources)
    embed = raw.get("embed")
    yield from without_vectors(
        embed.get("column") if isinstance(embed, dict) else None,
        [(s.get("name"), s.get("columns", {})) for s in sources if isinstance(s, dict)],
    )
    tables = [source for source in sources if isinstance(source, dict)]
    columns = [source["columns"] for source in tables if isinstance(source.get("columns"), dict)]
    there = (
        [
            *(source.get("domain", source.get("name")) for source in tables),
            *(table.get("domain", DEFAULT_DOMAIN) for table in made),
        ],
        [name for names in columns for name in names],
    )
    dedupe = raw.get("dedupe")
    sentence = dedupe.get("sentence") if isinstance(dedupe, dict) else None
    if isinstance(sentence, dict):
        domains, column = sentence.get("domains"), sentence.get("quality_column")
        yield from unknown_sentence_names(
            [name for name in domains if isinstance(name, str)]
            if isinstance(domains, list)
            else (),
            [column] if isinstance(column, str) else (),
            *there,
        )
    mixture = raw.get("mixture")
    if isinstance(mixture, dict):
        weights, soft = mixture.get("weights"), mixture.get("soft")
        column = soft.get("column") if isinstance(soft, dict) else None
        yield from unknown_names(
            weights if isinstance(weights, dict) else (),
            [column] if isinstance(column, str) else (),
            *there,
        )


def unknown_names(
    weights: Iterable[str], column: Iterable[str], domains: Sequence[Any], columns: Sequence[str]
) -> Iterator[Problem]:
    """Yield the names in the mixture that no source has."""
    known = sorted({name for name in domains if isinstance(name, str)})
    for name in weights:
        if name not in known:
            text = _no_such("domain of a source", name, known)
            yield Problem(("mixture", "weights", name), text)
    known = sorted({*columns, "n_chars", "n_bytes"})
    for name in column:
        if name not in known:
            text = _no_such("column of a source", name, known)
            yield Problem(("mixture", "soft", "column"), text)


def without_vectors(column: Any, sources: Sequence[tuple[Any, Any]]) -> Iterator[Problem]:
    """Yield the problem of a column of vectors that a source does not keep."""
    if not isinstance(column, str):
        return
    lacking = [
        name for name, columns in sources if isinstance(columns, Mapping) and column not in columns
    ]
    if lacking:
        text = (
            f"{json.dumps(column)} is no column of source {lacking[0]}; keep it there: "
            f'columns = {{ {column} = "..." }}'
        )
        yield Problem(("embed", "column"), text)


def unknown_sentence_names(
    names: Iterable[str], column: Iterable[str], domains: Sequence[Any], columns: Sequence[str]
) -> Iterator[Problem]:
    """Yield the names in ``dedupe.sentence`` that no source has."""
    known = sorted({name for name in domains if isinstance(name, str)})
    for place, name in enumerate(names):
        if name not in known:
            text = _no_such("domain of a source", name, known)
            yield Problem(("dedupe", "sentence", "domains", place), text)
    known = sorted(set(columns))
    for name in column:
        if name not in known:
            text = _no_such("column of a source", name, known)
            yield Problem(("dedupe", "sentence", "quality_column"), text)


def _raw_without_text(raw: dict[str, Any], sources: Sequence[Any]) -> Iterator[Problem]:
    """Yield the problems of sources of token ids, from the parsed file."""
    holders = [
        str(source.get("name"))
        for source in sources
        if isinstance(source, dict)
        and token_ids_expected(source.get("tokens"), source.get("format"), source.get("path"))
    ]
    tokenizer = raw.get("tokenizer")
    stages = []
    for name in ("decontaminate", "dedupe.near", "dedupe.sentence", "mixture.utility"):
        table: Any = raw
        for key in name.split("."):
            table = table.get(key) if isinstance(table, dict) else None
        stages += [name] if table is not None else []
    model = tokenizer.get("model") if isinstance(tokenizer, dict) else None
    yield from without_text(holders, model, stages)


def without_text(holders: Sequence[str], model: Any, stages: Sequence[str]) -> Iterator[Problem]:
    """Yield what sources of token ids lack, and the stages that ask them for text."""
    if not holders:
        return
    if not model:
        text = f"source {holders[0]!r} holds token ids; set model to the tokenizer that wrote them"
        yield Problem(("tokenizer", "model"), text)
    for name in stages:
        text = (
            f"source {holders[0]!r} holds token ids, and [{name}] reads text; run it before "
            "tokenizing, or remove the table"
        )
        yield Problem(tuple(name.split(".")), text)


def short_rows(seq_len: Any, bos: Any, eos: Any, *, fim: bool) -> Iterator[Problem]:
    """Yield the problem of rows that hold no token beside the special ones of a document."""
    special = [name for name, used in (("bos", bos), ("eos", eos)) if used is True]
    count = len(special) + 3 * fim
    if isinstance(seq_len, int) and 2 <= seq_len <= count:
        names = " and ".join([*special, *(["the three tokens of tokenizer.fim"] * fim)])
        text = (
            f"a row of {seq_len} tokens has no room for text beside {names}; set seq_len to at "
            f"least {count + 1}"
        )
        yield Problem(("pack", "seq_len"), text)


def unshared_rows(long: Any, dp: Any) -> Iterator[Problem]:
    """Yield the problem of rows to be shared by ranks that cannot be paired."""
    if long == "keep" and isinstance(dp, int) and dp % 2:
        text = (
            f'"keep" lets 2, 4, 8... ranks share a row, and balance.dp = {dp} is odd; set '
            'balance.dp to an even number, or long to "cut" or "drop"'
        )
        yield Problem(("pack", "long"), text)


def _no_such(kind: str, name: str, known: Sequence[str]) -> str:
    close = get_close_matches(name, known, n=1)
    remedy = f"did you mean {json.dumps(close[0])}?" if close else "correct or remove it"
    found = ", ".join(known) or "none"
    return f"{json.dumps(name)} is no {kind} (there are: {found}); {remedy}"


def _made_source(table: dict[str, Any]) -> Any:
    """Return the name of the source of a table of ``[[synthesize]]``, as far as it can be told."""
    graph, name = table.get("graph"), table.get("name")
    if name is not None or not isinstance(graph, str) or not graph:
        return name
    return SynthesisSettings(graph=graph).source


def name_rules(name: Any, sources: Sequence[Any], made: Sequence[Any] = ()) -> Iterator[Problem]:
    """Yield what is wrong with the run's name and the sources' names; values of other types pass.

    Args:
        name: of the run.
        sources: names of ``[[sources]]``.
        made: names of the sources that ``[[synthesize]]`` makes.
    """
    if isinstance(name, str) and not _NAME.fullmatch(name):
        text = f"expected letters, digits, '.', '_' and '-', found {json.dumps(name)}; rename it"
        yield Problem(("name",), text)
    if not sources and not made:
        yield Problem(
            ("sources",), 'none given; add [[sources]] with name = "..." and path = "..."'
        )
    for index, source in enumerate(made):
        if isinstance(source, str) and source in (*sources, *made[:index]):
            text = f"{json.dumps(source)} is the name of another source; give this one a name"
            yield Problem(("synthesize", index, "name"), text)
    for index, source in enumerate(sources):
        if isinstance(source, str) and source in sources[:index]:
            text = f"{json.dumps(source)} is taken by source {sources.index(source)}; rename one"
            yield Problem(("sources", index, "name"), text)
