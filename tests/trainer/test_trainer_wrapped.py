"""Planned layers under PyTorch's own data parallel wrappers, in two processes."""

import subprocess
import sys

import pytest

pytest.importorskip("torch")

PROGRAM = """
import sys

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from packing.cost import ModelShape
from trainer.model import Decoder
from trainer.plan import LayerPlan

SHAPE = ModelShape(layers=4, hidden=32, heads=4, kv_heads=2, head_dim=8, ffn=48, vocab=61)


class Loss(torch.nn.Module):
    def __init__(self, stride):
        super().__init__()
        plan = LayerPlan(
            tile=16,
            recompute_prefix=0.0,
            alpha=0.5,
            input_stride=stride,
            resident_layers=1,
            head_groups=1,
        )
        self.model = Decoder(SHAPE, plan=plan, dtype=torch.float64)
        self.model.initialize(0)

    def forward(self, seed):
        generator = torch.Generator().manual_seed(seed)
        tokens, labels = torch.randint(0, SHAPE.vocab, (2, 40), generator=generator)
        positions = torch.cat([torch.arange(25), torch.arange(15)])
        return self.model.loss_sum(tokens, positions, [0, 25, 40], labels, torch.ones(40))


def check(what, loss, expected):
    for (name, weight), grad in zip(loss.named_parameters(), expected, strict=True):
        found = getattr(weight.grad, "full_tensor", lambda w=weight: w.grad)()
        if not torch.allclose(found, grad, rtol=1e-12, atol=1e-12):
            sys.exit(f"{what}: {name} differs")
    print(what, "equal", flush=True)


torch.set_num_threads(1)
dist.init_process_group("gloo", init_method="file://" + sys.argv[1], rank=int(sys.argv[2]), world_size=2)
rank = dist.get_rank()
for stride in (1, 2):
    alone = Loss(stride)
    for seed in range(2):
        (alone(seed) / 2).backward()
    expected = [weight.grad for weight in alone.parameters()]

    replicated = Loss(stride)
    wrapper = DistributedDataParallel(replicated)
    wrapper(rank).backward()
    check(f"DDP {stride}", replicated, expected)

    sharded, mesh = Loss(stride), init_device_mesh("cpu", (2,))
    layers = sharded.model.layers
    for first in range(0, len(layers), stride):
        fully_shard(list(layers[first : first + stride]), mesh=mesh)
    fully_shard(sharded, mesh=mesh)
    for _ in range(2):
        sharded.zero_grad()
        sharded(rank).backward()
    check(f"FSDP2 {stride}", sharded, expected)
dist.destroy_process_group()
"""


def test_wrappers_give_the_gradients_of_one_process(tmp_path):
    """DDP and FSDP2 around planned layers average what one process would have made."""
    program = tmp_path / "wrapped.py"
    program.write_text(PROGRAM)
    command = [sys.executable, "-W", "ignore", str(program), str(tmp_path / "meeting")]
    processes = [
        subprocess.Popen([*command, str(rank)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        for rank in range(2)
    ]
    for process in processes:
        output = process.communicate(timeout=120)[0].decode()
        assert process.returncode == 0, output
        assert output.count("equal") == 4
