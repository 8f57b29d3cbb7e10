"""N-Triples (W3C Recommendation "RDF 1.1 N-Triples", 2014), line by line."""

import re
from collections.abc import Iterator

from transforms.ingest import Reject
from transforms.synthesis.graph_reading import (
    MALFORMED,
    InputFile,
    OnReject,
    Row,
    lines_of,
    text_of,
)

_IRI = r"<((?:[^\x00-\x20<>\"{}|^`\\]|\\u[0-9A-Fa-f]{4}|\\U[0-9A-Fa-f]{8})*)>"
_BLANK = r"(_:[^\s<>\"]+)"
_TEXT = r'"((?:[^"\\\n\r]|\\.)*)"'
_TRIPLE = re.compile(
    rf"\s*(?:{_IRI}|{_BLANK})\s*{_IRI}\s*"
    rf"(?:{_IRI}|{_BLANK}|{_TEXT}(?:\^\^{_IRI}|@([A-Za-z]+(?:-[A-Za-z0-9]+)*))?)"
    r"\s*\.\s*(?:#.*)?"
)
_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))")
_SHORT = {"t": "\t", "b": "\b", "n": "\n", "r": "\r", "f": "\f", '"': '"', "'": "'", "\\": "\\"}


class EscapeError(ValueError):
    """A backslash before what cannot stand after one."""


def ntriples_rows(file: InputFile, reject: OnReject, lang: str) -> Iterator[Row]:
    """Yield the triples of a file; blank nodes keep their names.

    Texts that are marked as another language than ``lang`` are passed over.

    Args:
        file: N-Triples.
        reject: takes what is no triple.
        lang: a language tag such as ``en``.
    """
    for number, line in lines_of(file, reject):
        text = text_of(line, number, file.name, reject, MALFORMED)
        if text is None or text.lstrip().startswith("#"):
            continue
        match = _TRIPLE.fullmatch(text)
        if match is None:
            reject(Reject(number, MALFORMED, f"no N-Triples statement: {text[:80]!r}", file.name))
            continue
        subject, blank, predicate, target, target_blank, literal, _, tag = match.groups()
        try:
            if literal is None:
                tail, is_entity = _plain(target) if target is not None else target_blank, True
            elif tag is not None and tag.partition("-")[0].lower() != lang:
                continue
            else:
                tail, is_entity = _plain(literal), False
            head = _plain(subject) if subject is not None else blank
            relation = _plain(predicate)
        except EscapeError as error:
            reject(Reject(number, MALFORMED, f"{error}: {text[:80]!r}", file.name))
            continue
        if head and relation and tail.strip():
            yield number, head, relation, tail, is_entity
        else:
            reject(Reject(number, MALFORMED, f"an empty name: {text[:80]!r}", file.name))


def _plain(text: str) -> str:
    """Resolve the escapes of a text."""
    return _ESCAPE.sub(_character, text) if "\\" in text else text


def _character(match: re.Match[str]) -> str:
    code = match[1] or match[2]
    if code is not None:
        number = int(code, 16)
        if number > 0x10FFFF or 0xD800 <= number < 0xE000:
            raise EscapeError(f"no character {match[0]}")
        return chr(number)
    if match[3] not in _SHORT:
        raise EscapeError(f"unknown escape {match[0]}")
    return _SHORT[match[3]]
