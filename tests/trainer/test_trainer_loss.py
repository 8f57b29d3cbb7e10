"""The chunked head loss against torch's cross entropy over all logits."""

import pytest

torch = pytest.importorskip("torch")

from torch.nn import functional  # noqa: E402

from trainer import loss as loss_module  # noqa: E402
from trainer.loss import head_loss  # noqa: E402


def problem(tokens=37, width=8, vocab=29, dtype=torch.float64):
    generator = torch.Generator().manual_seed(3)
    hidden = torch.randn(tokens, width, dtype=dtype, generator=generator, requires_grad=True)
    head = torch.randn(vocab, width, dtype=dtype, generator=generator, requires_grad=True)
    labels = torch.randint(0, vocab, (tokens,), generator=generator)
    labels[::5] = -100
    weights = torch.rand(tokens, dtype=dtype, generator=generator)
    weights[::7] = 0
    return hidden, head, labels, weights


def reference(hidden, head, labels, weights):
    each = functional.cross_entropy(hidden @ head.T, labels, ignore_index=-100, reduction="none")
    return (each * weights).sum()


@pytest.mark.parametrize("chunk", [1, 7, 30, 1024])
def test_value_and_gradients(monkeypatch, chunk):
    """For any chunk, last and partial ones included, loss and both gradients are the reference's."""
    monkeypatch.setattr(loss_module, "CHUNK_TOKENS", chunk)
    inputs = problem()
    found = head_loss(*inputs)
    expected = reference(*inputs)
    grads = torch.autograd.grad(3 * found, inputs[:2])
    expected_grads = torch.autograd.grad(3 * expected, inputs[:2])

    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(grads, expected_grads, rtol=1e-12, atol=1e-12)


def test_nothing_trained():
    """A batch without a trained token has loss 0 and gradients 0."""
    hidden, head, labels, weights = problem()
    loss = head_loss(hidden, head, torch.full_like(labels, -100), weights)
    loss.backward()

    assert loss.item() == 0
    assert not hidden.grad.any()
    assert not head.grad.any()


def test_bfloat16_sums_in_float32():
    """In bfloat16 the loss itself is float32 and near the exact one."""
    hidden, head, labels, weights = problem(dtype=torch.float32)
    loss = head_loss(hidden.bfloat16(), head, labels, weights)

    assert loss.dtype == torch.float32
    torch.testing.assert_close(loss, reference(hidden, head, labels, weights), rtol=2e-2, atol=0)


def test_logits_never_exist_at_once(monkeypatch):
    """No tensor of all tokens by the vocabulary is made, forward or backward."""
    monkeypatch.setattr(loss_module, "CHUNK_TOKENS", 8)
    seen = []

    class Sizes(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            out = func(*args, **(kwargs or {}))
            if isinstance(out, torch.Tensor):
                seen.append(out.numel())
            return out

    inputs = problem(tokens=64, vocab=100, width=4)
    with Sizes():
        head_loss(*inputs).backward()

    assert max(seen) <= 8 * 100
