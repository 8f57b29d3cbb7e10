"""Planned layers against layers whose backward pass autograd makes, and against themselves."""

import gc
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from packing.cost import ModelShape  # noqa: E402
from trainer.attention import (  # noqa: E402
    _reference_backward,
    _reference_forward,
    attention_backward,
    attention_forward,
)
from trainer.copies import EagerCopies, LazyCopies  # noqa: E402
from trainer.layout import Element, pass_bytes  # noqa: E402
from trainer.model import Decoder  # noqa: E402
from trainer.ops import (  # noqa: E402
    rms_norm,
    rms_norm_backward,
    rotary_table,
    rotate,
    rotate_backward,
    swiglu,
    swiglu_backward,
)
from trainer.plan import LayerPlan  # noqa: E402
from trainer.stash import Workspace  # noqa: E402

SHAPE = ModelShape(layers=5, hidden=32, heads=4, kv_heads=2, head_dim=8, ffn=48, vocab=61)
LENGTHS = (5, 1, 40, 1, 1, 17)
EXPERTS = ModelShape(
    layers=5,
    hidden=32,
    heads=4,
    kv_heads=2,
    head_dim=8,
    ffn=48,
    vocab=61,
    experts=6,
    active_experts=2,
    shared_experts=1,
    expert_ffn=16,
    dense_layers=1,
)
CPU = torch.device("cpu")


def plan(**values):
    """Return a plan that stores layer inputs and attention outputs, with these values replaced."""
    base = {
        "tile": 16,
        "recompute_prefix": 0.0,
        "alpha": 0.0,
        "input_stride": 1,
        "resident_layers": 1,
        "head_groups": 1,
    }
    return LayerPlan(**{**base, **values})


PLANS = [
    plan(alpha=0.5),
    plan(alpha=1.0),
    plan(resident_layers=0),
    plan(resident_layers=5, alpha=1.0),
    plan(input_stride=2),
    plan(input_stride=3, alpha=0.4, resident_layers=0),
    plan(input_stride=5, resident_layers=3),
    plan(recompute_prefix=1.0),
    plan(recompute_prefix=1.0, input_stride=2, alpha=0.4, resident_layers=2),
    plan(head_groups=2, alpha=1.0, input_stride=2),
]


def packed(lengths=LENGTHS, seed=0):
    """Return tokens, positions, boundaries, labels and weights of one random packed row."""
    generator = torch.Generator().manual_seed(seed)
    n = sum(lengths)
    tokens = torch.randint(0, SHAPE.vocab, (n,), generator=generator)
    positions = torch.cat([torch.arange(length) for length in lengths])
    boundaries = [0, *torch.tensor(lengths).cumsum(0).tolist()]
    labels = torch.randint(0, SHAPE.vocab, (n,), generator=generator)
    labels[torch.tensor(boundaries[1:]) - 1] = -100
    return tokens, positions, boundaries, labels, torch.rand(n, generator=generator)


def decoder(dtype, layers=None, copies=None, *, shape=SHAPE, seed=0):
    model = Decoder(shape, plan=layers, dtype=dtype)
    model.initialize(seed)
    if layers is not None:
        model.workspace = Workspace(CPU, copies or EagerCopies())
    return model


def gradients(model, batch):
    """Return the loss and every gradient of a new pass."""
    model.zero_grad()
    loss = model.loss_sum(*batch)
    loss.backward()
    return [loss.detach(), *(w.grad.clone() for w in model.parameters())]


def worst(found, expected):
    """Return the largest relative difference of a tensor, by its largest entry."""
    return max(
        float((a.double() - b.double()).abs().max() / b.double().abs().max())
        for a, b in zip(found, expected, strict=True)
    )


def same(found, expected):
    return all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))


@settings(max_examples=25, deadline=None)
@given(
    lengths=st.lists(st.sampled_from([1, 1, 2, 3, 9, 16, 31]), min_size=1, max_size=7),
    tile=st.integers(1, 40),
    heads=st.sampled_from([(4, 4), (4, 2), (4, 1)]),
    alpha=st.floats(0, 1),
    stride=st.integers(1, 4),
    resident=st.integers(0, 4),
    prefix=st.sampled_from([0.0, 0.5, 1.0]),
    seed=st.integers(0, 99),
)
def test_float64_gradients_are_exact(lengths, tile, heads, alpha, stride, resident, prefix, seed):
    """For any layout, 1-token documents included, and any plan: the gradients of autograd."""
    shape = ModelShape(
        layers=3, hidden=16, heads=heads[0], kv_heads=heads[1], head_dim=4, ffn=24, vocab=61
    )
    batch = packed(lengths, seed)
    chosen = plan(
        tile=tile,
        alpha=alpha,
        input_stride=stride,
        resident_layers=resident,
        recompute_prefix=prefix,
    )
    expected = gradients(decoder(torch.float64, shape=shape, seed=seed), batch)
    found = gradients(decoder(torch.float64, chosen, LazyCopies(), shape=shape, seed=seed), batch)

    for a, b in zip(found, expected, strict=True):
        assert (a - b).abs().max() <= 1e-12 * max(b.abs().max(), 1e-9)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("shape", [SHAPE, EXPERTS], ids=["dense", "experts"])
def test_gradients_of_each_dtype(seed, shape):
    """The gradients are those of autograd, to 2e-6 in float32 and to 1e-12 in float64."""
    batch = packed(seed=seed)
    for dtype, tolerance in ((torch.float32, 2e-6), (torch.float64, 1e-12)):
        expected = gradients(decoder(dtype, shape=shape, seed=seed), batch)
        found = gradients(decoder(dtype, plan(), shape=shape, seed=seed), batch)
        assert worst(found, expected) <= tolerance


@pytest.mark.parametrize("seed", range(4))
def test_bfloat16_is_as_near_to_the_truth_as_autograd(seed):
    """In bfloat16 the error against float64 is no larger than that of kept activations."""
    batch = packed((40, 1, 130, 57), seed)
    truth = gradients(decoder(torch.float64, seed=seed), batch)

    def error(layers):
        found = gradients(decoder(torch.bfloat16, layers, seed=seed), batch)
        pairs = list(zip(found, truth, strict=True))[1:]
        return sum(float((a - b).norm() / b.norm()) ** 2 for a, b in pairs)

    assert error(plan(tile=64)) <= error(None)


@pytest.mark.parametrize("shape", [SHAPE, EXPERTS], ids=["dense", "experts"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_no_plan_changes_a_bit(dtype, shape):
    """What is stored, where and how it travels changes no bit, nor does a repeated pass."""
    batch = packed()
    model = decoder(dtype, plan(), shape=shape)
    base = gradients(model, batch)

    assert same(gradients(model, batch), base)
    for chosen in PLANS:
        for copies in (EagerCopies(), LazyCopies()):
            assert same(gradients(decoder(dtype, chosen, copies, shape=shape), batch), base), chosen


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("share", [0.3, 0.5, 0.9, 1.0])
def test_prefixes_change_no_bit(dtype, share):
    """Attention of the first multiples of 512 tokens, made again, has the bits of the first time."""
    shape = ModelShape(layers=2, hidden=16, heads=2, kv_heads=1, head_dim=16, ffn=16, vocab=61)
    batch = packed((1100, 3, 1720), 5)
    base, found = (
        gradients(decoder(dtype, plan(tile=512, recompute_prefix=s), shape=shape), batch)
        for s in (0.0, share)
    )

    assert same(found, base)


def test_isolation_is_exactly_zero():
    """A document's gradients do not depend by a bit on what stands in the other documents."""
    tokens, positions, boundaries, labels, weights = packed()
    tokens = torch.arange(len(tokens)) % SHAPE.vocab
    for begin, end in pairwise(boundaries):
        only = torch.zeros_like(weights)
        only[begin:end] = weights[begin:end]
        changed = (tokens + 31) % SHAPE.vocab
        changed[begin:end] = tokens[begin:end]
        # With its own embedding row for every token, all other gradients are the document's.
        first, second = (
            gradients(
                decoder(torch.float64, plan(input_stride=2)),
                (t, positions, boundaries, labels, only),
            )
            for t in (tokens, changed)
        )
        assert same(first[2:], second[2:])
        assert torch.equal(first[0], second[0])


def test_without_gradients_nothing_is_stored():
    """Evaluation gives the loss of training and stores nothing."""
    batch = packed()
    model = decoder(torch.float32, plan())
    with torch.no_grad():
        loss = model.loss_sum(*batch)

    assert model.workspace.device_peak == model.workspace.host.peak == 0
    assert torch.equal(loss, gradients(model, batch)[0])


@pytest.mark.parametrize("chosen", [plan(), *PLANS])
@pytest.mark.parametrize(
    ("dtype", "shape"),
    [
        (torch.float32, SHAPE),
        (torch.bfloat16, SHAPE),
        (torch.float64, SHAPE),
        (torch.bfloat16, EXPERTS),
    ],
)
def test_bytes_are_as_predicted(dtype, shape, chosen):
    """The counters of device and host show what was predicted, to the byte, and then nothing."""
    batch = packed((40, 1, 700, 57))
    model = decoder(dtype, chosen, shape=shape)
    loss = model.loss_sum(*batch)
    element = Element(dtype.itemsize, max(dtype.itemsize, 4))
    expected = pass_bytes(shape, batch[2], chosen, element)

    assert (model.workspace.host.used, model.workspace.device_bytes) == (
        expected.host,
        expected.device,
    )
    loss.backward()
    assert (model.workspace.host.peak, model.workspace.device_peak) == (
        expected.host,
        expected.device,
    )
    assert (model.workspace.host.used, model.workspace.device_bytes) == (0, 0)


def test_two_passes_before_their_backward_passes():
    """Passes that are alive at once do not meet in memory."""
    first, second = packed(seed=1), packed((3, 70), seed=2)
    chosen = plan(alpha=0.5, input_stride=2)
    apart = decoder(torch.float64, chosen)
    expected = [
        a + b for a, b in zip(gradients(apart, first), gradients(apart, second), strict=True)
    ]
    model = decoder(torch.float64, chosen, LazyCopies())
    losses = [model.loss_sum(*batch) for batch in (first, second)]
    for loss in losses:
        loss.backward()

    found = [losses[0].detach() + losses[1].detach(), *(w.grad for w in model.parameters())]
    assert worst(found, expected) <= 1e-12


def test_a_pass_that_is_dropped_gives_its_memory_back():
    """A loss whose backward pass never comes leaves nothing taken."""
    model = decoder(torch.float32, plan())
    loss = model.loss_sum(*packed())
    assert model.workspace.host.used > 0
    del loss
    gc.collect()

    assert (model.workspace.host.used, model.workspace.device_bytes) == (0, 0)


def test_a_second_backward_pass_is_refused():
    """Stored tensors serve one backward pass; a second one says so."""
    loss = decoder(torch.float32, plan()).loss_sum(*packed())
    loss.backward(retain_graph=True)

    with pytest.raises(RuntimeError, match="second backward pass through planned layers"):
        loss.backward()


def test_frozen_weights_have_no_gradient():
    """A weight that wants no gradient gets none, and the others get theirs."""
    batch = packed()
    expected = gradients(decoder(torch.float64, plan()), batch)
    model = decoder(torch.float64, plan())
    frozen = [name for name, _ in model.named_parameters() if "q_proj" in name or "norm" in name]
    for name in frozen:
        model.get_parameter(name).requires_grad_(False)
    model.loss_sum(*batch).backward()

    for (name, weight), grad in zip(model.named_parameters(), expected[1:], strict=True):
        if name in frozen:
            assert weight.grad is None
        else:
            assert torch.equal(weight.grad, grad), name


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_cpu_attention_against_the_formula(dtype, groups):
    """Output, log denominators and gradients of the CPU kernel are those of the formula."""
    generator = torch.Generator().manual_seed(3)
    boundaries = [0, 1, 30, 30, 1200]
    n = boundaries[-1]
    q, d_out = (torch.randn(n, 4, 8, dtype=dtype, generator=generator) for _ in range(2))
    k, v = (torch.randn(n, 2, 8, dtype=dtype, generator=generator) for _ in range(2))
    out, lse = torch.empty_like(q), torch.empty(n, 4, dtype=dtype)
    spans = list(pairwise(boundaries))
    attention_forward(q, k, v, spans, out, lse)
    found = attention_backward(d_out, (q, k, v, out, lse), boundaries, groups)
    tolerance = 1e-12 if dtype == torch.float64 else 1e-5

    for begin, end in ((b, e) for b, e in spans if e > b):
        part = [x[begin:end].transpose(0, 1).unsqueeze(0).double() for x in (q, k, v)]
        o, sums = _reference_forward(*part)
        upstream = d_out[begin:end].transpose(0, 1).unsqueeze(0).double()
        expected = _reference_backward(upstream, *part, o, sums)
        pairs = [(out, o), (lse, sums), *zip(found, expected, strict=True)]
        for a, b in pairs:
            whole = a[begin:end].double()
            torch.testing.assert_close(whole, b[0].transpose(0, 1), rtol=tolerance, atol=tolerance)


def test_reference_attention_against_autograd():
    """The formula's own gradients are those of autograd through a plain softmax."""
    generator = torch.Generator().manual_seed(4)
    q = torch.randn(1, 4, 9, 8, dtype=torch.float64, generator=generator, requires_grad=True)
    k, v = (
        torch.randn(1, 2, 9, 8, dtype=torch.float64, generator=generator, requires_grad=True)
        for _ in range(2)
    )
    scores = q @ k.repeat_interleave(2, 1).transpose(-1, -2) / 8**0.5
    scores = scores.masked_fill(torch.ones(9, 9).triu(1).bool(), -torch.inf)
    out = scores.softmax(-1) @ v.repeat_interleave(2, 1)
    d_out = torch.randn(out.shape, dtype=torch.float64, generator=generator)
    expected = torch.autograd.grad(out, (q, k, v), d_out)
    with torch.no_grad():
        found, lse = _reference_forward(q, k, v)
        grads = _reference_backward(d_out, q, k, v, found, lse)

    torch.testing.assert_close(found, out.detach(), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(grads, expected, rtol=1e-11, atol=1e-12)


def test_gradients_of_the_operations():
    """Norm, rotation and SwiGLU go backward as autograd would take them."""
    generator = torch.Generator().manual_seed(6)
    x, y, d_out = (
        torch.randn(7, 2, 8, dtype=torch.float64, generator=generator, requires_grad=True)
        for _ in range(3)
    )
    weight = torch.rand(8, dtype=torch.float64, generator=generator, requires_grad=True)
    table = rotary_table(torch.arange(7), 8, torch.float64)
    d = d_out.detach()

    expected = torch.autograd.grad(rotate(x, table), x, d)
    torch.testing.assert_close((rotate_backward(d, table),), expected, rtol=1e-12, atol=1e-12)
    expected = torch.autograd.grad(swiglu(x, y), (x, y), d)
    torch.testing.assert_close(swiglu_backward(x, y, d), expected, rtol=1e-12, atol=1e-12)
    flat, d_flat = x.flatten(0, 1), d.flatten(0, 1)
    expected = torch.autograd.grad(rms_norm(flat, weight), (flat, weight), d_flat)
    found = rms_norm_backward(flat, weight, d_flat)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
