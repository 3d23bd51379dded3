"""The passes before WGSL: what they take out of kernels that are really launched."""

from __future__ import annotations

import pytest

from pyrite.kernel import Kernel, KernelBuilder, verify
from pyrite.kernel.passes import Capabilities
from pyrite.kernel.target.wgsl import lowered, to_wgsl
from pyrite.kernel.template.operand import row_major_map
from pyrite.kernel.template.product import Product
from pyrite.kernel.template.tiled_config import CONFIGS
from pyrite.kernel.template.tiled_gemm import tiled_gemm
from pyrite.types import float16, float32, int32, uint32


def product(m: int, n: int, k: int, config: int = 0) -> Kernel:
    x, y, out = (row_major_map(float32, (), *size) for size in ((m, k), (k, n), (m, n)))
    return tiled_gemm(Product(x, y, out), CONFIGS[config])


@pytest.mark.parametrize("config", range(len(CONFIGS)))
def test_a_tiled_product_divides_by_nothing(config: int) -> None:
    kernel = product(512, 512, 512, config)
    divisions = [n for n in kernel.walk() if n.kind == "alu" and n.attr in ("div", "rem")]

    text = to_wgsl(lowered(verify(kernel)))

    assert divisions
    assert " / " not in text
    assert " % " not in text


def test_what_is_spelled_out_for_a_device_is_simplified_too() -> None:
    b = KernelBuilder("widen", workgroup_size=64)
    x, out = b.buffer("x", float16, "read"), b.buffer("out", float32, "write")
    i = b.global_id()
    out[i] = b.cast(x[i], float32) + b.cast(x[i], float32)

    loads = [n for n in lowered(b.build()).walk() if n.kind == "load"]

    assert len(loads) == 1


def test_a_dtype_that_nobody_sees_is_asked_of_no_device() -> None:
    b = KernelBuilder("plain")
    out = b.buffer("out", uint32, "write")
    b.cast(b.index(3), int32)
    out[0] = b.const(1, out.dtype)
    narrow = Capabilities("narrow", frozenset((int32, uint32)), frozenset((uint32,)))

    assert [n.kind for n in lowered(b.build(), narrow).body.body if n.kind == "cast"] == []
