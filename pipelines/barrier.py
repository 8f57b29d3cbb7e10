"""A point that is passed when everything before it is done."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import apache_beam as beam

from pipelines.failures import failures_recorded


class Barrier(beam.PTransform):
    """Wait for all results, call ``finish`` once with them, and go on with what it returns.

    Applied to ``(elements, (results, ...))``: a collection of one element, and collections of
    results that have an ``order``. The element travels through the same GroupByKey as the results, so that
    the barrier opens also when there are none. No side inputs: every runner can do this, and none
    holds more than the results. A runner may call ``finish`` again after a failure; it must be
    repeatable.
    """

    def __init__(self, finish: Callable[[Any, list[Any]], Any]) -> None:
        super().__init__()
        self._finish = finish

    def expand(self, inputs: Any) -> Any:
        """Apply the barrier."""
        elements, results = inputs
        parts = [elements | "Element" >> beam.Map(_element).with_output_types(tuple[int, Any])]
        parts += [
            collection | f"Results {n}" >> beam.Map(_result).with_output_types(tuple[int, Any])
            for n, collection in enumerate(results)
        ]
        return (
            parts
            | "All" >> beam.Flatten()
            | "Wait" >> beam.GroupByKey()
            | "Finish" >> beam.ParDo(_Finish(self._finish))
        )


def _element(element: Any) -> tuple[int, tuple[bool, Any]]:
    return (0, (True, element))


def _result(result: Any) -> tuple[int, tuple[bool, Any]]:
    return (0, (False, result))


class _Finish(beam.DoFn):
    def __init__(self, finish: Callable[[Any, list[Any]], Any]) -> None:
        self._finish = finish

    def process(self, grouped: tuple[int, Iterable[tuple[bool, Any]]]) -> Iterator[Any]:
        elements: list[Any] = []
        results: list[Any] = []
        for is_element, value in grouped[1]:
            (elements if is_element else results).append(value)
        if len(elements) != 1:
            raise RuntimeError(f"a barrier was reached with {len(elements)} elements, not one")
        with failures_recorded(elements[0].store):
            finished = self._finish(elements[0], sorted(results, key=lambda result: result.order))
        yield finished
