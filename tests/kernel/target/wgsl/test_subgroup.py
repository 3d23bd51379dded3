"""Subgroups, where the device has them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from pyrite.errors import KernelError
from pyrite.kernel.builder import KernelBuilder
from pyrite.kernel.interpret import interpret
from pyrite.kernel.target.wgsl import to_wgsl
from pyrite.testing.launch import launched
from pyrite.types import float32, int32

if TYPE_CHECKING:
    from pyrite.runtime.wgpu import WgpuRuntime


def test_subgroups_need_a_device_that_has_them() -> None:
    b = KernelBuilder("sum", workgroup_size=32)
    x = b.buffer("x", float32, "read_write")
    x[0] = b.subgroup_reduce("add", x[0])

    with pytest.raises(KernelError, match="requires a device with subgroups"):
        to_wgsl(b.build())


def test_subgroups_where_the_device_has_them(capable: WgpuRuntime) -> None:
    if "subgroup" not in capable.device.features:
        pytest.skip("this adapter lacks subgroups")
    b = KernelBuilder("subgroup", workgroup_size=32)
    y = b.buffer("y", int32, "write")
    lane, lanes = b.subgroup_lane(), b.subgroup_size()
    v = (lane * 7 + 3) % 11 + 1
    names = ("add", "mul", "min", "max", "and", "or", "xor")
    rows = [lane, lanes]
    for name in names:
        rows += [b.subgroup_reduce(name, v), b.subgroup_scan(name, v)]
        rows += [b.subgroup_scan(name, v, is_inclusive=False)]
    rows += [b.subgroup_shuffle(v, lane ^ 1), b.subgroup_shuffle(v, 1, "xor")]
    rows += [b.subgroup_broadcast(v), b.cast(b.subgroup_ballot(v > 5)[0], int32)]
    for i, row in enumerate(rows):
        y[b.local_index() + 32 * i] = row
    (got,) = launched(capable, b.build(), [1], [np.zeros(32 * len(rows), np.int32)])
    size = int(got[32])
    expected = np.zeros_like(got)
    interpret(b.build(), 1, expected, subgroup_size=size)

    np.testing.assert_array_equal(got, expected)
