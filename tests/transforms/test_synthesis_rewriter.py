"""The optional rewriter: nothing is sent when it is off; no reply changes what is asked."""

import http.server
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest

from transforms.record import RecordError
from transforms.synthesis.draw import Draw
from transforms.synthesis.language.realizer import Realizer
from transforms.synthesis.language.words import Utterance
from transforms.synthesis.limits import Limits
from transforms.synthesis.rewriter import (
    EndpointRewriter,
    Identity,
    RewriterSettings,
    filled,
    mask,
    objection,
    rewriter_of,
)
from transforms.synthesis.sampler import Sampler
from transforms.synthesis.synthetic_graph import synthetic_graph


def _said(count: int = 60) -> list[Utterance]:
    graph = synthetic_graph(3, 10)
    sampler, realizer = Sampler(graph, Limits(), 1), Realizer(graph, "en")
    samples = [
        sampler.draw(pattern, place, Draw(place, pattern))
        for place in range(count // 4)
        for pattern in ("2i", "2u", "2in", "count")
    ]
    return [
        realizer.question(sample.plan, Draw(place, "q"))
        for place, sample in enumerate(samples)
        if sample is not None
    ]


class Garbage(http.server.BaseHTTPRequestHandler):
    """Replies with what no check should let through."""

    replies = (b"no json", b"{}", b'{"choices": []}', b'{"choices": [{"message": {"content": 3}}]}')
    texts = (
        "Sure! Here it is.",
        "[E1]",
        "",
        "[E1] [E1] or not 5 of [E9]",
        "x" * 4000,
        "<|im_end|>",
    )
    asked: list[bytes] = []  # noqa: RUF012

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        Garbage.asked.append(body)
        number = len(Garbage.asked) % 10
        if number < 4:
            reply = self.replies[number]
        else:
            content = self.texts[number - 4]
            reply = orjson.dumps({"choices": [{"message": {"content": content}}]})
        self.send_response(200)
        self.end_headers()
        self.wfile.write(reply)

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def endpoint() -> Iterator[str]:
    Garbage.asked.clear()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Garbage)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    server.shutdown()
    thread.join()
    server.server_close()


def test_nothing_is_sent_when_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without settings every socket may be forbidden: questions are made and stay as they are."""

    def refuse(*args: object, **keys: object) -> None:
        raise AssertionError("a socket was opened")

    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(socket, "create_connection", refuse)
    rewriter = rewriter_of(None)
    assert isinstance(rewriter, Identity)
    for said in _said():
        assert rewriter.reword(said, "en") is said


def test_no_module_for_sockets_is_loaded_when_off() -> None:
    """Importing the rewriter and the language loads no module that speaks to a network."""
    code = (
        "import sys, transforms.synthesis.rewriter as r; r.rewriter_of(None);"
        "print([m for m in ('urllib.request', 'http.client', 'ssl', 'requests') if m in sys.modules])"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert loaded.stdout.strip() == "[]"


def test_garbage_is_never_used(endpoint: str) -> None:
    """An endpoint that returns garbage changes nothing, and every reason is counted."""
    rewriter = EndpointRewriter(RewriterSettings(base_url=endpoint, model="m", retries=0))
    said = _said()
    assert [rewriter.reword(one, "en") for one in said] == said
    assert sum(rewriter.reasons.values()) == len(said)
    assert "reworded" not in rewriter.reasons
    assert {"unreadable reply", "placeholders", "length"} & set(rewriter.reasons)


def test_mentions_are_never_seen(endpoint: str) -> None:
    """What is sent holds placeholders only: no label of an entity, no number."""
    rewriter = EndpointRewriter(RewriterSettings(base_url=endpoint, model="m", retries=0))
    said = _said(20)
    for one in said:
        rewriter.reword(one, "en")
    for one, body in zip(said, Garbage.asked, strict=True):
        asked = orjson.loads(body)["messages"][1]["content"]
        assert all(one.text[start:end] not in asked for _, start, end in one.mentions)


def test_an_endpoint_that_is_gone_is_counted() -> None:
    """No reply, no change: the reason is counted."""
    settings = RewriterSettings(base_url="http://127.0.0.1:9/v1", model="m", retries=1, timeout=1.0)
    rewriter = EndpointRewriter(settings)
    said = _said(4)
    assert [rewriter.reword(one, "en") for one in said] == said
    assert rewriter.reasons == {"no reply": len(said)}


def _courteous(address: str, headers: dict[str, str], body: bytes, timeout: float) -> bytes:
    content = orjson.loads(body)["messages"][1]["content"]
    return orjson.dumps({"choices": [{"message": {"content": f"Dear assistant: {content}"}}]})


def test_good_replies_are_used_and_kept(tmp_path: Path) -> None:
    """A reply that keeps placeholders and operators is used; a second run needs no endpoint."""
    settings = RewriterSettings(base_url="http://x/v1", model="m", cache=str(tmp_path))
    first = EndpointRewriter(settings, _courteous)
    said = _said(20)
    reworded = [first.reword(one, "en") for one in said]
    assert first.reasons["reworded"] >= len(said) * 0.8
    for one, other in zip(said, reworded, strict=True):
        assert other.text in (one.text, f"Dear assistant: {one.text}")
        for (entity, start, end), (same, a, b) in zip(other.mentions, one.mentions, strict=True):
            assert entity == same
            assert other.text[start:end] == one.text[a:b]

    def gone(*args: object) -> bytes:
        raise OSError("gone")

    again = EndpointRewriter(settings, gone)
    assert [again.reword(one, "en") for one in said] == reworded


@pytest.mark.parametrize(
    ("masked", "reply", "reason"),
    [
        ("Which films did [E1] direct?", "Name the films that [E1] directed.", ""),
        ("Which films did [E1] direct?", "Which films did [E2] direct?", "placeholders"),
        ("Films of [E1] and not of [E2]?", "Films of [E1] and [E2], please?", "operators"),
        ("Films of [E1] or [E2]?", "Films of [E1], [E2]", "operators"),
        ("How many films has [E1]?", "Which films has [E1]?", "operators"),
        ("The [N1] cities of [E1]", "The [N1] top 5 cities of [E1]", "numbers"),
        ("Films of [E1]", "Films of [E1], with a very long explanation of everything", "length"),
        ("Films of [E1] with [N1]", "Films of [E1] with [N1][]", "marks"),
    ],
)
def test_objections(masked: str, reply: str, reason: str) -> None:
    """Each kind of damage is seen."""
    assert objection(masked, reply, "en") == reason


def test_a_realizer_rewords_its_questions() -> None:
    """Questions go through the rewriter that a realizer is given; other sentences do not."""
    graph = synthetic_graph(3, 10)
    sample = Sampler(graph, Limits(), 1).draw("2i", 0, Draw(1))
    assert sample is not None
    settings = RewriterSettings(base_url="http://x/v1", model="m")
    rewriter = EndpointRewriter(settings, _courteous)
    realizer = Realizer(graph, "en", None, rewriter)
    said = realizer.question(sample.plan, Draw(1))
    assert said.text.startswith("Dear assistant: ")
    assert "reworded" in said.noise
    realizer.supply(0, Draw(1))
    assert rewriter.reasons == {"reworded": 1}


def test_masks_are_undone() -> None:
    """Putting the mentions back gives the utterance."""
    for one in _said():
        masked, places = mask(one)
        assert filled(masked, places, one).text == one.text


def test_settings_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong address and a key that is not set are refused before anything is sent."""
    with pytest.raises(ValueError, match="base_url"):
        RewriterSettings(base_url="ftp://x", model="m")
    monkeypatch.delenv("NO_SUCH_KEY", raising=False)
    with pytest.raises(RecordError, match="NO_SUCH_KEY"):
        rewriter_of(RewriterSettings(base_url="http://x/v1", model="m", key_variable="NO_SUCH_KEY"))
