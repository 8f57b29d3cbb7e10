"""One direction of a graph's facts, in three arrays."""

import itertools

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int32]

_NONE: Ints = np.empty(0, np.int32)
_NONE.flags.writeable = False


class Adjacency:
    """One direction of all facts: for (relation, entity) the sorted entities on the other side."""

    def __init__(self, relation: Ints, source: Ints, target: Ints, relations: int) -> None:
        order = np.lexsort((target, source, relation))
        self._target = np.ascontiguousarray(target[order])
        self._target.flags.writeable = False
        relation, source = relation[order], source[order]
        new = np.empty(len(order), bool)
        new[:1] = True
        new[1:] = (relation[1:] != relation[:-1]) | (source[1:] != source[:-1])
        starts = np.flatnonzero(new)
        self._starts = np.append(starts, len(order)).astype(np.int64)
        self._bounds = np.searchsorted(relation[starts], np.arange(relations + 1))
        self._heads = source[starts].astype(np.int32)
        self._heads.flags.writeable = False
        self._index: list[dict[int, tuple[int, int]] | None] = [None] * relations

    def _places(self, relation: int) -> dict[int, tuple[int, int]]:
        places = self._index[relation]
        if places is None:
            low, high = int(self._bounds[relation]), int(self._bounds[relation + 1])
            starts = self._starts[low : high + 1].tolist()
            heads = self._heads[low:high].tolist()
            places = dict(zip(heads, itertools.pairwise(starts), strict=True))
            self._index[relation] = places
        return places

    def targets(self, entity: int, relation: int) -> Ints:
        """Return what an entity has by a relation, ascending."""
        place = self._places(relation).get(entity)
        return _NONE if place is None else self._target[place[0] : place[1]]

    def heads(self, relation: int) -> Ints:
        """Return the entities that have a target, ascending."""
        return self._heads[self._bounds[relation] : self._bounds[relation + 1]]

    def degrees(self, relation: int) -> Ints:
        """Return the number of targets of each of :meth:`heads`."""
        low, high = self._bounds[relation], self._bounds[relation + 1]
        return np.diff(self._starts[low : high + 1]).astype(np.int32)

    def relations_by_entity(self, entities: int) -> tuple[Ints, Ints]:
        """Return the CSR of the relations that each entity has a target of."""
        relation = np.repeat(
            np.arange(len(self._bounds) - 1, dtype=np.int32), np.diff(self._bounds)
        )
        order = np.argsort(self._heads, kind="stable")
        counts = np.bincount(self._heads, minlength=entities)
        return np.append(0, np.cumsum(counts)).astype(np.int32), relation[order]
