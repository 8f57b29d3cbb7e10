"""Running the span kernels over a column of text: buffers, caches of the threads, counters."""

import threading
from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt

from transforms.tokenize.encoder import Encoded
from transforms.tokenize.span_cache import HITS, LONG, MISSES, CacheArrays, SpanCache
from transforms.tokenize.span_loop import FULL, OUT_SLACK, PLACE, WRITTEN

Bytes = npt.NDArray[np.uint8]
Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]
Kernel = Callable[[Bytes, Int64s, CacheArrays, Int32s, Int64s, Int64s], bool]
"""Encodes (data, offsets, cache, out, out_offsets, progress) until done or the cache is crowded."""


class SpanEncoder:
    """Encodes columns with a span kernel; each thread at work has a cache of its own."""

    def __init__(
        self,
        kernel: Kernel,
        cache_bytes: int,
        ids_per_byte: int,
        whole: Mapping[bytes, int] | None = None,
    ) -> None:
        """Prepare; ``whole`` are spans with an id of their own, whatever merging would give."""
        self._whole = dict(whole or {})
        self._kernel = kernel
        self._cache_bytes = cache_bytes
        self._ids_per_byte = ids_per_byte
        self._lock = threading.Lock()
        self._caches: list[SpanCache] = []
        self._free: list[SpanCache] = []

    def encode(self, data: Bytes, offsets: Int64s) -> Encoded:
        """Encode documents.

        Args:
            data: UTF-8, read-only.
            offsets: int64 [documents + 1], where each document begins.
        """
        cache = self._take()
        try:
            return self._encode(cache, data, offsets)
        finally:
            with self._lock:
                self._free.append(cache)

    def _encode(self, cache: SpanCache, data: Bytes, offsets: Int64s) -> Encoded:
        text_bytes = int(offsets[-1] - offsets[0])
        # Room for the worst case: memory that is not written is not taken from the machine.
        out = np.empty(self._ids_per_byte * text_bytes + OUT_SLACK, dtype=np.int32)
        out_offsets = np.zeros(len(offsets), dtype=np.int64)
        progress = np.zeros(5, dtype=np.int64)
        progress[PLACE] = offsets[0]
        progress[FULL] = not cache.can_grow
        while not self._kernel(data, offsets, cache.arrays, out, out_offsets, progress):
            cache.grow()
            progress[FULL] = not cache.can_grow
        return Encoded(out_offsets, out[: progress[WRITTEN]])

    def _take(self) -> SpanCache:
        with self._lock:
            if self._free:
                return self._free.pop()
            cache = SpanCache(self._cache_bytes)
            for span, number in self._whole.items():
                cache.keep(span, number)
            self._caches.append(cache)
            return cache

    def forget(self) -> None:
        """Drop the caches and their counts."""
        with self._lock:
            self._caches.clear()
            self._free.clear()

    @property
    def counters(self) -> dict[str, int]:
        """Spans found in the cache, merged, and too long for it; bytes that the caches take."""
        with self._lock:
            caches = list(self._caches)
        counts = sum((cache.arrays.counts for cache in caches), np.zeros(6, dtype=np.int64))
        return {
            "cache_hits": int(counts[HITS]),
            "cache_misses": int(counts[MISSES]),
            "long_spans": int(counts[LONG]),
            "cache_bytes": sum(cache.nbytes for cache in caches),
        }
