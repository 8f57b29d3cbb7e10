"""Fit the weights of the sentence quality model; prints them as ``transforms/sentence_quality.py`` has them.

Logistic regression with an L2 penalty, by Newton's method, on the sentences in
``scripts/sentence_quality/``: ``prose.txt`` and ``frame.txt``, one a line, both classes with the
same total weight. Each one is shown also without its final full stop at a quarter of the weight
where it is long, so that headlines and list items of prose are prose too.
"""

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from transforms.sentence_forms import unit_forms
from transforms.sentence_quality import FEATURES, features
from transforms.sentence_split import split_units

DATA = Path(__file__).parent / "sentence_quality"
PENALTY = 0.3


def table(lines: list[str]) -> npt.NDArray[np.float64]:
    """Return the features of lines, one row each; a line of several sentences is one unit."""
    units = split_units(pa.array(lines), sentences=False)
    if len(units) != len(lines):
        raise SystemExit("every line of the data must be one unit")
    forms = unit_forms(units)
    return features(units, np.arange(len(units)), forms.labelled)


def examples() -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return features, class (1 for prose) and weight of the examples."""
    prose = (DATA / "prose.txt").read_text(encoding="utf-8").splitlines()
    frame = (DATA / "frame.txt").read_text(encoding="utf-8").splitlines()
    cut = [line.rstrip(".。") for line in prose if len(line.encode()) > 50]
    x = np.concatenate([table(prose), table(cut), table(frame)])
    y = np.concatenate([np.ones(len(prose) + len(cut)), np.zeros(len(frame))])
    w = np.concatenate([np.ones(len(prose)), np.full(len(cut), 0.25), np.ones(len(frame))])
    w[y == 0] *= w[y == 1].sum() / w[y == 0].sum()
    return x, y, w


def fit() -> dict[str, float]:
    """Return the weights, rounded to two places."""
    x, y, w = examples()
    penalty = np.full(x.shape[1], PENALTY)
    penalty[0] = 0.0
    beta = np.zeros(x.shape[1])
    for _ in range(50):
        p = 1 / (1 + np.exp(-x @ beta))
        gradient = x.T @ (w * (y - p)) - penalty * beta
        hessian = (x.T * (w * p * (1 - p))) @ x + np.diag(penalty)
        beta += np.linalg.solve(hessian, gradient)
    return {name: round(float(b), 2) for (name, _), b in zip(FEATURES, beta, strict=True)}


def main() -> None:
    """Print the weights, and what they get wrong in the data."""
    weights = fit()
    print("WEIGHTS: dict[str, float] = {")
    for name, value in weights.items():
        print(f'    "{name}": {value},')
    print("}")
    x, y, _ = examples()
    p = 1 / (1 + np.exp(-x @ np.array(list(weights.values()))))
    print(f"# {np.mean((p >= 0.5) == (y == 1)):.2%} of {len(y)} examples right")
    files = [
        (DATA / name).read_text(encoding="utf-8").splitlines()
        for name in ("prose.txt", "frame.txt")
    ]
    for name, lines, good in (("prose", files[0], 1), ("frame", files[1], 0)):
        p = 1 / (1 + np.exp(-table(lines) @ np.array(list(weights.values()))))
        for line, value in zip(lines, p, strict=True):
            if (value >= 0.5) != good:
                print(f"# {name} {value:.3f} {line}")


if __name__ == "__main__":
    main()
