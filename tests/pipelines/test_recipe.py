"""The recipe: strict reading, all mistakes at once, overrides, schema."""

import json
import tomllib
from pathlib import Path

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.recipe import (
    Recipe,
    RecipeError,
    from_dict,
    load_recipe,
    recipe_schema,
    resolved,
)
from pipelines.recipe_overrides import apply_overrides, parse_override
from pipelines.recipe_reference import (
    attribute_docs,
    describe,
    hints,
    tables,
    toml,
)

SOURCES = '[[sources]]\nname = "a"\npath = "in/*.jsonl"\n'
SMALLEST = f'name = "x"\n{SOURCES}'


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Write a recipe in an empty current folder and return its name."""
    monkeypatch.chdir(tmp_path)

    def recipe(text: str) -> Path:
        path = Path("r.toml")
        path.write_text(text, encoding="utf-8")
        return path

    return recipe


def problems(path: Path, *overrides: str) -> list[str]:
    with pytest.raises(RecipeError) as caught:
        load_recipe(path, overrides)
    assert str(caught.value) == "\n".join(caught.value.problems)
    return list(caught.value.problems)


def test_smallest_recipe_gets_every_default(write):
    """A name and one source are enough; absent stages are None, the work directory follows."""
    recipe = load_recipe(write(SMALLEST))
    assert (recipe.seed, recipe.workdir, recipe.dedupe.exact) == (0, "runs/x", None)
    assert (recipe.pack.seq_len, recipe.pack.strategy) == (32768, "best_fit")
    assert recipe.tokenizer.trains
    assert recipe.sources[0].domain_name == "a"


def test_empty_stage_table_turns_the_stage_on(write):
    """`[dedupe.exact]` without keys is a stage with default settings."""
    assert load_recipe(write(SMALLEST + "[dedupe.exact]\n")).dedupe.exact is not None


def test_seven_mistakes_are_seven_lines(write):
    """Each mistake is one line that names the key, the problem and the remedy."""
    path = write(
        'name = "x"\nseed = "seven"\nworkdri = "w"\n[[sources]]\nname = "a"\npath = 3\n'
        '[ingest]\nmin_chars = -5\n[tokenizer]\nkind = "sentencepeice"\n'
        '[pack]\nseq_len = -1\nstrategy = "sculptt"\n'
    )
    lines = problems(path)
    keys = "seed workdri sources.0.path ingest.min_chars tokenizer.kind pack.seq_len pack.strategy"
    assert [line.split(": ")[1] for line in lines] == keys.split()
    assert all(line.startswith("r.toml: ") and ";" in line and "\n" not in line for line in lines)
    assert "did you mean workdir?" in lines[1]
    assert 'did you mean "sentencepiece"?' in lines[4]


@pytest.mark.parametrize(
    ("text", "key", "says"),
    [
        (SOURCES, "name", "missing; give a string"),
        ("name = 5\n" + SOURCES, "name", 'put it in quotes: name = "5"'),
        ('name = "a/b"\n' + SOURCES, "name", "expected letters"),
        ('name = ".."\n' + SOURCES, "name", "expected letters"),
        ('name = "x"\n', "sources", "add [[sources]]"),
        ('name = "x"\n[sources]\nname = "a"\n', "sources", "two brackets: [[sources]]"),
        (SMALLEST + SOURCES, "sources.1.name", '"a" is taken by source 0'),
        (SMALLEST + "format = 'xml'\n", "sources.0.format", 'expected one of "jsonl", "parquet"'),
        (SMALLEST + "columns = { url = 3 }\n", "sources.0.columns.url", "put it in quotes"),
        (SMALLEST + "columns = { text = 'b' }\n", "sources.0", "would hide columns"),
        ('seed = "7"\n' + SMALLEST, "seed", "remove the quotes: seed = 7"),
        ("seed = 7.0\n" + SMALLEST, "seed", "expected an integer"),
        ("seed = true\n" + SMALLEST, "seed", "expected an integer"),
        ("seed = 2020-01-01\n" + SMALLEST, "seed", "found a date or time"),
        (f"seed = {2**63}\n" + SMALLEST, "seed", "expected an integer"),
        ("seq_len = 8\n" + SMALLEST, "seq_len", "did you mean pack.seq_len?"),
        ("path = 'x'\n" + SMALLEST, "path", "did you mean path in [[sources]]"),
        ('runner = "local"\n' + SMALLEST, "runner", "write it as a table: [runner]"),
        (SMALLEST + "[dedup.exact]\n", "dedup", "unknown table; did you mean dedupe?"),
        (SMALLEST + "[dedupe.exact]\nx = 1\n", "dedupe.exact.x", "[dedupe.exact] of this version"),
        (SMALLEST + "[signals]\n", "signals", "unknown table; remove it: a recipe of this version"),
        (SMALLEST + "[dedupe.fuzzy]\n", "dedupe.fuzzy", "[dedupe] of this version takes exact"),
        (
            SMALLEST + "[dedupe.near]\nbands = 3\n",
            "dedupe.near",
            "raise bands or lower rows",
        ),
        (SMALLEST + "[filters]\nmin = 1\n", "filters", "unknown table"),
        (SMALLEST + "[balance]\nffn = inf\n", "balance.ffn", "expected a finite number"),
        (
            SMALLEST + "[ingest]\nmax_rejected = 1.5\n",
            "ingest.max_rejected",
            "a number >= 0 and <=",
        ),
        (
            SMALLEST + '[tokenizer]\neos = "true"\n',
            "tokenizer.eos",
            "remove the quotes: eos = true",
        ),
        (
            SMALLEST + '[dedupe.sentence]\ndomains = ["wib"]\n',
            "dedupe.sentence.domains.0",
            '"wib" is no domain of a source (there are: ',
        ),
        (SMALLEST + "[tokenizer.special_ids]\nx = -1\n", "tokenizer.special_ids.x", ">= 0"),
    ],
)
def test_one_mistake_is_one_line(write, text, key, says):
    """The line begins with file and key, and says what is wrong and what to do."""
    lines = problems(write(text))
    assert [line.partition(f"r.toml: {key}: ")[1] for line in lines] == [f"r.toml: {key}: "]
    assert says in lines[0]


def test_rules_across_fields_are_found_beside_other_mistakes(write):
    """A table's own rule is checked even where another key, of it or of another table, is wrong."""
    path = write(SMALLEST + "[balance]\nglobal_batch = 3\ndp = 2\nbogus = 1\n[pack]\nseq_len = 0\n")
    assert [line.split(": ")[1] for line in problems(path)] == [
        "balance",
        "balance.bogus",
        "pack.seq_len",
    ]


def test_rule_that_hangs_on_a_wrong_key_is_not_reported(write):
    """With `dp` unreadable, whether it divides `global_batch` cannot be said."""
    path = write(SMALLEST + '[balance]\nglobal_batch = 3\ndp = "2"\nmicro_batch = 2\n')
    assert [line.split(": ")[1] for line in problems(path)] == ["balance.dp"]


def test_files_that_are_no_recipe(write, tmp_path):
    """A missing file, a folder, a binary and a syntax error are one line each, with the place."""
    path = write("name = \nseed = 3\n")
    assert problems(path)[0].startswith("r.toml:1:8: not valid TOML")
    assert "did you mean r.toml?" in problems(Path("rr.toml"))[0]
    assert "cannot be read" in problems(tmp_path)[0]
    path.write_bytes(b'name = "\xff"')
    assert "not UTF-8 at byte 8" in problems(path)[0]


def test_overrides_change_keys(write):
    """`--set` sets nested keys, makes tables, and addresses sources by position and by name."""
    path = write(SMALLEST + '[[sources]]\nname = "b"\npath = "p"\n[pack]\nseq_len = 64\n')
    recipe = load_recipe(
        path,
        [
            "seed=9",
            "pack.seq_len=128",
            "pack.seq_len = 256",
            "dedupe.exact={}",
            'sources.0.path="q"',
            'sources.b.domain="d"',
            "sources.b.columns.url='u'",
        ],
    )
    assert (recipe.seed, recipe.pack.seq_len) == (9, 256)
    assert recipe.dedupe.exact is not None
    assert [s.path for s in recipe.sources] == ["q", "p"]
    assert (recipe.sources[1].domain, recipe.sources[1].columns) == ("d", {"url": "u"})


@pytest.mark.parametrize(
    ("override", "says"),
    [
        ("seed", "expected KEY=VALUE"),
        ("=3", "is not a key path"),
        ("name=abc", "strings need quotes"),
        ("seed=1\nname='b'", "expected one KEY=VALUE"),
        ("sources.c.path='x'", "sources has no item c; it has 0 (a)"),
        ("sources.7.path='x'", "sources has no item 7"),
        ("seed.a=2", "seed is 4, not a table"),
        ("pack.seqlen=1", "did you mean seq_len?"),
        ("pack.seq_len='x'", "pack.seq_len: expected an integer"),
    ],
)
def test_override_mistakes_name_the_override(write, override, says):
    """A mistake made with `--set` is reported as one of the command line, not of the file."""
    (line,) = problems(write("seed = 4\n" + SMALLEST), override)
    assert line.startswith(
        "--set " + " ".join(override.split()) if "\n" not in override else "--set"
    )
    assert says in line


def test_override_mistakes_come_with_those_of_the_file(write):
    """Mistakes of the command line and of the file are reported together."""
    assert len(problems(write("seeed = 4\n" + SMALLEST), "name=abc", "pack.seq_len=-1")) == 3


keys = st.lists(st.from_regex(r"[A-Za-z0-9_-]{1,8}", fullmatch=True), min_size=1, max_size=4)
scalars = st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False)
texts = st.text(st.characters(exclude_categories=["C"]), max_size=12)
values = st.recursive(
    scalars | texts,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.from_regex(r"[a-z]{1,4}", fullmatch=True), inner, max_size=3)
    ),
    max_leaves=5,
)


@given(keys, values)
def test_every_toml_value_passes_through_an_override(path, value):
    """What is written as TOML behind the equals sign arrives unchanged under the key path."""
    text = f"{'.'.join(path)}={toml(value)}"
    assert parse_override(text) == (tuple(path), value)
    raw: dict = {}
    _, mistakes = apply_overrides(raw, [text])
    assert not mistakes
    for key in path:
        raw = raw[key]
    assert raw == value


@given(st.text(max_size=20))
def test_any_override_is_applied_or_named(text):
    """No text given to `--set` raises anything; what cannot be applied is one named mistake."""
    origins, mistakes = apply_overrides({}, [text])
    assert len(origins) + len(mistakes) == 1
    assert all(line.startswith("--set ") for line in mistakes)


@given(
    st.dictionaries(
        st.sampled_from([*hints(Recipe), "bogus"]),
        st.recursive(
            scalars | texts,
            lambda inner: (
                st.lists(inner, max_size=2)
                | st.dictionaries(
                    st.sampled_from(["name", "path", "exact", "seq_len", "kind", "dp", "columns"]),
                    inner,
                    max_size=3,
                )
            ),
            max_leaves=6,
        ),
    )
)
def test_any_toml_is_a_recipe_or_a_list_of_lines(tmp_path_factory, raw):
    """Whatever a file holds, reading gives a recipe or a RecipeError whose lines name known paths."""
    path = tmp_path_factory.getbasetemp() / "any.toml"
    path.write_text("".join(f"{k} = {toml(v)}\n" for k, v in raw.items()), encoding="utf-8")
    recipe, lines = None, []
    try:
        recipe = load_recipe(path)
    except RecipeError as error:
        lines = list(error.problems)
    assert all(line.startswith(f"{path}: ") for line in lines)
    assert len(set(lines)) == len(lines)
    assert bool(lines) == (recipe is None)
    assert recipe is None or from_dict(resolved(recipe)) == recipe


def test_resolved_recipe_is_plain_and_complete(write):
    """The resolved recipe is JSON, has every key, and gives the same recipe back."""
    recipe = load_recipe(write(SMALLEST + "[dedupe.exact]\n"))
    plain = resolved(recipe)
    assert from_dict(json.loads(json.dumps(plain))) == recipe
    assert list(plain) == list(hints(Recipe))
    assert set(plain["pack"]) == set(hints(type(recipe.pack)))


def test_schema_takes_what_the_loader_takes(write):
    """The JSON Schema is valid, accepts a good recipe and refuses the mistakes it can express."""
    schema = recipe_schema()
    validator = jsonschema.Draft202012Validator(schema)
    validator.check_schema(schema)
    good = tomllib.loads(SMALLEST + "[dedupe.exact]\n[pack]\nseq_len = 128\n")
    assert validator.is_valid(good)
    assert validator.is_valid(resolved(load_recipe(write(SMALLEST))))
    for bad in ("bogus = 1\n", "seed = -1\n", 'seed = "x"\n'):
        assert not validator.is_valid(tomllib.loads(bad + SMALLEST))


def test_every_key_is_described():
    """Every key of every table has a docstring, which the schema and the reference print."""
    for _, cls, _ in tables(Recipe):
        assert set(attribute_docs(cls)) == set(hints(cls)), cls
        for annotation in hints(cls).values():
            assert "typing" not in describe(annotation)
            assert "<" not in describe(annotation).replace("<=", "").replace("< ", "")
