#!/usr/bin/env python3
"""Near-duplicate removal of inputs made to break it, each beside as many bytes of plain text.

    python benchmarks/near_hard_inputs.py

For each input: what was expected and found, CPU seconds of reading, exact and near-duplicate removal
for it and for plain text in documents of 1.4 KB, and their ratio. Ends 1 where an answer is wrong, or
a ratio above 2 is not a matter of some tenths of a second. Documents that are all alike without being
equal are the exception: they may cost what comparing a million pairs per band costs.
"""

import argparse
import json
import random
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from pipelines.recipe import from_dict
from pipelines.run import RunSummary, run

MOST = 2.0
"""Times the CPU seconds of plain text."""
_SLACK_S = 0.3

Lines = Iterator[str]


@dataclass(frozen=True, slots=True)
class Hard:
    """An input, and what must come of it."""

    name: str
    lines: Callable[[], Lines]
    expected: dict[str, int]
    """kept, rejected, and documents dropped by reason."""
    most: float = MOST


def words(rng: random.Random, count: int) -> list[str]:
    """Return plain words, drawn by a power law from ten thousand."""
    return [f"word{int(10_000 ** rng.random())}" for _ in range(count)]


def line(number: int, text: str) -> str:
    """Return a document as a JSON line."""
    return json.dumps({"id": str(number), "text": text})


def plain(size: int) -> Lines:
    """Yield documents of some 1.4 KB that hold ``size`` bytes of text together."""
    rng, number = random.Random(5), 0
    while size > 0:
        text = " ".join(words(rng, 180))[:size]
        size -= len(text)
        number += 1
        yield line(number, text)


def identical() -> Lines:
    """Yield 10,000 equal documents."""
    text = " ".join(words(random.Random(1), 180))
    return (line(n, text) for n in range(10_000))


def one_word_apart() -> Lines:
    """Yield 10,000 documents, each of which differs from the others in a word or two."""
    text = words(random.Random(2), 200)
    for n in range(10_000):
        place = n % len(text)
        yield line(n, " ".join([*text[:place], f"own{n:06d}", *text[place + 1 :]]))


def huge_line() -> Lines:
    """Yield one document of 50 MB."""
    rng = random.Random(3)
    yield line(0, " ".join(" ".join(words(rng, 1000)) for _ in range(6_250))[:50_000_000])


def without_tokens() -> Lines:
    """Yield 5,000 empty texts and 5,000 of punctuation alone."""
    for n in range(10_000):
        yield line(n, "" if n % 2 else ". " * (n // 2 + 1) + "!" * (n % 7))


def with_nul() -> Lines:
    """Yield 5,000 documents twice, once with NUL characters inside and between words."""
    rng = random.Random(4)
    for n in range(5_000):
        text = words(rng, 180)
        yield line(2 * n, " ".join(text))
        yield line(2 * n + 1, " \0".join(w[:2] + "\0" + w[2:] for w in text))


def lone_surrogates() -> Lines:
    """Yield 5,000 documents, and 5,000 lines that hold half a character."""
    rng = random.Random(6)
    for n in range(5_000):
        yield line(2 * n, " ".join(words(rng, 180)))
        yield line(2 * n + 1, " ".join(words(rng, 90)) + "\ud800 " + " ".join(words(rng, 90)))


def two_tokens() -> Lines:
    """Yield 2,500 distinct pairs of tokens, twice each, with other punctuation."""
    for n in range(2_500):
        one, two = f"left{n % 50}", f"right{n // 50}"
        yield line(2 * n, f"{one} {two}")
        yield line(2 * n + 1, f"{one}: {two}.")


HARD = (
    Hard("10,000 equal documents", identical, {"kept": 1, "dedupe.near": 9_999}),
    Hard("10,000 one word apart", one_word_apart, {"kept": 1, "dedupe.near": 9_999}, 40),
    Hard("one line of 50 MB", huge_line, {"kept": 1}),
    Hard("no tokens", without_tokens, {"kept": 5_000, "under min_chars": 5_000}),
    Hard("NUL characters", with_nul, {"kept": 5_000, "dedupe.near": 5_000}),
    Hard("lone surrogates", lone_surrogates, {"kept": 5_000, "rejected": 5_000}),
    Hard("5,000 of two tokens", two_tokens, {"kept": 2_500, "dedupe.near": 2_500}),
)


def main() -> None:
    """Run every input and the plain text beside it; print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scratch", type=Path, help="folder for the work directories")
    options = parser.parse_args()
    failed = False
    with tempfile.TemporaryDirectory(dir=options.scratch) as folder:
        dedupe(Path(folder) / "warm", plain(100_000))
        print(f"{'input':<24}{'MB':>7}{'CPU s':>8}{'plain':>8}{'ratio':>7}  answer")
        for number, hard in enumerate(HARD):
            size, summary = dedupe(Path(folder) / f"hard{number}", hard.lines())
            beside = cost(dedupe(Path(folder) / f"plain{number}", plain(size))[1])
            found = {"kept": summary.kept, **summary.dropped}
            found |= {"rejected": summary.rejected} if summary.rejected else {}
            ratio = cost(summary) / beside
            slow = ratio > hard.most and cost(summary) - hard.most * beside > _SLACK_S
            failed |= slow or found != hard.expected
            right = "right" if found == hard.expected else f"WRONG, expected {hard.expected}"
            print(
                f"{hard.name:<24}{size / 1e6:7.2f}{cost(summary):8.2f}{beside:8.2f}{ratio:7.2f}  "
                f"{found} {right}{' TOO SLOW' if slow else ''}",
                flush=True,
            )
        print(f"peak memory of all of them {summary.peak_rss_bytes / 1e6:,.0f} MB")
    sys.exit(failed)


def dedupe(folder: Path, lines: Lines) -> tuple[int, RunSummary]:
    """Write lines and de-duplicate them; return the bytes of text and the run's summary."""
    folder.mkdir()
    size = 0
    with (folder / "in.jsonl").open("w") as file:
        for text in lines:
            size += len(text) - len('{"id": "0000", "text": ""}')
            file.write(text + "\n")
    recipe = {
        "name": "hard",
        "workdir": str(folder / "w"),
        "sources": [{"name": "hard", "path": str(folder / "in.jsonl")}],
        # Equal documents are left to it, too.
        "dedupe": {"near": {}},
    }
    return max(size, 1), run(from_dict(recipe), until="dedupe.near")


def cost(summary: RunSummary) -> float:
    """Return the CPU seconds of the stages."""
    return float(sum(stage["cpu_s"] for stage in summary.stages))


if __name__ == "__main__":
    main()
