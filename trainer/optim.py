"""AdamW over two parameter groups, and the learning rate of each step."""

import math

import torch
from torch import nn

from trainer.config import OptimizerSettings, SchedulerSettings
from trainer.masters import SplitAdamW

WSD_DECAY = 0.2
"""Share of the steps in which a warm-up-stable-decay schedule falls."""


def build_optimizer(
    model: nn.Module, settings: OptimizerSettings, layers: nn.Module | None = None
) -> torch.optim.Optimizer:
    """Return AdamW: matrices decay, vectors (the norms' weights) do not.

    Args:
        model: the model.
        settings: rate, decay and form of the states.
        layers: the part of the model whose matrices may be split into halves of 16 bits; the
            others (embedding, head, norms, routers) stay float32, since their gradients are sums
            over many tokens or they are small.
    """
    weights = [w for _, w in sorted(model.named_parameters())]
    groups = [
        {"params": [w for w in weights if w.dim() >= 2], "weight_decay": settings.weight_decay},
        {"params": [w for w in weights if w.dim() < 2], "weight_decay": 0.0},
    ]
    if settings.states == "fp32":
        return torch.optim.AdamW(groups, lr=settings.lr, betas=settings.betas)
    optimizer = SplitAdamW(groups, settings.lr, settings.betas)
    for name, weight in layers.named_parameters() if layers is not None else ():
        if weight.dim() >= 2 and not name.endswith("router"):
            optimizer.split_weight(weight)
    return optimizer


def learning_rate(step: int, steps: int, peak: float, settings: SchedulerSettings) -> float:
    """Return the learning rate of a step.

    Args:
        step: the step, from 0.
        steps: steps of the run.
        peak: the rate after the warm-up.
        settings: warm-up, form of the decay and final rate.
    """
    warmup = settings.warmup_steps
    if step < warmup:
        return peak * (step + 1) / warmup
    if settings.decay == "constant":
        return peak
    first = warmup if settings.decay == "cosine" else max(warmup, round(steps * (1 - WSD_DECAY)))
    # Neither the first nor the last step of the decay is wasted on the end points themselves.
    done = max(0, step + 1 - first) / (steps + 1 - first)
    left = (1 + math.cos(math.pi * done)) / 2 if settings.decay == "cosine" else 1 - done
    return settings.min_lr + (peak - settings.min_lr) * left
