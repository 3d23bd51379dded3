"""Outputs that hold something before, that are read, changed by atomics, and made in stages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pyrite
from pyrite import Tensor, custom_op
from pyrite.backend.cube import CubeBackend
from pyrite.backend.device import Device, device_problem
from pyrite.errors import DTypeError, KernelError
from pyrite.extension import kernel, stages
from pyrite.testing.memory import contents
from pyrite.types import TensorType, int32


@pytest.fixture(params=["python", "interpreter", "cpu", "wgpu"])
def where(request: pytest.FixtureRequest, interpreter: Device) -> Device:
    """The devices, and Python itself."""
    if request.param == "interpreter":
        return interpreter
    name = "numpy" if request.param == "python" else request.param
    if problem := device_problem(name):
        pytest.skip(problem)
    return pyrite.device(name)


def op_of(made: Any, infer: Callable[..., Any] = lambda x: x) -> Callable[..., Any]:
    @custom_op(infer=infer, kernels=[made])
    def op(x: Tensor, /) -> Any:
        """An op of that kernel."""
        ...

    return op


# ---- what they hold before ----


@kernel(inout={"out": "x"})
def every_second(k: Any, x: Any, out: Any) -> None:
    i = k.at[0] * 2
    if i < x.shape[0]:
        out[i] = out[i] * 10.0 + x[i]


@pytest.mark.sample(4)
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("size", [1, 2, 7, 300])
def test_an_output_may_begin_as_an_input(where: Device, dtype: str, size: int) -> None:
    array = np.arange(1, size + 1, dtype=np.float32) % 16
    x = pyrite.tensor(array, dtype=dtype, device=where)

    got = op_of(every_second)(x[::-1])

    wanted = array[::-1].copy()
    wanted[::2] *= 11
    assert got.dtype is x.dtype
    assert got.tolist() == wanted.tolist()
    assert x.tolist() == array.tolist()


@pytest.mark.parametrize("value", [0, 7])
def test_an_output_may_be_filled(where: Device, value: int) -> None:
    @kernel(fill={"out": value})
    def first(k: Any, x: Any, out: Any) -> None:
        (i,) = k.at
        if i == 0:
            out[i] = out[i] + out[x.shape[0] - 1] + x[i]

    x = pyrite.tensor([5, 6, 7], dtype="int32", device=where)

    assert op_of(first)(x).tolist() == [2 * value + 5, value, value]


def test_an_output_that_holds_something_need_not_be_written(where: Device) -> None:
    @kernel(fill={"out": 3})
    def nothing(k: Any, x: Any, out: Any) -> None:
        pass

    assert op_of(nothing)(pyrite.ones((2,), device=where)).tolist() == [3.0, 3.0]


# ---- atomics ----

BINS = 8


@kernel(
    workgroup_size=64, grid=lambda x, counts: (-(-x.size // 64),), fill={"counts": 0}
)  # fmt: skip
def counted(k: Any, x: Any, counts: Any) -> None:
    i = k.global_id()
    if i < x.shape[0]:
        counts.atomic("add", int(x[i] * BINS), 1)


@pytest.mark.sample(4)
@pytest.mark.parametrize("dtype", ["int32", "uint32", "float32"])
@pytest.mark.parametrize("size", [2, 65, 1000])
def test_a_histogram(where: Device, dtype: str, size: int) -> None:
    array = np.random.default_rng(size).random(size).astype(np.float32)
    out = TensorType((BINS,), pyrite.types.dtype(dtype))

    got = op_of(counted, lambda x: out)(pyrite.tensor(array, device=where))

    wanted = np.histogram(array, BINS, (0, 1))[0]
    assert got.tolist() == wanted.tolist()


ATOMIC = {
    "add": lambda old, v: old + v, "min": min, "max": max, "exchange": lambda old, v: v,
    "store": lambda old, v: v, "load": lambda old, v: old, "and": lambda old, v: old & v,
    "or": lambda old, v: old | v, "xor": lambda old, v: old ^ v,
}  # fmt: skip


@pytest.mark.sample(10)
@pytest.mark.parametrize("dtype", ["int32", "uint32", "float32", "int64", "uint64", "float64"])
@pytest.mark.parametrize("name", [*ATOMIC, "exchange_equal"])
def test_an_atomic_gives_what_was_there(where: Device, name: str, dtype: str) -> None:
    @kernel(inout={"out": "x"})
    def body(k: Any, x: Any, old: Any, out: Any) -> None:
        (i,) = k.at
        old[i] = out.atomic(name, i, 6, expected=5)
        out[i] = out[i] + 1

    if dtype.startswith("float") and name in ("and", "or", "xor"):
        pytest.skip("of bits")
    if dtype.endswith("64") and where.name == "wgpu":
        with pytest.raises(DTypeError, match="atomics of 32 bits for WGSL"):
            op_of(body, lambda x: (x, x))(pyrite.ones((3,), dtype=dtype, device=where))
        return
    array = np.array([5, 12, 3], dtype=dtype)

    old, out = op_of(body, lambda x: (x, x))(pyrite.tensor(array, device=where))

    change = ATOMIC.get(name, lambda old, v: v if old == 5 else old)
    assert old.tolist() == array.tolist()
    assert out.tolist() == [change(v, 6) + 1 for v in array.tolist()]


def test_invocations_of_all_workgroups_add_to_one_place(where: Device) -> None:
    @kernel(workgroup_size=32, grid=lambda x, total: (-(-x.size // 32),), fill={"total": 0})
    def summed(k: Any, x: Any, total: Any) -> None:
        i = k.global_id()
        if i < x.shape[0]:
            total.atomic("add", (), x[i])
            total.atomic("max", (), -1.0)

    array = np.arange(500, dtype=np.float32) / 4
    got = op_of(summed, lambda x: TensorType((), x.dtype))(pyrite.tensor(array, device=where))

    assert got.item() == array.sum()


@kernel(fill={"count": 0, "out": -1})
def positives(k: Any, x: Any, out: Any, count: Any) -> None:
    """Compaction: what is positive, in any order, and how many there are."""
    (i,) = k.at
    if x[i] > 0.0:
        out[count.atomic("add", (), 1)] = x[i]


@pytest.mark.sample(3)
@pytest.mark.parametrize("size", [1, 64, 777])
def test_elements_are_appended_by_a_counter(where: Device, size: int) -> None:
    array = np.random.default_rng(1).normal(size=size).astype(np.float32)

    out, count = op_of(positives, lambda x: (x, TensorType((), int32)))(
        pyrite.tensor(array, device=where)
    )

    found = np.sort(array[array > 0])
    assert count.item() == len(found)
    assert np.array_equal(np.sort(out.numpy()[: len(found)]), found)
    assert (out.numpy()[len(found) :] == -1).all()


def test_an_atomic_outside_changes_nothing_and_is_raised(device: Device) -> None:
    got = op_of(counted, lambda x: TensorType((BINS,), int32))(
        pyrite.tensor([0.5, 9.0, -3.0], device=device)
    )

    with pytest.raises(pyrite.errors.IndexRangeError, match=r"counts\[\.\.\.\] in its kernel"):
        got.numpy()
    assert contents(got).tolist() == [0, 0, 0, 0, 1, 0, 0, 0]


# ---- stages ----


@kernel(workgroup_size=16, grid=lambda x, *_: (-(-x.size // 16),))
def of_parts(k: Any, x: Any, parts: Any, out: Any) -> None:
    tile, lane = k.shared("float32", 16), k.local_id()
    tile[lane] = x.get(k.global_id())
    k.barrier()
    if lane == 0:
        total = 0.0
        for j in range(16):
            total += tile[j]
        parts[k.workgroup_id()] = total


@kernel(workgroup_size=1, grid=lambda *_: (1,))
def of_all(k: Any, x: Any, parts: Any, out: Any) -> None:
    total = 0.0
    for j in range(parts.shape[0]):
        total += parts[j]
    out[()] = total


@pytest.mark.sample(3)
@pytest.mark.parametrize("size", [3, 16, 500])
def test_stages_read_what_the_ones_before_wrote(where: Device, size: int) -> None:
    array = np.arange(size, dtype=np.float32)
    out = (TensorType((-(-size // 16),), pyrite.float32), TensorType((), pyrite.float32))

    parts, total = op_of(stages(of_parts, of_all), lambda x: out)(
        pyrite.tensor(array, device=where)
    )

    assert total.item() == array.sum()
    assert parts.numpy().sum() == array.sum()


# ---- mistakes ----


def unread(k: Any, x: Any, out: Any) -> None:
    out[k.at] = out[k.at] + 1.0


def of_bits(k: Any, x: Any, out: Any) -> None:
    out.atomic("xor", k.at, 1)


def of_a_name(k: Any, x: Any, out: Any) -> None:
    out.atomic("plus", k.at, 1)


def of_an_input(k: Any, x: Any, out: Any) -> None:
    x.atomic("add", k.at, 1)


def of_nothing(k: Any, x: Any, out: Any) -> None:
    out.atomic("add", k.at, x[k.at])


def of_what_it_was(k: Any, x: Any, out: Any) -> None:
    out[k.at] = out.atomic("exchange", k.at, x[k.at])


@pytest.mark.parametrize("function", [of_nothing, of_what_it_was])
@pytest.mark.parametrize("name", ["numpy", "cpu", "wgpu"])
def test_an_atomic_of_what_holds_nothing_is_an_error(function: Any, name: str) -> None:
    """Its result would be what was in memory before."""
    if problem := device_problem(name):
        pytest.skip(problem)
    with pytest.raises(KernelError, match=r"holds nothing before; say what: kernel\(fill="):
        op_of(kernel(function))(pyrite.ones((3,), device=name))


def test_an_atomic_of_what_the_kernel_stored_is_none(device: Device) -> None:
    @kernel
    def stored(k: Any, x: Any, out: Any) -> None:
        out.atomic("store", k.at, 1.0)
        out.atomic("add", k.at, x[k.at])

    assert op_of(stored)(pyrite.ones((3,), device=device)).tolist() == [2.0] * 3


@pytest.mark.parametrize(("function", "form", "words"), [
    (unread, {}, r"reads of inputs, got one of output 'out'; .* kernel\(fill=\{'out': 0\}"),
    (unread, {"fill": {"y": 0}}, r"requires inout= and fill= to name its outputs \(out\), got 'y'"),
    (unread, {"inout": {"out": "y"}}, "to name an input of shape .*, got 'y' of None"),
    (of_bits, {}, "atomic requires one of .*, got 'xor' of float32"),
    (of_a_name, {}, "atomic requires one of load, .*, got 'plus'"),
    (of_an_input, {}, "requires writes to outputs, got one to input 'x'"),
])  # fmt: skip
def test_mistakes(interpreter: Device, function: Any, form: Any, words: str) -> None:
    with pytest.raises(KernelError, match=words) as caught:
        op_of(kernel(**form)(function))(pyrite.ones((3,), device=interpreter))

    assert str(caught.value.location).startswith(__file__)


def test_an_atomic_has_a_dtype_of_32_bits(interpreter: Device) -> None:
    with pytest.raises(
        KernelError, match="an output of int32, uint32 or float32, got counts of int8"
    ):
        op_of(
            kernel(fill={"counts": 0})(counted.function), lambda x: TensorType((2,), pyrite.int8)
        )(pyrite.ones((3,), device=interpreter))


def test_what_is_begun_twice_or_late_is_an_error() -> None:
    with pytest.raises(KernelError, match="an output in inout= or in fill=, got 'out' in both"):
        kernel(fill={"out": 0}, inout={"out": "x"})(unread)
    with pytest.raises(KernelError, match=r"the first kernel to say .* got 'counted'; move"):
        stages(of_all, counted)
    with pytest.raises(KernelError, match=r"stages requires kernels in Python, got none"):
        stages()


# ---- floats are added at once where the device does that ----


@kernel(fill={"out": 0})
def summed_kernel(k: Any, x: Any, out: Any) -> None:
    (i,) = k.at
    if x[i] > -50.0:
        out.atomic("add", i % 4, x[i])


@kernel(fill={"out": 0})
def mixed_kernel(k: Any, x: Any, out: Any) -> None:
    (i,) = k.at
    out.atomic("add", 0, x[i])
    out.atomic("max", 1, x[i])
    if i == 7:
        out[2] = out.atomic("exchange", 3, x[i]) + out[3]


@pytest.mark.sample(4)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("size", [8, 100])
def test_sums_of_floats_by_either_way(where: Device, dtype: str, size: int) -> None:
    if dtype == "float64" and where.backend.root.name.startswith("wgpu"):
        pytest.skip("no atomics of 64 bits")
    x = np.arange(size, dtype=dtype) - 60
    given = pyrite.tensor(x, device=where)

    sums = op_of(summed_kernel)(given).numpy()
    mixed = op_of(mixed_kernel)(given).numpy()

    assert sums[:4].tolist() == [x[n::4][x[n::4] > -50].sum() for n in range(4)]
    assert mixed[:4].tolist() == [x.sum(), max(x.max(), 0), -53.0, -53.0]


def test_a_device_without_sums_of_floats_makes_them_by_exchanges() -> None:
    pytest.importorskip("wgpu")
    if problem := device_problem("wgpu"):
        pytest.skip(problem)
    from pyrite.runtime.wgpu import WgpuRuntime, open_device

    made: Any = WgpuRuntime(open_device(limits="default"))
    plain = Device(CubeBackend(made))
    x = np.arange(100, dtype=np.float32) - 60

    got = op_of(summed_kernel)(pyrite.tensor(x, device=plain)).numpy()

    assert got[:4].tolist() == [x[n::4][x[n::4] > -50].sum() for n in range(4)]
    row = TensorType((8,), pyrite.float32)
    assert "atomicCompareExchangeWeak" in summed_kernel.source(plain, [row], [row])
    capable = pyrite.device("wgpu")
    if "shader-float32-atomic" in capable.backend.root.runtime.device.features:  # type: ignore[attr-defined]
        assert "atomicCompareExchangeWeak" not in summed_kernel.source(capable, [row], [row])
    assert "atomicrmw fadd" in summed_kernel.source("cpu", [row], [row])
