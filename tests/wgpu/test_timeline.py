"""Kernels and an application's passes, timed by the device."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

pytest.importorskip("wgpu")

import wgpu

import pyrite
from pyrite.backend.device import Device
from pyrite.errors import DeviceError
from pyrite.wgpu import timeline


@pytest.fixture
def timed(adapter: wgpu.GPUAdapter) -> wgpu.GPUDevice:
    if "timestamp-query" not in adapter.features:
        pytest.skip("the adapter has no timestamps")
    return adapter.request_device_sync(required_features=["timestamp-query"])


@pytest.fixture
def shared(timed: wgpu.GPUDevice) -> Device:
    return pyrite.wgpu.init_device(timed)


def draw(gpu: Any, writes: Any) -> None:
    """A pass of the application: it clears a picture."""
    usage = wgpu.TextureUsage.RENDER_ATTACHMENT
    target = gpu.create_texture(size=(256, 256, 1), format="r8unorm", usage=usage)
    encoder = gpu.create_command_encoder()
    attachment = {"view": target.create_view(), "load_op": "clear", "store_op": "store"}
    encoder.begin_render_pass(color_attachments=[attachment], timestamp_writes=writes).end()
    gpu.queue.submit([encoder.finish()])


def test_kernels_and_passes_stand_in_the_order_in_which_they_ran(
    timed: wgpu.GPUDevice, shared: Device
) -> None:
    x = pyrite.ones((128, 128), device=shared)

    with timeline(shared) as times:
        y = x @ x
        pyrite.wgpu.buffer_of(y)
        draw(timed, times.writes("picture"))
        z = y.sum().exp()
    after = x + 1.0

    names = [(one.name, one.is_kernel) for one in times.passes]
    assert names[0] == ("tiled_gemm", True)
    assert names[1] == ("picture", False)
    assert [is_kernel for _, is_kernel in names[2:]] == [True] * len(names[2:])
    assert {"sum", "exp"} <= {name.partition("_")[0] for name, _ in names[2:]}
    starts = [one.start for one in times.passes]
    assert starts[0] == 0.0
    assert starts == sorted(starts)
    # The device works through its queue in order: no kernel begins before the last one ends.
    ends = [one.start + one.seconds for one in times.passes]
    assert all(end <= start + 1e-6 for end, start in zip(ends, starts[1:], strict=False))
    assert 0 < times.passes[0].seconds < 600  # nanoseconds would be more
    assert np.isinf(z.item())
    assert after[0, 0].item() == 2.0


def test_it_is_a_trace_of_the_form_that_explain_has(timed: wgpu.GPUDevice, shared: Device) -> None:
    with pyrite.explain() as explained:
        (pyrite.ones((8,), device=pyrite.fusion("cpu")) + 1).numpy()
    with timeline(shared) as times:
        pyrite.wgpu.buffer_of(pyrite.ones((8,), device=shared).sqrt())
        draw(timed, times.writes("picture"))

    (theirs, *_), events = (
        json.loads(of.chrome_trace())["traceEvents"] for of in (explained, times)
    )
    assert {frozenset(event) for event in events} == {frozenset(theirs)}
    assert [event["tid"] for event in events][-1] == "passes"
    assert [event["dur"] for event in events] == [one.seconds * 1e6 for one in times.passes]


def test_a_program_of_many_launches_is_timed_kernel_by_kernel(shared: Device) -> None:
    @pyrite.compile
    def step(x: pyrite.Tensor) -> pyrite.Tensor:
        for _ in range(4):
            x = (x @ x).softmax(-1)
        return x

    x = pyrite.ones((16, 16), device=pyrite.fusion(shared))
    want = [step(x).numpy() for _ in range(4)][-1]
    with timeline(shared) as times:
        got = step(x)

    assert sum("gemm" in one.name for one in times.passes) == 4
    assert np.array_equal(got.numpy(), want)


def test_a_pass_that_was_never_begun_is_not_there(timed: wgpu.GPUDevice, shared: Device) -> None:
    with timeline(shared) as times:
        times.writes("never")
        draw(timed, times.writes("picture"))

    assert [one.name for one in times.passes] == ["picture"]


def test_who_cannot_be_timed_is_told(application: wgpu.GPUDevice, shared: Device) -> None:
    bare = pyrite.wgpu.init_device(application)
    with pytest.raises(DeviceError, match=r"the feature timestamp-query, .* name it in request_d"):
        with timeline(bare):
            pass
    with pytest.raises(DeviceError, match="requires a tensor of a wgpu device, got cpu"):
        with timeline("cpu"):
            pass
    with timeline(shared), pytest.raises(DeviceError, match="one at a time of a device"):
        with timeline(shared):
            pass
    assert pyrite.ones((2,), device=shared).tolist() == [1.0, 1.0]
