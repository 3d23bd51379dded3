"""A product of another size takes the kernel of the first, unless it is of another kind.

Kinds are: few rows, of each count; sums of more terms than a slab has; rows of y that lie on pages
of their own under many rows of x; results turned because they are narrow.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pyrite
from pyrite.backend.cube import CubeBackend
from pyrite.backend.device import Device
from pyrite.runtime.interpreter import InterpreterRuntime
from pyrite.types import Array

Arrays = Callable[..., list[Array]]


def sizes(count: int, *, low: int = 12, high: int = 60, axes: int = 4) -> list[tuple[int, ...]]:
    """Return random sizes: batch, M, K, N of a product."""
    random = np.random.default_rng(3)
    return [tuple(int(n) for n in random.integers(low, high, axes)) for _ in range(count)]


MATRICES: dict[str, tuple[Callable[..., Any], Callable[..., tuple[tuple[int, ...], ...]]]] = {
    "matmul": (lambda x, y: x @ y, lambda b, m, k, n: ((m, k), (k, n))),
    "x turned": (lambda x, y: x.mT @ y, lambda b, m, k, n: ((k, m), (k, n))),
    "y turned": (lambda x, y: x @ y.mT, lambda b, m, k, n: ((m, k), (n, k))),
    "a part of x": (lambda x, y: x[2:, :-1] @ y, lambda b, m, k, n: ((m + 2, k + 1), (k, n))),
    "every other": (lambda x, y: x[:, ::2] @ y, lambda b, m, k, n: ((m, 2 * k), (k, n))),
    "batched": (lambda x, y: x @ y, lambda b, m, k, n: ((b % 5 + 2, m, k), (b % 5 + 2, k, n))),
    "one y": (lambda x, y: x @ y, lambda b, m, k, n: ((b % 5 + 2, m, k), (k, n))),
    "heads": (
        lambda x, y: x.swapaxes(1, 2) @ y.swapaxes(1, 2).mT,
        lambda b, m, k, n: ((2, m, b % 3 + 2, k), (2, n, b % 3 + 2, k)),
    ),
}


@pytest.mark.parametrize("name", MATRICES)
@pytest.mark.sample(3)
def test_the_second_size_of_a_product_builds_nothing(name: str, cpu_built: Any, draw: Any) -> None:
    op, shapes = MATRICES[name]

    def case(device: Any, size: tuple[int, ...]) -> Any:
        arrays = [draw(*shape) for shape in shapes(*size)]
        return op(*(pyrite.tensor(a, device=device) for a in arrays)), _numpy(op, arrays)

    first, *others = cpu_built(case, [*sizes(5), (3, 32, 64, 48)])

    assert first > 0
    assert others == [0] * 5


def _numpy(op: Callable[..., Any], arrays: list[Array]) -> Array:
    result: Array = op(*(a.astype("float64").view(_Matrix) for a in arrays))
    return np.asarray(result)


class _Matrix(np.ndarray[Any, Any]):
    """An array that has a tensor's name for its transpose, as arrays of NumPy 2 do."""

    @property
    def mT(self) -> _Matrix:
        return self.swapaxes(-1, -2)


def test_a_linear_layer(cpu_built: Any, draw: Any) -> None:
    def case(device: Any, size: tuple[int, ...]) -> Any:
        _, m, k, n = size
        x, weight, bias = arrays = [draw(m, k), draw(n, k), draw(n)]
        tensors = [pyrite.tensor(a, device=device) for a in arrays]
        return tensors[0].linear(tensors[1], tensors[2]), x @ weight.T + bias

    first, *others = cpu_built(case, sizes(5))

    assert first > 0
    assert others == [0] * 4


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "int8", "int32", "float64"])
@pytest.mark.sample(2)
def test_other_dtypes(dtype: str, cpu_built: Any, draw: Any) -> None:
    def case(device: Any, size: tuple[int, ...]) -> Any:
        m, k, n = (n // 2 * 2 + 1 for n in size[1:])  # those of even rows are cast by others
        x, y = np.rint(draw(m, k)), np.rint(draw(k, n))
        tensors = [pyrite.tensor(a, device=device).astype(dtype) for a in (x, y)]
        return (tensors[0] @ tensors[1]).astype("float32"), x @ y

    first, *others = cpu_built(case, sizes(4, low=20, high=50))

    assert first > 0
    assert others == [0] * 3


@pytest.mark.parametrize(
    ("text", "shapes"),
    [
        ("mk,kn->mn", lambda b, m, k, n: ((m, k), (k, n))),
        ("bmk,bnk->bmn", lambda b, m, k, n: ((b % 4 + 2, m, k), (b % 4 + 2, n, k))),
        ("bhqk,bhkd->bhqd", lambda b, m, k, n: ((2, b % 3 + 2, m, k), (2, b % 3 + 2, k, n))),
    ],
)
def test_contractions(text: str, shapes: Any, cpu_built: Any, draw: Any) -> None:
    def case(device: Any, size: tuple[int, ...]) -> Any:
        arrays = [draw(*shape) for shape in shapes(*size)]
        tensors = [pyrite.tensor(a, device=device) for a in arrays]
        return pyrite.einsum(text, *tensors), np.einsum(text, *arrays)

    first, *others = cpu_built(case, sizes(4))

    assert first > 0
    assert others == [0] * 3


def test_kinds_are_built_once_each(cpu_built: Any, draw: Any) -> None:
    def case(device: Any, size: tuple[int, int, int]) -> Any:
        m, k, n = size
        x, y = draw(m, k), draw(k, n)
        return pyrite.tensor(x, device=device) @ pyrite.tensor(y, device=device), x @ y

    few = [(3, 20, 40), (3, 31, 19), (2, 9, 33), (2, 31, 50), (1, 20, 30), (1, 35, 60)]
    long = [(20, 300, 15), (17, 517, 21), (40, 1025, 12)]
    narrow = [(30, 20, 3), (70, 12, 3), (26, 31, 2), (41, 26, 2)]

    assert cpu_built(case, few) == [1, 0, 1, 0, 1, 0]
    assert cpu_built(case, long) == [1, 0, 0]
    assert cpu_built(case, narrow) == [1, 0, 1, 0]


def test_a_gpu_builds_two_kernels_at_most_for_ragged_sizes(
    backend: Any, built: Any, draw: Any
) -> None:
    """Kinds there are of tiles too: a size of tile that is best for more work is another."""

    def case(device: Any, size: tuple[int, ...]) -> Any:
        b, m, k, n = size
        x, y = draw(b % 3 + 2, m, k), draw(b % 3 + 2, k, n)
        return pyrite.tensor(x, device=device) @ pyrite.tensor(y, device=device), x @ y

    odd = [tuple(n // 2 * 2 + 1 for n in size) for size in sizes(5, high=32)]

    found = built(case, odd)
    assert found[0] == 1
    assert sum(found) <= 2


def test_a_gpu_takes_one_kernel_for_few_rows_of_a_count(built: Any, draw: Any) -> None:
    def case(device: Any, size: tuple[int, int, int]) -> Any:
        m, k, n = size
        x, y = draw(m, k), draw(k, n)
        return pyrite.tensor(x, device=device) @ pyrite.tensor(y, device=device), x @ y

    assert built(case, [(3, 15, 33), (3, 31, 47), (3, 70, 21)]) == [1, 0, 0]


def test_sums_in_parts_are_of_any_number(draw: Any) -> None:
    backend = CubeBackend(InterpreterRuntime())
    device = Device(backend)
    before = backend.launcher.kernels
    for m, k, n in ((17, 515, 19), (21, 1027, 17), (19, 263, 21)):
        x, y = draw(m, k), draw(k, n)
        found = pyrite.tensor(x, device=device) @ pyrite.tensor(y, device=device)
        np.testing.assert_allclose(found.numpy(), x @ y, rtol=1e-4, atol=1e-4)
    # The product, what joins its parts, and the product of a sum that is too short for parts.
    assert backend.launcher.kernels - before <= 3
