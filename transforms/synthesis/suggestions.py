"""Names near to one that no entity bears, for "did you mean"."""

from transforms.synthesis.graph import Graph, name_key

_MOST = 3


class Suggestions:
    """Finds labels that differ from a text by a letter or two."""

    def __init__(self, graph: Graph) -> None:
        self._labels = graph.labels
        self._keys = [name_key(label) for label in graph.labels]
        self._buckets: dict[str, list[int]] = {}
        for entity, key in enumerate(self._keys):
            for end in _ends(key):
                self._buckets.setdefault(end, []).append(entity)

    def near(self, text: str) -> list[str]:
        """Return the labels nearest to a text, at most three, the nearest first."""
        key = name_key(text)
        letters = set(key)
        pool = {
            entity
            for end in _ends(key)
            for entity in self._buckets.get(end, ())
            if abs(len(self._keys[entity]) - len(key)) <= 2
            and len(letters.symmetric_difference(self._keys[entity])) <= 3
        }
        ranked = sorted((distance(key, self._keys[entity]), entity) for entity in pool)
        return [self._labels[entity] for far, entity in ranked[:_MOST] if far <= 2]


def _ends(key: str) -> list[str]:
    """Return the beginning and the end of a name: three letters, one of those of other scripts."""
    size = 3 if key.isascii() else 1
    return [f"^{key[:size]}", f"{key[-size:]}$"]


def distance(one: str, other: str, most: int = 3) -> int:
    """Return the edits between two texts (letters added, left out, changed, two exchanged).

    Optimal string alignment; what is at least ``most`` is returned as ``most``.
    """
    while one and other and one[0] == other[0]:
        one, other = one[1:], other[1:]
    while one and other and one[-1] == other[-1]:
        one, other = one[:-1], other[:-1]
    if abs(len(one) - len(other)) >= most:
        return most
    before: list[int] = []
    last = list(range(len(other) + 1))
    for i, letter in enumerate(one, 1):
        row = [i]
        for j, its in enumerate(other, 1):
            best = min(last[j] + 1, row[j - 1] + 1, last[j - 1] + (letter != its))
            if i > 1 and j > 1 and letter == other[j - 2] and one[i - 2] == its:
                best = min(best, before[j - 2] + 1)
            row.append(best)
        if min(row) >= most:
            return most
        before, last = last, row
    return min(last[-1], most)
