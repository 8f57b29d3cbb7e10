"""The tool world at work: calls go in, results or faults come out.

An executor holds what one conversation leaves behind (handles of results, saved lists, the number
of calls), so a record is replayed by giving its calls to a new one, in order.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from transforms.synthesis.graph import Graph, name_key
from transforms.synthesis.plan import Filter, passes, ranked
from transforms.synthesis.results import Faulty, Members, Outcome, Shapes, entity_id
from transforms.synthesis.style import Style, Words
from transforms.synthesis.suggestions import Suggestions
from transforms.synthesis.tools import PAGE_TOKEN, Tool
from transforms.synthesis.voice import Op

TRANSIENT = {
    "rate_limit": "too many requests, try again",
    "timeout": "the service did not answer in time",
    "bad_response": "the service sent a response that does not fit its schema",
    "unavailable": "the service is unavailable for a moment",
}
"""Faults of the environment that go away when a call is made again, and their messages."""

_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
}


Meaning = tuple[Any, ...]


class Directory:
    """What executors over one graph share."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._suggestions: Suggestions | None = None
        self._by_id = {entity_id(entity): entity for entity in range(graph.n_entities)}

    def named(self, text: str) -> int:
        """Return the entity of a name; a label goes before an alias.

        Raises:
            Faulty: no entity bears it, or several.
        """
        found = self.graph.named(text)
        if len(found) == 1:
            return found[0]
        if not found:
            raise Faulty("not_found", f"no entry is named {text!r}", self.near(text))
        key = name_key(text)
        for entity in found:
            if name_key(self.graph.labels[entity]) == key:
                return entity
        names = [self.graph.labels[entity] for entity in found]
        raise Faulty("ambiguous", f"several entries are named {text!r}", names)

    def near(self, text: str) -> list[str]:
        """Return the labels that differ from a text by a letter or two, the nearest first."""
        if self._suggestions is None:
            self._suggestions = Suggestions(self.graph)
        return self._suggestions.near(text)

    def with_id(self, text: str) -> int:
        """Return the entity of an id.

        Raises:
            Faulty: there is none.
        """
        if text not in self._by_id:
            raise Faulty("not_found", f"no entry has the id {text!r}")
        return self._by_id[text]


class Executor:
    """One conversation's tools."""

    def __init__(
        self,
        directory: Directory,
        style: Style,
        tools: Sequence[Tool],
        faults: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        """Set the tools up.

        Args:
            directory: the graph.
            style: the world's.
            tools: what can be called.
            faults: what the environment does: ``call`` (number from 0) and ``kind``.
        """
        self._graph, self._directory, self._style = directory.graph, directory, style
        self._tools = {tool.name: tool for tool in tools}
        self._words = Words.of(style)
        self._shapes = Shapes(directory.graph, style)
        self._faults = {int(fault["call"]): str(fault["kind"]) for fault in faults}
        self._calls = 0
        self._handles: dict[str, Members] = {}
        self._saved: dict[str, Members] = {}
        self._kinds: dict[str, Callable[[Op, dict[str, Any]], Outcome]] = {
            "project": self._project,
            "value": self._value,
            "filter": self._filter,
            "top": self._top,
            "intersect": self._intersect,
            "unite": self._unite,
            "subtract": self._subtract,
            "count": self._count,
            "search": self._search,
            "save": self._save,
            "load": self._load,
        }

    def call(self, name: str, arguments: Mapping[str, Any]) -> Outcome:
        """Do a call; what goes wrong is an outcome too, with a fault."""
        number = self._calls
        self._calls += 1
        try:
            kind = self._faults.get(number)
            if kind is not None:
                raise Faulty(kind, TRANSIENT[kind])
            tool = self._tools.get(name)
            if tool is None:
                raise Faulty("unknown_tool", f"there is no tool {name!r}")
            check_arguments(tool.parameters, arguments)
            if tool.op[0] == "deprecated":
                raise Faulty("deprecated", f"{name} has been withdrawn")
            return self._kinds[str(tool.op[0])](tool.op, dict(arguments))
        except Faulty as fault:
            return Outcome(
                self._shapes.error(fault), fault=fault.code, suggestions=fault.suggestions
            )

    def peek(self, op: Op, arguments: Mapping[str, Any]) -> Members | None:
        """Return the set that a relation would give, and leave no trace; None for a fault."""
        _, relation, inverse = op
        try:
            sources = self._sources(dict(arguments))
        except Faulty:
            return None
        found = (self._graph.targets(e, int(relation), bool(inverse)) for e in sources)
        return frozenset(e for targets in found for e in targets.tolist())

    def meaning(self, op: Op, arguments: Mapping[str, Any]) -> Meaning:
        """Return what a call asks, with entities for names and handles, without its page.

        Calls of one meaning have one answer. A call that asks for a part of a result, or in another
        order, means something else than one that does not.

        Raises:
            Faulty: a name or handle is unknown.
        """
        words, kind = self._words, op[0]
        plain = {k: v for k, v in arguments.items() if k != PAGE_TOKEN}
        if kind == "project":
            asked = {k: v for k, v in plain.items() if k in ("limit", "descending")}
            return (*op, frozenset(self._sources(plain)), *sorted(asked.items()))
        if kind == "value":
            return (*op, self._entity(plain[words.entity]))
        if kind == "filter":
            rest = [(k, v) for k, v in plain.items() if k != words.items]
            return (*op, self._set(plain[words.items]), *sorted(rest))
        if kind == "top":
            largest = plain[words.order] == words.largest
            return (*op, self._set(plain[words.items]), plain[words.k], largest)
        if kind in ("intersect", "unite"):
            return (*op, frozenset(self._set(plain[w]) for w in words.parts if w in plain))
        if kind == "subtract":
            return (*op, self._set(plain[words.keep]), self._set(plain[words.remove]))
        if kind == "count":
            return (*op, self._set(plain[words.items]))
        if kind == "search":
            return (*op, self._directory.named(plain[words.query]))
        return (*op, plain["list_name"])

    def _entity(self, text: str) -> int:
        return self._directory.with_id(text) if self._style.ids else self._directory.named(text)

    def _set(self, given: Any) -> Members:
        """Return the entities of an argument that is a set.

        Raises:
            Faulty: a name or handle is unknown.
        """
        if isinstance(given, list):
            return frozenset(self._entity(text) for text in given)
        if given in self._handles:
            return self._handles[given]
        raise Faulty("not_found", f"there is no result {given!r}")

    def _sources(self, arguments: dict[str, Any]) -> list[int]:
        if self._style.signature in ("batch", "grouped"):
            return list(dict.fromkeys(self._entity(x) for x in arguments[self._words.entities]))
        given = arguments[self._words.entity]
        if self._style.signature == "handle" and given in self._handles:
            return self._shapes.ordered(self._handles[given])
        return [self._entity(given)]

    def _project(self, op: Op, arguments: dict[str, Any]) -> Outcome:
        _, relation, inverse = op
        sources = self._sources(arguments)
        groups = [
            (e, frozenset(self._graph.targets(e, int(relation), bool(inverse)).tolist()))
            for e in sources
        ]
        members: Members = frozenset().union(*(found for _, found in groups))
        if self._style.signature == "grouped":
            return Outcome(self._shapes.groups(groups), members)
        return self._shown(members, arguments)

    def _shown(self, members: Members, arguments: Mapping[str, Any] | None = None) -> Outcome:
        """Return a set as a result: in order, cut to the page and the limit that was asked for."""
        given = arguments or {}
        entities = self._shapes.ordered(members)
        if given.get("descending"):
            entities.reverse()
        if "limit" in given:
            entities = entities[: given["limit"]]
        handle = ""
        if self._style.signature == "handle":
            handle = f"set_{len(self._handles) + 1}"
            self._handles[handle] = frozenset(entities)
        page = self._style.page if arguments is not None else 0
        if not page:
            content = self._shapes.entities(entities, total=len(entities), handle=handle)
            return Outcome(content, frozenset(entities), handle=handle)
        start = self._page_start(given.get(PAGE_TOKEN, ""), len(entities))
        shown = entities[start : start + page]
        token = f"page_{start // page + 2}" if start + page < len(entities) else ""
        content = self._shapes.entities(shown, total=len(entities), handle=handle, token=token)
        return Outcome(content, frozenset(shown), handle=handle, next_token=token)

    def _page_start(self, token: str, total: int) -> int:
        if not token:
            return 0
        number = token.removeprefix("page_")
        start = (int(number) - 1) * self._style.page if number.isdecimal() else -1
        if not 0 < start < total:
            raise Faulty("bad_token", f"there is no page {token!r}")
        return start

    def _value(self, op: Op, arguments: dict[str, Any]) -> Outcome:
        attribute = int(op[1])
        found = self._graph.value(self._entity(arguments[self._words.entity]), attribute)
        unit = self._graph.attributes[attribute].unit
        return Outcome(self._shapes.number(found, "value", unit), number=found)

    def _filter(self, op: Op, arguments: dict[str, Any]) -> Outcome:
        attribute = int(op[1])
        members = self._set(arguments[self._words.items])
        for key, sign in (("min", "min"), ("max", "max"), ("equals", "is")):
            if key in arguments:
                value = arguments[key]
                value = float(value) if isinstance(value, int) else value
                condition = Filter(_NOTHING, attribute, sign, value)  # type: ignore[arg-type]
                members = frozenset(
                    e for e in members if passes(self._graph.value(e, attribute), condition)
                )
        return self._shown(members)

    def _top(self, op: Op, arguments: dict[str, Any]) -> Outcome:
        members = self._set(arguments[self._words.items])
        largest = arguments[self._words.order] == self._words.largest
        order = ranked(members, int(op[1]), self._graph, largest)
        return self._shown(frozenset(order[: arguments[self._words.k]]))

    def _intersect(self, op: Op, arguments: dict[str, Any]) -> Outcome:
        sets = [self._set(arguments[part]) for part in self._words.parts if part in arguments]
        return self._shown(sets[0].intersection(*sets[1:]))

    def _unite(self, op: Op, arguments: dict[str, Any]) -> Outcome:
        sets = [self._set(arguments[part]) for part in self._words.parts if part in arguments]
        return self._shown(sets[0].union(*sets[1:]))

    def _subtract(self, op: Op, arguments: dict[str, Any]) -> Outcome:
        keep, remove = (self._set(arguments[w]) for w in (self._words.keep, self._words.remove))
        return self._shown(keep - remove)

    def _count(self, op: Op, arguments: dict[str, Any]) -> Outcome:
        number = len(self._set(arguments[self._words.items]))
        return Outcome(self._shapes.number(number, "count"), number=number)

    def _search(self, op: Op, arguments: dict[str, Any]) -> Outcome:
        entity = self._directory.named(arguments[self._words.query])
        return Outcome(self._shapes.entities([entity], total=1), frozenset((entity,)))

    def _save(self, op: Op, arguments: dict[str, Any]) -> Outcome:
        members = self._set(arguments[self._words.items])
        self._saved[arguments["list_name"]] = members
        return Outcome({"saved": arguments["list_name"], "size": len(members)})

    def _load(self, op: Op, arguments: dict[str, Any]) -> Outcome:
        name = arguments["list_name"]
        if name not in self._saved:
            raise Faulty("not_found", f"there is no list {name!r}", sorted(self._saved))
        return self._shown(self._saved[name])


_NOTHING: Any = None


def check_arguments(schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> None:
    """Check arguments against a tool's schema.

    Raises:
        Faulty: a required argument is missing, or one is unknown or of another type or value.
    """
    known = schema["properties"]
    for name in schema["required"]:
        if name not in arguments:
            raise Faulty("missing_argument", f"{name} is required")
    for name, value in arguments.items():
        if name not in known:
            raise Faulty("unknown_argument", f"there is no argument {name!r}")
        rule = known[name]
        wrong = not isinstance(value, _TYPES[rule["type"]])
        wrong = wrong or (isinstance(value, bool) and rule["type"] != "boolean")
        if rule["type"] == "array" and not wrong:
            wrong = not value or not all(isinstance(item, str) for item in value)
        if "enum" in rule and value not in rule["enum"]:
            wrong = True
        if "minimum" in rule and not wrong and value < rule["minimum"]:
            wrong = True
        if wrong:
            raise Faulty("bad_argument", f"{name} cannot be {value!r}")
