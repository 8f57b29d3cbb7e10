"""What one forward pass stores for its backward pass: where it lies and when it travels.

Forward, a layer writes what it stores into one of a few buffers on the device, from which it is
copied to the host beside the computation of the next layers. Backward, the buffers are filled again
before their layers' turns. The last layers' buffers stay on the device.
"""

import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from packing.cost import ModelShape
from trainer.copies import CopyEngine, Ticket, copies_for
from trainer.hostpool import HostPool, Slot
from trainer.layout import Element, LayerLayout, buffer_count, layer_layout, swapped_layers
from trainer.plan import LayerPlan
from trainer.weights import LayerWeights


class Workspace:
    """What the planned layers of a model share over its passes.

    Args:
        device: where the model computes.
        copies: how tensors travel; by default as fits the device.
        host: where they go; by default a pool without a limit, page-locked for a CUDA device.
    """

    def __init__(
        self, device: torch.device, copies: CopyEngine | None = None, host: HostPool | None = None
    ) -> None:
        self.device = device
        self.copies = copies or copies_for(device)
        self.host = host or HostPool(pinned=device.type == "cuda")
        self.device_bytes = 0
        """Bytes on the device that stored tensors take now."""
        self.device_peak = 0
        """Most of them at once."""

    def take(self, nbytes: int) -> Tensor:
        """Return a buffer on the device, flat uint8, its contents released."""
        self.device_bytes += nbytes
        self.device_peak = max(self.device_peak, self.device_bytes)
        buffer = torch.empty(nbytes, dtype=torch.uint8, device=self.device)
        self.copies.release((buffer,))
        return buffer

    def give_back(self, buffer: Tensor) -> None:
        """Take a buffer back."""
        self.copies.release((buffer,))
        self.device_bytes -= buffer.numel()


@dataclass(slots=True, eq=False)
class _Lease:
    """What a pass holds of a workspace, so that it comes back if no backward pass follows."""

    workspace: Workspace
    buffers: dict[int, Tensor] = field(default_factory=dict)
    slots: dict[int, Slot] = field(default_factory=dict)

    def end(self) -> None:
        for slot in self.slots.values():
            self.workspace.host.release(slot)
        for buffer in self.buffers.values():
            self.workspace.give_back(buffer)
        self.slots.clear()
        self.buffers.clear()


class Stash:
    """What one pass stores.

    Args:
        workspace: of the model.
        shape: the model.
        plan: what is stored.
        boundaries: where the documents of the pass begin, and the end.
        dtype: what is computed in.
    """

    def __init__(
        self,
        workspace: Workspace,
        shape: ModelShape,
        plan: LayerPlan,
        boundaries: Sequence[int],
        dtype: torch.dtype,
    ) -> None:
        self.plan = plan
        self.dtype, self.wide = dtype, torch.promote_types(dtype, torch.float32)
        element = Element(dtype.itemsize, self.wide.itemsize)
        self.rebuilt: dict[int, Tensor] = {}
        """Layer inputs that were not stored and were made again."""
        self.weights: dict[int, LayerWeights] = {}
        """Weights of the layers from which the inputs of others are made again."""
        self._layouts = [
            layer_layout(shape, boundaries, plan, layer, element) for layer in range(shape.layers)
        ]
        self._swapped = swapped_layers(shape, plan)
        self._cycle = buffer_count(shape, plan)
        sizes = [layout.nbytes for layout in self._layouts[: self._swapped]]
        self._buffer_bytes = max(sizes, default=0)
        self._workspace, self._copies = workspace, workspace.copies
        self._lease = _Lease(workspace)
        weakref.finalize(self, self._lease.end).atexit = False
        workspace.host.reserve(sum(sizes))
        self._offloads: dict[int, Ticket] = {}
        self._fetches: dict[int, Ticket] = {}
        self._holders: dict[int, int] = {}
        """Layer whose tensors a buffer holds in the backward pass."""
        self._next = self._swapped - 1
        """Highest layer that was not fetched."""

    def begin(self, layer: int) -> dict[str, Tensor]:
        """Return where a layer writes what it stores."""
        key = self._key(layer)
        if key not in self._lease.buffers:
            nbytes = self._buffer_bytes if layer < self._swapped else self._layouts[layer].nbytes
            self._lease.buffers[key] = self._workspace.take(nbytes)
        self._vacate(key)
        return self._views(layer)

    def end(self, layer: int) -> None:
        """Send what a layer wrote on its way."""
        if layer >= self._swapped:
            return
        slot = self._workspace.host.take(self._layouts[layer].nbytes)
        self._copies.release(slot.parts)
        self._lease.slots[layer] = slot
        self._offloads[self._key(layer)] = self._copies.offload(
            slot.split(self._bytes(layer)), slot.parts
        )

    def open(self, layer: int) -> dict[str, Tensor]:
        """Return what a layer stored, for its turn in the backward pass.

        That of the layers from which its input is made is on the device then as well. Tensors of
        the layers below begin to travel.

        Raises:
            RuntimeError: the backward pass went through this layer before.
        """
        held = self._lease.slots if layer < self._swapped else self._lease.buffers
        if layer not in held:
            raise RuntimeError(
                "a second backward pass through planned layers, whose stored tensors are gone; "
                'set training.activations = "keep", or make the forward pass again'
            )
        self._prefetch()
        for member in range(layer - layer % self.plan.input_stride, layer + 1):
            ticket = self._fetches.pop(member, None)
            if ticket is not None:
                self._copies.wait(ticket)
        return self._views(layer)

    def views(self, layer: int) -> dict[str, Tensor]:
        """Return what a layer below an opened one, in the same stride, stored."""
        return self._views(layer)

    def close(self, layer: int) -> None:
        """Give back what a layer stored; its turn is over."""
        self.weights.pop(layer, None)
        key = self._key(layer)
        if layer >= self._swapped:
            self._workspace.give_back(self._lease.buffers.pop(key))
        else:
            slot = self._lease.slots.pop(layer)
            self._copies.release(slot.parts)
            self._workspace.host.release(slot)
            self._copies.release((self._lease.buffers[key],))
            del self._holders[key]
        if layer == 0:
            self._lease.end()

    def _prefetch(self) -> None:
        """Fetch the next layers into all buffers that are free."""
        while self._next >= 0 and self._key(self._next) not in self._holders:
            layer, key = self._next, self._key(self._next)
            self._vacate(key)
            slot = self._lease.slots[layer]
            self._fetches[layer] = self._copies.fetch(slot.parts, slot.split(self._bytes(layer)))
            self._holders[key] = layer
            self._next -= 1

    def _vacate(self, key: int) -> None:
        """Wait until what a buffer held in the forward pass is on the host."""
        ticket = self._offloads.pop(key, None)
        if ticket is not None:
            self._copies.wait(ticket)
            self._copies.release((self._lease.buffers[key],))

    def _key(self, layer: int) -> int:
        """Return the buffer of a layer: one in turn, or one of its own that stays."""
        return layer % self._cycle if layer < self._swapped else layer

    def _bytes(self, layer: int) -> Tensor:
        return self._lease.buffers[self._key(layer)][: self._layouts[layer].nbytes]

    def _views(self, layer: int) -> dict[str, Tensor]:
        kinds = {"narrow": self.dtype, "wide": self.wide, "index": torch.int16}
        return _views(self._bytes(layer), self._layouts[layer], kinds)


def _views(
    flat: Tensor, layout: LayerLayout, kinds: Mapping[str, torch.dtype]
) -> dict[str, Tensor]:
    """Return the tensors of a layout by name, as views of a flat buffer."""
    return {
        t.name: flat[t.offset : t.offset + t.nbytes].view(kinds[t.kind]).view(t.shape)
        for t in layout.tensors
    }
