"""The recipe: one TOML file that says what a run reads, does and writes.

Every table is a dataclass beside the code that it configures; this module puts them together and
reads the file into them, strictly: no unknown key, no coercion, and all mistakes at once.
"""

import json
import re
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, ClassVar

from annotated_types import Ge, Lt
from pydantic import TypeAdapter

from packing.fit import PackSettings
from packing.slots import BalanceSettings
from pipelines.recipe_overrides import apply_overrides
from pipelines.recipe_problems import Keys, Problem, find_problems
from pipelines.recipe_reference import attribute_docs, tables
from pipelines.recipe_rules import (
    name_rules,
    raw_rules,
    short_rows,
    unknown_names,
    unknown_sentence_names,
    unshared_rows,
    without_text,
    without_vectors,
)
from pipelines.runners import RunnerSettings
from pipelines.sources import SourceSettings
from transforms.contamination import DecontaminateSettings
from transforms.embed import EmbedSettings
from transforms.exact import ExactSettings
from transforms.minhash import NearSettings
from transforms.mixture import MixtureSettings
from transforms.sentences import SentenceSettings
from transforms.synthesis.settings import SynthesisSettings
from transforms.text import IngestSettings
from transforms.tokenize.settings import TokenizerSettings


class RecipeError(ValueError):
    """A recipe that cannot be used; ``problems`` has one line for each mistake."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


@dataclass(frozen=True, slots=True, kw_only=True)
class DedupeSettings:
    """Which kinds of duplicates are removed; a kind whose table is absent is skipped."""

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid", "strict": True}

    exact: ExactSettings | None = None
    """Documents with the same normalized text."""
    near: NearSettings | None = None
    """Documents that share most of their n-grams with one that is kept."""
    sentence: SentenceSettings | None = None
    """Sentences that many documents repeat."""
    against: tuple[str, ...] = ()
    """Work directories whose newest good run comes first: documents that duplicate one of those it
    accepted are removed. Relative paths start at the current folder."""

    def __post_init__(self) -> None:
        """Check the rules across fields.

        Raises:
            ValueError: `against` without a kind of duplicates, or a folder named twice.
        """
        if self.against and self.exact is None and self.near is None:
            raise ValueError(
                "against compares through [dedupe.exact] and [dedupe.near], and neither is there; "
                "add one of them"
            )
        folders = [Path(folder).resolve() for folder in self.against]
        for place, folder in enumerate(folders):
            if folder in folders[:place]:
                raise ValueError(f"against names {self.against[place]} twice; remove one")


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """Everything a run depends on.

    Raises:
        ValueError: no source, two sources of one name, or a name that is no folder name.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid", "strict": True}

    name: str
    """Name of the run: letters, digits, ``.``, ``_`` and ``-``."""
    seed: Annotated[int, Ge(0), Lt(2**63)] = 0
    """Seed of every random choice: the tokenizer's sample, the order of rows."""
    workdir: str = ""
    """Folder of artifacts, catalog and runs, local or on a shared POSIX file system; by default
    ``runs/<name>``. Relative paths start at the current folder."""
    sources: tuple[SourceSettings, ...] = ()
    """Where documents come from, in the order in which duplicates prefer them."""
    ingest: IngestSettings = field(default_factory=IngestSettings)
    """Reading and normalizing documents."""
    decontaminate: DecontaminateSettings | None = None
    """Dropping or cutting documents that hold items of evaluation sets; skipped without its table."""
    dedupe: DedupeSettings = field(default_factory=DedupeSettings)
    """Removing duplicates."""
    synthesize: tuple[SynthesisSettings, ...] = ()
    """Conversations that are made instead of read."""
    tokenizer: TokenizerSettings = field(default_factory=TokenizerSettings)
    """Turning text into token ids."""
    mixture: MixtureSettings | None = None
    """Drawing documents so that domains have the asked shares of tokens; without it each is drawn
    once."""
    embed: EmbedSettings | None = None
    """Vectors of documents, by which documents that belong together are found."""
    pack: PackSettings = field(default_factory=PackSettings)
    """Putting documents into rows of ``seq_len`` tokens."""
    balance: BalanceSettings = field(default_factory=BalanceSettings)
    """Dealing rows to training steps and ranks."""
    runner: RunnerSettings = field(default_factory=RunnerSettings)
    """Where the pipeline runs; never changes a byte of the result."""

    def __post_init__(self) -> None:
        """Fill the default work directory and check the rules across tables."""
        if not self.workdir:
            object.__setattr__(self, "workdir", f"runs/{self.name}")
        for problem in name_rules(
            self.name,
            [source.name for source in self.sources],
            [made.source for made in self.synthesize],
        ):
            raise ValueError(problem.line("recipe"))
        for problem in unshared_rows(self.pack.long, self.balance.dp):
            raise ValueError(problem.line("recipe"))
        tokenizer = self.tokenizer
        for problem in short_rows(
            self.pack.seq_len, tokenizer.bos, tokenizer.eos, fim=tokenizer.fim is not None
        ):
            raise ValueError(problem.line("recipe"))
        for problem in without_text(
            [source.name for source in self.sources if source.holds_tokens],
            self.tokenizer.model,
            [
                *(["decontaminate"] if self.decontaminate is not None else []),
                *(["dedupe.near"] if self.dedupe.near is not None else []),
                *(["dedupe.sentence"] if self.dedupe.sentence is not None else []),
                *(["mixture.utility"] if self.mixture and self.mixture.utility else []),
            ],
        ):
            raise ValueError(problem.line("recipe"))
        for problem in self._mixture_rules():
            raise ValueError(problem.line("recipe"))
        columns = [(source.name, source.columns) for source in self.sources]
        for problem in without_vectors(self.embed.column if self.embed else None, columns):
            raise ValueError(problem.line("recipe"))
        for problem in self._sentence_rules():
            raise ValueError(problem.line("recipe"))
        domains = sorted(set(self.domains))
        for name in self.tokenizer.fim.domains if self.tokenizer.fim is not None else ():
            if name not in domains:
                raise ValueError(
                    f"tokenizer.fim.domains: no source has the domain {name!r}; "
                    f"there are {', '.join(domains)}"
                )

    @property
    def domains(self) -> list[str]:
        """Mixture domains of what is read and what is made."""
        return [source.domain_name for source in self.sources] + [
            made.domain for made in self.synthesize
        ]

    def _sentence_rules(self) -> Iterator[Problem]:
        sentence = self.dedupe.sentence
        if sentence is not None:
            column = sentence.quality_column
            yield from unknown_sentence_names(
                sentence.domains or (),
                [column] if column is not None else (),
                self.domains,
                [name for source in self.sources for name in source.columns],
            )

    def _mixture_rules(self) -> Iterator[Problem]:
        mixture = self.mixture
        soft = mixture.soft if mixture is not None else None
        yield from unknown_names(
            mixture.weights if mixture is not None else (),
            [soft.column] if soft is not None and soft.column is not None else (),
            self.domains,
            [name for source in self.sources for name in source.columns],
        )


_ADAPTER: TypeAdapter[Recipe] = TypeAdapter(Recipe)


def load_recipe(path: str | Path, overrides: Sequence[str] = ()) -> Recipe:
    """Read a recipe.

    Args:
        path: the TOML file.
        overrides: changes of the form ``key.path=VALUE`` with a TOML value; ``sources.0.path`` and
            ``sources.<name>.path`` address one source.

    Returns:
        The recipe, with all defaults filled in.

    Raises:
        RecipeError: the file cannot be read, is not TOML, or has mistakes; all of them are named.
    """
    raw = _read(Path(path))
    origins, lines = apply_overrides(raw, overrides)
    for problem in find_problems(_ADAPTER, Recipe, raw, list(raw_rules(raw))):
        lines.append(problem.line(_origin(problem.keys, origins, str(path))))
    if lines:
        raise RecipeError(lines)
    return from_dict(raw)


def from_dict(value: dict[str, Any]) -> Recipe:
    """Restore a recipe from plain values, as :func:`resolved` gives them.

    Raises:
        ValidationError: the values are not those of a recipe (pydantic's error, all mistakes).
    """
    return _ADAPTER.validate_json(json.dumps(value))


def resolved(recipe: Recipe) -> dict[str, Any]:
    """Return a recipe as plain JSON values with every default filled in."""
    plain: dict[str, Any] = json.loads(json.dumps(asdict(recipe)))
    return plain


def recipe_schema() -> dict[str, Any]:
    """Return the JSON Schema of a recipe; every key carries its description."""
    schema = _ADAPTER.json_schema()
    for _, cls, _ in tables(Recipe):
        node = schema if cls is Recipe else schema["$defs"][cls.__name__]
        node.setdefault("description", (cls.__doc__ or "").partition("\n")[0])
        for name, text in attribute_docs(cls).items():
            node["properties"][name]["description"] = text
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def _read(path: Path) -> dict[str, Any]:
    """Parse the file.

    Raises:
        RecipeError: it cannot be read or is not TOML.
    """
    try:
        return tomllib.loads(path.read_bytes().decode())
    except FileNotFoundError as error:
        siblings = [str(p) for p in path.parent.glob("*.toml")] if path.parent.is_dir() else []
        close = get_close_matches(str(path), siblings, n=1)
        remedy = f"did you mean {close[0]}?" if close else "give the path of a recipe (TOML)"
        raise RecipeError([f"{path}: no such file; {remedy}"]) from error
    except OSError as error:
        raise RecipeError([f"{path}: cannot be read ({error.strerror}); give a file"]) from error
    except UnicodeDecodeError as error:
        raise RecipeError([f"{path}: not UTF-8 at byte {error.start}; save it as UTF-8"]) from error
    except tomllib.TOMLDecodeError as error:
        text, _, place = str(error).rpartition(" (at ")
        line = re.match(r"line (\d+), column (\d+)", place)
        where = f"{path}:{line[1]}:{line[2]}" if line else f"{path} (at {place}"
        raise RecipeError([f"{where}: not valid TOML: {text}"]) from error


def _origin(keys: Keys, origins: dict[Keys, str], path: str) -> str:
    """Return what a mistake stands in: the file, or the override that set the key."""
    for length in range(len(keys), 0, -1):
        if keys[:length] in origins:
            return f"--set {origins[keys[:length]]}"
    return path
