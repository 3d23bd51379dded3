"""Normalisation layers against PyTorch's; what batch norm emits, once and through checkpoints."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyrite import nn
from pyrite.autodiff import Gradients, autodiff, checkpoint, no_grad, value_and_grad
from pyrite.errors import ArgumentError, ShapeError
from pyrite.tensor.creation import full, tensor
from pyrite.tensor.parameter import State
from pyrite.tensor.stream import random_stream
from pyrite.tensor.tensor import Tensor
from pyrite.tensor.tree import tree_map

torch = pytest.importorskip("torch")

rng = np.random.default_rng(0)


def committed(module: Any, grads: Any) -> Any:
    """Return the module with the states that its forward pass emitted, as an optimiser does."""

    def renewed(t: Any) -> Any:
        is_new = isinstance(t, State) and t.id in grads.updates
        return t.with_value(grads.updates[t.id]) if is_new else t

    return tree_map(renewed, module)


@pytest.mark.parametrize(
    ("ours", "theirs", "shape"),
    [
        (lambda: nn.BatchNorm(4), lambda: torch.nn.BatchNorm1d(4), (5, 4)),
        (lambda: nn.BatchNorm(4), lambda: torch.nn.BatchNorm1d(4), (5, 4, 3)),
        (
            lambda: nn.BatchNorm(4, affine=False),
            lambda: torch.nn.BatchNorm2d(4, affine=False),
            (3, 4, 2, 3),
        ),
        (
            lambda: nn.BatchNorm3d(4, eps=0.1),
            lambda: torch.nn.BatchNorm3d(4, eps=0.1),
            (2, 4, 2, 3, 2),
        ),
        (
            lambda: nn.BatchNorm(4, track_running_stats=False),
            lambda: torch.nn.BatchNorm1d(4, track_running_stats=False),
            (5, 4),
        ),
        (lambda: nn.LayerNorm(5), lambda: torch.nn.LayerNorm(5), (2, 3, 5)),
        (
            lambda: nn.LayerNorm((3, 5), bias=False),
            lambda: torch.nn.LayerNorm((3, 5), bias=False),
            (2, 3, 5),
        ),
        (
            lambda: nn.LayerNorm(5, elementwise_affine=False),
            lambda: torch.nn.LayerNorm(5, elementwise_affine=False),
            (2, 5),
        ),
        (lambda: nn.RMSNorm(5), lambda: torch.nn.RMSNorm(5), (2, 3, 5)),
        (lambda: nn.RMSNorm((3, 5), eps=0.1), lambda: torch.nn.RMSNorm((3, 5), eps=0.1), (2, 3, 5)),
        (lambda: nn.GroupNorm(2, 6), lambda: torch.nn.GroupNorm(2, 6), (2, 6, 3)),
        (lambda: nn.InstanceNorm(4), lambda: torch.nn.InstanceNorm2d(4), (2, 4, 3, 3)),
        (
            lambda: nn.InstanceNorm(4, affine=True),
            lambda: torch.nn.InstanceNorm1d(4, affine=True),
            (2, 4, 6),
        ),
        (
            lambda: nn.LocalResponseNorm(3, alpha=0.1, k=2.0),
            lambda: torch.nn.LocalResponseNorm(3, alpha=0.1, k=2.0),
            (2, 6, 3),
        ),
    ],
)
@pytest.mark.parametrize("training", [True, False])
def test_it_does_as_pytorchs(
    agrees: Any, ours: Any, theirs: Any, shape: tuple[int, ...], training: bool
) -> None:
    other = theirs()
    with torch.no_grad():
        for p in (*other.parameters(), *other.buffers()):
            if p.is_floating_point():
                p.uniform_(0.5, 1.5)
    agrees(ours(), other, rng.standard_normal(shape) * 2 + 1, training=training, rtol=1e-8)


@pytest.mark.parametrize("momentum", [0.1, 0.0, 1.0, None])
def test_running_statistics_are_pytorchs_over_several_steps(momentum: float | None) -> None:
    theirs = torch.nn.BatchNorm2d(3, momentum=momentum).double()
    ours = nn.BatchNorm(3, momentum=momentum, dtype="float64")
    for step in range(1, 5):
        x = rng.standard_normal((4, 3, 2, 2)) * step
        theirs(torch.tensor(x))
        _, grads = value_and_grad(lambda m, x: m(x).sum())(ours, tensor(x))
        assert len(grads.updates) == 3
        ours = committed(ours, grads)
        np.testing.assert_allclose(ours.running_mean.numpy(), theirs.running_mean.numpy())
        np.testing.assert_allclose(ours.running_var.numpy(), theirs.running_var.numpy())
        assert ours.num_batches_tracked.item() == step
    x = rng.standard_normal((4, 3, 2, 2))
    want = theirs.eval()(torch.tensor(x)).detach().numpy()
    np.testing.assert_allclose(ours(tensor(x)).numpy(), want, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("momentum", [0.3, None])
def test_a_layer_that_is_called_twice_renews_its_statistics_twice(momentum: float | None) -> None:
    theirs = torch.nn.BatchNorm1d(2, momentum=momentum, dtype=torch.float64)
    ours = nn.BatchNorm(2, momentum=momentum, dtype="float64")
    x = rng.standard_normal((2, 6, 2)) + 3
    inner = theirs(torch.tensor(x[0]))
    theirs(theirs(torch.tensor(x[1])) * inner)

    def loss(m: nn.BatchNorm) -> Tensor:
        inner = m(tensor(x[0]))
        return m(m(tensor(x[1])) * inner).sum()

    for wrap in (loss, checkpoint(loss)):
        _, grads = value_and_grad(wrap)(ours)
        after = committed(ours, grads)
        np.testing.assert_allclose(after.running_mean.numpy(), theirs.running_mean.numpy())
        np.testing.assert_allclose(after.running_var.numpy(), theirs.running_var.numpy())
        assert after.num_batches_tracked.item() == 3


def test_accumulated_batches_renew_the_statistics_one_after_another() -> None:
    theirs, ours = torch.nn.BatchNorm1d(2, dtype=torch.float64), nn.BatchNorm(2, dtype="float64")
    x = rng.standard_normal((2, 6, 2)) + 3
    parts = []
    for batch in x:
        theirs(torch.tensor(batch))
        parts.append(value_and_grad(lambda m, b: m(b).sum())(ours, tensor(batch))[1])
    after = committed(ours, (parts[0] + parts[1]) / 2)
    np.testing.assert_allclose(after.running_mean.numpy(), theirs.running_mean.numpy())
    assert after.num_batches_tracked.item() == 2


def test_a_forward_pass_changes_nothing_and_evaluation_emits_nothing() -> None:
    layer = nn.BatchNorm(2)
    x = tensor(rng.standard_normal((5, 2)).astype(np.float32))
    _, grads = value_and_grad(lambda m: m(x).sum())(layer)
    assert grads.updates
    np.testing.assert_array_equal(layer.running_mean.numpy(), [0, 0])
    _, grads = value_and_grad(lambda m: m(x).sum(), training=False)(layer)
    assert not grads.updates


def test_training_off_the_tape_normalises_by_the_batch() -> None:
    x = tensor(rng.standard_normal((50, 2)).astype(np.float32) * 3 + 7)
    out = nn.BatchNorm(2).with_training(True)(x).numpy()
    np.testing.assert_allclose(out.mean(0), [0, 0], atol=1e-5)
    tracked = nn.BatchNorm(2).to(autodiff())
    with no_grad():
        np.testing.assert_allclose(tracked(x).numpy(), out, rtol=1e-5, atol=1e-6)


def test_frozen_batch_norm_in_training_still_emits() -> None:
    net = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm(2).freeze())
    x = tensor(rng.standard_normal((5, 3)).astype(np.float32))
    _, grads = value_and_grad(lambda m: (m(x) ** 2).sum())(net)
    assert net[1].weight not in grads
    assert net[0].weight in grads
    assert len(grads.updates) == 3


def block() -> nn.Module:
    with random_stream(2):
        return nn.Sequential(
            nn.Conv2d(2, 4, 3, padding=1, dtype="float64"),
            nn.BatchNorm(4, dtype="float64"),
            nn.GELU(),
            nn.Dropout(0.3),
            nn.Conv2d(4, 2, 3, dtype="float64"),
        )


def test_a_checkpoint_around_batch_norm_and_dropout_is_exact_and_emits_once() -> None:
    net = block()
    x = tensor(rng.standard_normal((3, 2, 5, 5)))

    def run(wrap: Any) -> Any:
        with random_stream(7):
            return value_and_grad(lambda m, x: (wrap(m)(x) ** 2).sum(), (0, 1))(net, x)

    value, (grads, of_x) = run(lambda m: m)
    again, (grads_again, of_x_again) = run(checkpoint)
    assert value.item() == again.item()
    np.testing.assert_array_equal(of_x.numpy(), of_x_again.numpy())
    for p in net.parameters():
        np.testing.assert_array_equal(grads[p].numpy(), grads_again[p].numpy())
    assert grads.updates.keys() == grads_again.updates.keys()
    assert len(grads.updates) == 3
    for key, update in grads.updates.items():
        np.testing.assert_array_equal(update.numpy(), grads_again.updates[key].numpy())
    assert committed(net, grads_again)[1].num_batches_tracked.item() == 1


def test_parallel_steps_average_the_statistics() -> None:
    layer = nn.BatchNorm(3)
    parts = rng.standard_normal((2, 6, 3)).astype(np.float32)
    both = [value_and_grad(lambda m, x: m(x).sum())(layer, tensor(x))[1] for x in parts]
    mean = committed(layer, Gradients.mean(both))
    np.testing.assert_allclose(mean.running_mean.numpy(), 0.1 * parts.mean((0, 1)), rtol=1e-5)
    assert mean.num_batches_tracked.item() == 1
    assert mean.num_batches_tracked.dtype.name == "int32"


def test_half_precision_keeps_statistics_in_their_own_dtype() -> None:
    layer = nn.BatchNorm(2)
    x = tensor(rng.standard_normal((8, 2)).astype(np.float16))
    _, grads = value_and_grad(lambda m: m(x).sum())(layer)
    assert grads.updates[layer.running_mean.id].dtype.name == "float32"
    rms = nn.RMSNorm(2, elementwise_affine=False)
    assert rms(x).dtype.name == "float16"
    np.testing.assert_allclose(rms(tensor([3, 4])).numpy(), [0.8485, 1.1314], rtol=1e-4)


def test_normalization_by_name() -> None:
    x = full((2, 4, 4), 1.0)
    for name, options in [
        ("batch", {}), ("group", {"num_groups": 2}), ("identity", {}), ("instance", {}),
        ("layer", {}), ("rms", {"eps": 1e-5}),
    ]:  # fmt: skip
        assert nn.Normalization(name, 4, **options)(x).shape == x.shape
    with pytest.raises(ArgumentError, match=r"one of batch, group, .*, rms, got 'spectral'"):
        nn.Normalization("spectral", 4)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: nn.BatchNorm(0), ArgumentError, "BatchNorm requires num_features >= 1, got 0"),
        (lambda: nn.BatchNorm(2, momentum=2.0), ArgumentError, "0 <= momentum <= 1, got 2.0"),
        (lambda: nn.GroupNorm(2, 3), ArgumentError, "multiple of num_groups, got 3 and 2"),
        (lambda: nn.LayerNorm(()), ArgumentError, "LayerNorm requires at least one size"),
        (
            lambda: nn.BatchNorm(3)(full((2, 4), 0.0)),
            ShapeError,
            r"x of shape \(N, 3, ...\), got \(2, 4\)",
        ),
        (
            lambda: nn.BatchNorm(3).with_training(True)(full((1, 3), 0.0)),
            ShapeError,
            r"more than one value per channel in training, got \(1, 3\)",
        ),
        (
            lambda: nn.LayerNorm((3, 2))(full((2, 3), 0.0)),
            ShapeError,
            r"LayerNorm requires x of shape \(..., 3, 2\), got \(2, 3\)",
        ),
    ],
)
def test_errors(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()
