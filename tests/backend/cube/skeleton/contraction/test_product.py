"""Products and convolutions of tensors: every plan that may be chosen gives the same numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyrite.backend.cube import CubeBackend
from pyrite.backend.cube.skeleton.contraction import PRODUCT, contract
from pyrite.backend.cube.skeleton.contraction.matrix_product import matmul_product
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.kernel.machine import Machine
from pyrite.kernel.template.implicit_gemm import OperandLayout
from pyrite.op import OPS, Plan
from pyrite.runtime.interpreter import InterpreterRuntime
from pyrite.types import TensorType, float32


@pytest.fixture(scope="module")
def backend() -> CubeBackend:
    return CubeBackend(InterpreterRuntime())


def run(backend: CubeBackend, name: str, inputs: list[Any], shape: Any, **attrs: Any) -> Any:
    handles = [i if isinstance(i, CubeTensor) else backend.upload(i) for i in inputs]
    plan = Plan(attrs, (TensorType(shape, float32),))
    results = backend.execute(OPS[name], handles, plan)
    assert results is not None
    return results[0]


@pytest.mark.parametrize(
    "machine", [Machine.cpu(32, 16), Machine.gpu(workgroups=8)], ids=["cpu", "gpu"]
)
def test_every_plan_multiplies_matrices_that_lie_anyhow(
    backend: CubeBackend, machine: Any, quarter: Any
) -> None:
    random = np.random.default_rng(0)
    x, y = (random.standard_normal(s).astype(np.float32) for s in ((3, 9, 70), (11, 70)))
    # Offset 70 is no multiple of 4; y is transposed, and shared by the batch.
    left = backend.upload(x).sliced((0, 1, 0), (3, 8, 70), (1, 1, 1))
    right = backend.upload(y).permuted((1, 0)).broadcast_to((3, 70, 11))
    layouts = [OperandLayout(float32, t.strides, 2 if t.offset else None) for t in (left, right)]
    product = matmul_product((3, 8, 70, 11), *layouts)
    want = x[:, 1:] @ y.T
    schedules = PRODUCT.candidates(product, machine)
    assert PRODUCT.select(product, machine) in schedules
    for schedule in quarter(schedules):
        target = backend.launcher.empty(TensorType((3, 8, 11), float32))
        contract(backend.launcher, product, left, right, target, schedule=schedule)
        np.testing.assert_allclose(backend.download(target), want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "shape", [((4, 5, 6), (6, 7)), ((2, 1, 3, 4), (5, 4, 2)), ((7, 300), (300, 1))]
)
def test_batches_broadcast_and_vectors_are_products_too(backend: CubeBackend, shape: Any) -> None:
    x, y = (np.random.default_rng(1).standard_normal(s).astype(np.float32) for s in shape)
    got = backend.download(run(backend, "matmul", [x, y], (x @ y).shape))
    np.testing.assert_allclose(got, x @ y, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("m", "n"), [(1, 1), (1, 40), (3, 5), (40, 2)])
def test_a_long_sum_is_cut_in_parts(m: int, n: int) -> None:
    machine = Machine.gpu(workgroups=64)
    layouts = OperandLayout(float32, (0, 1 << 20, 1)), OperandLayout(float32, (0, n, 1))
    product = matmul_product((1, m, 1 << 20, n), *layouts)

    plan = PRODUCT.select(product, machine)

    assert plan.parts > 1
    assert product.k / plan.parts / plan.config.block_k < 65536  # type: ignore[union-attr]


def test_no_terms_sum_up_to_zero(backend: CubeBackend) -> None:
    empty = [np.zeros((2, 0), np.float32), np.zeros((0, 3), np.float32)]
    got = backend.download(run(backend, "matmul", empty, (2, 3)))
    np.testing.assert_array_equal(got, np.zeros((2, 3), np.float32))


def test_a_batch_of_rows_with_one_matrix_is_one_product(backend: CubeBackend) -> None:
    x, y = np.ones((2, 8, 5), np.float32), np.ones((5, 6), np.float32)
    before = backend.runtime.report()["launches"]
    run(backend, "matmul", [x, y], (2, 8, 6))
    assert backend.runtime.report()["launches"] == before + 1


def test_a_device_that_tells_nothing_is_held_to_the_default_limits(backend: CubeBackend) -> None:
    assert backend.launcher.machine == Machine.gpu()
