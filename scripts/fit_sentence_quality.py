"""Fit the sentence quality model: prints its weights, writes ``transforms/sentence_lexicon.txt``.

    python scripts/fit_sentence_quality.py [--texts ../shared/data]

Logistic regression with an L2 penalty over the features and the presence of words, pairs of words,
beginnings of words and sequences of ideographs, on

* the sentences in ``scripts/sentence_quality/``: ``prose.txt`` and ``frame.txt``, one a line, both
  classes with the same total weight. Prose is shown also without its final full stop at a quarter of
  the weight where it is long, so that headlines and list items of prose are prose too; lines of the
  frame also with one, at a tenth;
* sentences of real texts as further prose, a tenth of the weight each. Only they show which words
  prose uses; none of them is kept.
"""

import argparse
import gzip
import hashlib
import io
import json
import re
from collections import Counter
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import scipy.sparse as sparse
import zstandard
from scipy.optimize import minimize

from transforms.sentence_features import features
from transforms.sentence_forms import unit_forms
from transforms.sentence_quality import FEATURES
from transforms.sentence_split import split_units
from transforms.sentence_words import DATE_WORDS

DATA = Path(__file__).parent / "sentence_quality"
LEXICON = Path(__file__).parents[1] / "transforms" / "sentence_lexicon.txt"
PENALTY, LEARNT_PENALTY = 0.3, 0.2
LEAST = 10
"""Hundredths below which a learnt weight is left out."""
UNUSED = ("length", "symbols", "commas", "capitals", "shouting", "learnt")
"""Features that tell long real sentences from short written ones rather than prose from frame."""
MOST = {"separators": -1.0}
"""Most that a feature may weigh: manuals, of which real texts are many, have paths and options."""
TEXTS = {
    "corpus/en-books": 2600, "corpus/en-peps": 700, "corpus/en-rust-rfcs": 400,
    "corpus/en-eips": 300, "corpus/en-rust-book": 400, "corpus/en-cockroachdb-docs": 400,
    "corpus/en-powershell-docs": 400, "corpus/zh-laws": 1400, "corpus/zh-tidb-docs": 700,
    "corpus/zh-classics-chapters": 1200, "corpus/zh-poems": 400, "corpus/mul-xquad-wiki": 1300,
    "kg/fb15k237/entities.jsonl.gz": 1400, "kg/kdconv-zh/dialogues.jsonl.gz": 1800,
}  # fmt: skip
"""Files or folders of JSON Lines, and how many sentences each gives."""

HAN = r"\u3005-\u3007\u3021-\u3029\u3400-\u9fff\uf900-\ufaff"
_WORDS = re.compile(rf"[{HAN}]+|[^\W{HAN}]+")
_HAN = re.compile(rf"[{HAN}]")


def grams(line: str) -> list[str]:
    """Return what the lexicon may know of a line, with repetitions; the kernel's other half."""
    found: list[str] = []
    previous, words, seen = "", 0, 0
    for token in _WORDS.findall(line):
        if _HAN.match(token):
            for end in range(1, len(token) + 1):
                seen += 1
                found += [token[end - size : end] for size in (1, 2, 3) if size <= end]
                if words == 0 and seen <= 2 and end == seen:
                    found.append("^" + token[:end])
            continue
        word = token.casefold()
        digit = any(character.isdigit() for character in word)
        words += 1
        found.append("0" if digit or word in DATE_WORDS else word)
        if words > 1:
            found.append(f"{previous} {word}")
        elif not seen:
            found.append("^" + word)
        if len(word) > 5 and not digit:
            found.append(word[:5] + "*")
        previous = word
    return found


def table(lines: list[str]) -> npt.NDArray[np.float64]:
    """Return the features of lines, one row each; a line of several sentences is one unit."""
    units = split_units(pa.array(lines), sentences=False)
    if len(units) != len(lines):
        raise SystemExit("every line of the data must be one unit")
    forms = unit_forms(units)
    found = features(units, np.arange(len(units)), forms.labelled)
    unused = [number for number, (name, _) in enumerate(FEATURES) if name in UNUSED]
    found[:, unused] = 0
    return found


def read(name: str) -> list[str]:
    """Return the lines of a file of the data."""
    return (DATA / name).read_text(encoding="utf-8").splitlines()


def sentences(path: Path, most: int) -> list[str]:
    """Return sentences of a file or folder of JSON Lines, drawn by their hashes."""
    texts = []
    for file in sorted(path.glob("*.jsonl*"))[:3] if path.is_dir() else [path]:
        data = file.read_bytes()
        if file.suffix == ".zst":
            data = zstandard.ZstdDecompressor().stream_reader(io.BytesIO(data)).read()
        elif file.suffix == ".gz":
            data = gzip.decompress(data)
        for line in data.decode().split("\n"):
            if line:
                texts.append(_text(json.loads(line)))
    texts = sorted(texts, key=_draw)[:1500]
    found: set[str] = set()
    for start in range(0, len(texts), 200):
        units = split_units(pa.array([text[:500_000] for text in texts[start : start + 200]]))
        data = bytes(units.data)
        for row in units.places:
            line = data[row[1] : row[2]].decode()
            longest = 60 if _HAN.search(line) else 140
            if not row[5] and 4 <= len(line) <= longest and not re.search(r"\]\(|://|\||\n", line):
                found.add(line)
    lines = sorted(found, key=_draw)
    units = split_units(pa.array(lines), sentences=False)
    return [lines[number] for number in np.unique(units.places[:, 0])][:most]


def _text(row: dict) -> str:
    if "messages" in row:
        return "\n".join(message["message"] for message in row["messages"])
    if "text" not in row:
        return row.get("description") or ""
    return row["text"] if row.get("lang") in (None, "en", "zh", "zh-Hant") else ""


def _draw(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


def examples(texts: Path) -> tuple[list[str], npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return the lines, their class (1 for prose) and their weight."""
    prose, frame = read("prose.txt"), read("frame.txt")
    cut = [line.rstrip(".。") for line in prose if len(line.encode()) > 50 and line[-1] in ".。"]
    ended = [line + ("。" if _HAN.search(line) else ".") for line in frame if line[-1].isalnum()]
    real = [line for name, most in TEXTS.items() for line in sentences(texts / name, most)]
    lines, good, weight = [], [], []
    for part, kind, each in (
        (prose, 1, 1.0), (cut, 1, 0.25), (real, 1, 0.1), (frame, 0, 1.0), (ended, 0, 0.1),
    ):  # fmt: skip
        lines += part
        good += [float(kind)] * len(part)
        weight += [each] * len(part)
    y, w = np.array(good), np.array(weight)
    w[y == 0] *= w[y == 1].sum() / w[y == 0].sum()
    return lines, y, w


def fit(texts: Path) -> tuple[dict[str, float], dict[str, int]]:
    """Return the weights of the features, rounded to two places, and the lexicon in hundredths."""
    lines, y, w = examples(texts)
    prose = Counter(gram for line in read("prose.txt") for gram in set(grams(line)))
    known = {gram for line in read("frame.txt") for gram in grams(line)}
    known |= {gram for gram, count in prose.items() if count > 1}
    names = sorted(known)
    x = sparse.hstack([sparse.csr_matrix(table(lines)), presence(lines, names)]).tocsr()
    penalty = np.full(x.shape[1], LEARNT_PENALTY)
    penalty[: len(FEATURES)] = PENALTY
    penalty[0] = 0.0

    def loss(beta: npt.NDArray[np.float64]) -> tuple[float, npt.NDArray[np.float64]]:
        z = x @ beta
        value = (w * (np.logaddexp(0, z) - y * z)).sum() + 0.5 * (penalty * beta * beta).sum()
        return value, x.T @ (w * (1 / (1 + np.exp(-z)) - y)) + penalty * beta

    bounds = [(None, MOST.get(name)) for name, _ in FEATURES] + [(None, None)] * len(names)
    beta = minimize(
        loss, np.zeros(x.shape[1]), jac=True, bounds=bounds, method="L-BFGS-B",
        options={"maxiter": 400},
    ).x  # fmt: skip
    weights = {
        name: round(float(b), 2)
        for (name, _), b in zip(FEATURES, beta[: len(FEATURES)], strict=True)
    }
    weights["learnt"] = 1.0
    learnt = np.round(100 * beta[len(FEATURES) :]).astype(int)
    kept = {n: int(v) for n, v in zip(names, learnt, strict=True) if abs(v) >= LEAST}
    return weights, kept


def presence(lines: list[str], names: list[str]) -> sparse.csr_matrix:
    """Return how often each line has each of the names, over the fourth root of all it has."""
    number = {name: place for place, name in enumerate(names)}
    rows, columns, values = [], [], []
    for row, line in enumerate(lines):
        found = grams(line)
        for gram, count in Counter(found).items():
            if gram in number:
                rows.append(row)
                columns.append(number[gram])
                values.append(count / len(found) ** 0.25)
    return sparse.csr_matrix((values, (rows, columns)), shape=(len(lines), len(names)))


def main() -> None:
    """Print the weights, and write the lexicon."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--texts", type=Path, default=Path("../shared/data"))
    weights, learnt = fit(parser.parse_args().texts)
    print("WEIGHTS: dict[str, float] = {")
    for name, value in weights.items():
        print(f'    "{name}": {value},')
    print("}")
    LEXICON.write_text("".join(f"{value}\t{gram}\n" for gram, value in sorted(learnt.items())))
    print(f"# {len(learnt)} learnt weights")


if __name__ == "__main__":
    main()
