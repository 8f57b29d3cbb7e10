"""Which lines are code or structure, and have no sentences: fences, tables, prompts, underlines."""

from transforms.kernel import kernel
from transforms.sentence_characters import Bytes


@kernel
def is_table_rule(data: Bytes, start: int, end: int) -> bool:
    """Say whether a line parts the head of a Markdown table from its rows."""
    bars = 0
    for place in range(start, end):
        byte = data[place]
        if byte == 124:
            bars += 1
        elif not (byte == 45 or byte == 58 or byte == 32 or byte == 43):
            return False
    return bars > 0


@kernel
def is_underline(data: Bytes, start: int, end: int) -> bool:
    """Say whether a line is three or more times one sign, as under a title."""
    while end > start and data[end - 1] == 32:
        end -= 1
    first = data[start] if start < end else 0
    if end - start < 3 or first not in (61, 45, 126, 94, 34, 42, 43, 35, 39, 46, 58, 96):
        return False
    for place in range(start + 1, end):  # noqa: SIM110
        if data[place] != first:
            return False
    return True


@kernel
def trimmed(data: Bytes, start: int, end: int) -> int:
    """Return the end of a line's text: without spaces, no-break and ideographic ones included."""
    while end > start:
        last = data[end - 1]
        if last == 32 or 9 <= last <= 13:
            end -= 1
        elif last == 0xA0 and end - start >= 2 and data[end - 2] == 0xC2:
            end -= 2
        elif last == 0x80 and end - start >= 3 and data[end - 2] == 0x80 and data[end - 3] == 0xE3:
            end -= 3
        else:
            break
    return end


@kernel
def fence_sign(data: Bytes, start: int, end: int) -> int:
    """Return the sign of a code fence that a line begins with, or 0."""
    if end - start >= 3:
        first = data[start]
        if (first == 96 or first == 126) and data[start + 1] == first == data[start + 2]:
            return int(first)
    return 0


@kernel
def _is_prompt(data: Bytes, start: int, end: int) -> bool:
    """Say whether a line begins like an interactive session in Python, or is a decorator."""
    first = data[start]
    if (first == 62 or first == 46) and end - start >= 3:  # >>> and ...
        alike = data[start + 1] == first == data[start + 2]
        return bool(alike and (end - start == 3 or data[start + 3] == 32))
    if first != 64:  # @
        return False
    for place in range(start, end):
        if data[place] == 40:  # (
            return True
        if data[place] == 32:
            return False
    return end - start > 1


@kernel
def is_code(data: Bytes, line: int, start: int, end: int) -> bool:  # noqa: C901
    """Say whether a line, whose text is [start, end), is code or structure."""
    if data[line] == 9 or start - line >= 4:
        # White space wider than a byte is how paragraphs begin elsewhere.
        wide = False
        for place in range(line, start):
            wide = wide or data[place] >= 0x80
        if not wide:
            return True
    first = data[start]
    if first in (124, 35, 36):  # | # $
        return True
    if first == 60 and data[end - 1] == 62:  # <...>
        return True
    if _is_prompt(data, start, end):
        return True
    if data[end - 1] == 59:  # ;
        return True
    for place in range(start, end):
        byte = data[place]
        if byte == 96 or byte == 123 or byte == 125:  # ` { }
            return True
        if place + 1 < end:
            after = data[place + 1]
            if byte == 40 and after == 41:  # ()
                return True
            if byte == 58 and after == 58:  # ::
                return True
            if byte == 60 and (after == 47 or after == 33):  # </ <!
                return True
            if byte == 47 and after == 62:  # />
                return True
            if byte == 61 and after == 61:  # ==
                return True
    return False
