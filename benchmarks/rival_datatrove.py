"""The steps of the main job in datatrove; run by ``main_job.py`` in an environment of its own.

Read, exact de-duplication (signatures, find, filter), ``DocumentTokenizer`` with a byte-level BPE
of the wanted size, merge with a shuffle of the documents: as its documentation puts them together.
datatrove does not train tokenizers and does not pack; the tokenizer is trained before the clock
starts. Prints one JSON object.
"""

import argparse
import glob
import gzip
import json
import os
import resource
import time
from collections.abc import Iterator
from pathlib import Path

from datatrove.data import Document
from datatrove.executor import LocalPipelineExecutor
from datatrove.pipeline.base import PipelineStep
from datatrove.pipeline.dedup.exact_dedup import (
    ExactDedupConfig,
    ExactDedupFilter,
    ExactDedupSignature,
    ExactFindDedups,
)
from datatrove.pipeline.readers import JsonlReader
from datatrove.pipeline.tokens import DocumentTokenizer, DocumentTokenizerMerger
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

END = "<|endoftext|>"


def main() -> None:
    """Run the job and print what each step cost."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--input", required=True, help="folder with */*.jsonl*")
    parser.add_argument("--work", required=True)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--tasks", type=int, default=8)
    parser.add_argument("--vocab", type=int, default=32000)
    options = parser.parse_args()
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # the workers are processes
    work = Path(options.work)
    work.mkdir(parents=True)
    tokenizer = work / "tokenizer.json"
    train_tokenizer(options.input, tokenizer, options.vocab)

    config = ExactDedupConfig(content_getter=text_of)
    signatures, duplicates = str(work / "signatures"), str(work / "duplicates")
    steps: list[tuple[str, int, list[PipelineStep]]] = [
        (
            "read, hash",
            options.tasks,
            [reader(options.input), ExactDedupSignature(signatures, config)],
        ),
        ("find duplicates", 1, [ExactFindDedups(signatures, duplicates, config)]),
        (
            "read, filter, tokenize",
            options.tasks,
            [
                reader(options.input),
                ExactDedupFilter(duplicates, config),
                DocumentTokenizer(
                    str(work / "tokenized"),
                    tokenizer_name_or_path=str(tokenizer),
                    eos_token=END,
                    seed=7,
                ),
            ],
        ),
        (
            "merge, shuffle",
            1,
            [
                DocumentTokenizerMerger(
                    str(work / "tokenized"), str(work / "merged"), "merged", seed=7
                )
            ],
        ),
    ]
    stages = [run(name, tasks, pipeline, options.workers, work) for name, tasks, pipeline in steps]
    size = sum(path.stat().st_size for path in (work / "merged").glob("*.ds"))
    print(json.dumps({"stages": stages, "tokens": size // 2, "bytes": size}))


def text_of(document: Document) -> str:
    """Return what exact de-duplication compares."""
    return document.text


def reader(folder: str) -> JsonlReader:
    """Return the reader of all files of the corpus."""
    return JsonlReader(folder, glob_pattern="*/*.jsonl*", file_progress=False, doc_progress=False)


def run(
    name: str, tasks: int, pipeline: list[PipelineStep], workers: int, work: Path
) -> dict[str, object]:
    """Run one executor; forked workers, so that their CPU time is counted."""
    began, before = time.perf_counter(), cpu_s()
    logs = work / "logs" / name.replace(" ", "-").replace(",", "")
    LocalPipelineExecutor(
        pipeline,
        tasks=tasks,
        workers=min(workers, tasks),
        logging_dir=str(logs),
        start_method="fork",
    ).run()
    return {
        "stage": name,
        "cpu_s": round(cpu_s() - before, 2),
        "wall_s": round(time.perf_counter() - began, 2),
    }


def cpu_s() -> float:
    """Return CPU seconds of this process and its ended children."""
    usage = (resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN))
    return sum(u.ru_utime + u.ru_stime for u in usage)


def train_tokenizer(folder: str, out: Path, vocab: int) -> None:
    """Train a byte-level BPE on a sample of 20 MB."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=vocab, special_tokens=[END], show_progress=False)
    tokenizer.train_from_iterator(sample(folder, 20_000_000), trainer)
    tokenizer.save(str(out))


def sample(folder: str, size: int) -> Iterator[str]:
    """Yield texts from the beginning of every file, about ``size`` characters in all."""
    files = sorted(glob.glob(f"{folder}/*/*.jsonl*"))  # noqa: PTH207
    for file in files:
        left = size // len(files)
        for line in lines(Path(file)):
            text = json.loads(line)["text"]
            yield text[:left]
            left -= len(text)
            if left <= 0:
                break


def lines(file: Path) -> Iterator[str]:
    """Yield the lines of a JSON lines file."""
    if file.suffix == ".zst":
        import zstandard

        with zstandard.open(file, "rt", encoding="utf-8") as stream:
            yield from stream
    else:
        with (gzip.open if file.suffix == ".gz" else open)(file, "rt", encoding="utf-8") as stream:
            yield from stream


if __name__ == "__main__":
    main()
