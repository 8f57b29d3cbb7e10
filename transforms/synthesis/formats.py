"""The formats that tool-use records are written in, each with the parser that proves it.

Every rendering is a pure function of tools and messages in OpenAI's form; reading the row back gives
the same turns, else the record is refused (:func:`prove`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from transforms.synthesis.format_calls import bfcl_category, from_bfcl, from_xlam, to_bfcl, to_xlam
from transforms.synthesis.format_rows import (
    Row,
    from_openai,
    from_sharegpt,
    from_swift,
    to_openai,
    to_sharegpt,
    to_swift,
)
from transforms.synthesis.format_text import flat, from_hermes, from_react, to_hermes, to_react
from transforms.synthesis.turns import FormatError, Messages, Tools, Turn, turns_of

Same = Callable[[list[Turn]], list[Turn]]


def _as_is(turns: list[Turn]) -> list[Turn]:
    return turns


@dataclass(frozen=True, slots=True)
class Format:
    """A format of whole conversations.

    Attributes:
        render: writes a row.
        parse: reads it.
        kept: what of the turns the format keeps: all, or calls one by one.
        loses: what it cannot hold, in words; "" where it holds everything.
    """

    render: Callable[[Tools, Messages], Row]
    parse: Callable[[Row], tuple[Tools, Messages]]
    kept: Same = _as_is
    loses: str = "ids of calls"


FORMATS: Mapping[str, Format] = {
    "openai": Format(to_openai, from_openai, loses=""),
    "sharegpt": Format(to_sharegpt, from_sharegpt),
    "hermes": Format(to_hermes, from_hermes),
    "swift": Format(to_swift, from_swift),
    "react": Format(to_react, from_react, flat, "ids of calls, which calls were made at once"),
}


def prove(tools: Tools, messages: Messages, name: str) -> Row:
    """Write a record and read it back.

    Args:
        tools: in OpenAI's form.
        messages: in OpenAI's form.
        name: of the format.

    Returns:
        The row.

    Raises:
        FormatError: the format cannot hold the record, or reads something else from the row.
    """
    ours = FORMATS[name]
    row = ours.render(tools, messages)
    found_tools, found = ours.parse(row)
    if turns_of(found) != ours.kept(turns_of(messages)):
        raise FormatError(f"{name}: the row does not read back as the same turns")
    if found_tools != tools:
        raise FormatError(f"{name}: the row does not read back as the same tools")
    return row


def prove_calls(tools: Tools, messages: Messages, record_id: str) -> int:
    """Write the calls of a record as rows of the leaderboard and of xLAM, and read them back.

    Args:
        tools: in OpenAI's form.
        messages: in OpenAI's form.
        record_id: of the record.

    Returns:
        The number of the leaderboard's rows.

    Raises:
        FormatError: other calls are read from the rows.
    """
    steps = [turn for turn in turns_of(messages) if turn.role == "assistant"]
    rows = to_bfcl(tools, messages, record_id)
    for turn, (_, answer) in zip(steps, rows, strict=True):
        if from_bfcl(answer) != list(turn.calls):
            raise FormatError(f"bfcl: {answer['id']} does not read back as the same calls")
    called = [turn for turn in steps if turn.calls]
    asked = sum(message["role"] == "user" for message in messages)
    if asked == 1 and len(called) <= 1:
        calls = [call for turn in called for call in turn.calls]
        if from_xlam(to_xlam(tools, messages))[1] != calls:
            raise FormatError("xlam: the row does not read back as the same calls")
    return len(rows)


__all__ = ["FORMATS", "Format", "FormatError", "bfcl_category", "prove", "prove_calls"]
