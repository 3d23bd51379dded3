from __future__ import annotations

import numpy as np
import pytest

from pyrite.kernel import verify
from pyrite.kernel.interpret import interpret
from pyrite.kernel.passes import expand_ldexp
from pyrite.testing.kernels import KernelExample, examples_of_kernels
from pyrite.testing.operands import SIZE, bits, elementwise, operands_of, values_of
from pyrite.types import DType, float32, float64


@pytest.mark.parametrize("example", examples_of_kernels(), ids=lambda e: e.kernel.name)
def test_hand_written_kernels_compute_the_same(example: KernelExample) -> None:
    example.check(verify(expand_ldexp(example.kernel)))


@pytest.mark.parametrize("dtype", [float32, float64], ids=lambda d: d.name)
@pytest.mark.parametrize("name", ["ldexp", "ldexp_normal"])
def test_what_is_scaled_has_the_bits_of_one_rounding(name: str, dtype: DType) -> None:
    kernel = elementwise(name, [dtype] * 2, dtype, 4, lambda b, xs: b.alu(name, *xs))
    after = verify(expand_ldexp(kernel))
    assert not any(n.kind == "alu" and n.attr == name for n in after.walk())

    for seed in range(20):
        operands = operands_of(name, [values_of(dtype, 3 * seed + i) for i in range(3)], dtype)
        got, wanted = (np.zeros(SIZE, dtype.numpy) for _ in range(2))
        interpret(kernel, SIZE // 4, *operands, wanted)
        interpret(after, SIZE // 4, *operands, got)
        # The interpreter rounds sums of products of float64 twice, which subnormals are made by.
        tiny = np.finfo(dtype.numpy).tiny if dtype is float64 else 0
        is_normal = np.abs(wanted) >= tiny
        np.testing.assert_array_equal(bits(got)[is_normal], bits(wanted)[is_normal])
        assert is_normal.any()
        if name == "ldexp" and seed == 0:
            assert (np.abs(wanted) < np.finfo(dtype.numpy).tiny).any(), "some are subnormal or 0"
            assert np.isinf(wanted).any()


@pytest.mark.parametrize(("name", "is_kept"), [("ldexp", False), ("ldexp_normal", True)])
def test_what_is_normal_may_be_kept(name: str, is_kept: bool) -> None:
    kernel = elementwise(name, [float32] * 2, float32, 4, lambda b, xs: b.alu(name, *xs))
    after = verify(expand_ldexp(kernel, keeps=["ldexp_normal"]))
    assert any(n.kind == "alu" and n.attr == name for n in after.walk()) is is_kept


@pytest.mark.parametrize("keeps", [(), ("ldexp_normal",), ("ldexp", "ldexp_normal")])
def test_nan_is_selected_but_where_scaling_keeps_it(keeps: tuple[str, ...]) -> None:
    kernel = elementwise("nan", [float32] * 2, float32, 4, lambda b, xs: b.alu("keep_nan", *xs))
    after = verify(expand_ldexp(kernel, keeps=keeps))
    assert not any(n.kind == "alu" and n.attr == "keep_nan" for n in after.walk())
    selects = any(n.kind == "select" for n in after.walk())
    assert selects is ("ldexp" not in keeps)
    if selects:
        x = np.where(np.arange(SIZE) % 3 == 0, np.nan, 2).astype(np.float32)
        got = np.zeros(SIZE, np.float32)
        interpret(after, SIZE // 4, x, np.ones(SIZE, np.float32), got)
        np.testing.assert_array_equal(got, np.where(np.isnan(x), x, 1))
