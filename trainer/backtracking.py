"""Fits tensors with known lives below a given height, by search with conflict-directed backjumping.

Tensors are placed in the order of their lives, each at an end of a gap that those beside it leave.
Where none is left for one, the search goes back to the latest tensor that can be the reason
(Prosser, Hybrid algorithms for the constraint satisfaction problem, 1993). It is counted in nodes,
not in seconds, so that the result does not depend on the machine.

Nothing here imports torch.
"""

from collections.abc import Sequence


class _Search:
    """Blocks by column, in the order in which they are placed.

    Args:
        size: of each block.
        start: first event of each block's life, never falling.
        end: the event that the life ends before.
        height: what no block may reach above.
    """

    def __init__(
        self, size: Sequence[int], start: Sequence[int], end: Sequence[int], height: int
    ) -> None:
        self.size, self.end, self.height = size, end, height
        self.offsets = [0] * len(size)
        self.beside: list[list[int]] = []
        """Earlier blocks that live when a block begins."""
        living: list[int] = []
        for i, at in enumerate(start):
            living = [j for j in living if end[j] > at]
            self.beside.append(living.copy())
            living.append(i)

    def run(self, nodes: int) -> list[int] | None:
        """Return offsets; None where there are none or they were not found in so many nodes."""
        last = len(self.size)
        choices, blamed = [self.ends_of_gaps(0)], [set(self.beside[0])]
        for _ in range(nodes):
            i = len(choices) - 1
            if choices[i]:
                self.offsets[i] = choices[i].pop()
                if i + 1 == last:
                    return self.offsets
                choices.append(self.ends_of_gaps(i + 1))
                blamed.append(set(self.beside[i + 1]))
            elif blamed[i]:
                back = max(blamed[i])
                blamed[back] |= blamed[i] - {back}
                del choices[back + 1 :], blamed[back + 1 :]
            else:
                return None
        return None

    def ends_of_gaps(self, i: int) -> list[int]:
        """Return where a block can lie, the best last: beside one that ends when it does."""
        size, end, never = self.size[i], self.end[i], 1 << 62
        placed = sorted(
            (self.offsets[j], self.offsets[j] + self.size[j], self.end[j]) for j in self.beside[i]
        )
        found, top, below_ends = [], 0, never
        for begin, upper, above_ends in (*placed, (self.height, self.height, never)):
            gap = begin - top
            if gap >= size:
                found.append((abs(below_ends - end), gap, top))
            if gap > size:
                found.append((abs(above_ends - end), gap, begin - size))
            if upper > top:
                top, below_ends = upper, above_ends
        return [offset for *_, offset in sorted(found, reverse=True)]


def fit_below(
    size: Sequence[int], start: Sequence[int], end: Sequence[int], height: int, nodes: int
) -> list[int] | None:
    """Return offsets at which no two blocks that live at once overlap and none reaches too high.

    Args:
        size: of each block, more than 0.
        start: first event of each block's life.
        end: the event that the life ends before.
        height: what no block may reach above.
        nodes: placements after which the search gives up.

    Returns:
        In the order of the blocks; None where there are none, or none were found.
    """
    order = sorted(range(len(size)), key=lambda i: (start[i], -size[i], -end[i]))
    if not order:
        return []
    sizes, starts, ends = ([column[i] for i in order] for column in (size, start, end))
    offsets = _Search(sizes, starts, ends, height).run(nodes)
    if offsets is None:
        return None
    found = [0] * len(order)
    for i, offset in zip(order, offsets, strict=True):
        found[i] = offset
    return found
