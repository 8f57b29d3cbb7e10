"""Allocation traces of any computation, and the buffer that a solved trace is laid out in.

A computation runs on fake tensors (``torch.device("meta")`` or torch's ``FakeTensorMode``, which
gives the code that runs the device it asks for), so that a layer of any size is traced on any
machine, in milliseconds, without its memory.
"""

import itertools
import weakref
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from packing.cost import ModelShape
from trainer.allocation import Block, Layout, Trace, solve
from trainer.ops import rotary_table
from trainer.plan import LayerPlan
from trainer.planned import Row, Turn, planned_layer
from trainer.stash import Stash, Workspace
from trainer.weights import DenseWeights


class _Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notes when storages come and go; an operation is one event."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.now = 0
        self.born: dict[int, tuple[str, int, int]] = {}
        self.died: dict[int, int] = {}
        self._number = itertools.count()
        self._known: weakref.WeakSet[torch.UntypedStorage] = weakref.WeakSet()
        self.names: weakref.WeakKeyDictionary[torch.UntypedStorage, int] = (
            weakref.WeakKeyDictionary()
        )

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        self.adopt((args, kwargs))
        self.now += 1
        out = func(*args, **kwargs)
        for tensor in tree_leaves(out):
            if isinstance(tensor, Tensor):
                self._note(tensor.untyped_storage(), func._schema.name.partition("::")[2])
        return out

    def adopt(self, tree: Any) -> None:
        """Take the storages of tensors as there before, none of the trace's own."""
        for tensor in tree_leaves(tree):
            if isinstance(tensor, Tensor):
                self._known.add(tensor.untyped_storage())

    def _note(self, storage: torch.UntypedStorage, operation: str) -> None:
        if storage in self._known:
            return
        self._known.add(storage)
        number = next(self._number)
        self.born[number] = (f"{operation}.{number}", storage.nbytes(), self.now)
        self.names[storage] = number
        weakref.finalize(storage, self._end, number).atexit = False

    def _end(self, number: int) -> None:
        self.died.setdefault(number, self.now + 1)

    def trace(self) -> Trace:
        """Return the blocks; those that still live end with the trace."""
        return Trace(
            tuple(
                Block(name, nbytes, start, self.died.get(number, self.now + 1))
                for number, (name, nbytes, start) in self.born.items()
                if nbytes
            )
        )


def trace_allocations(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Trace:
    """Return what a call allocates, and when: one event for every operation that torch dispatches.

    Tensors made before the call are not in the trace; what the call returns lives to its end.
    Scratch memory inside a kernel is not seen.

    Args:
        function: any function of tensors, forward, backward or both; with meta or fake tensors
            nothing is computed.
        args: its arguments.
        kwargs: its named arguments.
    """
    recorder = _Recorder()
    recorder.adopt((args, kwargs))
    with recorder:
        out = function(*args, **kwargs)
    trace = recorder.trace()
    del out
    return trace


class Arena:
    """One buffer that holds the tensors of a trace where its layout says.

    Args:
        trace: what is allocated and when.
        device: where the buffer lies.
        layout: where the blocks lie; solved by default.
    """

    def __init__(
        self, trace: Trace, device: torch.device | str = "cpu", layout: Layout | None = None
    ) -> None:
        self.layout = layout or solve(trace)
        self.buffer = torch.empty(self.layout.peak, dtype=torch.uint8, device=device)
        self._nbytes = {block.name: block.nbytes for block in trace.blocks}

    def take(self, name: str, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
        """Return a block as a tensor: a view of the buffer, whatever that holds.

        Raises:
            ValueError: no such block, or the tensor is not as large as it.
        """
        nbytes = dtype.itemsize
        for extent in shape:
            nbytes *= extent
        planned = self._nbytes.get(name)
        if planned != nbytes:
            raise ValueError(
                f"block {name!r} of {nbytes} bytes is asked for, and the plan has "
                f"{'no such block' if planned is None else f'{planned} bytes'}; trace again"
            )
        begin = self.layout.offsets[name]
        return self.buffer[begin : begin + nbytes].view(dtype).view(tuple(shape))


def trace_layer(
    shape: ModelShape, boundaries: Sequence[int], plan: LayerPlan, dtype: torch.dtype
) -> tuple[Trace, Trace]:
    """Return what a planned layer allocates in its forward and in its backward pass.

    What it stores (:func:`trainer.layout.layer_layout`), its weights and the gradient that comes
    from above are not in the traces; its output and the gradients that it returns are. Nothing is
    computed, and the attention of a document is one kernel.

    Args:
        shape: the model.
        boundaries: where the row's documents begin, and the end.
        plan: what is stored.
        dtype: what is computed in; weights are at least float32.

    Raises:
        ValueError: the model has experts, whose matrices take what their router sends them.
    """
    if shape.experts:
        raise ValueError(
            f"a layer with experts = {shape.experts}: what each takes is known only when it runs; "
            "trace a shape without experts"
        )
    alone = replace(shape, layers=1)
    plan = replace(plan, resident_layers=1, input_stride=1)
    wide = torch.promote_types(dtype, torch.float32)
    tokens, queries = boundaries[-1], shape.heads * shape.head_dim
    keys = shape.kv_heads * shape.head_dim
    sizes = (
        (shape.hidden,),
        (queries, shape.hidden),
        (keys, shape.hidden),
        (keys, shape.hidden),
        (shape.hidden, queries),
        (shape.hidden,),
        (shape.ffn, shape.hidden),
        (shape.ffn, shape.hidden),
        (shape.hidden, shape.ffn),
    )
    with FakeTensorMode():
        weights = DenseWeights(*(torch.empty(s, dtype=wide).requires_grad_() for s in sizes))
        x = torch.empty((tokens, shape.hidden), dtype=dtype).requires_grad_()
        rotary = rotary_table(torch.arange(tokens), shape.head_dim, wide)
        stash = Stash(Workspace(torch.device("cpu")), alone, plan, boundaries, dtype)
        stash.begin(0)  # takes the layer's buffer, which is none of the traces'
        row = Row(rotary, boundaries, alone, Turn(plan, 0, stash))
        made: list[Tensor] = []
        forward = trace_allocations(lambda: made.append(planned_layer(x, row, weights)))
        d_out = torch.empty_like(made[0])
        backward = trace_allocations(lambda: torch.autograd.grad(made[0], (x, *weights), d_out))
    return forward, backward
