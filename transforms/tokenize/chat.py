"""Conversations to runs of text and special tokens, by the chat template, with exact loss spans.

What a trained message adds to the rendering is found by rendering the conversation up to it (with
the prompt for the assistant's answer) and behind it: one must be a prefix of the other. The special
tokens of the rendering are the template's own; text of messages that looks like one is marked
before rendering, and so stays text.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transforms.record import RecordError
from transforms.tokenize.chat_templates import ChatTemplate, compile_template
from transforms.tokenize.conversation import (
    NO_TRAINED_TOKEN,
    TOOL_CALLS,
    ConversationError,
    Training,
    mapped,
    read_conversation,
)
from transforms.tokenize.runs import Run
from transforms.tokenize.special_vocabulary import SpecialToken

NOT_PREFIX_STABLE = "template is not prefix-stable"
TEMPLATE_FAILED = "template failed"

# Unicode's noncharacters U+FDD0 to U+FDEF are for uses like these, inside a program.
_PROBE = "\ufdef"


@dataclass(frozen=True, slots=True)
class _Stretch:
    """Part of a rendering whose tokens have one weight."""

    start: int
    end: int
    weight: float


class ChatRenderer:
    """A compiled template over a tokenizer's special tokens; its methods are thread-safe.

    Args:
        template: the template.
        specials: the tokenizer's special tokens by their text.
        file: the tokenizer's file, for messages.

    Raises:
        RecordError: the template is no Jinja, or needs a special token that the file lacks.
    """

    def __init__(
        self, template: ChatTemplate, specials: Mapping[str, SpecialToken], file: Path
    ) -> None:
        absent = [token for token in template.needs if token not in specials]
        if absent:
            raise RecordError(
                f"{file}: {template.where} needs {', '.join(absent)}, which are no special tokens "
                "of this file; take another template or another tokenizer"
            )
        self._render = compile_template(template)
        self._variables = template.variables
        self._specials = specials
        texts = sorted(filter(None, specials), key=lambda text: (-len(text), text))
        self._pattern = re.compile("|".join(map(re.escape, texts))) if texts else None
        self._beginnings = tuple({text[:n] for text in texts for n in range(1, len(text))})

    def runs(self, text: str, training: Training) -> list[Run]:
        """Return the runs of one conversation.

        Args:
            text: a document of a chat source.
            training: which messages are trained.

        Raises:
            ConversationError: the template fails on the conversation, its renderings are no
                prefixes of each other, or no token is trained.
        """
        messages, tools = read_conversation(text)
        mark = self._mark(text, [messages, tools])
        if mark:
            messages, tools = mapped([messages, tools], lambda s: self._marked(s, mark))
        messages = [_with_parsed_arguments(message) for message in messages]
        weights = training.of(messages)
        rendered = self._rendered(messages, tools)
        stretches = list(self._stretches(messages, tools, weights, rendered))
        runs = [run for stretch in stretches for run in self._cut(rendered, stretch, mark)]
        if not any(run.weight for run in runs):
            raise ConversationError(NO_TRAINED_TOKEN, "the template writes nothing for them")
        return runs

    def _stretches(
        self,
        messages: list[dict[str, Any]],
        tools: list[dict[str, Any]],
        weights: list[float],
        whole: str,
    ) -> Iterator[_Stretch]:
        """Divide a rendering where training begins or ends; everything is covered, in order."""
        done, before = 0, ""
        for number, weight in enumerate(weights):
            if not weight:
                continue
            last = number == len(messages) - 1
            after = whole if last else self._rendered(messages[: number + 1], tools)
            head = self._head(messages, tools, number, after)
            for shorter, longer in ((before, head), (head, after)):
                if not longer.startswith(shorter):
                    raise ConversationError(
                        NOT_PREFIX_STABLE, f"around message {number}: {_parting(shorter, longer)}"
                    )
            start, end = len(head), self._end_of_turn(after, len(head))
            yield _Stretch(done, start, 0.0)
            yield _Stretch(start, end, weight)
            done, before = end, after
        if not whole.startswith(before):
            raise ConversationError(NOT_PREFIX_STABLE, f"at the end: {_parting(before, whole)}")
        yield _Stretch(done, len(whole), 0.0)

    def _head(
        self,
        messages: list[dict[str, Any]],
        tools: list[dict[str, Any]],
        number: int,
        after: str,
    ) -> str:
        """Return the rendering up to where a trained message's own text begins."""
        message = messages[number]
        earlier = messages[:number]
        if message["role"] == "assistant":
            try:
                return self._rendered(earlier, tools, prompt=True)
            except ConversationError:
                # Many templates cannot render a conversation without a message.
                if number:
                    raise
        start = len(self._rendered(earlier, tools)) if number else 0
        # What stands before the content is found by writing another content.
        probed = self._rendered([*earlier, {**message, "content": _PROBE}], tools)
        found = probed.find(_PROBE, start)
        return after[:found] if found >= 0 and after.startswith(probed[:found]) else after[:start]

    def _end_of_turn(self, text: str, start: int) -> int:
        """Return the end of a turn's last special token where only white space follows it."""
        end = len(text.rstrip())
        tail = text[start:end]
        if self._pattern is not None and end > start:
            for found in self._pattern.finditer(tail):
                if found.end() == len(tail):
                    return end
        return len(text)

    def _cut(self, rendered: str, stretch: _Stretch, mark: str) -> Iterator[Run]:
        """Cut a stretch at its special tokens."""
        at, stripped = stretch.start, False
        found = (
            self._pattern.finditer(rendered, stretch.start, stretch.end) if self._pattern else ()
        )
        for special in found:
            token = self._specials[special[0]]
            yield from _text_run(
                rendered[at : special.start()], stretch.weight, mark, stripped, token.lstrip
            )
            yield Run("", token.id, stretch.weight)
            at, stripped = special.end(), token.rstrip
        yield from _text_run(rendered[at : stretch.end], stretch.weight, mark, stripped, False)

    def _rendered(
        self, messages: list[dict[str, Any]], tools: list[dict[str, Any]], prompt: bool = False
    ) -> str:
        try:
            return self._render(
                messages=messages,
                tools=tools or None,
                documents=None,
                add_generation_prompt=prompt,
                **self._variables,
            )
        except Exception as error:
            raise ConversationError(TEMPLATE_FAILED, f"{type(error).__name__}: {error}") from error

    def _mark(self, text: str, conversation: Any) -> str:
        """Return a character that the conversation lacks, or nothing where none is needed."""
        if self._pattern is None:
            return ""
        if not any(
            self._pattern.search(string) or string.endswith(self._beginnings)
            for string in _strings(conversation)
        ):
            return ""
        for code in range(0xFDD0, ord(_PROBE)):
            # Templates may write it as an escape.
            if chr(code) not in text and f"{code:04x}" not in text:
                return chr(code)
        raise ConversationError(TEMPLATE_FAILED, "the text holds all of U+FDD0 to U+FDEE; clean it")

    def _marked(self, text: str, mark: str) -> str:
        """Break up the texts of special tokens, and what could become one with what follows."""
        if self._pattern is not None:
            text = self._pattern.sub(lambda found: found[0][0] + mark + found[0][1:], text)
        return text + mark if text.endswith(self._beginnings) else text


def _strings(value: Any) -> Iterator[str]:
    """Give every string and key of a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from _strings(item)


def _text_run(
    text: str, weight: float, mark: str, after_strip: bool, before_strip: bool
) -> Iterator[Run]:
    """Give a run of ordinary text; special tokens may swallow the white space beside them."""
    if mark:
        text = text.replace(mark, "").replace(json.dumps(mark)[1:-1], "")
    if after_strip:
        text = text.lstrip()
    if before_strip:
        text = text.rstrip()
    if text:
        yield Run(text, weight=weight)


class _Arguments(dict[str, Any]):
    """Arguments of a call: an object for templates that expect one, and JSON text for the others."""

    def __str__(self) -> str:
        return json.dumps(self, ensure_ascii=False)

    def __radd__(self, text: str) -> str:
        return text + str(self)

    def __add__(self, text: str) -> str:
        return str(self) + text


def _with_parsed_arguments(message: dict[str, Any]) -> dict[str, Any]:
    """Return a message whose calls have their arguments as objects, as templates expect them."""
    if not message.get(TOOL_CALLS):
        return message
    calls = []
    for call in message[TOOL_CALLS]:
        function = call.get("function")
        if isinstance(function, dict):
            calls.append({**call, "function": _parsed(function)})
        else:
            calls.append(_parsed(call))
    return {**message, TOOL_CALLS: calls}


def _parsed(function: dict[str, Any]) -> dict[str, Any]:
    arguments = function.get("arguments")
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except ValueError:
            return function
    if isinstance(arguments, dict):
        return {**function, "arguments": _Arguments(arguments)}
    return function


def _parting(shorter: str, longer: str) -> str:
    """Say where one rendering leaves the other."""
    at = next((k for k, (a, b) in enumerate(zip(shorter, longer, strict=False)) if a != b), None)
    at = min(len(shorter), len(longer)) if at is None else at
    return f"character {at}: {shorter[at : at + 40]!r} became {longer[at : at + 40]!r}"
