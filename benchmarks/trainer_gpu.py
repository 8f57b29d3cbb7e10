#!/usr/bin/env python3
"""The trainer's activations beside what people use: one process an arm, same weights and rows.

Arms: ``keep`` (autograd keeps everything), ``recompute`` (torch's checkpoint of each layer),
``selective`` (the same, attention outputs kept), ``host`` (checkpoint, layer inputs on the host by
save_on_cpu), ``planned-0`` (planned, nothing but inputs and attention outputs stored) and
``planned`` (the fastest plan of the planner for this machine). Every arm makes the same full steps:
forward, backward, clipping, AdamW. Losses and gradient norms of the arms must agree.

On a GPU: ``trainer_gpu.py --preset 1b --lengths 32768 65536 --seconds 540``; one command takes less
than ten minutes, since no arm is begun that may pass ``--seconds``. Attention of planned layers has
no fused kernel on CUDA yet, so that their arms are slow there. On a CPU it shows that the arms agree:
``trainer_gpu.py --device cpu --preset tiny --lengths 1024 --dtype float32``.
"""

import argparse
import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils import checkpoint as ckpt

from packing.cost import attention_squares, row_cost
from trainer.forecast import ELEMENTS
from trainer.gauge import TimedCopies
from trainer.geometry import PRESETS, TIED_PRESETS
from trainer.machine import PROFILES
from trainer.model import DTYPES, Decoder
from trainer.plan import LayerPlan
from trainer.planner import Work, choose
from trainer.stash import Workspace

ARMS = ("keep", "recompute", "selective", "host", "planned-0", "planned")
LEAST = LayerPlan(
    tile=8192, recompute_prefix=0.0, alpha=0.0, input_stride=1, resident_layers=2, head_groups=1
)
ATTENTION = (
    torch.ops.aten._scaled_dot_product_flash_attention.default,
    torch.ops.aten._scaled_dot_product_cudnn_attention.default,
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default,
)


def main() -> None:
    """Run the arms that are asked for, or one of them in this process."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--preset", default="1b", choices=PRESETS)
    parser.add_argument("--lengths", type=int, nargs="+", default=[32768])
    parser.add_argument("--documents", type=int, default=1, help="documents of a row, equally long")
    parser.add_argument("--vocab", type=int, default=32768)
    parser.add_argument("--dtype", default="bfloat16", choices=DTYPES)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--arms", nargs="+", default=ARMS, choices=ARMS)
    parser.add_argument("--warm", type=int, default=1, help="steps before those that are timed")
    parser.add_argument("--steps", type=int, default=2, help="steps that are timed")
    parser.add_argument("--seconds", type=float, default=540.0)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--one", choices=ARMS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(measure(arguments.one, arguments)))
        return
    found = list(all_arms(arguments))
    show(found)
    if arguments.json:
        arguments.json.write_text(json.dumps(found, indent=1) + "\n")
    raise SystemExit(0 if agree(found) else 1)


def all_arms(arguments: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Run every arm in a process of its own while there is time."""
    end, longest = time.monotonic() + arguments.seconds, 0.0
    for length in arguments.lengths:
        for arm in arguments.arms:
            began = time.monotonic()
            if began + 1.5 * longest > end:
                yield {"arm": arm, "length": length, "error": "no time was left"}
                continue
            own = [a for a in sys.argv[1:] if a != "--json"]
            if arguments.json:
                own.remove(str(arguments.json))
            command = [sys.executable, __file__, *own, "--lengths", str(length), "--one", arm]
            try:
                left = max(end - began, 1.0)
                done = subprocess.run(command, capture_output=True, text=True, timeout=left)
            except subprocess.TimeoutExpired:
                yield {"arm": arm, "length": length, "error": "took too long"}
                continue
            longest = max(longest, time.monotonic() - began)
            if done.returncode:
                last = done.stderr.strip().splitlines()[-1:] or ["died"]
                yield {"arm": arm, "length": length, "error": last[0][:120]}
            else:
                yield json.loads(done.stdout.splitlines()[-1])


def measure(arm: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """Return what the steps of one arm took."""
    device, length = torch.device(arguments.device), arguments.lengths[0]
    shape = replace(PRESETS[arguments.preset], vocab=arguments.vocab)
    bounds = np.linspace(0, length, arguments.documents + 1).astype(int).tolist()
    tied = arguments.preset in TIED_PRESETS
    plan = None
    if arm.startswith("planned"):
        plan = LEAST
        if arm == "planned":
            chosen = choose(
                Work(shape, tied, ELEMENTS[arguments.dtype], tuple(bounds)), machine_of(device)
            )
            if chosen is None:
                raise SystemExit("no plan fits")
            plan = chosen[0]
    model = Decoder(
        shape, tied=tied, recompute=arm == "recompute", plan=plan, dtype=DTYPES[arguments.dtype]
    )
    model.initialize(1)
    model.to(device)
    if plan is not None:
        model.workspace = Workspace(device)
        model.workspace.copies = TimedCopies(model.workspace.copies, device)
    if arm in ("selective", "host"):
        wrap_layers(model, arm)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.95))
    lengths = np.diff(np.array(bounds, dtype=np.int64))
    positions = torch.from_numpy(np.concatenate([np.arange(n) for n in lengths])).to(device)
    generator = torch.Generator().manual_seed(2)
    ids = torch.randint(0, shape.vocab, (length,), generator=generator).to(device)
    labels, weights = ids.roll(-1), torch.ones(length, device=device)
    times, losses, norms, waits = [], [], [], []
    for _ in range(arguments.warm + arguments.steps):
        finish(device)
        began = time.perf_counter()
        loss = model.loss_sum(ids, positions, bounds, labels, weights) / length
        loss.backward()
        norms.append(float(nn.utils.clip_grad_norm_(model.parameters(), 1.0)))
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        finish(device)
        times.append(time.perf_counter() - began)
        losses.append(loss.item())
        if plan is not None:
            waits.append(model.workspace.copies.waited())
    seconds = sum(times[arguments.warm :]) / arguments.steps
    tflop = float(row_cost(float(length), float(attention_squares(lengths, shape).sum()), shape))
    found = {
        "arm": arm,
        "length": length,
        "seconds": seconds,
        "tokens_per_second": length / seconds,
    }
    found |= {"tflop_per_second": tflop / seconds, "loss": losses, "grad_norm": norms}
    if waits:
        found["exposed"] = sum(waits[arguments.warm :]) / arguments.steps / seconds
    if device.type == "cuda":
        found |= {
            "device": torch.cuda.get_device_name(device),
            "mfu": tflop * 1e12 / seconds / machine_of(device).peak,
            "allocated": torch.cuda.max_memory_allocated(device),
            "reserved": torch.cuda.max_memory_reserved(device),
        }
    return found


def wrap_layers(model: Decoder, arm: str) -> None:
    """Let torch checkpoint each layer: attention kept, or its input on the host."""
    keep = partial(ckpt.create_selective_checkpoint_contexts, list(ATTENTION))
    for layer in model.layers:
        clean = layer.forward

        def wrapped(*inputs: Any, _clean: Callable[..., Any] = clean) -> Any:
            if arm == "selective":
                return ckpt.checkpoint(_clean, *inputs, use_reentrant=False, context_fn=keep)
            pinned = torch.cuda.is_available()
            with torch.autograd.graph.save_on_cpu(pin_memory=pinned):
                return ckpt.checkpoint(_clean, *inputs, use_reentrant=True)

        layer.forward = wrapped


def machine_of(device: torch.device) -> Any:
    """Return the built-in profile of the device; a CPU gets that of an H100."""
    name = torch.cuda.get_device_name(device).lower() if device.type == "cuda" else "h100"
    return next((p for key, p in PROFILES.items() if key in name), PROFILES["h100"])


def finish(device: torch.device) -> None:
    """Wait for a CUDA device."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def show(found: list[dict[str, Any]]) -> None:
    """Print the table."""
    print(
        f"{'arm':<10} {'tokens':>8} {'s/step':>8} {'tokens/s':>9} {'MFU':>6} {'GB':>6} {'copies':>7} {'loss':>9} {'gradient':>9}"
    )
    for line in found:
        if "error" in line:
            print(f"{line['arm']:<10} {line['length']:>8} {line['error']}")
            continue
        mfu = f"{line['mfu']:.1%}" if "mfu" in line else "-"
        memory = f"{line['allocated'] / 1e9:.1f}" if "allocated" in line else "-"
        copies = f"{line['exposed']:.1%}" if "exposed" in line else "-"
        print(
            f"{line['arm']:<10} {line['length']:>8} {line['seconds']:>8.3f} "
            f"{line['tokens_per_second']:>9,.0f} {mfu:>6} {memory:>6} {copies:>7} "
            f"{line['loss'][-1]:>9.5f} {line['grad_norm'][-1]:>9.5f}"
        )


def agree(found: list[dict[str, Any]]) -> bool:
    """Say whether the arms of each length have the same losses and norms, to 2e-3."""
    fine = True
    for length in {line["length"] for line in found}:
        lines = [line for line in found if line["length"] == length and "error" not in line]
        for key in ("loss", "grad_norm"):
            values = np.array([line[key] for line in lines])
            with contextlib.suppress(ValueError):
                apart = float((values.max(0) / values.min(0) - 1).max())
                print(f"{length}: {key} of {len(lines)} arms agree to {apart:.1e}")
                fine = fine and apart < 2e-3
    return fine


if __name__ == "__main__":
    main()
