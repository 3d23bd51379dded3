"""A backend that runs composites whole is really asked to, also in training; only speed changes."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from pyrite.autodiff import Autodiff, grad, value_and_grad
from pyrite.backend.device import BACKENDS
from pyrite.backend.numpy import NumPy
from pyrite.backend.protocol import Backend, implements, unknown_implementations
from pyrite.tensor.creation import tensor
from pyrite.tensor.tensor import Tensor


class Native(NumPy):
    """NumPy with softmax and layer norm, forward and backward, in one piece each."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()

    @implements("softmax")
    def softmax(self, x: Any, *, axis: int) -> Any:
        self.calls["softmax"] += 1
        e = np.exp(x - x.max(axis, keepdims=True))
        return e / e.sum(axis, keepdims=True)

    @implements("softmax_backward")
    def softmax_backward(self, g: Any, out: Any, *, axis: int) -> Any:
        self.calls["softmax_backward"] += 1
        return out * (g - (g * out).sum(axis, keepdims=True))

    @implements("layer_norm")
    def layer_norm(self, x: Any, weight: Any, bias: Any, *, axis: Any, eps: float) -> Any:
        self.calls["layer_norm"] += 1
        assert axis == (x.ndim - 1,)
        normal = (x - x.mean(axis, keepdims=True)) / np.sqrt(x.var(axis, keepdims=True) + eps)
        return normal * weight + bias

    @implements("layer_norm_backward")
    def layer_norm_backward(
        self, g: Any, x: Any, weight: Any, *, axis: Any, eps: float, argnums: tuple[int, ...]
    ) -> Any:
        self.calls["layer_norm_backward"] += 1
        deviation = np.sqrt(x.var(axis, keepdims=True) + eps)
        normal = (x - x.mean(axis, keepdims=True)) / deviation
        of_normal = g * weight
        pulled = normal * (of_normal * normal).mean(axis, keepdims=True)
        of_x = (of_normal - of_normal.mean(axis, keepdims=True) - pulled) / deviation
        leading = tuple(range(x.ndim - 1))
        found = (of_x, (g * normal).sum(leading), g.sum(leading))
        return tuple(found[position] for position in argnums)


class WithoutSoftmaxBackward(NumPy):
    """The same, less one implementation."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()

    softmax = Native.softmax
    layer_norm = Native.layer_norm
    layer_norm_backward = Native.layer_norm_backward


def arrays() -> list[Any]:
    rng = np.random.default_rng(0)
    shapes = [(6, 4), (4, 5), (5,), (5,), (5, 3), (6, 3)]
    return [rng.standard_normal(shape) for shape in shapes]


def inputs_on(backend: Backend) -> list[Tensor]:
    return [tensor(a, device=backend) for a in arrays()]


def loss(x: Tensor, w: Tensor, scale: Tensor, shift: Tensor, out: Tensor, y: Tensor) -> Any:
    """A small network with a layer norm and a softmax, and a squared error."""
    hidden = (x @ w).layer_norm(scale, shift)
    error = (hidden @ out).softmax(-1) - y
    return (error * error).sum()


WEIGHTS = (1, 2, 3, 4)


def train_step(backend: Backend) -> tuple[Any, list[Any]]:
    value, gradients = value_and_grad(loss, WEIGHTS)(*inputs_on(backend))
    return value.item(), [g.numpy() for g in gradients]


def assert_close(got: tuple[Any, list[Any]], want: tuple[Any, list[Any]]) -> None:
    np.testing.assert_allclose(got[0], want[0], rtol=1e-12)
    for g, w in zip(got[1], want[1], strict=True):
        np.testing.assert_allclose(g, w, rtol=1e-10, atol=1e-13)


def test_a_training_step_runs_native_composites_forward_and_backward() -> None:
    native = Native()
    found = train_step(native)
    assert native.calls == {
        "softmax": 1, "softmax_backward": 1, "layer_norm": 1, "layer_norm_backward": 1,
    }  # fmt: skip
    assert_close(found, train_step(NumPy()))


def test_removing_an_implementation_changes_nothing_but_the_counters() -> None:
    native = WithoutSoftmaxBackward()
    found = train_step(native)
    assert native.calls == {"softmax": 1, "layer_norm": 1, "layer_norm_backward": 1}
    assert_close(found, train_step(Native()))


def test_only_the_gradients_that_are_wanted_are_asked_for() -> None:
    asked = []

    class Recording(Native):
        @implements("layer_norm_backward")
        def layer_norm_backward(self, *args: Any, argnums: tuple[int, ...], **attrs: Any) -> Any:
            asked.append(argnums)
            return Native.layer_norm_backward(self, *args, argnums=argnums, **attrs)

    inputs = inputs_on(Recording())
    grad(loss, 3)(*inputs)
    grad(loss, (0, 2))(*inputs)
    assert asked == [(2,), (0, 1)]


def test_composites_without_gradients_run_whole_on_the_plain_device() -> None:
    native = Native()
    loss(*inputs_on(native))
    assert native.calls == {"softmax": 1, "layer_norm": 1}


def hessian_vector_product(backend: Backend) -> Any:
    x, *rest = inputs_on(backend)
    return grad(lambda x: (grad(loss)(x, *rest) ** 2).sum())(x).numpy()


def test_second_order_through_native_composites_gives_the_same_numbers() -> None:
    native = Native()
    found = hessian_vector_product(native)
    assert native.calls["softmax"] > 0
    assert native.calls["softmax_backward"] > 0
    assert native.calls["layer_norm"] > 0
    np.testing.assert_allclose(found, hessian_vector_product(NumPy()), rtol=1e-9, atol=1e-12)


def test_autodiff_of_autodiff_decorates_a_backend_with_native_composites() -> None:
    native = Native()
    backend = Autodiff(Autodiff(native))
    x, *rest = inputs_on(backend)
    outer = x.require_grad()
    first = loss(outer, *rest).backward()[outer]
    assert (first.device.level, native.calls["softmax_backward"]) == (1, 1)
    np.testing.assert_allclose(
        first.numpy(), grad(loss)(*inputs_on(NumPy())).numpy(), rtol=1e-10, atol=1e-13
    )


def test_a_native_op_is_reached_from_the_body_of_another_composite() -> None:
    native = Native()
    x = tensor(np.random.default_rng(1).standard_normal((2, 4, 3)), device=native)

    class Plain(Native):
        @implements("layer_norm")
        def layer_norm(self, x: Any, *_: None, axis: Any, eps: float) -> Any:
            self.calls["layer_norm"] += 1
            mean, variance = x.mean(axis, keepdims=True), x.var(axis, keepdims=True)
            return (x - mean) / np.sqrt(variance + eps)

    plain = Plain()
    got = tensor(x.numpy(), device=plain).group_norm(num_groups=2)
    assert plain.calls == {"layer_norm": 1}
    want = tensor(x.numpy(), device=NumPy()).group_norm(num_groups=2)
    np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-12)


@pytest.mark.parametrize("name", sorted(BACKENDS))
def test_every_native_implementation_of_a_backend_names_an_op(name: str) -> None:
    entry = BACKENDS[name]
    if entry.needs is not None:
        pytest.importorskip(entry.needs)
    assert unknown_implementations(entry.load()) == []


def test_an_implementation_of_no_op_is_found_out() -> None:
    class Mistaken(NumPy):
        @implements("sofmax")
        def softmax(self, x: Any, *, axis: int) -> Any:
            return x

    assert unknown_implementations(Native) == []
    assert unknown_implementations(Mistaken) == ["sofmax"]
