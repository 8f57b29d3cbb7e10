"""Records of the synthesizer: a conversation with its tools, its plan and its proof."""

from dataclasses import dataclass, field
from typing import Any

import orjson

FORMAT = 1
"""Version of what :meth:`Record.to_json` writes."""

Label = int | str | bool


@dataclass(frozen=True, slots=True)
class Record:
    """One conversation, and all that is needed to replay and judge it.

    ``tools`` and ``messages`` are in OpenAI's form: contents are strings, arguments are JSON
    strings, every call has an answer with its id. Everything else is the proof.
    """

    record_id: str
    """``<graph>-<pattern>-<scenario>-<index>``."""
    world: str
    """Seed and styles of the tool world, as :func:`transforms.synthesis.world.World.key` writes."""
    pattern: str
    """One of PATTERNS, or ``none`` where no plan stands behind the conversation."""
    labels: dict[str, Label]
    """``scenario, hops, width, calls, parallel, distractors ...``."""
    lang: str
    tools: list[dict[str, Any]]
    ops: list[list[Any]]
    """What each tool does, in ids: ``["project", "/film/film/genre"]``."""
    messages: list[dict[str, Any]]
    plan: str
    """What the conversation's last answer answers (canonical), or an empty text."""
    gold: dict[str, Any]
    """``kind`` (``entities, number, value, none``), ``ids``, ``labels``, ``number``, ``text``."""
    turns: list[dict[str, Any]] = field(default_factory=list)
    """For each turn of the user: ``plan``, ``gold``, ``behaviour`` (``answer, refuse, clarify,
    partial, chat``); ``asked`` where a part is answered: the plan of the whole question."""
    faults: list[dict[str, Any]] = field(default_factory=list)
    """What the environment did at which call: ``call`` (its number from 0), ``kind``, ``...``."""
    query_key: str = ""
    """Hash of what the user asks and of the canonical plan: records with one key are the same."""
    skeleton: str = ""
    """The first question with entities and numbers masked."""

    def to_json(self) -> bytes:
        """Write the record, keys in order of the fields."""
        content = {name: getattr(self, name) for name in self.__slots__}
        return orjson.dumps({"format": FORMAT, **content})

    @classmethod
    def from_json(cls, text: bytes | str) -> "Record":
        """Read what :meth:`to_json` wrote.

        Raises:
            ValueError: the text is no record of this format.
        """
        content = orjson.loads(text)
        if content.pop("format", None) != FORMAT:
            raise ValueError(f"a record of another format: {content.get('record_id')}")
        return cls(**content)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A record that the gate has not seen yet, or why there is none."""

    pattern: str
    scenario: str
    index: int
    """Place in the cell (pattern, scenario)."""
    record: Record | None
    reason: str = ""
    """Why no record could be made: ``no plan`` or what the scenario lacked."""
    tries: int = 1
    """Plans that were drawn for it."""
