"""What the conformance suite cannot know of the steps of optimisers: many at once, and extremes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pyrite
from pyrite.backend import Device, device_problem
from pyrite.op import Op, Sample, Spec, many
from pyrite.optim.adagrad import adagrad_update
from pyrite.optim.adam import adam_update
from pyrite.optim.adamw import adamw_update
from pyrite.optim.adan import adan_update
from pyrite.optim.clip import gradient_scaled
from pyrite.optim.lion import lion_update
from pyrite.optim.muon import COEFFICIENTS, muon_update, newton_schulz
from pyrite.optim.rmsprop import rmsprop_update
from pyrite.optim.sgd import momentum_update, sgd_update

pytest.importorskip("torch")

from pyrite.backend.torch import Torch

HAS_CUDA = device_problem("torch:cuda") is None
needs_cuda = pytest.mark.skipif(not HAS_CUDA, reason="no CUDA device")
DEVICES = ["torch:cpu", pytest.param("torch:cuda", marks=needs_cuda)]
each_device = pytest.mark.parametrize("name", DEVICES)

JOINED: list[Callable[..., Any]] = [
    adagrad_update, adam_update, adamw_update, adan_update, lion_update, momentum_update,
    muon_update, newton_schulz, rmsprop_update, sgd_update,
]  # fmt: skip
#: The product of a batch rounds otherwise than that of one matrix.
BATCHED = (muon_update, newton_schulz)
Kind = tuple[str, tuple[int, ...]]
#: Of two dtypes in turn, of several shapes, more than the cache holds.
KINDS: list[Kind] = [
    ("float32", (3, 5)),
    ("float64", (5, 3)),
    ("float32", (5, 3)),
    ("float32", (300, 250)),
    ("float64", (5, 3)),
    ("float32", (3, 5)),
]
#: With one that no implementation takes, so that none is joined.
MIXED: list[Kind] = [("float32", (3, 5)), ("float16", (3, 5))]


def _calls(kinds: list[Kind], example: Sample, name: str | Device) -> list[list[Any]]:
    """Calls like an example, each with arrays of its own; every other one at another rate."""
    rng = np.random.default_rng(0)
    calls = []
    for place, (dtype, shape) in enumerate(kinds):
        inputs: list[Any] = []
        for i in example.inputs:
            if isinstance(i, Spec):
                inputs.append(pyrite.tensor(rng.uniform(0.5, 2.0, shape), dtype=dtype, device=name))
            else:
                inputs.append(i if i is None else i / (1 + place % 2))
        calls.append(inputs)
    return calls


def _results(made: Any) -> list[Any]:
    return [t.numpy() for t in (made if isinstance(made, tuple) else (made,))]


@each_device
@pytest.mark.parametrize("kinds", [KINDS, MIXED], ids=["joined", "mixed"])
@pytest.mark.parametrize("method", JOINED, ids=lambda method: method.op.name)
def test_steps_of_many_parameters_are_those_of_each(
    name: str, method: Callable[..., Any], kinds: list[Kind]
) -> None:
    op: Op = method.op  # type: ignore[attr-defined]
    for example in op.samples:
        calls, plain = _calls(kinds, example, name), _calls(kinds, example, "numpy")
        together = many(method, calls, **example.attrs)
        for made, call, on_numpy in zip(together, calls, plain, strict=True):
            alone = _results(method(*call, **example.attrs))
            want = _results(method(*on_numpy, **example.attrs))
            for found, one, reference in zip(_results(made), alone, want, strict=True):
                assert found.dtype == reference.dtype
                rounding = 1e-5 if method in BATCHED else 0.0
                np.testing.assert_allclose(found, one, rtol=rounding, atol=rounding)
                tolerance = 2e-2 if found.dtype == np.float16 else 1e-3
                np.testing.assert_allclose(found, reference, rtol=tolerance, atol=tolerance)


@each_device
def test_a_gradient_that_is_no_number_stays_visible_in_a_step_of_signs(name: str) -> None:
    inputs = [[1.0, 2.0, 3.0, 4.0], [np.nan, np.inf, 1e-30, 0.0], [0.0] * 4]
    p, g, moment = (pyrite.tensor(np.array(i, np.float32), device=name) for i in inputs)
    updated, _ = lion_update(p, g, moment, 0.5, 0.0, beta1=0.9, beta2=0.99)

    np.testing.assert_array_equal(updated.numpy(), np.array([np.nan, 1.5, 2.5, 4.0], np.float32))


@each_device
@pytest.mark.parametrize("batched", [20, 1000])
def test_matrices_are_made_orthogonal_alone_and_in_batches(
    name: str, batched: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyrite.backend.torch.optimizer._BATCHED", batched)
    rng = np.random.default_rng(0)
    shapes = [(4, 6), (6, 4), (3, 5), (4, 6), (3, 5), (0, 3), (1, 1)]
    given = [rng.normal(size=shape).astype(np.float32) for shape in shapes]
    made = many(
        newton_schulz,
        [(pyrite.tensor(array, device=name),) for array in given],
        coefficients=COEFFICIENTS,
        steps=5,
        eps=1e-7,
    )
    for one, array in zip(made, given, strict=True):
        assert one.shape == array.shape
        u, _, vt = np.linalg.svd(array, full_matrices=False)
        singular = np.diag(turned := u.T @ one.numpy() @ vt.T)
        np.testing.assert_allclose(turned, np.diag(singular), atol=1e-4)
        assert np.all((singular > 0.6) & (singular < 1.25))


@pytest.mark.parametrize("method", JOINED, ids=lambda method: method.op.name)
def test_parameters_of_one_kind_are_one_call(
    method: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    op: Op = method.op  # type: ignore[attr-defined]
    implementation, lengths = getattr(Torch, op.name), []

    def counted(self: Torch, first: list[Any], *rest: Any, **attrs: Any) -> Any:
        lengths.append(len(first))
        return implementation(self, first, *rest, **attrs)

    monkeypatch.setattr(Torch, op.name, counted)
    example = op.samples[0]
    turn, *_ = _calls([("float32", (3, 5))], example, Device(Torch("cpu")))
    many(method, [turn] * 7, **example.attrs)

    assert lengths == [7]


@each_device
@pytest.mark.parametrize("has_one", [True, False], ids=["one factor", "a factor each"])
@pytest.mark.parametrize("kinds", [KINDS, MIXED], ids=["joined", "mixed"])
def test_gradients_are_scaled_at_once_as_each(name: str, has_one: bool, kinds: list[Kind]) -> None:
    rng = np.random.default_rng(0)
    gradients = [pyrite.tensor(rng.normal(size=s), dtype=d, device=name) for d, s in kinds]
    one = pyrite.tensor(0.25, device=name)
    factors = [one if has_one else pyrite.tensor(rng.uniform(), device=name) for _ in kinds]
    calls = list(zip(gradients, factors, strict=True))
    for made, (g, factor) in zip(many(gradient_scaled, calls), calls, strict=True):
        each = g * factor
        assert made.dtype is each.dtype
        np.testing.assert_array_equal(made.numpy(), each.numpy())
