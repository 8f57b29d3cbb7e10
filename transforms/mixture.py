"""Reweighting: how often each document is drawn, so that domains have the asked shares of tokens."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from annotated_types import Ge, Gt, Le, MinLen

from transforms.draw import draw, most_copies, uniform
from transforms.record import RecordError
from transforms.utility import UtilitySettings

REPORT_SCHEMA = pa.schema(
    [
        pa.field("domain", pa.string(), nullable=False),
        pa.field("documents", pa.int64(), nullable=False),
        # Tokens of the domain, each document once.
        pa.field("available", pa.int64(), nullable=False),
        # The most tokens that max_epochs allows.
        pa.field("most", pa.int64(), nullable=False),
        pa.field("asked_share", pa.float64(), nullable=False),
        pa.field("asked", pa.int64(), nullable=False),
        # What is asked after the tokens that others lack are shared out.
        pa.field("quota", pa.int64(), nullable=False),
        pa.field("drawn_documents", pa.int64(), nullable=False),
        # Tokens drawn, copies counted.
        pa.field("tokens", pa.int64(), nullable=False),
        pa.field("share", pa.float64(), nullable=False),
        pa.field("epochs", pa.float64(), nullable=False),
        pa.field("runs_dry", pa.bool_(), nullable=False),
    ]
)
"""Columns of the report: one row per domain, by name."""

_TOLERANCE = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class SoftWeights:
    """Documents of a domain that count for more or less than others (`[mixture.soft]`).

    Raises:
        ValueError: neither a frequency nor a column is given.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid", "strict": True}

    frequency: Annotated[float, Ge(-4), Le(4)] = 0.0
    """Power of the number of documents that a kept one stands for, itself and its duplicates:
    above 0 texts that occur often are drawn more often, below 0 less."""
    column: Annotated[str, MinLen(1)] | None = None
    """A numeric column, of `columns` of a source or `n_chars`, `n_bytes`; the weight of a document
    is proportional to it."""
    power: Annotated[float, Ge(-4), Le(4)] = 1.0
    """Power of the column's values."""
    missing: Annotated[float, Ge(0), Le(1e9)] = 1.0
    """Value of documents that have none."""
    apply: Literal["draw", "loss"] = "draw"
    """What the weight changes: `draw`, how often a document is drawn, in proportion to it inside
    its domain; `loss`, the weight of its tokens in the loss, as it is. At weight 0 a document is
    not drawn in either case."""

    def __post_init__(self) -> None:
        """Check that there is something to weigh by."""
        if not self.frequency and self.column is None:
            raise ValueError("neither frequency nor column given; set one or remove the table")


@dataclass(frozen=True, slots=True, kw_only=True)
class MixtureSettings:
    """Tokens by domain (`[mixture]`); just one of `weights`, `temperature` and `unimax` is given.

    Raises:
        ValueError: none or several of the three, or weights that do not add up to 1.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid", "strict": True}

    tokens: Annotated[int, Gt(0)]
    """Tokens to draw in all, copies counted."""
    max_epochs: Annotated[float, Gt(0), Le(1000)] = 4.0
    """How often a domain's tokens are drawn at most; what is then lacking is shared out over the
    other domains by their shares."""
    weights: Mapping[str, Annotated[float, Ge(0), Le(1)]] = field(default_factory=dict)
    """Share of the tokens by domain, 1 in all; a domain that is not named is left out."""
    temperature: Annotated[float, Gt(0), Le(1e6)] | None = None
    """Shares by size: tokens of the domain to the power of 1/temperature (1: as they are; the
    higher, the more equal)."""
    unimax: bool = False
    """Equal shares, as far as `max_epochs` allows (UniMax, arXiv:2304.09151)."""
    soft: SoftWeights | None = None
    """Weights of documents inside their domain; all alike without it."""
    utility: UtilitySettings | None = None
    """Weights by what documents do for a target text; they multiply those of `[mixture.soft]`."""

    def __post_init__(self) -> None:
        """Check the rules across keys."""
        given = [
            name
            for name, is_given in (
                ("weights", bool(self.weights)),
                ("temperature", self.temperature is not None),
                ("unimax", self.unimax),
            )
            if is_given
        ]
        if len(given) != 1:
            found = f"found {' and '.join(given)}" if given else "none is given"
            raise ValueError(
                f"{found}; give just one of [mixture.weights], temperature and unimax = true"
            )
        total = math.fsum(self.weights.values())
        if self.weights and abs(total - 1) > _TOLERANCE:
            scaled = ", ".join(f"{name} = {w / total:.4g}" for name, w in self.weights.items() if w)
            remedy = f"; in the same proportions: {scaled}" if 0 < total < math.inf else ""
            raise ValueError(f"weights add up to {total:.6g}, they must add up to 1{remedy}")


@dataclass(frozen=True, slots=True)
class Quotas:
    """Tokens of each domain; all lists in the order of the domains."""

    share: list[Fraction]
    """Asked shares."""
    asked: list[int]
    """Tokens by the asked shares alone; they add up to the target."""
    quota: list[int]
    """Tokens after redistribution; never more than the domain's most."""


def quotas(
    settings: MixtureSettings,
    domains: Sequence[str],
    available: Sequence[int],
    most: Sequence[int],
) -> Quotas:
    """Share the target out over the domains, in whole tokens by largest remainder.

    Domains that would need more than their most get that, and what they lack goes to the others in
    proportion to their shares, until none is over it. With equal shares this is UniMax
    (arXiv:2304.09151, algorithm 1).

    Args:
        settings: target and shares.
        domains: names, without repeats.
        available: tokens of each domain.
        most: the most tokens that each may give.

    Raises:
        RecordError: a weight of a domain that is not among them.
    """
    share = _shares(settings, domains, available)
    asked = _largest_remainder(settings.tokens, share)
    quota = [0] * len(domains)
    free = [place for place, part in enumerate(share) if part]
    left = settings.tokens
    while free:
        parts = _largest_remainder(left, [share[place] for place in free])
        full = [place for place, part in zip(free, parts, strict=True) if part >= most[place]]
        if not full:
            for place, part in zip(free, parts, strict=True):
                quota[place] = part
            break
        for place in full:
            quota[place] = most[place]
            left -= most[place]
        free = [place for place in free if place not in full]
    return Quotas(share, asked, quota)


def _shares(
    settings: MixtureSettings, domains: Sequence[str], available: Sequence[int]
) -> list[Fraction]:
    """Return the asked share of each domain; they add up to 1, unless no domain has tokens."""
    if settings.weights:
        unknown = [name for name in settings.weights if name not in domains]
        if unknown:
            raise RecordError(
                f"mixture.weights names {', '.join(map(repr, unknown))}, which no document belongs "
                f"to; the domains are {', '.join(map(repr, domains)) or 'none'}: correct the name, "
                "or remove it and share its weight out"
            )
        raw = [Fraction(settings.weights.get(name, 0.0)) for name in domains]
    elif settings.temperature is not None:
        # Rounded, so that the last bits of a machine's power function do not matter.
        power = 1 / settings.temperature
        largest = max(available, default=0)
        raw = [Fraction(round((n / largest) ** power, 12)) if n else Fraction() for n in available]
    else:
        raw = [Fraction(int(n > 0)) for n in available]
    total = sum(raw)
    return [part / total for part in raw] if total else raw


def _largest_remainder(tokens: int, share: Sequence[Fraction]) -> list[int]:
    """Split tokens by shares of any scale into whole numbers that add up; the first of equals."""
    total = sum(share)
    if not total:
        return [0] * len(share)
    exact = [tokens * part / total for part in share]
    parts = [math.floor(part) for part in exact]
    order = sorted(range(len(share)), key=lambda place: parts[place] - exact[place])
    for place in order[: tokens - sum(parts)]:
        parts[place] += 1
    return parts


def mixture(
    n_tokens: npt.NDArray[np.int32],
    domain: npt.NDArray[np.int16],
    domains: Sequence[str],
    uid: npt.NDArray[np.int64],
    settings: MixtureSettings,
    *,
    seed: int,
    weight: npt.NDArray[np.float64] | None = None,
) -> tuple[npt.NDArray[np.int16], pa.Table]:
    """Say how often each document is drawn.

    Args:
        n_tokens: [n] tokens of each document, at least 1.
        domain: [n] index of its domain.
        domains: names of the domains.
        uid: [n] addresses, without repeats.
        settings: what to draw.
        seed: seed of the draw.
        weight: [n] weights of documents inside their domain, at least 0; all 1 by default.

    Returns:
        [n] copies of each document, and the report (:data:`REPORT_SCHEMA`). Both are functions of
        the set of documents; their order does not matter.

    Raises:
        RecordError: a weight of a domain that is not among them, or of a document that is negative
            or no number.
    """
    weight = np.ones(len(uid)) if weight is None else weight
    _check_weights(weight, uid)
    order = np.argsort(domain, kind="stable")
    bounds = np.searchsorted(domain[order], np.arange(len(domains) + 1))
    members = [order[bounds[d] : bounds[d + 1]] for d in range(len(domains))]
    available = [int(n_tokens[m].sum(dtype=np.int64)) for m in members]
    most = []
    for m, tokens in zip(members, available, strict=True):
        copies = most_copies(uniform(uid[m], seed), weight[m], settings.max_epochs)
        reach = int(copies @ n_tokens[m].astype(np.float64))
        most.append(min(reach, most_tokens(tokens, settings)))
    plan = quotas(settings, domains, available, most)
    drawn = np.zeros(len(uid), np.int16)
    for m, quota in zip(members, plan.quota, strict=True):
        drawn[m] = draw(
            n_tokens[m], uid[m], weight[m], quota, max_epochs=settings.max_epochs, seed=seed
        )
    tokens_of = [int((n_tokens[m].astype(np.int64) * drawn[m]).sum()) for m in members]
    total = sum(tokens_of)
    columns = {
        "domain": list(domains),
        "documents": [len(m) for m in members],
        "available": available,
        "most": most,
        "asked_share": [float(part) for part in plan.share],
        "asked": plan.asked,
        "quota": plan.quota,
        "drawn_documents": [int((drawn[m] > 0).sum()) for m in members],
        "tokens": tokens_of,
        "share": [n / total if total else 0.0 for n in tokens_of],
        "epochs": [n / a if a else 0.0 for n, a in zip(tokens_of, available, strict=True)],
        "runs_dry": [a > m for a, m in zip(plan.asked, most, strict=True)],
    }
    return drawn, pa.table(columns, schema=REPORT_SCHEMA).sort_by("domain")


def most_tokens(available: int, settings: MixtureSettings) -> int:
    """Return the most tokens that a domain may give."""
    return math.floor(available * Fraction(settings.max_epochs))


def _check_weights(weight: npt.NDArray[np.float64], uid: npt.NDArray[np.int64]) -> None:
    wrong = np.flatnonzero(~(np.isfinite(weight) & (weight >= 0)))
    if len(wrong):
        raise RecordError(
            f"document {uid[wrong[0]]} has the weight {weight[wrong[0]]} ({len(wrong)} such "
            "documents); weights are at least 0: correct mixture.soft or the column"
        )
