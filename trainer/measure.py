"""Measures a machine's rates: ``python -m trainer.measure FILE.json`` writes its profile.

The peak by the data sheet and the host memory that may be used are taken from a built-in profile.
"""

import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch.nn import functional

from trainer.machine import PROFILES, MachineProfile, save_profile

REPEATS = 5


def measure(device: torch.device, *, tokens: int = 32768, width: int = 8192) -> MachineProfile:
    """Return the profile of a device, each rate the best of a few repeats.

    Args:
        device: CUDA; on a CPU the rates say nothing of training on it.
        tokens: length of the document that attends to itself, with 16 heads of 128.
        width: rows and columns of the products.
    """
    dtype = torch.bfloat16
    a = torch.randn(width, width, device=device, dtype=dtype)
    product = _seconds(lambda: a @ a, device)
    q, k, v = (
        torch.randn(1, 16, tokens, 128, device=device, dtype=dtype).requires_grad_()
        for _ in range(3)
    )
    upstream = torch.randn(1, 16, tokens, 128, device=device, dtype=dtype)

    def attend() -> torch.Tensor:
        return functional.scaled_dot_product_attention(q, k, v, is_causal=True)

    forward = _seconds(attend, device)
    out = attend()
    backward = _seconds(
        lambda: torch.autograd.grad(out, (q, k, v), upstream, retain_graph=True), device
    )
    host = torch.empty(width * width, dtype=dtype, pin_memory=device.type == "cuda")
    flat = a.flatten()
    down = _seconds(lambda: host.copy_(flat, non_blocking=True), device)
    up = _seconds(lambda: flat.copy_(host, non_blocking=True), device)
    pairs = 2.0 * tokens * tokens * 16 * 128
    found = replace(
        PROFILES["h100"],
        name=str(device),
        gemm=2.0 * width**3 / product,
        attention_forward=pairs / forward,
        attention_backward=2.5 * pairs / backward,
        offload=2.0 * width * width / down,
        fetch=2.0 * width * width / up,
    )
    if device.type == "cuda":
        _, total = torch.cuda.mem_get_info(device)
        found = replace(found, name=torch.cuda.get_device_name(device), device_bytes=total)
    return found


def _seconds(function: Callable[[], Any], device: torch.device) -> float:
    """Return the seconds of the fastest of some calls, behind one that warms up."""
    best = float("inf")
    for repeat in range(REPEATS + 1):
        _finish(device)
        began = time.perf_counter()
        function()
        _finish(device)
        if repeat:
            best = min(best, time.perf_counter() - began)
    return best


def _finish(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


if __name__ == "__main__":
    if len(sys.argv) != 2 or not torch.cuda.is_available():
        sys.exit("python -m trainer.measure FILE.json, on a machine with a CUDA device")
    save_profile(measure(torch.device("cuda")), sys.argv[1])
