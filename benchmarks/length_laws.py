"""Lengths of documents as five corpora have them, drawn from fitted laws (or read from a file).

Log-normal lengths are ``exp(ln(median) + sigma x normal)``, clipped to [16, 524288] and floored:

* *web*: median 480, sigma 1.25: the published bucket counts of DCLM-Baseline.
* *github*: 700, 1.5, and *arxiv*: 11,500, 0.85: mean sizes of table 1 of the Pile.
* *wiki*: 384, 1.26: fitted to a million lengths of Wikipedia.
* *prolong*: the token shares of ProLong's 64K recipe: books and repositories of 64K and more make
  60 % of the tokens, and ten sources of short documents the rest.
"""

import math
from pathlib import Path

import numpy as np

LONGEST = 524_288
MEDIANS = {
    "web": (480, 1.25, 0), "wiki": (384, 1.26, 4), "github": (700, 1.5, 2),
    "arxiv": (11_500, 0.85, 1),
}  # fmt: skip
# Source: (share of tokens, median, sigma).
_PROLONG = {
    "fineweb-edu": (0.10, 520, 1.15), "fineweb": (0.10, 400, 1.1),
    "stackexchange": (0.04, 450, 0.9), "wiki": (0.04, 380, 1.2), "tulu": (0.03, 450, 1.1),
    "arxiv": (0.03, 11_500, 0.85), "openwebmath": (0.03, 1200, 1.1),
    "textbooks": (0.03, 40_000, 1.0),
}  # fmt: skip
_LONG_SHARE = 0.30
LAWS = ("web", "wiki", "github", "arxiv", "prolong")


def draw(law: str, n: int) -> np.ndarray:
    """Document lengths of one law, int32[n]; the same for every call."""
    if law == "prolong":
        return _prolong(n)
    median, sigma, seed = MEDIANS[law]
    return _log_normal(np.random.default_rng(seed), median, sigma, n)


def mean_length(law: str) -> float:
    """Mean tokens of a document of one law, of a sample."""
    return float(draw(law, 200_000).mean())


def of_file(path: Path) -> np.ndarray:
    """Lengths of a text file of one number a line, clipped as the laws are."""
    numbers = np.loadtxt(path, dtype=np.int64, ndmin=1)
    return np.clip(numbers, 1, LONGEST).astype(np.int32)


def _log_normal(rng: np.random.Generator, median: float, sigma: float, n: int) -> np.ndarray:
    drawn = np.exp(math.log(median) + sigma * rng.standard_normal(n))
    return np.clip(drawn, 16, LONGEST).astype(np.int32)


def _prolong(n: int) -> np.ndarray:
    """Documents in shares of tokens: of each source its share over its mean length."""
    rng = np.random.default_rng(3)
    pools = {s: _log_normal(rng, median, sigma, n) for s, (_, median, sigma) in _PROLONG.items()}
    shares = {s: share for s, (share, _, _) in _PROLONG.items()}
    # Repositories: Pareto from 65,536 on, alpha 1. Books: log-normal, those of 65,536 and more.
    pools["code repos"] = np.minimum(65_536 / (1 - rng.random(n)), LONGEST).astype(np.int32)
    books = _log_normal(rng, 110_000, 0.6, 2 * n)
    pools["books"] = books[books >= 65_536]
    shares |= {"code repos": _LONG_SHARE, "books": _LONG_SHARE}
    weight = {s: shares[s] / pools[s].mean() for s in pools}
    whole = sum(weight.values())
    counts = {s: round(n * w / whole) for s, w in weight.items()}
    return rng.permutation(np.concatenate([pools[s][: counts[s]] for s in pools]))
