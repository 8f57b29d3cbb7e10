"""Lines planted in real documents: what ``[dedupe.sentence]`` removes of frames, and keeps of good ones.

    python -m benchmarks.sentence_plants [--half c] [--out benchmarks/results]

``benchmarks/sentence_lines/`` has lines of page frames and good ones (proverbs, quotations, verses,
definitions, law, dialogue, facts), by kind. Halves a and b are among the data that the quality model
is fitted on by now (b was measured before it was added: docs/sentences.md); c was written after the
rule was settled, and nothing is fitted on it. Each line is planted in 20, 200 or 2,000 documents of ``--corpus`` in each of four ways; a
planted line counts where the exported text has it less often than the text with the plant.
"""

import argparse
import hashlib
import json
import random
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq

from pipelines.recipe import from_dict
from pipelines.run import run

LINES = Path(__file__).parent / "sentence_lines"
SOURCES = {
    "en": ("en-peps", "en-rust-rfcs", "en-eips"),
    "zh": ("zh-classics-chapters", "zh-tidb-docs"),
}
PLANTINGS = ("own line at the end", "own line at the start", "own paragraph", "inside a paragraph")
DOCUMENTS = 2200
"""Of each language; the first ones by hash of at least 12 lines of prose."""


def lines_of(language: str, half: str) -> list[tuple[str, str, bool]]:
    """Return lines, their kinds and whether they are good."""
    found = []
    for name, good in (("frame", False), ("good", True)):
        kind = ""
        for line in (LINES / f"{language}-{name}-{half}.txt").read_text("utf-8").splitlines():
            if line.startswith("# "):
                kind = line[2:]
            elif line:
                found.append((line, kind, good))
    return found


def texts(corpus: Path, scratch: Path, language: str) -> list[str]:
    """Return texts of the corpus, as ingest gives them."""
    sources = [
        {"name": name, "path": str(corpus / name / "*.jsonl*")} for name in SOURCES[language]
    ]
    value = {"name": "plants", "seed": 1, "sources": sources, "workdir": str(scratch / language)}
    run(from_dict(value), until="ingest")
    found: dict[str, str] = {}
    for file in sorted(scratch.glob(f"{language}/artifacts/ingest-*/*.parquet")):
        if "rejects" not in file.name:
            for text in pq.read_table(file, columns=["text"])["text"].to_pylist():
                if text and len(long_lines(text)) >= 12 and len(text) < 60_000:
                    found.setdefault(hashlib.sha256(text[:500].encode()).hexdigest(), text)
    return [found[key] for key in sorted(found)][:DOCUMENTS]


def long_lines(text: str) -> list[int]:
    """Return the numbers of the lines that look like prose and end a sentence."""
    found, fenced = [], False
    rows = text.split("\n")
    for number, line in enumerate(rows):
        fenced ^= line.lstrip()[:3] in ("```", "~~~")
        prose = len(line.encode()) >= 60 and line[:1].isalnum() and not set("`{}()|=<>") & set(line)
        following = [*rows, ""][number + 1].strip()[:1]
        if prose and not fenced and line.rstrip()[-1:] in (".", "。") and not following.islower():
            found.append(number)
    return found


def plant(text: str, line: str, how: str, rng: random.Random) -> str:
    """Return a text with a line in it."""
    if how == PLANTINGS[0]:
        return f"{text.rstrip()}\n{line}\n"
    if how == PLANTINGS[1]:
        return f"{line}\n{text}"
    rows = text.split("\n")
    place = rng.choice(long_lines(text)[1:-1])
    if how == PLANTINGS[2]:
        return "\n".join([*rows[: place + 1], "", line, "", *rows[place + 1 :]])
    chinese = any("\u4e00" <= c <= "\u9fff" for c in line)
    stop = "" if not line[-1].isalnum() else ("。" if chinese else ".")
    rows[place] = rows[place].rstrip() + ("" if chinese else " ") + line + stop
    return "\n".join(rows)


def planted(
    documents: list[str], lines: list[tuple[str, str, bool]], how: str, scratch: Path
) -> Iterator[tuple[str, str, bool, int, float]]:
    """Yield for each line its kind, class, documents and the share of its plants that is removed."""
    rng = random.Random(how)
    after = list(documents)
    where: dict[str, list[int]] = {}
    order = rng.sample(lines, len(lines))
    for number, (line, _, _) in enumerate(order):
        most = 2000 if number % 29 == 0 else 200 if number % 5 == 0 else 20
        where[line] = rng.sample(range(len(documents)), min(most, len(documents)))
        for document in where[line]:
            after[document] = plant(after[document], line, how, rng)
    scratch.mkdir(parents=True)
    with (scratch / "a.jsonl").open("w") as sink:
        for number, text in enumerate(after):
            sink.write(json.dumps({"id": str(number), "text": text}, ensure_ascii=False) + "\n")
    value = {
        "name": "planted",
        "seed": 1,
        "workdir": str(scratch / "w"),
        "sources": [{"name": "s", "path": str(scratch / "a.jsonl")}],
        "dedupe": {"sentence": {}},
    }
    summary = run(from_dict(value), until="dedupe.sentence")
    folder = scratch / "w"
    [stage] = [s for s in summary.stages if s["stage"] == "dedupe.sentence"]
    cuts: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for file in (folder / stage["path"]).glob("spans-*.parquet"):
        for row in pq.read_table(file, columns=["doc_uid", "start", "end"]).to_pylist():
            cuts[row["doc_uid"]].append((row["start"], row["end"]))
    left = {}
    dropped = set()
    for file in (folder / stage["path"]).glob("drops-*.parquet"):
        dropped |= set(pq.read_table(file)["doc_uid"].to_pylist())
    for file in sorted(folder.glob("artifacts/ingest-*/*.parquet")):
        if "rejects" not in file.name:
            for row in pq.read_table(file, columns=["doc_uid", "id", "text"]).to_pylist():
                text = row["text"] if row["doc_uid"] not in dropped else ""
                for start, end in sorted(cuts[row["doc_uid"]], reverse=True):
                    text = text[:start] + "\0" + text[end:]
                left[int(row["id"])] = (row["text"], text)
    for line, kind, good in order:
        gone = [left[d][1].count(line) < left[d][0].count(line) for d in where[line]]
        yield line, kind, good, len(gone), sum(gone) / len(gone)


def main() -> None:
    """Print the tables, and store them."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--corpus", type=Path, default=Path("../shared/data/corpus"))
    parser.add_argument("--half", default="c", choices=["a", "b", "c"])
    parser.add_argument("--out", type=Path, help="folder that gets sentence-plants-HALF.json")
    parser.add_argument("--show", action="store_true", help="print the lines judged wrongly")
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for language in SOURCES:
            documents = texts(options.corpus, Path(folder), language)
            lines = lines_of(language, options.half)
            for how in PLANTINGS:
                scratch = Path(folder) / f"{language}-{how.replace(' ', '-')}"
                for line, kind, good, count, gone in planted(documents, lines, how, scratch):
                    rows.append((language, how, kind, good, count, gone, line))
    right: dict[tuple[str, ...], Counter[str]] = defaultdict(Counter)  # sums of shares
    for language, how, kind, good, count, gone, line in rows:
        name = "good kept" if good else "frames removed"
        score = 1 - gone if good else gone
        for key in ((language, name, how), (language, name, f"in {count} documents"),
                    (language, name, f"kind: {kind}"), (language, name, "all")):  # fmt: skip
            right[key].update(lines=1, right=score)
        if options.show and score < 0.95:
            print(f"  {name} {language} {how}: {gone:.0%} of {count} gone: {line}")
    for key in sorted(right):
        found = right[key]
        share = found["right"] / found["lines"]
        print(
            f"{key[0]}  {key[1]:15} {key[2]:40} {found['right']:4} of {found['lines']:4} {share:.1%}"
        )
    if options.out:
        table = [{"language": k[0], "class": k[1], "of": k[2], **right[k]} for k in sorted(right)]
        path = options.out / f"sentence-plants-{options.half}.json"
        path.write_text(json.dumps(table, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
