"""Bind groups are found again and bounded."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("wgpu")

from pyrite.kernel import KernelBuilder
from pyrite.kernel.ir import vector
from pyrite.runtime.wgpu import Buffer, WgpuRuntime
from pyrite.runtime.wgpu.binding import BindGroups
from pyrite.runtime.wgpu.shader import BindingLayout, Layouts
from pyrite.types import bool_, float64


@pytest.fixture
def layout(runtime: WgpuRuntime) -> BindingLayout:
    return BindingLayout(runtime.device, (False, True), immediate_size=0, uniform_size=0)


def get(groups: BindGroups, layout: BindingLayout, *buffers: Buffer) -> object:
    return groups.get(layout, buffers, None, "kernel")


def test_a_group_of_the_same_buffers_is_made_once(
    runtime: WgpuRuntime, layout: BindingLayout
) -> None:
    groups = BindGroups(Layouts(runtime.device))
    x, y, z = (runtime.allocate(1000) for _ in range(3))

    first, again, other = (get(groups, layout, x, b) for b in (y, y, z))

    assert first is again
    assert other is not first
    assert (groups.hits, groups.misses) == (1, 2)


def test_parts_of_a_buffer_are_groups_of_their_own(
    runtime: WgpuRuntime, layout: BindingLayout
) -> None:
    groups = BindGroups(Layouts(runtime.device))
    x, y = runtime.allocate(1024), runtime.allocate(1024)

    get(groups, layout, x, y)
    get(groups, layout, x.view(256, 100), y)

    assert groups.misses == 2


def test_the_least_recently_used_group_goes_first(
    runtime: WgpuRuntime, layout: BindingLayout
) -> None:
    groups = BindGroups(Layouts(runtime.device), capacity=2)
    x, a, b, c = (runtime.allocate(256) for _ in range(4))
    for y in (a, b, a, c, a):
        get(groups, layout, x, y)

    assert len(groups) == 2
    assert (groups.hits, groups.misses) == (2, 3)
    get(groups, layout, x, b)
    assert groups.misses == 4


def test_a_storage_that_is_given_back_takes_its_groups_along(
    runtime: WgpuRuntime, layout: BindingLayout
) -> None:
    groups = BindGroups(Layouts(runtime.device))
    x, y, z = (runtime.allocate(256) for _ in range(3))
    get(groups, layout, x, y)
    get(groups, layout, x, z)

    groups.forget(y.storage)

    assert len(groups) == 1
    groups.forget(x.storage)
    assert len(groups) == 0
    assert not groups._keys
    get(groups, layout, x, z)
    assert len(groups) == 1


def test_a_buffer_shorter_than_a_vector_of_64_bits_is_bound_as_one(runtime: WgpuRuntime) -> None:
    if "shader-f64" not in runtime.device.features:
        pytest.skip("no float64 on this device")
    b = KernelBuilder("last", workgroup_size=1)
    x, y = b.buffer("x", float64, "read"), b.buffer("y", float64, "write")
    mask = b.const([True, True, False, False], vector(bool_, 4))
    y.store(0, x.load(0, width=4, mask=mask, is_aligned=True) * 2.0, mask=mask, is_aligned=True)
    source, target = runtime.upload(np.array([1.0, 2.0])), runtime.allocate(16)

    runtime.launch(runtime.compile(b.build()), [source, target], [1])

    assert runtime.read(target, float64, (2,)).tolist() == [2.0, 4.0]
