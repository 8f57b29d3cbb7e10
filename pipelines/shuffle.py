"""Columnar shuffle: one PTransform, two ways for the bytes, the same tables out.

``files``: a task writes one segment file with its tables in partition order; the runner moves only
(path, offset, length). At 1 M documents this costs what hand-written numpy costs, and memory stays
flat. ``runner``: the tables themselves, as Arrow IPC bytes, travel through the runner's GroupByKey,
for workers that share no file system fit for it.
"""

import itertools
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
import pyarrow as pa

from pipelines.artifacts import Workdir
from pipelines.failures import failures_recorded
from pipelines.runners import ShuffleKind
from pipelines.tasks import Clock, record_cost

Partitioned = Iterable[tuple[int, pa.Table]]

# A record must fit into a sort buffer of Flink's, whose managed memory all sorts of a job share: 2.6
# MB was the limit of a pipeline of 20 stages in a slot of 256 MB. One row can be larger than that, so
# the bytes of a table are cut, not its rows.
_MAX_PAYLOAD_BYTES = 256 << 10


@dataclass(frozen=True, slots=True)
class Segment:
    """Where one table of one partition lies, or the table itself, or a part of its bytes."""

    origin: Any
    """The task or partition that made it, without its data."""
    piece: int = 0
    """Place among the tables that one task sent."""
    cut: int = 0
    """Place among the parts of the table's bytes."""
    path: str = ""
    offset: int = 0
    length: int = 0
    payload: bytes = b""

    def open(self) -> pa.Table:
        """Return the table; a file is mapped, not read."""
        if not self.path:
            return pa.ipc.open_stream(pa.py_buffer(self.payload)).read_all()
        with pa.memory_map(self.path) as file:
            file.seek(self.offset)
            return pa.ipc.open_stream(file.read_buffer(self.length)).read_all()


@dataclass(frozen=True, slots=True)
class Partition:
    """The tables of one partition, sorted by the task that made them."""

    order: int
    """Number of the partition."""
    origin: Any
    """What the tasks that sent to it have in common."""
    segments: tuple[Segment, ...]

    @property
    def store(self) -> Workdir:
        """The work directory."""
        return self.origin.store  # type: ignore[no-any-return]

    @property
    def folder(self) -> Any:
        """Folder of the artifact that the work is for."""
        return self.origin.folder

    @property
    def shared(self) -> Any:
        """What all tasks of the phase know: :attr:`pipelines.tasks.Task.shared`."""
        return self.origin.shared

    def tables(self) -> list[pa.Table]:
        """Open the tables, in the order of the tasks that made them."""
        return [segment.open() for segment in self.segments]


class Shuffle(beam.PTransform):
    """Send rows of tables to partitions: tasks (or partitions) in, :class:`Partition` out.

    Arrow never travels as pickle: a pickled slice carries its parent's buffers whole.

    Args:
        produce: task -> (partition, table) pairs; tables of one partition stay in their order. A
            task has a ``store``, the ``folder`` of its artifact, an ``order`` and ``shared``
            values.
        kind: ``files`` or ``runner``.
    """

    def __init__(self, produce: Callable[[Any], Partitioned], kind: ShuffleKind) -> None:
        super().__init__()
        self._produce = produce
        self._kind = kind

    def expand(self, sources: beam.PCollection) -> beam.PCollection:
        """Apply the shuffle."""
        write = _write_segments if self._kind == "files" else _payloads
        return (
            sources
            | "Send" >> beam.ParDo(_Send(self._produce, write)).with_output_types(tuple[int, Any])
            | "Exchange" >> beam.GroupByKey()
            | "Sort" >> beam.Map(_partition)
        )


def _partition(grouped: tuple[int, Iterable[Segment]]) -> Partition:
    number, segments = grouped
    ordered = sorted(segments, key=lambda s: (s.origin.order, s.piece, s.cut))
    whole = tuple(
        _joined(list(cuts))
        for _, cuts in itertools.groupby(ordered, key=lambda s: (s.origin.order, s.piece))
    )
    return Partition(number, ordered[0].origin, whole)


def _joined(cuts: list[Segment]) -> Segment:
    if len(cuts) == 1:
        return cuts[0]
    first = cuts[0]
    return Segment(first.origin, first.piece, payload=b"".join(cut.payload for cut in cuts))


class _Send(beam.DoFn):
    def __init__(
        self,
        produce: Callable[[Any], Partitioned],
        write: Callable[[Any, Partitioned], Iterator[tuple[int, Segment]]],
    ) -> None:
        self._produce = produce
        self._write = write

    def setup(self) -> None:
        pa.set_cpu_count(1)

    def process(self, source: Any) -> Iterator[tuple[int, Segment]]:
        with failures_recorded(source.store):
            clock = Clock()
            segments = list(self._write(source, self._produce(source)))
            record_cost(source.folder, clock)
        yield from segments


def _write_segments(source: Any, tables: Partitioned) -> Iterator[tuple[int, Segment]]:
    # A retried task writes another file; only the one that reaches the reducer is read, and the
    # scratch folder goes at the end of the run.
    scratch = source.store.scratch
    scratch.mkdir(parents=True, exist_ok=True)
    path = scratch / f"{uuid.uuid4().hex}.seg"
    origin = _Origin.of(source)
    found = []
    with path.open("wb") as file:
        for partition, table in tables:
            offset = file.tell()
            with pa.ipc.new_stream(file, table.schema) as writer:
                writer.write_table(table)
            found.append((partition, offset, file.tell() - offset))
            file.write(b"\0" * (-file.tell() % 64))
    for piece, (partition, offset, length) in enumerate(found):
        yield partition, Segment(origin, piece, path=str(path), offset=offset, length=length)


def _payloads(source: Any, tables: Partitioned) -> Iterator[tuple[int, Segment]]:
    origin = _Origin.of(source)
    for piece, (partition, table) in enumerate(tables):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        whole = sink.getvalue()
        for cut, start in enumerate(range(0, whole.size, _MAX_PAYLOAD_BYTES)):
            payload = whole.slice(start, min(_MAX_PAYLOAD_BYTES, whole.size - start)).to_pybytes()
            yield partition, Segment(origin, piece, cut, payload=payload)


@dataclass(frozen=True, slots=True)
class _Origin:
    """The part of a task that every segment needs; the task's payload may be large."""

    order: int
    store: Workdir
    folder: Any
    shared: Any

    @classmethod
    def of(cls, source: Any) -> "_Origin":
        if isinstance(source, Partition):
            return cls(source.order, source.store, source.folder, source.origin.shared)
        return cls(source.order, source.store, source.folder, source.shared)
