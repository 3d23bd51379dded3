"""Kernels that write into memory of the application: ``op(x, out=frame)``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pyrite
from pyrite import Tensor, custom_op
from pyrite.backend.device import Device, device_problem
from pyrite.config import config
from pyrite.errors import (
    ArgumentError,
    DeviceError,
    DTypeError,
    GradientError,
    IndexRangeError,
    ShapeError,
)
from pyrite.extension import kernel, stages
from pyrite.types import TensorType

#: In guarded mode `from_dlpack` copies, as no poison lies around memory of others, and launches may
#: get copies.
unguarded = pytest.mark.skipif(config.guard is not None, reason="guarded mode promises no sharing")


class Memory:
    """Memory of an application, and a tensor in it."""

    def __init__(self, where: Device, array: np.ndarray[Any, Any]) -> None:
        if where.name == "cpu":
            if config.guard is not None:
                pytest.skip("guarded mode promises no sharing")
            self._array = array.copy()
            self.tensor = pyrite.from_dlpack(self._array, device=where, copy=False)
            self.read: Callable[[], Any] = self._of_host
        else:
            import wgpu

            flags = wgpu.BufferUsage
            gpu: Any = where.backend.root
            size = -(-array.nbytes // 16) * 16
            self._gpu = gpu.runtime.device.gpu
            self._buffer = self._gpu.create_buffer(
                size=size, usage=flags.STORAGE | flags.COPY_SRC | flags.COPY_DST
            )
            self._gpu.queue.write_buffer(self._buffer, 0, array)
            self._like = array
            name = array.dtype.name
            self.tensor = pyrite.wgpu.from_buffer(self._buffer, array.shape, name, device=where)
            self.read = self._of_device

    def _of_host(self) -> Any:
        self.tensor.device.synchronize()
        return self._array.copy()

    def _of_device(self) -> Any:
        data = self._gpu.queue.read_buffer(self._buffer, size=self._like.nbytes)
        return np.frombuffer(data, self._like.dtype).reshape(self._like.shape)


@pytest.fixture(params=["cpu", "wgpu"])
def where(request: pytest.FixtureRequest) -> Device:
    if problem := device_problem(request.param):
        pytest.skip(problem)
    return pyrite.device(request.param)


@kernel
def blur(k: Any, x: Any, out: Any) -> None:
    (i,) = k.at
    out[i] = (x.get(i - 1, border="wrap") + x[i] + x.get(i + 1, border="wrap")) / 4.0


@custom_op(infer=lambda x: x, kernels=[blur])
def blurred(x: Tensor, /) -> Tensor:
    """The mean with neighbours."""
    ...


def expected(x: Any) -> Any:
    return ((np.roll(x, 1) + x + np.roll(x, -1)) / np.float32(4.0)).astype(x.dtype)


@pytest.mark.parametrize("size", [1, 7, 300])
@pytest.mark.parametrize("view", ["dense", "reversed", "strided"])
def test_a_kernel_writes_into_the_applications_memory(where: Device, view: str, size: int) -> None:
    array = np.random.default_rng(size).integers(0, 99, 3 * size).astype(np.float32)
    cut = {
        "dense": slice(size), "reversed": slice(size - 1, None, -1), "strided": slice(0, None, 3)
    }[view]  # fmt: skip
    x = pyrite.tensor(array, device=where)[cut]
    frame = Memory(where, np.zeros(size, np.float32))

    got = blurred(x, out=frame.tensor)  # type: ignore[call-arg]

    assert got is frame.tensor
    assert frame.read().tolist() == expected(array[cut]).tolist()
    assert (got + 1.0).tolist() == (expected(array[cut]) + 1).tolist()


def test_memory_is_written_again_and_again(where: Device) -> None:
    one, other = (Memory(where, np.arange(100, dtype=np.float32)) for _ in range(2))
    wanted = np.arange(100, dtype=np.float32)
    kept = one.tensor * 2.0

    for _ in range(3):
        blurred(one.tensor, out=other.tensor)  # type: ignore[call-arg]
        blurred(other.tensor, out=one.tensor)  # type: ignore[call-arg]
        wanted = expected(expected(wanted))

    np.testing.assert_allclose(one.read(), wanted, rtol=1e-6)
    assert kept.tolist() == (2 * np.arange(100)).tolist()


def test_an_input_in_the_same_memory_is_copied_before(where: Device) -> None:
    frame = Memory(where, np.arange(300, dtype=np.float32))

    blurred(frame.tensor[::-1], out=frame.tensor)  # type: ignore[call-arg]

    assert frame.read().tolist() == expected(np.arange(300, dtype=np.float32)[::-1]).tolist()


def test_outputs_that_hold_something_and_stages_write_there_too(where: Device) -> None:
    @kernel(fill={"total": 0}, inout={"out": "x"})
    def first(k: Any, x: Any, out: Any, total: Any) -> None:
        (i,) = k.at
        total.atomic("add", (), x[i])
        if i > 1:
            out[i] = out[i] + 1.0

    @kernel
    def second(k: Any, x: Any, out: Any, total: Any) -> None:
        out[k.at] = out[k.at] * total[()]

    @custom_op(infer=lambda x: (x, TensorType((), x.dtype)), kernels=[stages(first, second)])
    def scaled(x: Tensor, /) -> tuple[Tensor, Tensor]:
        """In two stages."""
        ...

    out, total = Memory(where, np.zeros(4, np.float32)), Memory(where, np.ones((), np.float32))
    x = pyrite.tensor([1.0, 2.0, 3.0, 4.0], device=where)

    scaled(x, out=(out.tensor, total.tensor))  # type: ignore[call-arg]

    assert (out.read().tolist(), total.read().item()) == ([10.0, 20.0, 40.0, 50.0], 10.0)


def test_wgsl_writes_there(where: Device) -> None:
    if where.name != "wgpu":
        pytest.skip("WGSL is for wgpu")
    made = pyrite.wgpu.kernel(
        """
        @compute @workgroup_size(workgroup_size_x)
        fn main(@builtin(global_invocation_id) id: vec3<u32>) {
            let i = element(id);
            if (i < out_size) { out[i] = x[i] + 1.0; }
        }
        """
    )

    @custom_op(infer=lambda x: x, kernels=[made])
    def next_of(x: Tensor, /) -> Tensor:
        """One more."""
        ...

    frame = Memory(where, np.arange(8, dtype=np.float32))
    next_of(frame.tensor, out=frame.tensor)  # type: ignore[call-arg]

    assert frame.read().tolist() == list(range(1, 9))


def test_an_index_outside_is_an_error_of_what_was_written(where: Device) -> None:
    @kernel
    def beyond(k: Any, x: Any, out: Any) -> None:
        out[k.at] = x[k.at[0] + 1]

    @custom_op(infer=lambda x: x, kernels=[beyond])
    def following(x: Tensor, /) -> Tensor:
        """What is beside."""
        ...

    frame = Memory(where, np.zeros(4, np.float32))
    got = following(pyrite.ones((4,), device=where), out=frame.tensor)  # type: ignore[call-arg]

    with pytest.raises(pyrite.errors.IndexRangeError, match="every index of x"):
        got.tolist()
    # What is written there next is sound.
    blurred(pyrite.ones((4,), device=where), out=got)  # type: ignore[call-arg]
    assert got.tolist() == [0.75] * 4


def test_mistakes_are_named(where: Device) -> None:
    x = pyrite.ones((4,), device=where)
    frame = Memory(where, np.zeros(4, np.float32))

    def refused(error: type[Exception], match: str, **kwargs: Any) -> None:
        with pytest.raises(error, match=match):
            blurred(kwargs.pop("x", x), **kwargs)

    refused(
        DeviceError, "out requires memory of the application", out=pyrite.ones((4,), device=where)
    )
    refused(DTypeError, "requires a tensor as out, got list", out=[0.0] * 4)
    refused(ArgumentError, "out to have a tensor for each of its 1 results, got 2", out=(x, x))
    refused(ShapeError, r"out of shape \(4,\), got \(3,\)", out=pyrite.ones((3,), device=where))
    refused(DTypeError, "out of float32, got int32", out=x.astype("int32"))
    refused(ShapeError, "out in row-major order", out=frame.tensor[::-1])
    refused(DeviceError, "requires tensors of one device", out=pyrite.ones((4,), device="numpy"))
    refused(
        GradientError, "out requires inputs without gradients",
        x=x.to(pyrite.autodiff(where)).require_grad(), out=frame.tensor,
    )  # fmt: skip
    assert frame.read().tolist() == [0.0] * 4


@unguarded
def test_read_only_memory_is_not_written() -> None:
    array = np.zeros(4, np.float32)
    array.flags.writeable = False
    frame = pyrite.from_dlpack(array, device="cpu", copy=False)

    with pytest.raises(DeviceError, match="memory that may be written, got a read-only array"):
        blurred(pyrite.ones((4,), device="cpu"), out=frame)  # type: ignore[call-arg]


def test_a_device_without_kernels_says_so() -> None:
    x = pyrite.ones((4,), device="numpy")

    with pytest.raises(DeviceError, match="out requires a device that runs kernels, got numpy"):
        blurred(x, out=x)  # type: ignore[call-arg]


@unguarded
@pytest.mark.parametrize("by_out", [False, True])
def test_steps_in_turns_allocate_nothing_and_make_no_bind_group(by_out: bool) -> None:
    if problem := device_problem("wgpu"):
        pytest.skip(problem)
    # A device of its own: what other tests left on theirs may die meanwhile, and be used again.
    adapter = pyrite.device("wgpu").backend.root.runtime.device.gpu.adapter  # type: ignore[attr-defined]
    where = pyrite.wgpu.init_device(adapter.request_device_sync())
    runtime: Any = where.backend.root
    runtime = runtime.runtime
    frames = [Memory(where, np.ones(64, np.float32)).tensor for _ in range(2)]
    held = [frames[0] if by_out else pyrite.ones((64,), device=where)]

    def steps(count: int) -> Any:
        for n in range(count):
            into = {"out": frames[1 - n % 2]} if by_out else {}
            held[0] = blurred(held[0], **into)
        where.synchronize()
        found = runtime.report()
        groups = found["bind_group_hits"], found["bind_group_misses"]
        return (runtime.memory_report().reserved, *groups)

    before, after = steps(12), steps(20)

    assert after == (before[0], before[1] + 20, before[2])


# ---- calls that come again are made as recorded ----


@kernel(fill={"out": -1, "count": 0})
def above_kernel(k: Any, x: Any, out: Any, count: Any, *, low: float) -> None:
    (i,) = k.at
    if x[i] > low:
        out[count.atomic("add", (), 1)] = x[i]


@custom_op(infer=lambda x, *, low: (x, TensorType((), pyrite.int32)), kernels=[above_kernel])
def above(x: Tensor, /, *, low: float) -> tuple[Tensor, Tensor]:
    """What is above a bound, in any order, and how many."""
    ...


@kernel(inout={"out": "x"})
def raised_kernel(k: Any, x: Any, out: Any, *, by: float) -> None:
    (i,) = k.at
    if i % 2 == 0:
        out[i] += by


@custom_op(infer=lambda x, *, by: x, kernels=[raised_kernel])
def raised(x: Tensor, /, *, by: float) -> Tensor:
    """Each second element raised."""
    ...


@kernel
def taken_kernel(k: Any, x: Any, i: Any, out: Any) -> None:
    out[k.at] = x[i[k.at]]


@custom_op(infer=lambda x, i: TensorType(i.shape, x.dtype), kernels=[taken_kernel])
def taken(x: Tensor, i: Tensor, /) -> Tensor:
    """x at indices."""
    ...


@pytest.mark.parametrize("size", [1, 5, 70])
def test_each_call_writes_what_is_its_own(where: Device, size: int) -> None:
    x = np.random.default_rng(size).normal(size=size).astype("f4")
    given = pyrite.tensor(x, device=where)
    out, count = Memory(where, np.zeros_like(x)), Memory(where, np.zeros((), "i4"))
    for low in (0.0, 0.5, -0.5, 0.5, 9.0):
        above(given, low=low, out=(out.tensor, count.tensor))
        wanted = sorted(x[x > np.float32(low)])
        assert count.read() == len(wanted)
        assert sorted(out.read()[: len(wanted)]) == wanted
        assert (out.read()[len(wanted) :] == -1).all()
    place, want = Memory(where, x), x.copy()
    for n in range(6):
        # In place, of what lies there in either direction.
        seen = place.tensor if n % 2 else place.tensor[::-1]
        want = want if n % 2 else want[::-1].copy()
        raised(seen, by=0.5 * n, out=place.tensor)
        want[::2] += np.float32(0.5 * n)
        np.testing.assert_array_equal(place.read(), want)


def test_a_call_that_fails_leaves_others_alone(where: Device) -> None:
    x, out = pyrite.arange(5, dtype="float32", device=where), Memory(where, np.zeros(2, "f4"))
    for i in ([0, 4], [1, 3], [2, 7], [3, 0], [4, -9], [1, 1]):
        taken(x, pyrite.tensor(np.array(i, "i4"), device=where), out=out.tensor)
        if max(i) < 5 and min(i) >= 0:
            assert out.tensor.tolist() == i
        else:
            with pytest.raises(IndexRangeError, match="taken_kernel"):
                out.tensor.numpy()


@unguarded
def test_a_call_that_comes_again_is_recorded_once(
    where: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, out = pyrite.ones((6,), device=where), Memory(where, np.zeros(6, "f4"))
    for n in range(3):
        raised(x, by=0.5 * n, out=out.tensor)
    monkeypatch.setattr(type(raised_kernel), "launch", None)
    for n in range(3, 6):
        raised(x, by=0.5 * n, out=out.tensor)
    assert out.read().tolist() == [3.5, 1.0] * 3


@unguarded
def test_nothing_is_written_to_memory_of_no_elements() -> None:
    out = pyrite.from_dlpack(np.zeros(0, "f4"), device="cpu", copy=False)
    for _ in range(3):
        assert raised(pyrite.ones((0,), device="cpu"), by=1.0, out=out).shape == (0,)
