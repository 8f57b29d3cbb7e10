#!/usr/bin/env python3
"""The trainer's loss beside that of transformers' Llama: same rows, order, weights, optimizer.

The reference shares nothing with the trainer but the first weights and the reader's rows: its model,
its attention under a mask of documents, its loss from whole logits and its schedule are written here
or come from transformers. The losses of both are printed side by side.
"""

import argparse
import json
import math
import resource
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from packing.reader import PackedReader
from trainer.cli import main as drystone_train
from trainer.config import TrainerConfig, load_config
from trainer.model import Decoder

CONFIG = """
dataset = "{dataset}"
out = "{out}"
seed = 7
device = "cpu"
[model]
preset = "20m"
layers = {layers}
[training]
steps = {steps}
clip = 1.0
[optimizer]
lr = 0.001
weight_decay = 0.1
betas = [0.9, 0.95]
[lr_scheduler]
warmup_steps = 30
decay = "cosine"
min_lr = 0.0001
[checkpoint]
interval = 100000
keep_latest_k = 1
"""


def main() -> None:
    """Train both and print their losses."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dataset", help="folder of a packed dataset")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--layers", type=int, default=11, help="11 make 20 M with 8,192 tokens")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", type=Path, help="write every loss here")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "train.toml"
        text = CONFIG.format(out=f"{scratch}/out", **vars(arguments))
        path.write_text(text, encoding="utf-8")
        config = load_config(path)
        began = cpu_seconds()
        if drystone_train([str(path)]):
            raise SystemExit("drystone train failed")
        ours_cpu = cpu_seconds() - began
        lines = (Path(scratch) / "out" / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
        ours = [json.loads(line)["loss"] for line in lines]
    began = cpu_seconds()
    theirs = list(reference(config))
    report(config, np.array(ours), np.array(theirs), ours_cpu, cpu_seconds() - began)
    if arguments.json:
        arguments.json.write_text(json.dumps({"drystone": ours, "transformers": theirs}))


def reference(config: TrainerConfig) -> Iterator[float]:
    """Train transformers' Llama on the rows of the plan, a step at a time; give the losses."""
    with PackedReader(config.dataset) as reader:
        model = llama(config, reader.vocab_size)
        optimizer = torch.optim.AdamW(
            [
                {"params": [w for w in model.parameters() if w.dim() > 1]},
                {"params": [w for w in model.parameters() if w.dim() == 1], "weight_decay": 0.0},
            ],
            lr=config.optimizer.lr,
            betas=config.optimizer.betas,
            weight_decay=config.optimizer.weight_decay,
        )
        for step in range(config.training.steps):
            began = time.perf_counter()
            micro = reader.micro_batches(step % reader.n_steps)
            loss = sum_of_losses(model, micro) / sum(float(m.loss_weights.sum()) for m in micro)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), config.training.clip)
            for group in optimizer.param_groups:
                group["lr"] = rate(config, step)
            optimizer.step()
            optimizer.zero_grad()
            if step % 10 == 0:
                print(
                    f"transformers: step {step}  loss {loss:.4f}  {time.perf_counter() - began:.1f} s",
                    flush=True,
                )
            yield loss.item()


def llama(config: TrainerConfig, vocab: int) -> Any:
    """Return transformers' model with the weights that the trainer begins with."""
    from transformers import LlamaConfig, LlamaForCausalLM

    shape = config.model.shape(vocab)
    first = Decoder(shape)
    first.initialize(config.seed)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=vocab,
            hidden_size=shape.hidden,
            intermediate_size=shape.ffn,
            num_hidden_layers=shape.layers,
            num_attention_heads=shape.heads,
            num_key_value_heads=shape.kv_heads,
            head_dim=shape.head_dim,
            rms_norm_eps=1e-5,
            rope_parameters={"rope_type": "default", "rope_theta": 500_000.0},
            tie_word_embeddings=True,
            attn_implementation="sdpa",
        )
    )
    state = {f"model.{name}": weight for name, weight in first.state_dict().items()}
    missing, unknown = model.load_state_dict(state, strict=False)
    if unknown or set(missing) - {"lm_head.weight"}:
        raise SystemExit(f"weights do not match: missing {missing}, unknown {unknown}")
    model.tie_weights()
    return model.train()


def sum_of_losses(model: Any, micro_batches: list[Any]) -> torch.Tensor:
    """Return the weighted sum of the losses of a step; no token sees another document."""
    total = torch.zeros(())
    for micro in micro_batches:
        bounds = torch.from_numpy(micro.cu_seqlens).long()
        document = torch.repeat_interleave(torch.arange(len(bounds) - 1), bounds.diff())
        order = torch.arange(len(document))
        sees = (document[:, None] == document[None]) & (order[:, None] >= order[None])
        logits = model(
            input_ids=torch.from_numpy(micro.input_ids.astype("int64"))[None],
            position_ids=torch.from_numpy(micro.position_ids.astype("int64"))[None],
            attention_mask=sees[None, None],
            use_cache=False,
        ).logits[0]
        labels = torch.from_numpy(micro.labels.astype("int64"))
        each = functional.cross_entropy(logits, labels, reduction="none")
        total = total + (each * torch.from_numpy(micro.loss_weights)).sum()
    return total


def rate(config: TrainerConfig, step: int) -> float:
    """Return the learning rate of a step: a linear warm-up, then a cosine."""
    peak, warmup = config.optimizer.lr, config.lr_scheduler.warmup_steps
    if step < warmup:
        return peak * (step + 1) / warmup
    done = (step + 1 - warmup) / (config.training.steps + 1 - warmup)
    low = config.lr_scheduler.min_lr
    return low + (peak - low) * (1 + math.cos(math.pi * done)) / 2


def report(
    config: TrainerConfig, ours: Any, theirs: Any, ours_cpu: float, theirs_cpu: float
) -> None:
    """Print the curves side by side, and how far they are apart."""
    print(f"{'step':>6} {'drystone':>10} {'transformers':>13} {'apart':>9}")
    every = max(1, len(ours) // 15)
    for step in sorted({*range(0, len(ours), every), len(ours) - 1}):
        apart = abs(ours[step] / theirs[step] - 1)
        print(f"{step:>6} {ours[step]:>10.4f} {theirs[step]:>13.4f} {apart:>9.2%}")
    last = slice(-max(1, len(ours) // 10), None)
    mean, other = ours[last].mean(), theirs[last].mean()
    print(f"mean of the last tenth: {mean:.4f} and {other:.4f}, {abs(mean / other - 1):.3%} apart")
    print(f"the most that one step is apart: {np.abs(ours / theirs - 1).max():.3%}")
    print(f"CPU seconds: drystone {ours_cpu:.0f}, transformers {theirs_cpu:.0f}")


def cpu_seconds() -> float:
    """Return the processor time of this process."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
