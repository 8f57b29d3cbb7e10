#!/usr/bin/env python3
"""Tool-use records judged by the Berkeley function-calling leaderboard's own checkers.

    python -m venv /tmp/bfcl && /tmp/bfcl/bin/pip install --no-deps bfcl-eval==2026.3.23
    python benchmarks/synthesis_bfcl.py --bfcl /tmp/bfcl/lib/python3.11/site-packages

Every step of the assistant is written as a row of the leaderboard (``formats``), its calls as the text
that a model would write; the leaderboard's decoder reads the text, and ``ast_checker`` compares it with
the answer row. Whole conversations go through ``multi_turn_checker``, which makes the calls of both
sides; what they return must also be what the record says. Steps and turns without a call must decode
to none. Beside each count stands that of calls made wrong, which the same checkers must refuse: a
check that accepts everything would show there. Conversations made wrong may pass where the wrong call
returns the same: only results are compared there. Ends 1 where anything is judged otherwise.
"""

import argparse
import importlib.abc
import importlib.machinery
import json
import re
import sys
import time
import types
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import orjson
from synthesis_records import GRAPHS, World, make, open_world

from transforms.synthesis.draw import Draw
from transforms.synthesis.executor import Executor
from transforms.synthesis.format_calls import bfcl_category, from_bfcl, python_calls, to_bfcl
from transforms.synthesis.mutations import mutated
from transforms.synthesis.record import Record
from transforms.synthesis.replay import executor_of
from transforms.synthesis.turns import turns_of

_ABSENT = ("tenacity", "filelock", "tree_sitter", "tree_sitter_java", "tree_sitter_javascript")
"""What the leaderboard imports beside what is used here: retries, locks, parsers of Java."""
_BACKEND = "synthesis_bfcl_backend"
_CLASS = "Tools"
_MODEL = "drystone"
_BRACKET = re.compile(r"\b([a-zA-Z_]\w*)\s+\(")
_WRONG = ("other entity", "other function", "dropped call", "dropped item")

Row = dict[str, Any]


class Absent(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Stands in for packages that are not installed."""

    def find_spec(
        self, name: str, path: Any, target: Any = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Find what is absent."""
        return importlib.machinery.ModuleSpec(name, self) if name in _ABSENT else None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> Any:
        """Make a module that has everything."""
        return MagicMock(__spec__=spec, __path__=[])

    def exec_module(self, module: Any) -> None:
        """Do nothing."""


class Leaderboard:
    """The checkers of bfcl-eval."""

    def __init__(self, folder: str) -> None:
        """Import them from a folder of installed packages."""
        sys.path.append(folder)
        sys.meta_path.append(Absent())
        models = types.ModuleType("bfcl_eval.constants.model_config")
        flags = types.SimpleNamespace(underscore_to_dot=False)
        models.MODEL_CONFIG_MAPPING = {_MODEL: flags}  # type: ignore[attr-defined]
        sys.modules[models.__name__] = models
        from bfcl_eval.constants import executable_backend_config as backends
        from bfcl_eval.constants.enums import Language
        from bfcl_eval.eval_checker.ast_eval.ast_checker import ast_checker
        from bfcl_eval.eval_checker.multi_turn_eval import multi_turn_checker, multi_turn_utils
        from bfcl_eval.model_handler.utils import (
            decoded_output_to_execution_list,
            default_decode_ast_prompting,
        )

        backends.CLASS_FILE_PATH_MAPPING[_CLASS] = _BACKEND
        backend = types.ModuleType(_BACKEND)
        backend.Tools = Tools  # type: ignore[attr-defined]
        sys.modules[_BACKEND] = backend
        self._ast, self._language = ast_checker, Language.PYTHON
        self._turns, self._utils = multi_turn_checker, multi_turn_utils
        self._decode, self._executable = (
            default_decode_ast_prompting,
            decoded_output_to_execution_list,
        )

    def decode(self, text: str) -> list[Row]:
        """Return the calls of what a model wrote; none where it holds none."""
        try:
            found: list[Row] = self._decode(text)
        except Exception:  # noqa: BLE001  # the leaderboard takes any failure for no call
            return []
        return found

    def step(self, functions: list[Row], calls: list[Row], truth: list[Row], category: str) -> Any:
        """Return what is wrong with a step; None where it is accepted."""
        found = self._ast(functions, calls, truth, self._language, category, _MODEL)
        return None if found["valid"] else found

    def conversation(
        self, name: str, model: list[list[list[Row]]], truth: list[list[Row]], world: Any
    ) -> Any:
        """Return what is wrong with a conversation; None where it is accepted."""
        said = [[self._executable(step) for step in turn] for turn in model]
        expected = [self._executable(turn) for turn in truth]
        entry = {"id": name, "initial_config": {_CLASS: world}, "involved_classes": [_CLASS]}
        checker = self._turns
        found = checker.multi_turn_irrelevance_checker(said, expected)
        if found["valid"]:
            found = checker.multi_turn_checker(said, expected, entry, "multi_turn_base", _MODEL)
        for key in [key for key in vars(self._utils) if key.endswith("_instance")]:
            del vars(self._utils)[key]  # instances live in the module for ever
        return None if found["valid"] else found


class Fresh:
    """Opens the world of one record, again and again."""

    def __init__(self, record: Record, world: World) -> None:
        self.names = [tool["function"]["name"] for tool in record.tools]
        self.open: Callable[[], Executor] = lambda: executor_of(
            record, world.kit.directory, world.numbers
        )
        self.results: list[list[str]] = []
        """What the calls of each instance returned."""
        self.kind: type = type(
            _CLASS, (Tools,), {name: _method(name) for name in self.names if name.isidentifier()}
        )

    def __deepcopy__(self, memo: Any) -> "Fresh":
        """Return itself: the leaderboard copies what it is given."""
        return self


def _method(name: str) -> Callable[..., str]:
    def call(self: "Tools", **arguments: Any) -> str:
        outcome = self._executor.call(name, arguments)
        self.saved = {k: sorted(v) for k, v in self._executor._saved.items()}
        text = orjson.dumps(outcome.content).decode()
        self._results.append(text)
        return text

    return call


class Tools:
    """The tools of one record, as the leaderboard calls them; saved lists are its state."""

    def __init__(self) -> None:
        self.saved: dict[str, list[int]] = {}

    def _load_scenario(self, config: Fresh, long_context: bool = False) -> None:
        self._executor = config.open()
        self._results: list[str] = []
        config.results.append(self._results)
        self.__class__ = config.kind


class Tally:
    """What was judged, and what was judged otherwise than it should be."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.wrong: list[str] = []

    def note(self, what: str, right: bool, detail: str) -> None:
        """Count a judgement."""
        self.counts[what] += 1
        if not right:
            self.counts[f"{what}: otherwise"] += 1
            self.wrong.append(f"{what}: {detail}"[:1000])


def text_of(turn: Any) -> str:
    """Return what a model would write."""
    return python_calls(turn.calls) if turn.calls else turn.content


def check_steps(board: Leaderboard, record: Record, tally: Tally, draw: Draw) -> None:
    """Judge each step of the assistant by itself."""
    rows = to_bfcl(record.tools, record.messages, record.record_id)
    steps = [turn for turn in turns_of(record.messages) if turn.role == "assistant"]
    for turn, (question, answer) in zip(steps, rows, strict=True):
        decoded = board.decode(text_of(turn))
        if not answer["ground_truth"]:
            tally.note("steps without a call", not decoded, f"{record.record_id}: {turn.content}")
            continue
        category = bfcl_category(len(turn.calls))
        shuffled = draw.shuffled(decoded)
        problem = board.step(question["function"], shuffled, answer["ground_truth"], category)
        told = from_bfcl(answer) == list(turn.calls)
        tally.note("steps", problem is None and told, f"{record.record_id}: {problem}")


def split(record: Record) -> list[list[list[Row]]]:
    """Return the calls of each step of each turn of the user."""
    turns: list[list[list[Row]]] = []
    for turn in turns_of(record.messages):
        if turn.role == "user":
            turns.append([])
        elif turn.calls:
            turns[-1].append([{call.name: call.arguments} for call in turn.calls])
    return turns


def check_conversation(board: Leaderboard, record: Record, world: World, tally: Tally) -> None:
    """Judge a whole conversation, and one beside it that is made wrong."""
    decoded: list[list[list[Row]]] = []
    for turn in turns_of(record.messages):
        if turn.role == "user":
            decoded.append([])
        elif turn.role == "assistant" and (found := board.decode(text_of(turn))):
            decoded[-1].append(found)
    truth = [[call for step in turn for call in step] for turn in split(record)]
    fresh = Fresh(record, world)
    problem = board.conversation(record.record_id, decoded, truth, fresh)
    results = [m["content"] for m in record.messages if m["role"] == "tool"]
    same = all(_closed(found) == _closed(results) for found in fresh.results)
    kind = "conversations of several turns" if len(truth) > 1 else "conversations of one turn"
    if not any(truth):
        kind = "conversations without a call"
    tally.note(kind, problem is None and same, f"{record.record_id}: {problem} {same=}")
    for wrong in _WRONG:
        changed = mutated(record, wrong, world.graph, Draw(7, wrong, record.record_id))
        if changed is not None and any(truth):
            check_wrong(board, record, changed, fresh, wrong, tally)


def _closed(results: list[str]) -> list[str]:
    # The leaderboard takes any word before a bracket for a function, in strings too, and removes
    # the spaces between them before it makes a call: "Paris (city)" arrives as "Paris(city)".
    return [_BRACKET.sub(r"\1(", one) for one in results]


def check_wrong(
    board: Leaderboard, record: Record, changed: Record, fresh: Fresh, wrong: str, tally: Tally
) -> None:
    """Judge a conversation that is made wrong in one way."""
    try:
        calls, truth = split(changed), split(record)
    except ValueError:
        return
    problem = board.conversation(
        record.record_id, calls, [[c for step in turn for c in step] for turn in truth], fresh
    )
    tally.counts[f"wrong conversations ({wrong})"] += 1
    tally.counts[f"wrong conversations ({wrong}): refused"] += problem is not None
    rows = to_bfcl(record.tools, record.messages, record.record_id)
    rows = [row for row in rows if row[1]["ground_truth"]]
    steps = [step for turn in calls for step in turn]
    if len(steps) != len(rows):
        return
    problems = [
        board.step(row["function"], step, answer["ground_truth"], bfcl_category(len(step)))
        for step, (row, answer) in zip(steps, rows, strict=True)
    ]
    tally.counts[f"wrong steps ({wrong})"] += 1
    tally.counts[f"wrong steps ({wrong}): refused"] += any(problems)


def main() -> int:
    """Judge the records of each graph."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--bfcl", required=True, help="folder that bfcl-eval was installed in")
    parser.add_argument("--records", type=int, default=2000, help="of each graph")
    parser.add_argument("--graphs", nargs="+", default=list(GRAPHS), choices=GRAPHS)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, help="JSON file for the counts")
    options = parser.parse_args()
    board = Leaderboard(options.bfcl)
    found: dict[str, Any] = {}
    wrong: list[str] = []
    for name in options.graphs:
        tally, start = Tally(), time.process_time()
        world = open_world(name, options.seed)
        for record in make(world, options.records).records:
            check_steps(board, record, tally, Draw(3, record.record_id))
            check_conversation(board, record, world, tally)
        found[name] = dict(sorted(tally.counts.items()))
        wrong += tally.wrong
        print(f"{name}: {time.process_time() - start:.1f} CPU s")
        for what, count in found[name].items():
            print(f"  {what:60} {count:8,}")
    for line in wrong[:20]:
        print(line)
    if options.out:
        options.out.write_text(json.dumps(found, indent=2, ensure_ascii=False) + "\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
