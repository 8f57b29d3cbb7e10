"""Seeded draws: every choice of the synthesizer comes from here.

A draw is a stream of 64-bit numbers (splitmix64: Steele, Lea, Flood, "Fast splittable pseudorandom
number generators", OOPSLA 2014) that starts at a hash of a seed and some keys. Two draws with the
same seed and keys give the same numbers on any machine, and what one choice takes from its stream
says nothing about another stream: so a record depends on its own place alone.
"""

import hashlib
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")

_MASK = (1 << 64) - 1
_STEP = 0x9E3779B97F4A7C15


def combine(seed: int, *keys: int | str) -> int:
    """Hash a seed and keys, whose order and kinds count, to 64 bits."""
    text = repr((seed, *keys)).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")


def mixed(key: int, *numbers: int) -> int:
    """Hash numbers with a key to 64 bits, as :func:`combine` does but quicker."""
    for number in numbers:
        x = (key + (number + 1) * _STEP) & _MASK
        x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _MASK
        key = x ^ (x >> 31)
    return key


class Draw:
    """A stream of choices that depends on a seed and keys alone."""

    __slots__ = ("_origin", "_state")

    def __init__(self, seed: int, *keys: int | str) -> None:
        self._origin = self._state = combine(seed, *keys)

    def child(self, *keys: int | str) -> "Draw":
        """Return the draw of a part; it does not depend on what this one has taken so far."""
        return Draw(self._origin, *keys)

    def branch(self, number: int) -> "Draw":
        """Return the draw of one of many parts, numbered; quicker than :meth:`child`."""
        found = Draw.__new__(Draw)
        found._origin = found._state = mixed(self._origin, 0x6272616E6368, number)
        return found

    def bits(self) -> int:
        """Return the next 64 uniform bits."""
        self._state = x = (self._state + _STEP) & _MASK
        x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _MASK
        return x ^ (x >> 31)

    def below(self, n: int) -> int:
        """Return a number from 0 to ``n`` - 1, uniform up to n / 2**64."""
        return (self.bits() * n) >> 64

    def between(self, low: int, high: int) -> int:
        """Return a number from ``low`` to ``high``, both included."""
        return low + self.below(high - low + 1)

    def chance(self, probability: float) -> bool:
        """Return true with a probability."""
        return self.bits() < probability * 2.0**64

    def uniform(self) -> float:
        """Return a number in [0, 1) with 53 bits."""
        return (self.bits() >> 11) * 2.0**-53

    def choose(self, items: Sequence[T]) -> T:
        """Return one of some items, which are at least one."""
        return items[self.below(len(items))]

    def sample(self, items: Sequence[T], k: int) -> list[T]:
        """Return ``k`` different places' items in a random order; all of them where k is more."""
        pool = list(items)
        k = min(k, len(pool))
        for place in range(k):
            other = place + self.below(len(pool) - place)
            pool[place], pool[other] = pool[other], pool[place]
        return pool[:k]

    def shuffled(self, items: Sequence[T]) -> list[T]:
        """Return the items in a random order."""
        return self.sample(items, len(items))
