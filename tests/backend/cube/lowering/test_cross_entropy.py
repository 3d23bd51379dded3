"""Cross-entropy with class indices as kernels: every option and config, judged by NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyrite.backend.cube import CubeBackend
from pyrite.backend.cube.launcher import Machine
from pyrite.backend.cube.lowering import cross_entropy
from pyrite.backend.cube.skeleton.numbered_rows import numbered_candidates
from pyrite.backend.device import Device
from pyrite.errors import IndexRangeError
from pyrite.runtime.interpreter import InterpreterRuntime
from pyrite.tensor.creation import tensor
from pyrite.testing.agreement import assert_agrees
from pyrite.types import INTEGERS, Array, DType, bfloat16, float16, float32, float64, int32

TOLERANCE = {"float16": 4e-3, "bfloat16": 3e-2, "float32": 4e-6, "float64": 1e-12}
RNG = np.random.default_rng(0)


def array(*shape: int, dtype: DType = float32) -> Array:
    return RNG.standard_normal(shape).astype(dtype.numpy)


def classes(n: int, *shape: int, dtype: DType = int32) -> Array:
    return RNG.integers(0, n, shape).astype(dtype.numpy)


def on(device: Device | None, given: list[Any]) -> list[Any]:
    return [g if g is None else tensor(g, device=device) for g in given]


def agree(device: Device, name: str, given: list[Any], **attrs: Any) -> None:
    assert_agrees(device, name, given, TOLERANCE, **attrs)


def both(
    device: Device, x: Array, targets: Array, weight: Array | None, *, axis: int = -1,
    label_smoothing: float = 0.0, ignore_index: int | tuple[int, ...] | None = None,
) -> None:  # fmt: skip
    attrs = {"axis": axis, "label_smoothing": label_smoothing, "ignore_index": ignore_index}
    agree(device, "_cross_entropy", [x, targets, weight], **attrs)
    given = [array(*targets.shape).astype(x.dtype), x, targets, weight]
    for argnums in ((0,), *(((0, 2), (2,)) if weight is not None else ())):
        agree(device, "_cross_entropy_backward", given, argnums=argnums, **attrs)


@pytest.mark.parametrize("n", [1, 3, 16, 40, 130])
@pytest.mark.parametrize("smoothing", [0.0, 0.3, 1.0])
def test_any_number_of_classes(interpreter: Device, n: int, smoothing: float) -> None:
    both(interpreter, array(5, n), classes(n, 5), None, label_smoothing=smoothing)
    both(interpreter, array(5, n), classes(n, 5), array(n), label_smoothing=smoothing)


def test_classes_on_any_axis_of_any_layout(interpreter: Device) -> None:
    for shape, axis in (((2, 5, 3), 1), ((5, 2, 3), 0), ((2, 3, 5), 2), ((5,), 0)):
        rest = tuple(n for a, n in enumerate(shape) if a != axis)
        both(interpreter, array(*shape), classes(5, *rest), array(5), axis=axis)
    x, y = tensor(array(6, 4), device=interpreter), tensor(classes(6, 8), device=interpreter)
    found = x.T._cross_entropy(y[::2], None)
    want = tensor(x.numpy().T)._cross_entropy(tensor(y.numpy()[::2]), None)

    np.testing.assert_allclose(found.numpy(), want.numpy(), rtol=1e-5)


@pytest.mark.parametrize("dtype", [float64, float16, bfloat16], ids=lambda d: d.name)
def test_all_dtypes(interpreter: Device, dtype: DType) -> None:
    x, weight = array(4, 7, dtype=dtype), array(7, dtype=dtype)
    both(interpreter, x, classes(7, 4), weight, label_smoothing=0.25)


@pytest.mark.parametrize("dtype", INTEGERS, ids=lambda d: d.name)
def test_indices_of_all_dtypes_and_what_is_ignored(interpreter: Device, dtype: DType) -> None:
    targets = np.array([0, 2, 1, 2, 0], dtype.numpy)
    both(interpreter, array(5, 3), targets, array(3), ignore_index=2)
    both(interpreter, array(5, 3), targets, None, ignore_index=(0, 1), label_smoothing=0.1)


def test_an_index_that_is_ignored_need_not_be_a_class(interpreter: Device) -> None:
    targets = np.array([0, -100, 2], np.int32)
    both(interpreter, array(3, 3), targets, None, ignore_index=-100)


@pytest.mark.parametrize("outside", [-1, 3])
def test_an_index_outside_is_an_error_of_the_next_read(interpreter: Device, outside: int) -> None:
    x, targets = on(interpreter, [array(3, 3), np.array([0, outside, 2], np.int32)])
    loss = x.cross_entropy_with_logits(targets, ignore_index=-100)

    with pytest.raises(IndexRangeError, match="targets 0 <= index < 3") as raised:
        loss.numpy()

    assert __file__ in str(raised.value.location)


def test_a_class_of_weight_zero_adds_nothing_at_minus_infinity(interpreter: Device) -> None:
    x = np.array([[0.0, -np.inf, 1.0], [-np.inf, 0.0, 0.0]], np.float32)
    targets, weight = np.array([1, 2], np.int32), np.array([1.0, 0.0, 2.0], np.float32)
    agree(interpreter, "_cross_entropy", [x, targets, weight])
    agree(interpreter, "_cross_entropy", [x[:1, ::2], targets[:1] - 1, None])


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("shift", [2e3, 6e4, -6e4])
def test_large_logits_lose_no_digits_of_a_small_loss(
    interpreter: Device, shift: float, smoothing: float
) -> None:
    x, targets = array(6, 70) + np.float32(shift), classes(70, 6)
    given = tensor(x, device=interpreter), tensor(targets, device=interpreter)
    weight = tensor(array(70) ** 2, device=interpreter)

    wide = tensor(x.astype(np.float64)), tensor(targets), tensor(weight.numpy().astype(np.float64))
    for its in (None, weight):
        loss = given[0].cross_entropy_with_logits(given[1], weight=its, label_smoothing=smoothing)
        want = wide[0].cross_entropy_with_logits(
            wide[1], weight=None if its is None else wide[2], label_smoothing=smoothing
        )
        np.testing.assert_allclose(loss.numpy(), want.numpy(), rtol=3e-6)


MACHINES = [Machine("cpu", 8, (1,), 2**31 - 1), Machine("gpu", 4, (64, 32), 65535)]


@pytest.mark.parametrize("machine", MACHINES, ids=lambda m: m.kind)
@pytest.mark.parametrize("n", [10, 256])
@pytest.mark.sample(1, by="machine.kind")
def test_every_config_gives_the_same(
    n: int, machine: Machine, monkeypatch: pytest.MonkeyPatch, fresh: Device, quarter: Any
) -> None:
    x, weight = array(3, n), array(n)
    backend = fresh.backend
    assert isinstance(backend, CubeBackend)
    for number, config in enumerate(quarter(numbered_candidates(n, float32, machine))):
        monkeypatch.setattr(cross_entropy, "select", lambda *_, config=config, **given: config)
        # An index to ignore of its own, so that nothing is found recorded.
        both(fresh, x, classes(n, 3), weight, ignore_index=-1 - number, label_smoothing=0.1)


LARGE = Machine.gpu(1 << 14, 1024)


def test_long_rows_are_shared_by_many_lanes() -> None:
    lanes = [cross_entropy.select(n, float32, LARGE).lanes for n in (16383, 16385, 50257, 65536)]
    assert lanes == [256, 1024, 1024, 1024]
    assert cross_entropy.select(50257, float32, Machine.gpu(1 << 14, 256)).lanes == 256
    assert cross_entropy.select(50257, float32, Machine.cpu()).lanes == 1


@pytest.mark.parametrize("n", [2000, 16387])
@pytest.mark.parametrize("smoothing", [0.0, 0.3])
def test_one_pass_over_long_rows(n: int, smoothing: float) -> None:
    """Numbers of any size, in parts of rows that meet at the end."""
    device = Device(CubeBackend(InterpreterRuntime(LARGE)))
    x = np.stack([array(n), 80 * array(n), 1e30 * array(n), np.linspace(-20, 20, n)])
    x = x.astype(np.float32)
    both(device, x, np.array([7, 0, int(x[2].argmax()), n - 2], np.int32), None,
         label_smoothing=smoothing)  # fmt: skip


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_long_rows_of_what_is_not_finite(value: float) -> None:
    device = Device(CubeBackend(InterpreterRuntime(LARGE)))
    x = array(3, 2000)
    x[1, 1234] = value
    x[2] = value
    targets = np.array([3, 5, 7], np.int32)
    with np.errstate(all="ignore"):
        both(device, x, targets, None)


def test_each_is_one_kernel(fresh: Device) -> None:
    backend = fresh.backend
    assert isinstance(backend, CubeBackend)
    x, y = on(fresh, [array(4, 3), classes(3, 4)])
    losses = x._cross_entropy(y, None)
    losses._cross_entropy_backward(
        x, y, None, axis=-1, label_smoothing=0.0, ignore_index=None, argnums=(0,)
    )

    assert backend.runtime.report()["launches"] == 2
