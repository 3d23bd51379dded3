"""Ops as kernels: the generated suite, judged by NumPy, on the interpreter of the IR."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import numpy as np
import pytest

import pyrite
from pyrite.autodiff import Autodiff
from pyrite.backend.cube import CubeBackend
from pyrite.backend.cube.lowering import LOWERINGS, lowering_of
from pyrite.backend.cube.registry import SKELETONS
from pyrite.backend.device import Device
from pyrite.backend.fallback import fallbacks
from pyrite.config import config
from pyrite.errors import DeviceError, IndexRangeError
from pyrite.op import OPS, Scan
from pyrite.runtime.interpreter import InterpreterRuntime
from pyrite.tensor.creation import tensor
from pyrite.tensor.tensor import Tensor
from pyrite.testing import Example, examples
from pyrite.types import INTEGERS, DType, bfloat16, bool_, float16, float32, float64

pytestmark = pytest.mark.filterwarnings("ignore::pyrite.backend.fallback.FallbackWarning")

EXAMPLES = list(examples())

TOLERANCE = {"float16": 8e-3, "bfloat16": 6e-2, "float32": 4e-6, "float64": 1e-12}


def assert_close(got: Any, want: Any) -> None:
    assert (got.shape, got.dtype) == (want.shape, want.dtype)
    tolerance = TOLERANCE.get(want.dtype.name, 0.0)
    np.testing.assert_allclose(
        got.astype(np.float64), want.astype(np.float64), rtol=tolerance, atol=tolerance
    )


# ---- the suite ----


@pytest.mark.parametrize("dtype", [float32, float64, float16, bfloat16], ids=lambda d: d.name)
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda e: e.id)
@pytest.mark.sample(80, by="dtype")
def test_values_are_those_of_numpy(interpreter: Device, example: Example, dtype: DType) -> None:
    for got, want in zip(example.run(dtype, interpreter), example.run(dtype), strict=True):
        assert_close(got.numpy(), want.numpy())


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda e: e.id)
@pytest.mark.sample(150)
def test_the_strides_of_the_inputs_do_not_matter(interpreter: Device, example: Example) -> None:
    inputs = [strided(a, interpreter) for a in example.arrays(float32)]
    for got, want in zip(example.call(inputs, interpreter), example.run(float32), strict=True):
        assert_close(got.numpy(), want.numpy())


def strided(a: Any, device: Device) -> Any:
    """The same values in column-major order, every second of twice as many, from the third on."""
    if not isinstance(a, np.ndarray):
        return a
    if a.ndim == 0:
        return tensor(np.stack([np.zeros_like(a), a]), device=device)[1]
    twice = np.repeat(a.T, 2, axis=-1)
    padded = np.concatenate([twice[..., :1], twice[..., :1], twice], axis=-1)
    moved = tensor(np.ascontiguousarray(padded), device=device)
    return moved[..., 2::2].permute_dims(tuple(reversed(range(a.ndim))))


@pytest.mark.parametrize("dtype", [bool_, *INTEGERS], ids=lambda d: d.name)
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda e: e.id)
@pytest.mark.sample(40, by="dtype")
def test_integers_and_bools_are_exact(interpreter: Device, example: Example, dtype: DType) -> None:
    if example.op.accepts == "float":
        return
    arrays = [as_integers(a, dtype) for a in example.arrays(float64)]
    try:
        want = example.call(on(arrays, None))
    except (TypeError, ValueError, IndexError) as error:
        with pytest.raises(type(error)):
            example.call(on(arrays, interpreter), interpreter)
        return
    for got, expected in zip(example.call(on(arrays, interpreter), interpreter), want, strict=True):
        assert_close(got.numpy(), expected.numpy())


def as_integers(a: Any, dtype: DType) -> Any:
    """A float array as one of small integers and of the bounds of their dtype."""
    if not isinstance(a, np.ndarray) or a.dtype != np.float64:
        return a
    rng = np.random.default_rng(a.size)
    if dtype.is_bool:
        return np.asarray(rng.integers(0, 2, a.shape)).astype(bool)
    values = np.array([0, 1, 2, 3, int(dtype.lowest), int(dtype.highest)], dtype.numpy)
    return np.asarray(values[rng.integers(0, len(values), a.shape)])


def on(arrays: list[Any], device: Device | None) -> list[Any]:
    return [tensor(a, device=device) if isinstance(a, np.ndarray) else a for a in arrays]


def test_all_primitives_have_kernels() -> None:
    primitives = [op for op in OPS.values() if not op.is_composite and not op.scalar]

    assert [op.name for op in primitives if lowering_of(op) is None] == []


def test_every_lowering_is_of_an_op() -> None:
    assert set(LOWERINGS) <= set(OPS)


# ---- fallbacks ----


@pytest.fixture
def without_cumsum(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(SKELETONS, Scan)


@pytest.mark.usefixtures("without_cumsum")
def test_an_op_without_kernels_runs_in_numpy_and_is_counted(fresh: Device) -> None:
    x = tensor(np.array([1, 2, 3], np.int32), device=fresh)
    before = fallbacks().get(("interpreter", "cumulative_sum"), 0)

    assert x.cumsum().tolist() == [1, 3, 6]

    assert fallbacks()["interpreter", "cumulative_sum"] == before + 1


@pytest.mark.usefixtures("without_cumsum")
def test_a_fallback_is_an_error_under_strict(
    fresh: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config, "strict", True)
    x = tensor(np.array([1, 2, 3], np.int32), device=fresh)

    with pytest.raises(DeviceError, match="cumulative_sum requires an implementation on interp"):
        x.cumsum()


# ---- limits ----


def test_more_elements_than_a_kernel_can_count_are_refused(fresh: Device) -> None:
    x = tensor(np.ones((1, 1), np.float32), device=fresh)

    with pytest.raises(DeviceError, match="broadcast_to requires at most 2146435072 elements"):
        x.broadcast_to((1 << 16, 1 << 16))


# ---- memory ----


def launches(device: Device) -> int:
    return int(runtime_of(device).report()["launches"])


def kernels(device: Device) -> int:
    return int(runtime_of(device).report()["kernels"])


def runtime_of(device: Device) -> InterpreterRuntime:
    backend = device.backend
    assert isinstance(backend, CubeBackend)
    runtime = backend.runtime
    assert isinstance(runtime, InterpreterRuntime)
    return runtime


def test_views_make_no_kernel_and_share_the_buffer(fresh: Device) -> None:
    x = tensor(np.arange(24, dtype=np.float32).reshape(2, 3, 4), device=fresh)
    views = [
        x.reshape(6, 4), x.permute_dims((2, 0, 1)), x.reshape(2, 12, 1).broadcast_to((2, 12, 5)),
        x[1, ::-1, 1::2], x.sliding_window(2, 2), x.flip(), x.clone(), x.detach(), x.mT,
    ]  # fmt: skip

    assert launches(fresh) == 0
    assert {id(v._handle.buffer) for v in views} == {id(x._handle.buffer)}


def test_a_reshape_copies_only_where_the_strides_demand_it(fresh: Device) -> None:
    x = tensor(np.arange(6, dtype=np.int32).reshape(2, 3), device=fresh)

    assert x.mT.reshape(6).tolist() == [0, 3, 1, 4, 2, 5]
    assert launches(fresh) == 1


def test_a_write_gives_another_buffer_and_leaves_the_first(fresh: Device) -> None:
    x = tensor(np.zeros(4, np.float32), device=fresh)
    y = x.clone()
    y = y.at[1].set(5.0)

    assert x.primitive().handle.binding() is not y.primitive().handle.binding()
    assert (x.tolist(), y.tolist()) == ([0, 0, 0, 0], [0, 5, 0, 0])


def test_a_primitive_tells_where_the_elements_lie(fresh: Device) -> None:
    x = tensor(np.arange(12, dtype=np.float32).reshape(3, 4), device=fresh)
    found = x[1:, 2:].primitive()

    assert found.client is runtime_of(fresh)
    assert (found.shape, found.strides, found.dtype) == ((2, 2), (4, 1), float32)
    assert found.offset == 6
    assert found.handle.binding() is x.primitive().handle.binding()


def test_a_primitive_leads_to_the_memory_itself_also_under_decorators(fresh: Device) -> None:
    x = tensor(np.arange(6, dtype=np.float32), device=fresh)
    tracked = x.to(Device(Autodiff(fresh.backend))).require_grad()

    found = tracked.clone().detach().primitive()

    memory = found.client.get_resource(found.handle.binding()).resource().buffer()
    assert np.frombuffer(memory, np.float32).tolist() == x.tolist()
    assert found.handle.binding() is x.primitive().handle.binding()


def test_memory_is_given_back_when_no_tensor_holds_it(fresh: Device) -> None:
    runtime = runtime_of(fresh)
    x = tensor(np.zeros((16, 16), np.float32), device=fresh)
    start = runtime.memory_report().live
    for _ in range(3):
        view = (x + 1.0)[3]
        assert runtime.memory_report().live == 2 * start
    del view

    assert runtime.memory_report().live == start


def test_what_is_uploaded_is_a_copy_and_what_is_read_is_read_only(fresh: Device) -> None:
    array = np.zeros(3, np.float32)
    x = tensor(array, device=fresh)
    array[0] = 7

    assert x.tolist() == [0, 0, 0]
    with pytest.raises(ValueError, match="read-only"):
        x.numpy()[0] = 1


@pytest.mark.parametrize("start", range(6))
def test_a_slice_is_read_from_any_offset(fresh: Device, start: int) -> None:
    x = tensor(np.arange(8, dtype=np.int16), device=fresh)

    assert x[start : start + 2].tolist() == [start, start + 1]


# ---- kernels are made once ----


def test_another_number_or_size_needs_no_other_kernel(fresh: Device) -> None:
    for size, rate in ((8, 0.1), (64, 0.2), (256, 0.3)):
        x = tensor(np.ones(size, np.float32), device=fresh)
        np.testing.assert_allclose((x * rate).numpy(), np.float32(rate))

    assert kernels(fresh) == 1


def test_a_size_that_the_width_does_not_divide_has_one_more(fresh: Device) -> None:
    for size in (8, 7, 12, 13):
        x = tensor(np.arange(size, dtype=np.float32), device=fresh)
        np.testing.assert_array_equal((x * 2.0).numpy(), np.arange(size) * 2.0)

    assert kernels(fresh) == 2


def test_attributes_that_are_equal_in_python_are_not_mixed_up(fresh: Device) -> None:
    x = tensor(np.array([-1.0, 1.0], np.float32), device=fresh)

    signs = [np.signbit(x.threshold(0.0, zero).numpy()).tolist() for zero in (0.0, -0.0)]

    assert signs == [[False, False], [True, False]]


# ---- indices outside ----


def test_an_index_outside_is_raised_by_the_next_read_with_its_line(fresh: Device) -> None:
    x = tensor(np.arange(3, dtype=np.float32), device=fresh)
    found = x.take(tensor(np.array([0, 3], np.int32), device=fresh), 0)

    with pytest.raises(IndexRangeError, match=r"take requires -3 <= index < 3 on axis 0") as error:
        found.numpy()
    assert error.value.location is not None
    assert "test_backend.py" in error.value.location
    assert error.value.__notes__ == [f"the index was used at {error.value.location}"]


def test_synchronize_raises_it_too(fresh: Device) -> None:
    x = tensor(np.zeros((2, 2), np.float32), device=fresh)
    x.scatter_nd(tensor(np.array([[0, 2]], np.int32), device=fresh), 1.0)

    with pytest.raises(IndexRangeError, match="scatter_nd requires"):
        fresh.synchronize()
    fresh.synchronize()


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int64], ids=lambda d: d.__name__)
def test_indices_of_any_dtype_reach_an_axis_longer_than_they(fresh: Device, dtype: Any) -> None:
    x = tensor(np.arange(300, dtype=np.int32), device=fresh)
    index = np.array([0, 127, 5], dtype)

    assert x.take(tensor(index, device=fresh), 0).tolist() == [0, 127, 5]


# ---- gradients ----


def test_the_gradients_of_a_network_are_those_of_numpy(interpreter: Device) -> None:
    losses, gradients = zip(
        *(loss_and_gradients(Device(Autodiff(d.backend))) for d in (interpreter, numpy_device())),
        strict=True,
    )

    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-5)
    for got, want in zip(*gradients, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-6)


def numpy_device() -> Device:
    return pyrite.device("numpy")


def loss_and_gradients(device: Device) -> tuple[float, list[Any]]:
    """A convolutional network with embedding, normalisation and cross-entropy, by hand."""
    rng = np.random.default_rng(0)
    shapes = [(4, 1, 3, 3), (4,), (4,), (4 * 9, 8), (10, 8), (5, 8)]
    arrays = [rng.normal(size=s).astype(np.float32) for s in shapes]
    weights = [tensor(a, device=device).require_grad() for a in arrays]
    filters, scale, shift, dense, table, classes = weights
    image = tensor(rng.normal(size=(3, 1, 6, 6)).astype(np.float32), device=device)
    words = tensor(rng.integers(0, 10, (3, 4)).astype(np.int32), device=device)
    targets = tensor(np.array([0, 4, 2], np.int32), device=device)
    x = image.conv2d(filters, padding=1).batch_norm(scale, shift)[0].gelu().max_pool(2)
    x = x.reshape(3, -1) @ dense + table.embedding(words).mean(1)
    loss = (x.layer_norm() @ classes.mT).cross_entropy(targets).mean()
    found = loss.backward()
    return loss.item(), [found[w].numpy() for w in weights]


def test_a_step_of_training_reads_nothing_back(fresh: Device, monkeypatch: Any) -> None:
    x = tensor(np.ones((4, 3), np.float32), device=Device(Autodiff(fresh.backend)))
    w = x.mean(0).require_grad()

    with pyrite.no_sync():
        g = ((x * w).tanh().sum(1) - 1.0).square().mean().backward()[w]

    assert g.shape == (3,)


# ---- random words ----


def test_random_words_are_the_same_bits_as_numpys(fresh: Device) -> None:
    def draw(device: Any) -> Any:
        with pyrite.random_stream(5):
            return [
                pyrite.uniform((7, 3), device=device),
                pyrite.randint(0, 9, (5,), device=device),
            ]

    for got, want in zip(draw(fresh), draw("numpy"), strict=True):
        np.testing.assert_array_equal(got.numpy(), want.numpy())


# ---- grids ----


def test_more_workgroups_than_an_axis_holds_make_two_axes(
    fresh: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = fresh.backend
    assert isinstance(backend, CubeBackend)
    narrow = dataclasses.replace(backend.launcher.machine, most_workgroups=3)
    monkeypatch.setattr(backend.launcher, "machine", narrow)
    array = np.arange(9001, dtype=np.float32)
    x = tensor(array, device=fresh)

    np.testing.assert_array_equal((x + 1.0).numpy(), array + 1)
    np.testing.assert_array_equal(x.take(x.astype("int32"), 0).numpy(), array)
    np.testing.assert_array_equal(x.reshape(9001, 1).sum(1).numpy(), array)


def test_broadcasting_any_axes_together_is_numpys(interpreter: Device) -> None:
    rng = np.random.default_rng(1)
    for left, right in itertools.product(itertools.product((1, 3), (1, 8), (1, 2)), repeat=2):
        x, y = (rng.normal(size=s).astype(np.float32) for s in (left, right))
        got = tensor(x, device=interpreter) + tensor(y, device=interpreter)
        np.testing.assert_array_equal(got.numpy(), x + y)


def test_a_tensor_of_another_device_is_refused(fresh: Device, interpreter: Device) -> None:
    x: Tensor = tensor(np.ones(2, np.float32), device=fresh)

    with pytest.raises(
        DeviceError,
        match=r"got \w+\(interpreter\) and \w+\(interpreter\); move one: y\.to\(x\.device",
    ):
        x + tensor(np.ones(2, np.float32), device=interpreter)
