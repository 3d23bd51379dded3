"""Clipping against PyTorch's, of gradients and inside a step."""

from __future__ import annotations

import numpy as np
import pytest

from pyrite import optim
from pyrite.autodiff import autodiff
from pyrite.errors import ArgumentError
from pyrite.synchronization import no_sync
from pyrite.tensor.creation import tensor

torch = pytest.importorskip("torch")


def arrays(problem, gradients) -> list[np.ndarray]:
    return [gradients[p].numpy() for p in problem.net.parameters()]


def as_torch(problem, gradients):
    weights = [torch.tensor(p.numpy(), requires_grad=True) for p in problem.net.parameters()]
    for weight, g in zip(weights, arrays(problem, gradients), strict=True):
        weight.grad = torch.tensor(g)
    return weights


@pytest.mark.parametrize("limit", [0.01, 0.1, 1e6])
def test_the_global_norm_is_pytorchs(problem64, limit):
    gradients = problem64.gradients(problem64.net)
    weights = as_torch(problem64, gradients)
    want = torch.nn.utils.clip_grad_norm_(weights, limit).item()
    clipped, norm = optim.clip_by_global_norm(gradients, limit)
    assert norm.item() == pytest.approx(want, rel=1e-12)
    for ours, weight in zip(arrays(problem64, clipped), weights, strict=True):
        np.testing.assert_allclose(ours, weight.grad.numpy(), rtol=1e-12)


def test_the_norm_of_each_tensor_is_clipped_alone(problem64):
    gradients = problem64.gradients(problem64.net)
    weights = as_torch(problem64, gradients)
    for weight in weights:
        torch.nn.utils.clip_grad_norm_([weight], 0.1)
    clipped = optim.clip_by_norm(gradients, 0.1)
    for ours, weight in zip(arrays(problem64, clipped), weights, strict=True):
        np.testing.assert_allclose(ours, weight.grad.numpy(), rtol=1e-12)


def test_values_are_clipped_to_both_sides(problem64):
    gradients = problem64.gradients(problem64.net)
    weights = as_torch(problem64, gradients)
    torch.nn.utils.clip_grad_value_(weights, 0.05)
    clipped = optim.clip_by_value(gradients, 0.05)
    for ours, weight in zip(arrays(problem64, clipped), weights, strict=True):
        np.testing.assert_array_equal(ours, weight.grad.numpy())


@pytest.mark.parametrize("by", ["value", "norm", "global_norm"])
def test_an_optimiser_clips_as_the_functions_do(problem64, by):
    function = {
        "value": optim.clip_by_value,
        "norm": optim.clip_by_norm,
        "global_norm": lambda g, limit: optim.clip_by_global_norm(g, limit)[0],
    }[by]
    gradients = problem64.gradients(problem64.net)
    inside = optim.SGD(0.1).with_clipping(**{by: 0.07}).step(problem64.net, gradients)
    before = optim.SGD(0.1).step(problem64.net, function(gradients, 0.07))
    for a, b in zip(inside.parameters(), before.parameters(), strict=True):
        # A norm of all adds up in the order of the parameters, or in that of the gradients.
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-14)


def test_the_norm_before_clipping_is_kept_without_waiting(problem64):
    optimizer = optim.SGD(0.1).with_clipping(global_norm=0.01)
    gradients = problem64.gradients(problem64.net)
    assert optimizer.gradient_norm is None
    with no_sync():
        optimizer.step(problem64.net, gradients)
        optim.clip_by_global_norm(gradients, 1.0)
        optim.clip_by_norm(gradients, 1.0)
        optim.clip_by_value(gradients, 1.0)
    want = optim.global_norm(list(gradients)).item()
    assert optimizer.gradient_norm.item() == pytest.approx(want, rel=1e-14)
    assert want > 0.01


def test_frozen_parameters_have_no_part_in_the_norm(problem64):
    gradients = problem64.gradients(problem64.net)
    optimizer = optim.SGD(0.1).with_clipping(global_norm=1.0)
    optimizer.step(problem64.net.freeze("hidden.*"), gradients)
    out = problem64.net.out
    want = optim.global_norm([gradients[out.weight], gradients[out.bias]])
    assert optimizer.gradient_norm.item() == pytest.approx(want.item())


def test_a_group_whose_rule_clips_is_clipped_by_itself(problem64):
    gradients = problem64.gradients(problem64.net)
    optimizer = (
        optim.SGD(1.0)
        .with_clipping(global_norm=0.01)
        .with_group("out.*", optimizer=optim.SGD(1.0).with_clipping(value=0.02))
    )
    after = optimizer.step(problem64.net, gradients)
    net = problem64.net
    g = gradients[net.out.weight].numpy()
    move = after.out.weight.numpy() - net.out.weight.numpy()
    np.testing.assert_allclose(move, -np.clip(g, -0.02, 0.02), rtol=1e-9)
    moves = [
        after.hidden.weight.numpy() - net.hidden.weight.numpy(),
        after.hidden.bias.numpy() - net.hidden.bias.numpy(),
    ]
    norm = np.sqrt(sum((m**2).sum() for m in moves))
    assert norm == pytest.approx(0.01, rel=1e-3)


def test_float16_norms_do_not_overflow():
    w = tensor([300.0, 400.0], dtype="float16", device=autodiff()).require_grad()
    gradients = (w * w).sum().backward()
    clipped, norm = optim.clip_by_global_norm(gradients, 1.0)
    assert norm.item() == pytest.approx(1000.0)
    assert clipped[w].dtype.name == "float16"
    np.testing.assert_allclose(clipped[w].numpy().astype(float), [0.6, 0.8], rtol=1e-3)


def test_a_norm_of_zero_and_of_nothing():
    w = tensor([0.0, 0.0], device=autodiff()).require_grad()
    clipped, norm = optim.clip_by_global_norm((w * w).sum().backward(), 1.0)
    assert norm.item() == 0.0
    np.testing.assert_array_equal(clipped[w].numpy(), [0.0, 0.0])
    assert optim.global_norm([]).item() == 0.0


def test_limits_are_checked():
    with pytest.raises(ArgumentError, match=r"Clipping requires limit > 0, got limit=0.0"):
        optim.SGD().with_clipping(norm=0.0)
    with pytest.raises(ArgumentError, match="one of value, norm and global_norm, got 2"):
        optim.SGD().with_clipping(norm=1.0, value=1.0)
    with pytest.raises(ArgumentError, match="got 0"):
        optim.SGD().with_clipping()
