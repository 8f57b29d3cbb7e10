"""The decoder over packed rows against documents on their own, and against plain formulas."""

import math
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from torch.nn import functional  # noqa: E402

from packing.cost import ModelShape  # noqa: E402
from trainer.attention import document_attention  # noqa: E402
from trainer.geometry import PRESETS, weight_count  # noqa: E402
from trainer.model import Decoder  # noqa: E402
from trainer.ops import RMSNorm, rotary_table, rotate  # noqa: E402

SHAPE = ModelShape(layers=2, hidden=32, heads=4, kv_heads=2, head_dim=8, ffn=48, vocab=61)
LENGTHS = (5, 1, 9, 1, 17)


def decoder(dtype, *, tied=True, recompute=False, seed=0):
    model = Decoder(SHAPE, tied=tied, recompute=recompute, dtype=dtype)
    model.initialize(seed)
    return model


def packed(seed=0, lengths=LENGTHS):
    """Return tokens, positions, boundaries, labels and weights of one random packed row."""
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randint(0, SHAPE.vocab, (sum(lengths),), generator=generator)
    positions = torch.cat([torch.arange(n) for n in lengths])
    boundaries = [0, *torch.tensor(lengths).cumsum(0).tolist()]
    labels = torch.randint(0, SHAPE.vocab, (sum(lengths),), generator=generator)
    labels[torch.tensor(boundaries[1:]) - 1] = -100
    weights = torch.rand(sum(lengths), generator=generator, dtype=torch.float64)
    return tokens, positions, boundaries, labels, weights


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_isolation_is_exactly_zero(dtype):
    """Changing one document changes no other document's logits by a single bit."""
    model = decoder(dtype)
    tokens, positions, boundaries, _, _ = packed()
    with torch.no_grad():
        before = model.logits(model(tokens, positions, boundaries))
        for start, end in pairwise(boundaries):
            changed = tokens.clone()
            changed[start:end] = (changed[start:end] + 7) % SHAPE.vocab
            after = model.logits(model(changed, positions, boundaries))
            outside = torch.ones(len(tokens), dtype=torch.bool)
            outside[start:end] = False

            assert torch.equal(before[outside], after[outside])
            assert not torch.equal(before[~outside], after[~outside])


def test_isolation_of_gradients():
    """A document's embedding gradient contribution does not depend on the other documents."""
    model = decoder(torch.float64)
    tokens, positions, boundaries, labels, weights = packed()
    tokens = torch.arange(len(tokens)) % SHAPE.vocab  # every token once, so rows tell them apart
    start, end = boundaries[2], boundaries[3]
    only = weights.clone()
    only[:start], only[end:] = 0, 0
    model.loss_sum(tokens, positions, boundaries, labels, only).backward()
    grad = model.get_submodule("layers.0.self_attn.q_proj").weight.grad.clone()
    model.zero_grad()
    changed = tokens.clone()
    changed[:start] = (changed[:start] + 31) % SHAPE.vocab
    model.loss_sum(changed, positions, boundaries, labels, only).backward()

    assert torch.equal(grad, model.get_submodule("layers.0.self_attn.q_proj").weight.grad)


@pytest.mark.parametrize("tied", [True, False])
def test_packed_row_equals_documents_alone(tied):
    """Forward and gradients of a packed row are those of its documents run one by one."""
    tokens, positions, boundaries, labels, weights = packed()
    together, alone = decoder(torch.float64, tied=tied), decoder(torch.float64, tied=tied)
    loss = together.loss_sum(tokens, positions, boundaries, labels, weights)
    loss.backward()
    total = torch.zeros((), dtype=torch.float64)
    for start, end in pairwise(boundaries):
        part = slice(start, end)
        one = alone.loss_sum(
            tokens[part], positions[part], [0, end - start], labels[part], weights[part]
        )
        one.backward()
        total += one.detach()

    torch.testing.assert_close(loss.detach(), total, rtol=1e-12, atol=1e-12)
    for (name, a), b in zip(together.named_parameters(), alone.parameters(), strict=True):
        scale = b.grad.abs().max()
        assert (a.grad - b.grad).abs().max() <= 1e-12 * scale, name


@settings(max_examples=30, deadline=None)
@given(lengths=st.lists(st.integers(1, 40), min_size=1, max_size=8), seed=st.integers(0, 99))
def test_any_layout_of_documents(lengths, seed):
    """Whatever the lengths, 1-token documents included, a packed row is its documents alone."""
    model = decoder(torch.float64)
    tokens, positions, boundaries, _, _ = packed(seed, lengths)
    with torch.no_grad():
        together = model(tokens, positions, boundaries)
        for start, end in pairwise(boundaries):
            part = slice(start, end)
            alone = model(tokens[part], positions[part], [0, end - start])
            torch.testing.assert_close(together[part], alone, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_recompute_equals_keep(dtype):
    """Recomputing activations changes neither the loss nor a gradient by a single bit."""
    batch = packed()
    keep, again = decoder(dtype), decoder(dtype, recompute=True)
    losses = [model.loss_sum(*batch) for model in (keep, again)]
    for loss in losses:
        loss.backward()

    assert torch.equal(*losses)
    for a, b in zip(keep.parameters(), again.parameters(), strict=True):
        assert torch.equal(a.grad, b.grad)


def test_attention_against_softmax_formula():
    """Grouped causal attention is softmax(q k / sqrt(d)) v inside each document."""
    generator = torch.Generator().manual_seed(1)
    q = torch.randn(12, 4, 8, dtype=torch.float64, generator=generator)
    k, v = (torch.randn(12, 2, 8, dtype=torch.float64, generator=generator) for _ in range(2))
    boundaries = [0, 1, 8, 8, 12]  # one empty document

    found = document_attention(q, k, v, boundaries)

    document = torch.bucketize(torch.arange(12), torch.tensor(boundaries[1:]), right=True)
    allowed = (document[:, None] == document) & torch.ones(12, 12).tril().bool()
    for head in range(4):
        scores = q[:, head] @ k[:, head // 2].T / math.sqrt(8)
        expected = scores.masked_fill(~allowed, -torch.inf).softmax(-1) @ v[:, head // 2]
        torch.testing.assert_close(found[:, head], expected, rtol=1e-12, atol=1e-12)


def test_rotary_depends_on_distance_alone():
    """The product of a turned query and key depends on the distance of their positions."""
    x = torch.randn(2, 1, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(2))

    def score(first, second):
        table = rotary_table(torch.tensor([first, second]), 8, torch.float64)
        query, key = rotate(x, table)
        return (query * key).sum()

    torch.testing.assert_close(score(3, 10), score(1003, 1010), rtol=1e-10, atol=1e-10)
    assert not torch.isclose(score(3, 10), score(3, 11))


def test_norm_against_torch():
    """RMSNorm agrees with torch's own."""
    norm, x = RMSNorm(16).double(), torch.randn(5, 16, dtype=torch.float64)
    with torch.no_grad():
        norm.weight.copy_(torch.rand(16))

    expected = functional.rms_norm(x, (16,), norm.weight, eps=1e-5)
    torch.testing.assert_close(norm(x), expected, rtol=1e-12, atol=1e-12)


def test_weights_are_float32_under_bfloat16():
    """bfloat16 is what is computed in, not what the optimizer updates."""
    model = decoder(torch.bfloat16)

    assert {p.dtype for p in model.parameters()} == {torch.float32}
    assert model(*packed()[:3]).dtype == torch.bfloat16


def test_initial_weights_follow_the_seed():
    """The same seed gives the same weights, another seed others."""
    first, second, other = (decoder(torch.float32, seed=s) for s in (5, 5, 6))

    assert torch.equal(first.head, second.head)
    assert not torch.equal(first.head, other.head)


@pytest.mark.parametrize("tied", [True, False])
def test_weight_count(tied):
    """The number of weights told before a model exists is the number it has."""
    found = sum(p.numel() for p in decoder(torch.float32, tied=tied).parameters())

    assert found == weight_count(SHAPE, tied=tied)


def test_presets_are_consistent():
    """Every preset's query heads are shared evenly by its key heads, and head_dim is even."""
    for name, shape in PRESETS.items():
        assert shape.heads % shape.kv_heads == 0, name
        assert shape.head_dim % 2 == 0, name
