"""Settings of synthesized tool-use conversations."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Annotated, Any, ClassVar, Literal

from annotated_types import Ge, Gt, MinLen

from transforms.synthesis.plan import PATTERNS
from transforms.synthesis.rewriter import RewriterSettings

PYTHON_GRAPH = "python"
"""Value of ``graph`` for the graph of this interpreter's modules and packages."""
DEFAULT_DOMAIN = "tool-use"

SHARES: Mapping[str, float] = {
    "plain": 16,
    "distractors_random": 8,
    "distractors_sibling": 8,
    "distractors_near_name": 5,
    "distractors_inverse": 5,
    "distractors_deprecated": 3,
    "missing_tool": 6,
    "partial_tool": 3,
    "missing_parameter": 4,
    "ambiguous_parameter": 2,
    "follow_up": 6,
    "refine": 4,
    "correct": 4,
    "topic_return": 3,
    "saved_set": 3,
    "in_context": 4,
    "unknown_entity": 4,
    "rate_limit": 2,
    "timeout": 2,
    "bad_response": 1,
    "unavailable": 1,
    "empty_relax": 1,
    "paging": 3,
    "long_result": 2,
    "no_tool": 2,
}
"""Parts of the records by scenario, out of 102; each is divided over its patterns alike."""

_SUFFIXES = (".gz", ".zst", ".tsv", ".jsonl", ".nt", ".parquet", ".csv", ".duckdb", ".db")


@dataclass(frozen=True, slots=True, kw_only=True)
class SynthesisSettings:
    """Conversations with tools, made from a knowledge graph (`[[synthesize]]`)."""

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid", "strict": True}

    kind: Literal["kg-tools"] = "kg-tools"
    """What is made: questions about a knowledge graph, answered by calls of tools over it."""
    graph: Annotated[str, MinLen(1)]
    """File or folder of the graph: triples (`.tsv`, `.jsonl`, `.nt`, `.parquet`), or tables (a
    folder of `.csv` or `.parquet`, a `.duckdb` file); `python` is the graph of the modules and
    packages of this interpreter. Relative paths start at the current folder."""
    name: Annotated[str, MinLen(1)] | None = None
    """Name of the source of these documents; default: `synthesize-` and the graph's name."""
    records: Annotated[int, Gt(0)] = 100_000
    """Verified, distinct conversations to deliver."""
    lang: Literal["en", "zh"] = "en"
    """Language of questions and answers."""
    domain: Annotated[str, MinLen(1)] = DEFAULT_DOMAIN
    """Mixture domain of the documents."""
    patterns: Mapping[str, Annotated[float, Ge(0)]] = field(default_factory=dict)
    """Shares of the patterns of questions (`1p`, `2p`, ..., `count`); default: all alike. A pattern
    that is not named then has none."""
    scenarios: Mapping[str, Annotated[float, Ge(0)]] = field(default_factory=dict)
    """Shares of the scenarios (`plain`, `missing_tool`, ...); default: the built-in shares. A
    scenario that is not named then has none."""
    lexicon: Annotated[str, MinLen(1)] | None = None
    """TOML file that says how relations are worded, over what is derived from their labels."""
    weights: Mapping[str, Annotated[float, Ge(0)]] = field(default_factory=dict)
    """Weight in the loss: `assistant` for answers, `tool_calls` for calls; 1 by default."""
    preferences: bool = False
    """Also make pairs for preference training, whose rejected half is proved wrong."""
    block: Annotated[int, Gt(0)] = 500
    """Candidates of one task; never changes a record."""
    rewriter: RewriterSettings | None = None
    """A language model that rewords questions; without this table none is asked, and no socket is
    opened."""
    strict: bool = False
    """End with an error where a pattern in a scenario falls short of its quota, even if others made
    up for it; otherwise a warning says which fall short, and why."""

    def __post_init__(self) -> None:
        """Check the rules across fields.

        Raises:
            ValueError: shares that are all zero, or weights of other keys.
        """
        for name in ("patterns", "scenarios"):
            shares = getattr(self, name)
            if shares and not any(shares.values()):
                raise ValueError(f"{name} are all 0; give one of them a share, or remove them")
        for name, known in (("patterns", PATTERNS), ("scenarios", tuple(SHARES))):
            strange = sorted(set(getattr(self, name)) - set(known))
            if strange:
                raise ValueError(
                    f"{name}: {', '.join(strange)} is not known; there are {', '.join(known)}"
                )
        unknown = sorted(set(self.weights) - {"assistant", "tool_calls"})
        if unknown:
            raise ValueError(f"weights names {', '.join(unknown)}; known: assistant, tool_calls")

    @property
    def graph_name(self) -> str:
        """Name of the graph: its file's or folder's, without suffixes."""
        name = PurePath(self.graph).name or PurePath(self.graph).parent.name
        while name.lower().endswith(_SUFFIXES):
            name = name[: name.rindex(".")]
        return name or "graph"

    @property
    def source(self) -> str:
        """Name of the source of the documents."""
        return self.name or f"synthesize-{self.graph_name}"
