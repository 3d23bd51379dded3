"""Tensors live on an application's device for as long as that lives."""

from __future__ import annotations

import gc
import subprocess
import sys
import textwrap
import weakref
from typing import Any

import numpy as np
import pytest

pytest.importorskip("wgpu")

import wgpu

import pyrite
from pyrite.errors import DeviceError, DTypeError
from pyrite.wgpu import init_device


def test_a_device_is_one_however_often_it_is_asked_for(application: wgpu.GPUDevice) -> None:
    first, second = init_device(application), init_device(application)

    assert first == second
    assert (pyrite.ones((2,), device=first) + pyrite.ones((2,), device=second)).tolist() == [2, 2]
    assert first.name == "wgpu:shared"


def test_tensors_of_two_devices_do_not_meet(application: wgpu.GPUDevice, device: Any) -> None:
    x = pyrite.ones((2,), device=init_device(application))

    with pytest.raises(DeviceError, match="tensors of one device"):
        x + pyrite.ones((2,), device=device)
    assert (x.to(device) + 1.0).tolist() == [2.0, 2.0]


def test_a_network_trains_on_it(application: wgpu.GPUDevice) -> None:
    shared = init_device(application)
    x = pyrite.tensor(np.eye(4, dtype=np.float32), device=shared)
    model = pyrite.nn.Linear(4, 1).to(shared)

    def loss(model: Any, x: Any) -> Any:
        return model(x).square().mean()

    optimizer = pyrite.optim.SGD(learning_rate=0.1)
    values = []
    for _ in range(3):
        value, grads = pyrite.value_and_grad(loss)(model, x)
        model = optimizer.step(model, grads)
        values.append(value.item())

    assert values == sorted(values, reverse=True)


def test_it_is_given_back_when_nobody_holds_it(application: wgpu.GPUDevice) -> None:
    x: Any = pyrite.ones((2,), device=init_device(application))
    backend = weakref.ref(x._backend)
    del x
    gc.collect()

    assert backend() is None
    assert pyrite.ones((2,), device=init_device(application)).tolist() == [1.0, 1.0]


def test_a_device_of_wgpu_says_how_it_becomes_one(application: wgpu.GPUDevice) -> None:
    given: Any = application

    with pytest.raises(DeviceError, match=r"GPUDevice.*; .*: pyrite\.wgpu\.init_device\(device\)$"
    ) as caught:  # fmt: skip
        pyrite.ones((2,), device="numpy").to(given)

    assert str(caught.value.location).startswith(f"{__file__}:")


def test_what_is_no_device_is_refused() -> None:
    with pytest.raises(DeviceError, match=r"init_device requires a wgpu\.GPUDevice, got str"):
        init_device("wgpu")


def test_memory_that_was_shown_comes_back_after_the_end_of_its_device(
    application: wgpu.GPUDevice,
) -> None:
    gpu = application.adapter.request_device_sync()
    shared = pyrite.wgpu.init_device(gpu)
    x = pyrite.ones((64,), device=shared)
    pyrite.wgpu.buffer_of(x).buffer()
    gpu.destroy()

    del x

    assert shared.backend.root.runtime.memory_report().live == 0  # type: ignore[attr-defined]


def test_a_destroyed_device_is_an_error_of_every_call(application: wgpu.GPUDevice) -> None:
    # In a process of its own: where it is no error, wgpu-native aborts.
    program = """
        import numpy as np, wgpu, pyrite
        from pyrite.errors import DeviceError
        from pyrite.wgpu import buffer_of, from_buffer, init_device

        gpu = wgpu.gpu.request_adapter_sync().request_device_sync()
        usage = wgpu.BufferUsage.STORAGE | wgpu.BufferUsage.COPY_SRC | wgpu.BufferUsage.COPY_DST
        buffer = gpu.create_buffer(size=16, usage=usage)
        shared = init_device(gpu)
        x, external = pyrite.ones((4,), device=shared), from_buffer(buffer, (4,), "float32")
        y = x + 1.0
        gpu.destroy()
        calls = [
            lambda: x + 1.0, lambda: y.numpy(), lambda: external.numpy(), lambda: buffer_of(x),
            external.invalidate, shared.synchronize, lambda: init_device(gpu),
        ]
        for call in calls:
            try:
                call()
            except DeviceError as error:
                print("DeviceError")
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["DeviceError"] * 7


def test_a_device_that_the_application_lets_go_of_lives_on(application: wgpu.GPUDevice) -> None:
    gpu = application.adapter.request_device_sync()
    x = pyrite.ones((4,), device=init_device(gpu))
    del gpu
    gc.collect()

    assert (x + 1.0).tolist() == [2.0] * 4


# ---- features that the application did not request ----


@pytest.fixture(scope="module")
def bare(adapter: wgpu.GPUAdapter) -> wgpu.GPUDevice:
    return adapter.request_device_sync()


WIDE = {"int64": "shader-int64", "uint64": "shader-int64", "float64": "shader-f64"}


@pytest.mark.parametrize("dtype", WIDE)
@pytest.mark.parametrize("how", ["tensor", "to", "from_dlpack", "zeros", "astype", "from_buffer"])
def test_a_dtype_whose_feature_was_not_requested_is_refused_at_once(
    bare: wgpu.GPUDevice, dtype: str, how: str
) -> None:
    shared, array = init_device(bare), np.arange(3).astype(dtype)

    def made() -> pyrite.Tensor:
        if how == "tensor":
            return pyrite.tensor(array, device=shared)
        if how == "to":
            return pyrite.tensor(array, device="numpy").to(shared)
        if how == "from_dlpack":
            return pyrite.from_dlpack(array, device=shared)
        if how == "zeros":
            return pyrite.zeros((3,), dtype=dtype, device=shared)
        if how == "astype":
            return pyrite.ones((3,), device=shared).astype(dtype)
        usage = wgpu.BufferUsage.STORAGE | wgpu.BufferUsage.COPY_SRC | wgpu.BufferUsage.COPY_DST
        buffer = bare.create_buffer(size=64, usage=usage)
        return pyrite.wgpu.from_buffer(buffer, (3,), dtype)

    with pytest.raises(DTypeError, match=rf"requires .*{dtype}.*{WIDE[dtype]}.*required_features"):
        made()


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "int32", "float16", "bfloat16"])
def test_other_dtypes_need_no_feature(bare: wgpu.GPUDevice, dtype: str) -> None:
    x = pyrite.tensor([0.0, 1.0, 1.0], device="numpy").astype(dtype).to(init_device(bare))

    assert (x == x).tolist() == [True] * 3
    assert x.astype("int32").tolist() == [0, 1, 1]


def test_what_to_request_is_listed(adapter: wgpu.GPUAdapter) -> None:
    wanted = pyrite.wgpu.required_features(adapter)
    shared = init_device(adapter.request_device_sync(required_features=wanted))

    assert wanted == [f for f in pyrite.wgpu.FEATURES if f in adapter.features]
    for dtype, feature in WIDE.items():
        if feature in wanted:
            assert (pyrite.tensor(np.arange(3).astype(dtype), device=shared) + 1).tolist()[2] == 3
    with pytest.raises(DeviceError, match=r"required_features requires a wgpu\.GPUAdapter"):
        pyrite.wgpu.required_features("wgpu")
