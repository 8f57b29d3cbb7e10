"""Even use of a graph: how often each entity would be drawn, and what of that is let through.

The share of an entity is worked out from the links alone, before anything is drawn, so that a
record never depends on those drawn before it: each link has the probability with which the sampler
takes it in its first step, a source has the sum of its links, and an answer that of all links whose
source leads to it too. What lies over a cap is drawn, and let through with probability cap / share.
"""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from transforms.synthesis.incoming import Incoming

Floats = npt.NDArray[np.float64]

ANCHOR_CAP = 0.00015
"""Share of the anchors drawn that one entity may be; a record has two or three."""
ANSWER_CAP = 0.0001
"""Share of the answers drawn that may hold one entity."""
RELATION_CAP = 0.006
"""Share of the relations drawn that one may be; a record has two or three."""
_LEAST_ROOM = 1.5
"""Multiple of an even share that a cap never goes below: a small graph cannot be spread further."""


class Spread:
    """The probabilities with which entities are let through as anchors and as answers."""

    def __init__(self, incoming: Incoming, starts: list[int], n_entities: int) -> None:
        """Work out the shares.

        Args:
            incoming: the links that plans are grounded on.
            starts: the edges that plans start from, each as often as they do.
            n_entities: number of entities.
        """
        links = incoming.probabilities(starts)
        sources, targets = incoming.link_sources, incoming.link_targets
        anchors = np.bincount(sources, links, n_entities).astype(np.float64)
        sets = incoming.summed_by_source(links)
        answers = np.bincount(targets, sets, n_entities).astype(np.float64)
        self._anchors = _let_through(anchors, ANCHOR_CAP)
        self._answers = _let_through(answers, ANSWER_CAP)
        relations = np.bincount(incoming.link_edges // 2, links).astype(np.float64)
        self._relations = _let_through(relations, RELATION_CAP)

    def anchor(self, entity: int) -> float:
        """Return the probability with which an anchor is let through."""
        return self._anchors[entity]

    def relations(self, numbers: Iterable[int]) -> float:
        """Return the probability with which the relations of a plan are let through."""
        kept = self._relations
        return min((kept[number] for number in numbers), default=1.0)

    def answers(self, entities: Iterable[int]) -> float:
        """Return the probability with which an answer is let through."""
        kept = self._answers
        return min((kept[entity] for entity in entities), default=1.0)


def _let_through(shares: Floats, cap: float) -> list[float]:
    used = shares > 0
    if not used.any():
        return [1.0] * len(shares)
    total = float(shares.sum())
    cap = max(cap * total, _LEAST_ROOM * total / int(used.sum()))
    low = cap
    for _ in range(20):
        # What is held back makes every other share larger.
        low = cap * float(np.minimum(shares, low).sum()) / total
    kept = np.ones(len(shares))
    kept[used] = np.minimum(1.0, low / shares[used])
    return kept.tolist()  # type: ignore[no-any-return]
