"""Removal of near-duplicates by another library; ``dedup_tools.py`` runs it in that one's environment.

    python rival_dedup.py datatrove INPUT WORK OUTPUT

INPUT is a folder of ``*.jsonl`` with id and text, OUTPUT a folder of JSON lines of what is kept. All use
5-grams of words, 14 bands of 8 rows, as each one's own documentation puts its parts together.
"""

import argparse
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

BANDS, ROWS, NGRAM = 14, 8, 5
WORDS = re.compile(r"\w+")


def main() -> None:
    """Run one library."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("library", choices=sorted(LIBRARIES))
    parser.add_argument("input", type=Path)
    parser.add_argument("work", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    LIBRARIES[options.library](options)


def datatrove(options: argparse.Namespace) -> None:
    """Signatures, buckets, clusters, filter: the four executors of datatrove's example."""
    from datatrove.executor import LocalPipelineExecutor
    from datatrove.pipeline.dedup import (
        MinhashConfig,
        MinhashDedupBuckets,
        MinhashDedupCluster,
        MinhashDedupFilter,
        MinhashDedupSignature,
    )
    from datatrove.pipeline.readers import JsonlReader
    from datatrove.pipeline.writers import JsonlWriter

    config = MinhashConfig(n_grams=NGRAM, num_buckets=BANDS, hashes_per_bucket=ROWS)
    signatures, buckets, remove = (str(options.work / name) for name in ("sigs", "bands", "remove"))
    tasks = min(8, len(list(options.input.glob("*.jsonl"))))
    reader = JsonlReader(
        str(options.input), glob_pattern="*.jsonl", file_progress=False, doc_progress=False
    )
    steps: list[tuple[int, list[Any]]] = [
        (tasks, [reader, MinhashDedupSignature(signatures, config=config)]),
        (BANDS, [MinhashDedupBuckets(signatures, buckets, config=config)]),
        (1, [MinhashDedupCluster(buckets, remove, config=config)]),
        (
            tasks,
            [
                reader,
                MinhashDedupFilter(remove),
                JsonlWriter(str(options.output), compression=None),
            ],
        ),
    ]
    for number, (count, pipeline) in enumerate(steps):
        LocalPipelineExecutor(
            pipeline,
            tasks=count,
            workers=min(options.workers, count),
            logging_dir=str(options.work / f"logs-{number}"),
            start_method="fork",
        ).run()


def datasketch(options: argparse.Namespace) -> None:
    """Query, and insert what has no candidate, document by document."""
    from datasketch import MinHash, MinHashLSH

    lsh = MinHashLSH(num_perm=BANDS * ROWS, params=(BANDS, ROWS))
    with output(options) as out:
        for number, (line, text) in enumerate(documents(options.input)):
            sketch = MinHash(num_perm=BANDS * ROWS)
            sketch.update_batch([gram.encode() for gram in grams(text)])
            if not lsh.query(sketch):
                lsh.insert(number, sketch)
                out.write(line)


def rensa(options: argparse.Namespace) -> None:
    """The same with rensa, whose sketches are made many at a time."""
    from rensa import RMinHash, RMinHashLSH

    lsh = RMinHashLSH(0.8, BANDS * ROWS, BANDS)
    number = 0
    with output(options) as out:
        for batch in batches(documents(options.input), 1000):
            sketches = RMinHash.from_token_sets([grams(t) for _, t in batch], BANDS * ROWS, 42)
            for (line, _), sketch in zip(batch, sketches, strict=True):
                if not lsh.query(sketch):
                    lsh.insert(number, sketch)
                    out.write(line)
                number += 1


LIBRARIES = {"datasketch": datasketch, "datatrove": datatrove, "rensa": rensa}


def grams(text: str) -> list[str]:
    """Return the distinct n-grams of the words of a text."""
    words = WORDS.findall(text.lower())
    if len(words) < NGRAM:
        return [" ".join(words)]
    return list({" ".join(words[k : k + NGRAM]) for k in range(len(words) - NGRAM + 1)})


def documents(folder: Path) -> Iterator[tuple[bytes, str]]:
    """Yield the lines of all files, and their texts."""
    try:
        from orjson import loads
    except ImportError:
        loads = json.loads
    for path in sorted(folder.glob("*.jsonl")):
        with path.open("rb") as lines:
            for line in lines:
                yield line, loads(line)["text"]


def batches(items: Iterator[Any], size: int) -> Iterator[list[Any]]:
    """Yield items in lists of some size."""
    held = []
    for item in items:
        held.append(item)
        if len(held) == size:
            yield held
            held = []
    if held:
        yield held


def output(options: argparse.Namespace) -> Any:
    """Open the file of what is kept."""
    options.output.mkdir(parents=True, exist_ok=True)
    return (options.output / "kept.jsonl").open("wb")


if __name__ == "__main__":
    main()
