"""The draw: which documents of a domain are taken, and how often.

The k-th copy of a document costs ``(k - 1 + u) / weight``, where ``u`` in (0, 1) is a hash of its
address and the seed, and the cheapest copies of a domain are drawn until its tokens are reached. At
``e`` epochs a document of weight 1 is thus drawn floor(e) times, and once more where its hash is
below the rest. This is sequential Poisson sampling (Ohlsson, "Sequential Poisson sampling", Journal
of Official Statistics 14, 1998, section 2) over copies. A document's cost depends on no other one:
adding a document moves the bound, and changes the draw of those beside it alone.
"""

import numpy as np
import numpy.typing as npt

from transforms.record import mix64

_MARGIN = 64
_SALT = 0x6D697874
_LEAST_WEIGHT = 1e-9


def draw(
    n_tokens: npt.NDArray[np.int32],
    uid: npt.NDArray[np.int64],
    weight: npt.NDArray[np.float64],
    quota: int,
    *,
    max_epochs: float,
    seed: int,
) -> npt.NDArray[np.int16]:
    """Draw the documents of one domain; never more than ``quota`` tokens.

    Copies are taken in the order of their cost while they fit. Where one does not, the next
    64 documents may fill the gap.

    Args:
        n_tokens: [n] tokens of each document.
        uid: [n] addresses.
        weight: [n] relative weights, at least 0.
        quota: tokens to draw.
        max_epochs: times each document is drawn at most; with a fraction, some once more.
        seed: seed of the draw.

    Returns:
        [n] copies of each document.
    """
    u = uniform(uid, seed)
    most = most_copies(u, weight, max_epochs)
    size = n_tokens.astype(np.float64)
    if int(most @ size) <= quota:
        return most.astype(np.int16)
    taking = weight > 0
    weight = np.where(taking, np.maximum(weight, _LEAST_WEIGHT), 0.0)

    def copies(rate: float) -> npt.NDArray[np.float64]:
        # Sums of whole numbers below 2**53 are exact in any order.
        return np.minimum(np.floor(rate * weight + (1 - u)), most)

    low, high = 0.0, (max_epochs + 1) / float(weight[taking].min())
    while low < (middle := (low + high) / 2) < high:
        if int(copies(middle) @ size) <= quota:
            low = middle
        else:
            high = middle
    drawn = copies(low)
    gap = quota - int(drawn @ size)
    for place in _next(drawn, most, u, weight, uid):
        if n_tokens[place] <= gap:
            drawn[place] += 1
            gap -= int(n_tokens[place])
    return drawn.astype(np.int16)


def uniform(uid: npt.NDArray[np.int64], seed: int) -> npt.NDArray[np.float64]:
    """Return a number in (0, 1) for each address, with 52 bits."""
    # Hashed twice, so that it says nothing about the order of rows, which one hash gives.
    bits = mix64(mix64(uid, seed).view(np.int64), _SALT)
    return ((bits >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52


def most_copies(
    u: npt.NDArray[np.float64], weight: npt.NDArray[np.float64], max_epochs: float
) -> npt.NDArray[np.float64]:
    """Return how often each document can be drawn; none of weight 0."""
    return np.where(weight > 0, np.ceil(max_epochs - u), 0.0)


def _next(
    drawn: npt.NDArray[np.float64],
    most: npt.NDArray[np.float64],
    u: npt.NDArray[np.float64],
    weight: npt.NDArray[np.float64],
    uid: npt.NDArray[np.int64],
) -> list[int]:
    """Return the documents whose next copies are the cheapest, cheapest first."""
    left = np.flatnonzero(drawn < most)
    cost = (drawn[left] + u[left]) / weight[left]
    if len(left) > _MARGIN:
        near = cost <= np.partition(cost, _MARGIN - 1)[_MARGIN - 1]
        left, cost = left[near], cost[near]
    order = np.lexsort((uid[left], cost))[:_MARGIN]
    return left[order].tolist()  # type: ignore[no-any-return]
