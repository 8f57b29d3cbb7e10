"""A graph held in dictionaries, for tests of what only walks one."""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class Name:
    id: str


@dataclass
class SmallGraph:
    """Facts (head, relation, tail) and values (entity, attribute)."""

    entity_ids: list[str]
    relations: list[Name]
    facts: set[tuple[int, int, int]]
    attributes: list[Name] = field(default_factory=list)
    values: dict[tuple[int, int], float | str] = field(default_factory=dict)

    def targets(self, entity: int, relation: int, inverse: bool = False) -> npt.NDArray[np.int32]:
        here, there = (2, 0) if inverse else (0, 2)
        found = {f[there] for f in self.facts if f[1] == relation and f[here] == entity}
        return np.array(sorted(found), np.int32)

    def value(self, entity: int, attribute: int) -> float | str | None:
        return self.values.get((entity, attribute))
