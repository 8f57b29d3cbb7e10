"""Optional rewording of questions by a language model behind an OpenAI-compatible endpoint.

The model sees one sentence of a user at a time, with every mention of an entity and every number as a
placeholder, and never a call, a result or an answer. What it writes is used only if all placeholders
are there as often as before, the operators that the words state are the same (and, or, not, counts,
comparisons, bounds), and the length is between half and double; otherwise the sentence stays as it
was and the reason is counted. Replies are kept on disk under the hash of what was asked, so that a
run is repeated without the endpoint. It is off unless it is asked for; then nothing is imported here
that opens a socket, and none is opened.
"""

import hashlib
import os
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar, Protocol

import annotated_types
import orjson

from transforms.record import RecordError
from transforms.synthesis.language.words import Utterance

_PLACE = re.compile(r"\[[EN]\d+\]")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_PROMPT = {
    "en": "Reword the user's question. Keep its meaning exactly, keep every placeholder such as [E1] "
    "or [N1] unchanged, add nothing, and answer with the question alone.",
    "zh": "请改写用户的问题。意思必须完全不变，[E1]、[N1]这样的占位符原样保留，不要添加内容，只回答改写后的问题。",
}
_OPERATORS: Mapping[str, tuple[tuple[str, str], ...]] = {
    "en": (
        (
            "both",
            r"\b(?:both|also|as well|in common|overlap|at once|every one of|all of these|too)\b",
        ),
        ("either", r"\b(?:or|either|any of these|combine|merge|together|at least one)\b"),
        ("not", r"\b(?:not|except|without|leave out|remove|drop|cross out|exclud\w+|other than)\b"),
        ("count", r"\b(?:how many|number of|count)\b"),
        (
            "most",
            r"\b(?:highest|largest|latest|most recent|more|higher|larger|later|biggest|top)\b",
        ),
        ("least", r"\b(?:lowest|smallest|earliest|oldest|fewer|lower|smaller|earlier|least)\b"),
        ("from", r"\b(?:at least|no less than|on or after|no earlier than)\b"),
        ("to", r"\b(?:at most|no more than|on or before|no later than)\b"),
    ),
    "zh": (
        ("both", r"既|又|并且|同时|交集|共有"),
        ("either", r"或者|合并|任意|至少"),
        ("not", r"不属于|不是|排除|去掉|剔除|除去|不要"),
        ("count", r"多少|几|数量|总数|统计"),
        ("most", r"最高|最大|最晚|更多|更高|更大|更晚|靠后"),
        ("least", r"最低|最小|最早|更少|更低|更小|更早|靠前"),
        ("from", r"不低于|不早于"),
        ("to", r"不高于|不晚于"),
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriterSettings:
    """An OpenAI-compatible endpoint that rewords questions; absent: none is used."""

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid", "strict": True}

    base_url: str
    """Where the endpoint lies, up to ``/v1``; ``/chat/completions`` is added."""
    model: str
    """Name of the model, as the endpoint knows it."""
    key_variable: str = ""
    """Environment variable that holds the key; empty: none is sent."""
    cache: str = ""
    """Folder of replies; empty: none are kept."""
    temperature: Annotated[float, annotated_types.Ge(0), annotated_types.Le(2)] = 0.7
    """Temperature of the replies."""
    timeout: Annotated[float, annotated_types.Gt(0)] = 30.0
    """Seconds to wait for one reply."""
    retries: Annotated[int, annotated_types.Ge(0)] = 2
    """Times a failed call is made again."""
    share: Annotated[float, annotated_types.Ge(0), annotated_types.Le(1)] = 1.0
    """Share of the questions that are reworded."""

    def __post_init__(self) -> None:
        """Check what spans fields."""
        if not re.match(r"https?://[^/]", self.base_url):
            raise ValueError(f"base_url {self.base_url!r}: give an http:// or https:// address")


class Rewriter(Protocol):
    """Rewords an utterance, or gives it back as it was."""

    def reword(self, said: Utterance, lang: str) -> Utterance:
        """Return the utterance in other words."""


class Identity:
    """The default: every utterance stays as it is."""

    def reword(self, said: Utterance, lang: str) -> Utterance:
        """Return the utterance."""
        return said


Post = Callable[[str, dict[str, str], bytes, float], bytes]
"""Sends a request: address, headers, body, seconds; gives the body of the reply."""


@dataclass(slots=True)
class EndpointRewriter:
    """Rewords through an endpoint, checks every reply, and counts why one was not used.

    Attributes:
        settings: the endpoint.
        post: sends a request; for tests and other transports.
        reasons: how often an utterance stayed as it was, by reason; ``reworded`` where it did not.
    """

    settings: RewriterSettings
    post: Post | None = None
    reasons: Counter[str] = field(default_factory=Counter)

    def reword(self, said: Utterance, lang: str) -> Utterance:
        """Return the utterance in the model's words, or as it was."""
        masked, places = mask(said)
        body = self._body(masked, lang)
        key = hashlib.sha256(self.settings.base_url.encode() + b"\0" + body).hexdigest()
        if int(key[:8], 16) >= self.settings.share * 2**32:
            self.reasons["not drawn"] += 1
            return said
        reply = self._reply(key, body)
        if isinstance(reply, _Failure):
            self.reasons[reply.reason] += 1
            return said
        problem = objection(masked, reply, lang)
        self.reasons[problem or "reworded"] += 1
        return said if problem else filled(reply, places, said)

    def _body(self, masked: str, lang: str) -> bytes:
        messages = [
            {"role": "system", "content": _PROMPT[lang]},
            {"role": "user", "content": masked},
        ]
        content = {"model": self.settings.model, "messages": messages, "n": 1}
        content["temperature"] = self.settings.temperature
        return orjson.dumps(content, option=orjson.OPT_SORT_KEYS)

    def _reply(self, key: str, body: bytes) -> "str | _Failure":
        path = Path(self.settings.cache, key[:2], f"{key}.json") if self.settings.cache else None
        if path is not None and path.exists():
            return str(orjson.loads(path.read_bytes())["reply"])
        raw: bytes | None = None
        for _ in range(self.settings.retries + 1):
            try:
                raw = self._send(body)
                break
            except (OSError, ValueError):
                continue
        if raw is None:
            return _Failure("no reply")
        try:
            reply = orjson.loads(raw)["choices"][0]["message"]["content"]
        except (orjson.JSONDecodeError, KeyError, IndexError, TypeError):
            return _Failure("unreadable reply")
        if not isinstance(reply, str):
            return _Failure("unreadable reply")
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            partial = path.with_suffix(f".{os.getpid()}.tmp")
            partial.write_bytes(orjson.dumps({"request": body.decode(), "reply": reply}))
            partial.replace(path)
        return reply

    def _send(self, body: bytes) -> bytes:
        headers = {"Content-Type": "application/json"}
        if self.settings.key_variable:
            secret = os.environ.get(self.settings.key_variable)
            if not secret:
                name = self.settings.key_variable
                raise RecordError(f"rewriter: the environment variable {name} is not set; set it")
            headers["Authorization"] = f"Bearer {secret}"
        address = self.settings.base_url.rstrip("/") + "/chat/completions"
        return (self.post or _post)(address, headers, body, self.settings.timeout)


@dataclass(frozen=True, slots=True)
class _Failure:
    reason: str


def rewriter_of(settings: RewriterSettings | None) -> Rewriter:
    """Return the rewriter of a recipe; without settings nothing is reworded and nothing is sent."""
    if settings is None:
        return Identity()
    if settings.key_variable and not os.environ.get(settings.key_variable):
        name = settings.key_variable
        raise RecordError(f"rewriter: the environment variable {name} is not set; set it")
    return EndpointRewriter(settings)


def mask(said: Utterance) -> tuple[str, dict[str, str]]:
    """Return an utterance with placeholders, and what they stand for."""
    places: dict[str, str] = {}
    parts, at = [], 0
    numbers = 0

    def digits(match: re.Match[str]) -> str:
        nonlocal numbers
        numbers += 1
        places[f"[N{numbers}]"] = match.group()
        return f"[N{numbers}]"

    for number, (_, start, end) in enumerate(said.mentions, 1):
        parts.append(_NUMBER.sub(digits, said.text[at:start]))
        places[f"[E{number}]"] = said.text[start:end]
        parts.append(f"[E{number}]")
        at = end
    parts.append(_NUMBER.sub(digits, said.text[at:]))
    return "".join(parts), places


def objection(masked: str, reply: str, lang: str) -> str:
    """Return why a reply may not be used, or an empty text."""
    if Counter(_PLACE.findall(masked)) != Counter(_PLACE.findall(reply)):
        return "placeholders"
    if not 0.5 <= len(reply.strip()) / len(masked) <= 2:
        return "length"
    if re.search(r"[\x00-\x08]|<\||\[[EN]?\]", reply):
        return "marks"
    if _NUMBER.search(_PLACE.sub("", reply)):
        return "numbers"
    return "" if operators(masked, lang) == operators(reply, lang) else "operators"


def operators(text: str, lang: str) -> tuple[str, ...]:
    """Return the operators that a text states, by its words."""
    low = text.lower()
    return tuple(name for name, pattern in _OPERATORS[lang] if re.search(pattern, low))


def filled(reply: str, places: Mapping[str, str], said: Utterance) -> Utterance:
    """Put the mentions back into a reply."""
    entity = {f"[E{n}]": one[0] for n, one in enumerate(said.mentions, 1)}
    text, skeleton = "", ""
    mentions: list[tuple[int, int, int]] = []
    at = 0
    reply = reply.strip()
    for match in _PLACE.finditer(reply):
        before = reply[at : match.start()]
        text, skeleton = text + before, skeleton + before
        told = places[match.group()]
        if match.group() in entity:
            mentions.append((entity[match.group()], len(text), len(text) + len(told)))
        text += told
        skeleton += f"[{match.group()[1]}]"
        at = match.end()
    text, skeleton = text + reply[at:], skeleton + reply[at:]
    return Utterance(text, skeleton, said.style, (*said.noise, "reworded"), tuple(mentions))


def _post(address: str, headers: dict[str, str], body: bytes, timeout: float) -> bytes:
    import urllib.request

    request = urllib.request.Request(address, data=body, headers=headers, method="POST")
    with urllib.request.urlopen(request, timeout=timeout) as reply:
        found: bytes = reply.read()
    return found
