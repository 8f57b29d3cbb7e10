"""Beam's model on threads of this process: the runner of ``kind = "local"``.

Beam's own local runner makes protocol buffers of the pipeline and of every element, sends them to
itself, and deals elements to its workers before any of them starts: two seconds of one core for a
pipeline of three stages, and workers that wait for each other. Here an element is an object, and a
thread that is free takes the next one. The result of a run does not depend on it: whoever names
``--runner=FnApiRunner`` behind ``--`` gets the same bytes from Beam's.
"""

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.pipeline import AppliedPTransform, PipelineVisitor
from apache_beam.runners.runner import PipelineResult, PipelineRunner, PipelineState
from apache_beam.transforms.core import Impulse

Elements = list[Any]


class LocalRunner(PipelineRunner):  # type: ignore[misc]
    """Runs batch pipelines of ParDo, Flatten and GroupByKey without windows and side inputs.

    Elements are handed on as they are, so no DoFn may change its input or keep state from one
    element to the next. Transforms run one after the other, each with as many elements at a time as
    there are workers, in the order of its input.

    Args:
        workers: threads.
    """

    def __init__(self, workers: int) -> None:
        self._workers = workers

    def run_pipeline(self, pipeline: beam.Pipeline, options: PipelineOptions) -> PipelineResult:
        """Run a pipeline to its end.

        Raises:
            NotImplementedError: it has a transform that is none of those above.
            Exception: the first error of a DoFn, as it was raised.
        """
        plan = _Plan()
        pipeline.visit(plan)
        readers = Counter(value for node in plan.nodes for value in node.inputs)
        held: dict[Any, Elements] = {}
        for node in plan.nodes:
            held.update(self._outputs(node, held))
            for value in node.inputs:
                readers[value] -= 1
                if not readers[value]:
                    held.pop(value, None)
        return _Finished(PipelineState.DONE)

    def _outputs(
        self, node: AppliedPTransform, held: dict[Any, Elements]
    ) -> list[tuple[Any, Elements]]:
        """Return the collections that a transform makes of those that it reads."""
        transform = node.transform
        if isinstance(transform, Impulse):
            return [(node.outputs[None], [b""])]
        if isinstance(transform, beam.Flatten):
            return [(node.outputs[None], [e for value in node.inputs for e in held[value]])]
        [read] = node.inputs
        if isinstance(transform, beam.GroupByKey):
            return [(node.outputs[None], _grouped(held[read]))]
        outputs: dict[Any, Elements] = {tag: [] for tag in node.outputs}
        for made in self._each(transform.fn, held[read]):
            for element in made:
                if isinstance(element, beam.pvalue.TaggedOutput):
                    outputs[element.tag].append(element.value)
                else:
                    outputs[None].append(element)
        return [(node.outputs[tag], elements) for tag, elements in outputs.items()]

    def _each(self, dofn: beam.DoFn, elements: Elements) -> list[Elements]:
        """Return what a DoFn makes of each element, in their order."""
        dofn.setup()
        dofn.start_bundle()
        made = _parallel(lambda element: list(dofn.process(element) or ()), elements, self._workers)
        dofn.finish_bundle()
        dofn.teardown()
        return made


def _parallel(
    function: Callable[[Any], Elements], elements: Sequence[Any], workers: int
) -> list[Elements]:
    """Apply a function to all elements, by threads that take the next one when they are free."""
    if len(elements) < 2 or workers < 2:
        return [function(element) for element in elements]
    made: list[Elements] = [[] for _ in elements]
    errors: list[BaseException] = []
    waiting, lock = iter(range(len(elements))), threading.Lock()

    def work() -> None:
        while not errors:
            with lock:
                number = next(waiting, None)
            if number is None:
                return
            try:
                made[number] = function(elements[number])
            except BaseException as error:  # noqa: BLE001  # raised again where it can be handled
                errors.append(error)

    # Daemons, so that an interrupted run ends at once; the main thread is free to be interrupted.
    threads = [
        threading.Thread(target=work, daemon=True) for _ in range(min(workers, len(elements)))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return made


def _grouped(pairs: Elements) -> Elements:
    groups: dict[Any, Elements] = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return list(groups.items())


class _Plan(PipelineVisitor):  # type: ignore[misc]
    """The primitive transforms of a pipeline, each behind those that it reads from."""

    def __init__(self) -> None:
        self.nodes: list[AppliedPTransform] = []

    def enter_composite_transform(self, transform_node: AppliedPTransform) -> None:
        """Take a GroupByKey whole: what Beam puts into it is for its own runners."""

    def visit_transform(self, transform_node: AppliedPTransform) -> None:
        """Take a transform without parts."""
        transform = transform_node.transform
        known = isinstance(transform, Impulse | beam.Flatten | beam.GroupByKey | beam.ParDo)
        plain = not transform_node.side_inputs
        if isinstance(transform, beam.ParDo):
            plain = plain and not transform.args and not transform.kwargs
        if not known or not plain:
            raise NotImplementedError(f"{transform_node.full_label}: not for the local runner")
        self.nodes.append(transform_node)


class _Finished(PipelineResult):  # type: ignore[misc]
    def wait_until_finish(self, duration: int | None = None) -> str:
        return str(self.state)
