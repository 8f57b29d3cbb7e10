"""Weights, gradients and moments dealt over the ranks (FSDP2), each layer gathered for its turn."""

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard, register_fsdp_forward_method
from torch.distributed.tensor import DTensor

from trainer.model import Decoder


def shard(model: Decoder, world: int, device: torch.device) -> None:
    """Deal the weights of a model over the ranks, in place.

    Gradients are summed over the ranks, not averaged, as :class:`trainer.ranks.Ranks` does.

    Args:
        model: complete, with the same weights on all ranks.
        world: number of ranks.
        device: where it computes.
    """
    mesh = init_device_mesh(device.type, (world,))
    # The layers of a stride make one another's inputs again, so that they are gathered together.
    stride = model.plan.input_stride if model.plan is not None else 1
    layers = list(model.layers)
    for first in range(0, len(layers), stride):
        fully_shard(layers[first : first + stride], mesh=mesh)
    fully_shard(model, mesh=mesh)
    for module in model.modules():
        if isinstance(module, FSDPModule):
            module.set_gradient_divide_factor(1.0)
            module.set_force_sum_reduction_for_comms(True)
    register_fsdp_forward_method(model, "loss_sum")


def is_sharded(model: nn.Module) -> bool:
    """Say whether a model's weights are dealt over the ranks."""
    return isinstance(model, FSDPModule)


def whole(tensor: Tensor) -> Tensor:
    """Return a tensor that every rank has whole."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
