"""Which adapter is chosen, and what is asked of it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("wgpu")

import wgpu

from pyrite.errors import DeviceError
from pyrite.runtime.wgpu import adapter, init_device, open_device
from pyrite.runtime.wgpu.adapter import DEFAULT_LIMITS, Adapter, choose


def gpu(name: str, driver: str, kind: str) -> Any:
    info = {"device": name, "backend_type": driver, "adapter_type": kind}
    return SimpleNamespace(info=info, features={"subgroup"})


@pytest.fixture
def listed(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The adapters that are listed when the library finds these."""

    def run(*found: Any) -> list[Adapter]:
        library = SimpleNamespace(enumerate_adapters_sync=lambda: list(found))
        monkeypatch.setattr(adapter.wgpu, "gpu", library)
        return list(adapter.adapters.__wrapped__())

    return run


def test_hardware_comes_before_software_and_good_drivers_first(listed: Any) -> None:
    found = listed(
        gpu("llvmpipe", "Vulkan", "CPU"),
        gpu("Small", "Vulkan", "IntegratedGPU"),
        gpu("Big", "D3D12", "DiscreteGPU"),
        gpu("Big", "Vulkan", "DiscreteGPU"),
    )

    assert [(a.name, a.driver) for a in found] == [
        ("Big", "Vulkan"), ("Small", "Vulkan"), ("llvmpipe", "Vulkan"),
    ]  # fmt: skip
    assert [a.is_software for a in found] == [False, False, True]


def test_two_equal_cards_are_two_and_one_under_two_drivers_is_one(listed: Any) -> None:
    twins = [gpu("Big", driver, "DiscreteGPU") for driver in ("Vulkan", "D3D12") * 2]

    assert [a.driver for a in listed(*twins)] == ["Vulkan", "Vulkan"]


def test_opengl_is_used_only_where_there_is_nothing_else(listed: Any) -> None:
    opengl = gpu("Big/PCIe", "OpenGL", "Unknown")

    assert [a.driver for a in listed(opengl)] == ["OpenGL"]
    assert [a.driver for a in listed(opengl, gpu("Big", "Vulkan", "DiscreteGPU"))] == ["Vulkan"]


def test_a_machine_without_adapter_says_what_to_do() -> None:
    with pytest.raises(DeviceError, match="none was found; use device 'cpu', or install a driver"):
        choose(0, [])


def test_a_number_too_large_names_the_adapters() -> None:
    only = Adapter(None, "Big", "Vulkan", is_software=False)

    with pytest.raises(DeviceError, match=r"wgpu:1 requires that many.*got 1: wgpu:0 \(Big\)"):
        choose(1, [only])


def test_a_device_has_what_its_adapter_has(device: Any) -> None:
    own = device.gpu.adapter

    assert device.features == frozenset(adapter.FEATURES) & frozenset(own.features)
    for name in ("max-buffer-size", "max-compute-workgroup-storage-size"):
        assert device.limits[name] == own.limits[name]


def test_a_device_of_default_limits_has_no_more(device: Any) -> None:
    plain = open_device(limits="default")

    assert plain.features == frozenset()
    assert {name: plain.limits[name] for name in DEFAULT_LIMITS} == DEFAULT_LIMITS
    assert plain.max_binding == 128 << 20
    assert not plain.has_immediates


def test_an_applications_device_is_taken_as_it_is(device: Any) -> None:
    own = device.gpu.adapter.request_device_sync(required_limits=dict(DEFAULT_LIMITS))

    taken = init_device(own)

    assert taken.gpu is own
    assert taken.is_external
    assert taken.name == device.name
    assert taken.features == frozenset()


def test_what_is_no_device_is_refused(device: Any) -> None:
    with pytest.raises(DeviceError, match=r"requires a wgpu\.GPUDevice, got GPUAdapter"):
        init_device(device.gpu.adapter)


def test_a_destroyed_device_is_refused(device: Any) -> None:
    own: wgpu.GPUDevice = device.gpu.adapter.request_device_sync()
    own.destroy()

    with pytest.raises(DeviceError, match="requires a device that lives, got a destroyed one"):
        init_device(own)
