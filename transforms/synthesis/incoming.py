"""Which relations lead into an entity from sources with few targets: what plans are grounded on.

A relation in one direction is an *edge*, numbered ``2 * relation + inverse`` by the direction in
which a plan walks it. A *link* of an entity is an edge with a source from which it leads there.
"""

from bisect import bisect_right
from itertools import accumulate

import numpy as np
import numpy.typing as npt

from transforms.synthesis.draw import Draw
from transforms.synthesis.graph import Graph

Links = tuple[list[int], list[float], list[list[int]]]
"""Edges into an entity, their weights summed up, and the sources of each."""

_NO_LINKS: Links = ([], [], [])
_EVENNESS = 1.0
"""Power of an edge's number of targets that divides its weight: rare edges come about as often."""


class Incoming:
    """The links of all entities whose source has a number of targets within bounds."""

    def __init__(self, graph: Graph, least: int, most: int) -> None:
        edges, sources, targets = _links(graph, least, most)
        order = np.lexsort((sources, edges, targets))
        self.link_edges = edges[order]
        self.link_sources, self.link_targets = sources[order], targets[order]
        self._bounds = np.searchsorted(targets[order], np.arange(graph.n_entities + 1))
        order = np.lexsort((targets, edges))
        edges, targets = edges[order], targets[order]
        new = np.ones(len(edges), bool)
        new[1:] = (edges[1:] != edges[:-1]) | (targets[1:] != targets[:-1])
        self._answers = targets[new]
        self._answer_bounds = np.searchsorted(edges[new], np.arange(2 * len(graph.relations) + 1))
        reached = np.maximum(np.diff(self._answer_bounds), 1).astype(np.float64)
        self._weight = reached**-_EVENNESS
        self._weights = self._weight.tolist()
        self._cache: dict[int, Links] = {}

    def answers(self, edge: int) -> npt.NDArray[np.int32]:
        """Return the entities that an edge leads to, sorted."""
        return self._answers[self._answer_bounds[edge] : self._answer_bounds[edge + 1]]

    def n_links(self, entity: int) -> int:
        """Return the number of edges into an entity, each counted for every source."""
        return int(self._bounds[entity + 1] - self._bounds[entity])

    def links(self, entity: int) -> Links:
        """Return the edges into an entity, and their sources."""
        found = self._cache.get(entity)
        if found is None:
            found = self._cache[entity] = self._read(entity)
        return found

    def sources(self, entity: int, edge: int) -> list[int]:
        """Return the sources from which an edge leads to an entity."""
        edges, _, sources = self.links(entity)
        return sources[edges.index(edge)] if edge in edges else []

    def draw(self, entity: int, draw: Draw, without: int = -1) -> tuple[int, int] | None:
        """Draw an edge into an entity, rare ones rather, and a source; None where there is none.

        Args:
            entity: what the edge leads to.
            draw: where choices come from.
            without: an edge not to take.
        """
        edges, weights, sources = self.links(entity)
        if not edges:
            return None
        for _ in range(3):
            place = bisect_right(weights, draw.uniform() * weights[-1])
            place = min(place, len(edges) - 1)
            if edges[place] != without:
                return edges[place], draw.choose(sources[place])
        return None

    def probabilities(self, starts: list[int]) -> npt.NDArray[np.float64]:
        """Return how probable each link is as one that a plan begins or goes on with, summing to 1.

        Args:
            starts: the edges that plans start from, each as often as they do; where there are
                none, links are only gone on with.
        """
        edges, targets = self.link_edges, self.link_targets
        new = np.ones(len(edges), bool)
        new[1:] = (edges[1:] != edges[:-1]) | (targets[1:] != targets[:-1])
        group = np.cumsum(new) - 1
        shared = 1.0 / np.bincount(group)[group]
        weight = self._weight[edges]
        entities = len(self._bounds) - 1
        all_weights = np.bincount(targets[new], weight[new], entities)
        going_on = weight * shared / all_weights[targets]
        often = np.bincount(np.array(starts, np.int64), minlength=len(self._weight))
        answers = np.maximum(np.diff(self._answer_bounds), 1)
        beginning = (often / answers)[edges] * shared
        both: npt.NDArray[np.float64] = going_on / max(going_on.sum(), 1e-300)
        if starts:
            both = (both + beginning / beginning.sum()) / 2
        return both

    def summed_by_source(self, links: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return for each link the sum over all links with its source and edge."""
        keys = self.link_sources.astype(np.int64) * len(self._weight) + self.link_edges
        _, group = np.unique(keys, return_inverse=True)
        summed = np.bincount(group, links).astype(np.float64)
        return summed[group]

    def _read(self, entity: int) -> Links:
        low, high = int(self._bounds[entity]), int(self._bounds[entity + 1])
        if low == high:
            return _NO_LINKS
        edges = self.link_edges[low:high]
        starts = np.flatnonzero(np.append(True, edges[1:] != edges[:-1])).tolist()
        sources = self.link_sources[low:high].tolist()
        kinds = edges[starts].tolist()
        ends = [*starts[1:], high - low]
        split = [sources[start:end] for start, end in zip(starts, ends, strict=True)]
        return kinds, list(accumulate(self._weights[kind] for kind in kinds)), split


def _links(
    graph: Graph, least: int, most: int
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """Return edge, source and target of every link whose source has ``least`` to ``most`` targets."""
    parts: list[tuple[npt.NDArray[np.int32], ...]] = []
    for relation in range(len(graph.relations)):
        for inverse in (False, True):
            heads, degrees = graph.heads(relation, inverse), graph.degrees(relation, inverse)
            fits = (degrees >= least) & (degrees <= most)
            taken = heads[fits].tolist()
            if taken:
                targets = np.concatenate([graph.targets(e, relation, inverse) for e in taken])
                sources = np.repeat(heads[fits], degrees[fits])
                edges = np.full(len(sources), 2 * relation + inverse, np.int32)
                parts.append((edges, sources.astype(np.int32), targets.astype(np.int32)))
    if not parts:
        empty = np.empty(0, np.int32)
        return empty, empty, empty
    edges, sources, targets = (np.concatenate(column) for column in zip(*parts, strict=True))
    return edges, sources, targets
