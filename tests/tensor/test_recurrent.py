"""Recurrent layers over whole sequences, against the NumPy reference and differences."""

from __future__ import annotations

import numpy as np
import pytest

from pyrite.autodiff import grad, value_and_grad
from pyrite.backend.cube import CubeBackend
from pyrite.backend.device import BACKENDS, Device
from pyrite.errors import ArgumentError, ShapeError
from pyrite.kernel.machine import Machine
from pyrite.runtime.interpreter import InterpreterRuntime
from pyrite.tensor.creation import tensor
from pyrite.tensor.joining import stack
from pyrite.testing import central_difference

#: Gates and states of each cell, and the attributes of its op.
CELLS = {
    "lstm": ("_lstm", 4, 2, {}),
    "gru": ("_gru", 3, 1, {}),
    "rnn": ("_rnn", 1, 1, {}),
    "rnn of relu": ("_rnn", 1, 1, {"nonlinearity": "relu"}),
}

#: (T, N, D, H): one of everything, edges of vectors and tiles, more of one than of the others.
SIZES = [(1, 1, 1, 1), (5, 3, 4, 7), (9, 2, 3, 17), (3, 13, 5, 40), (2, 1, 33, 64), (4, 30, 6, 9)]


def inputs_of(cell, size, bias="both", dtype="float64", seed=0):
    _, gates, states, _ = CELLS[cell]
    t, n, d, h = size
    rng = np.random.default_rng(seed)
    of_bias = [bias in ("both", "of inputs"), bias == "both"]
    # Weights that let nothing grow from step to step.
    matrices = [rng.uniform(-1, 1, (gates * h, k)) / np.sqrt(k) for k in (d, h)]
    arrays = [rng.uniform(-1, 1, (t, n, d)), *matrices]
    arrays += [rng.uniform(-1, 1, gates * h) if given else None for given in of_bias]
    arrays += [rng.uniform(-1, 1, (n, h)) for _ in range(states)]
    return [None if a is None else a.astype(dtype) for a in arrays]


def run(cell, inputs, **attrs):
    name, _, _, own = CELLS[cell]
    return getattr(inputs[0], name)(*inputs[1:], **own, **attrs)


def total(cell, inputs, used, **attrs):
    """A sum of the results at the positions used, each element with its own weight."""
    rng = np.random.default_rng(7)
    results = run(cell, inputs, **attrs)
    weights = [rng.uniform(-1, 1, r.shape).astype(r.dtype.numpy) for r in results]
    terms = [results[p] * tensor(weights[p], device=results[p].device) for p in used]
    return sum((term.sum() for term in terms), tensor(0.0, device=results[0].device))


def gradients(cell, arrays, used, device, **attrs):
    given = [None if a is None else tensor(a, device=device) for a in arrays]
    positions = tuple(p for p, a in enumerate(arrays) if a is not None)
    value, found = value_and_grad(lambda *i: total(cell, i, used, **attrs), positions)(*given)
    return [value.numpy(), *(g.numpy() for g in found)]


@pytest.fixture(params=["cpu", "torch:cpu"])
def device(request):
    needs = BACKENDS[request.param.split(":")[0]].needs
    if needs is not None:
        pytest.importorskip(needs)
    return request.param


@pytest.mark.parametrize("is_reversed", [False, True])
@pytest.mark.parametrize("bias", ["both", "of inputs", "none"])
@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.sample(12)
def test_values_and_gradients_are_the_references(cell, size, bias, is_reversed, device):
    for dtype, tolerance in (("float64", 1e-12), ("float32", 3e-5)):
        arrays = inputs_of(cell, size, bias, dtype)
        used = range(1 + CELLS[cell][2])
        wide = [None if a is None else a.astype("float64") for a in arrays]
        got = gradients(cell, arrays, used, device, is_reversed=is_reversed)
        want = gradients(cell, wide, used, "numpy", is_reversed=is_reversed)
        for a, b in zip(got, want, strict=True):
            np.testing.assert_allclose(a, b, atol=tolerance * max(1, np.abs(b).max()))


MACHINES = {"processors": Machine.cpu(16, 16), "GPUs": Machine.gpu(buffers=16)}


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("cell", CELLS)
def test_kernels_leave_no_operand(cell, machine):
    """On the interpreter, which checks each access, with vectors that have edges."""
    device = Device(CubeBackend(InterpreterRuntime(MACHINES[machine])))
    arrays = inputs_of(cell, (2, 3, 3, 5), dtype="float32")
    used = range(1 + CELLS[cell][2])
    wide = [a.astype("float64") for a in arrays]
    got, want = gradients(cell, arrays, used, device), gradients(cell, wide, used, "numpy")
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a, b, atol=3e-5 * max(1, np.abs(b).max()))


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_kernels_on_a_gpu_are_the_references(cell):
    """Of more rows and units than one workgroup has, backwards in time."""
    pytest.importorskip("wgpu")
    arrays, used = inputs_of(cell, (3, 13, 5, 40), dtype="float32"), range(1 + CELLS[cell][2])
    wide = [a.astype("float64") for a in arrays]
    got = gradients(cell, arrays, used, "wgpu", is_reversed=True)
    want = gradients(cell, wide, used, "numpy", is_reversed=True)
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a, b, atol=3e-5 * max(1, np.abs(b).max()))


@pytest.mark.parametrize("used", [(0,), (1,), (2,), (0, 2)], ids=str)
def test_cotangents_of_some_results_are_enough(used, device):
    arrays = inputs_of("lstm", (4, 3, 5, 18))
    got = gradients("lstm", arrays, used, device)
    want = gradients("lstm", arrays, used, "numpy")
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-12 * max(1, np.abs(b).max()))


@pytest.mark.parametrize("cell", CELLS)
def test_the_gradient_of_a_broadcast_cotangent_is_that_of_a_dense_one(cell, device):
    arrays = inputs_of(cell, (3, 4, 5, 18))

    def of_sum(x):
        return run(cell, [x, *(None if a is None else tensor(a, device=device) for a in rest)])[
            0
        ].sum()

    x, *rest = arrays
    got = grad(of_sum)(tensor(x, device=device)).numpy()
    want = central_difference(
        lambda x: run(cell, [tensor(x), *(tensor(a) for a in rest)])[0].sum().item(), [x], 0
    )
    np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("cell", CELLS)
def test_inputs_may_lie_anyhow(cell, device):
    arrays = inputs_of(cell, (4, 3, 5, 18))
    want = [r.numpy() for r in run(cell, [tensor(a) for a in arrays])]
    _x, _weight_ih, _weight_hh, *rest = (tensor(a, device=device) for a in arrays)
    laid = [
        tensor(arrays[0][::-1].swapaxes(0, 1).copy(), device=device).swap_axes(0, 1).flip(0),
        tensor(arrays[1].T.copy(), device=device).mT,
        tensor(np.repeat(arrays[2], 2, 1), device=device)[:, ::2],
        *rest,
    ]
    for a, b in zip(run(cell, laid), want, strict=True):
        np.testing.assert_allclose(a.numpy(), b, atol=1e-12)


@pytest.mark.parametrize("is_reversed", [False, True])
@pytest.mark.parametrize("bias", ["both", "of inputs", "none"])
@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_residuals_are_the_references(cell, bias, is_reversed, device):
    def results(given, move):
        inputs = [None if x is None else move(x) for x in given]
        return run(cell, inputs, is_reversed=is_reversed, keeps_gates=True)

    for dtype, tolerance in (("float64", 1e-12), ("float32", 3e-5), ("float16", 2e-3)):
        arrays = inputs_of(cell, (5, 3, 4, 18), bias, dtype)
        given = [None if a is None else tensor(a) for a in arrays]
        got = results(given, lambda x: x.to(device))
        want = results(given, lambda x: x.astype("float64"))
        residuals = got[1 + CELLS[cell][2] :]
        assert {r.dtype.name for r in residuals} == {"float64" if dtype == "float64" else "float32"}
        for a, b in zip(got, want, strict=True):
            np.testing.assert_allclose(a.astype("float64").numpy(), b.numpy(), atol=tolerance)


@pytest.mark.parametrize("is_reversed", [False, True])
@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_the_gradients_from_residuals_are_those_from_outputs(cell, is_reversed, device):
    inputs = [tensor(a, device=device) for a in inputs_of(cell, (5, 3, 4, 18))]
    name, _, states, _ = CELLS[cell]
    found = run(cell, inputs, is_reversed=is_reversed, keeps_gates=True)
    results, residuals = found[: 1 + states], found[1 + states :]
    rng = np.random.default_rng(3)
    cotangents = [tensor(rng.normal(size=r.shape), device=device) for r in results]

    def gradients(*kept):
        backward = getattr(cotangents[0], f"{name}_backward")
        return backward(
            *cotangents[1:], results[0], *inputs, *kept, argnums=tuple(range(len(inputs))),
            is_reversed=is_reversed,
        )  # fmt: skip

    # The same values in another order: columns that lie together, every other one.
    laid = [stack([x.mT, x.mT], -1).flatten(-2)[..., ::2].mT for x in residuals]
    for *got, want in zip(gradients(*residuals), gradients(*laid), gradients(), strict=True):
        for x in got:
            np.testing.assert_allclose(x.numpy(), want.numpy(), atol=1e-10)


@pytest.mark.parametrize("cell", CELLS)
def test_second_order_is_that_of_differences_of_the_gradient(cell, device):
    arrays = inputs_of(cell, (3, 2, 3, 4))
    rest = [tensor(a, device=device) for a in arrays[1:]]
    first = grad(lambda x: (run(cell, [x, *rest])[0] ** 2).sum())
    direction = np.random.default_rng(1).normal(size=arrays[0].shape)
    v = tensor(direction, device=device)
    got = grad(lambda x: (first(x) * v).sum())(tensor(arrays[0], device=device)).numpy()
    ends = [first(tensor(arrays[0] + s * direction, device=device)).numpy() for s in (1e-5, -1e-5)]
    np.testing.assert_allclose(got, (ends[0] - ends[1]) / 2e-5, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("cell", CELLS)
def test_narrow_dtypes_are_computed_in_float32_and_rounded_once(cell, dtype, device):
    narrow = [tensor(a).astype(dtype) for a in inputs_of(cell, (30, 2, 5, 18))]
    on_device = [n.to(device) for n in narrow]
    want = run(cell, [n.astype("float64") for n in narrow])
    eps = {"bfloat16": 2.0**-8, "float16": 2.0**-11}[dtype]
    for a, b in zip(run(cell, on_device), want, strict=True):
        assert a.dtype.name == dtype
        np.testing.assert_allclose(
            a.astype("float32").numpy(), b.numpy(), rtol=1.01 * eps, atol=1e-4 * eps * 100
        )


def test_what_does_not_fit_is_named():
    x, weight_ih, weight_hh, _, _, h, c = (
        a if a is None else tensor(a) for a in inputs_of("lstm", (2, 3, 4, 5), "none")
    )
    with pytest.raises(
        ShapeError, match=r"lstm requires x \(T, N, D\) with T >= 1, got \(0, 3, 4\)"
    ):
        x[:0]._lstm(weight_ih, weight_hh, None, None, h, c)
    with pytest.raises(ShapeError, match=r"weight_ih of shape \(20, 4\), got \(20, 5\)"):
        x._lstm(weight_hh, weight_hh, None, None, h, c)
    with pytest.raises(ShapeError, match=r"state 1 of shape \(3, 5\), got \(2, 5\)"):
        x._lstm(weight_ih, weight_hh, None, None, h, c[:2])
    with pytest.raises(ArgumentError, match="nonlinearity 'tanh' or 'relu', got 'sine'"):
        x._rnn(weight_ih[:5], weight_hh[:5], None, None, h, nonlinearity="sine")
