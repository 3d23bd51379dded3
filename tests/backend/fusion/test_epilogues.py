"""What follows a product or a convolution element by element is computed by its kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pyrite
from pyrite import Tensor
from pyrite.backend.cube import CubeBackend
from pyrite.backend.device import Device
from pyrite.backend.fusion import Fusion
from pyrite.kernel.machine import Machine
from pyrite.runtime.interpreter import InterpreterRuntime
from pyrite.testing.contraction_steps import STEPS_AROUND
from pyrite.testing.random_graph_check import check
from pyrite.testing.random_graphs import RandomGraph
from pyrite.types import Array

MACHINES = {"v4": Machine.cpu(64, 32), "v3": Machine.cpu(), "gpu": Machine.gpu(workgroups=8)}
RNG = np.random.default_rng(1)


@pytest.fixture(scope="module", params=MACHINES)
def root(request: pytest.FixtureRequest) -> Any:
    runtime: Any = InterpreterRuntime(MACHINES[request.param])
    return CubeBackend(runtime)


def numbers(*shape: int) -> Array:
    return RNG.integers(-4, 5, shape).astype(np.float32)


def kernels_of(compute: Callable[..., Any], arrays: list[Array], root: Any) -> int:
    """Return how many kernels a computation is, whose values are those without Fusion."""
    plain, fused = Device(root), Device(Fusion(root))
    with pyrite.explain() as found:
        results = compute(*[pyrite.tensor(a, device=fused) for a in arrays])
        got = [x.numpy() for x in results]
    wanted = compute(*[pyrite.tensor(a, device=plain) for a in arrays])
    for x, y in zip(got, wanted, strict=True):
        np.testing.assert_array_equal(x, y.numpy())
    return len(found.launched)


def biased_gelu(x: Tensor, w: Tensor, b: Tensor) -> list[Tensor]:
    return [x.linear(w, b).gelu()]


def value_and_activation(x: Tensor, w: Tensor, b: Tensor) -> list[Tensor]:
    h = x.linear(w, b)
    return [h, h.relu()]


def of_images(x: Tensor, w: Tensor, b: Tensor) -> list[Tensor]:
    return [x.conv2d(w, b).relu() * 2]


PRODUCTS = {"biased_gelu": biased_gelu, "value_and_activation": value_and_activation}
SHAPES = {"vector": ((5,), (7, 5), (7,)), "matrix": ((6, 5), (7, 5), (7,)),
          "batch": ((2, 3, 4), (9, 4), (9,)), "long": ((2, 300), (1, 300), (1,))}  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", PRODUCTS)
def test_what_follows_a_layer_is_in_its_kernel(root: Any, name: str, shape: str) -> None:
    assert kernels_of(PRODUCTS[name], [numbers(*s) for s in SHAPES[shape]], root) == 1


def test_a_bias_a_residual_and_a_cast_follow_a_product(root: Any) -> None:
    def compute(x: Tensor, w: Tensor, b: Tensor, r: Tensor) -> list[Tensor]:
        return [((x @ w + b) * 0.5 + r.mT).astype("float16")]

    arrays = [numbers(6, 5), numbers(5, 7), numbers(7), numbers(7, 6)]
    assert kernels_of(compute, arrays, root) == 1


def test_an_activation_follows_a_convolution(root: Any) -> None:
    assert kernels_of(of_images, [numbers(2, 3, 9, 12), numbers(4, 3, 3, 2), numbers(4)], root) == 1


def test_what_a_view_shows_follows_too_and_lies_as_the_product(root: Any) -> None:
    def compute(x: Tensor, w: Tensor, scale: Tensor) -> list[Tensor]:
        return [(x @ w).reshape((4, 3, 2, 4)).permute((0, 2, 1, 3)) * scale]

    assert kernels_of(compute, [numbers(12, 5), numbers(5, 8), numbers(4, 1, 3, 1)], root) == 1


def test_a_fold_makes_what_it_needs_itself(root: Any) -> None:
    def compute(x: Tensor, w: Tensor, y: Tensor) -> list[Tensor]:
        return [((x @ w - y) ** 2).mean()]

    assert kernels_of(compute, [numbers(6, 5), numbers(5, 8), numbers(6, 8)], root) == 2


def test_an_activation_hides_no_number_that_is_not_finite_at_the_border() -> None:
    """Padding is no element: an infinite weight beside it does not make a sum NaN, then 0."""
    root = pyrite.device("cpu").backend.root
    weight = numbers(4, 3, 3, 3)
    weight[1, 0, 0, 0], weight[2, 1, 1, 1] = np.inf, np.nan
    arrays = [numbers(2, 3, 9, 12), weight, numbers(4)]

    def compute(x: Tensor, w: Tensor, b: Tensor) -> list[Tensor]:
        h = x.conv2d(w, b, padding=1)
        return [pyrite.where(h > 0, h, 0)]

    # The second launch looks at the border.
    assert kernels_of(compute, arrays, root) == 2


@pytest.mark.parametrize("first", range(0, 2000, 5))
@pytest.mark.sample(1)
def test_contractions_and_what_is_around_them_give_what_they_give_without_fusion(
    first: int,
) -> None:
    plain = pyrite.device("cpu")
    fused = Device(Fusion(plain.backend.root))
    for seed in range(first, first + 5):
        check(RandomGraph(seed, STEPS_AROUND), plain, fused)


# ---- what follows a fold ----


@pytest.fixture(scope="module")
def gpu() -> Any:
    runtime: Any = InterpreterRuntime(MACHINES["gpu"])
    return CubeBackend(runtime)


def update(x: Tensor, p: Tensor, m: Tensor) -> list[Tensor]:
    g = x.sum(axis=0)
    moment = m * 0.5 + g
    return [p - moment * 0.25, moment]


def update_and_gradient(x: Tensor, p: Tensor, m: Tensor) -> list[Tensor]:
    g = x.max(axis=0)
    return [p - g, g, (m * g).relu()]


def update_of_a_view(x: Tensor, p: Tensor, m: Tensor) -> list[Tensor]:
    return [(p - x.sum(axis=0, keepdims=True).reshape(p.shape).abs()) * m]


def update_in_float16(x: Tensor, p: Tensor, m: Tensor) -> list[Tensor]:
    g = (x * 0.25).astype("float16").sum(axis=0)
    return [(p.astype("float16") - g * 0.3).astype("float32") * m]


def update_by_a_mean(x: Tensor, p: Tensor, m: Tensor) -> list[Tensor]:
    return [p + x.mean(axis=0).square() * m]


FOLDS = {
    "update": update, "gradient": update_and_gradient, "view": update_of_a_view,
    "float16": update_in_float16, "mean": update_by_a_mean,
}  # fmt: skip


@pytest.mark.parametrize("shape", [(1, 1), (5, 1), (7, 12), (40, 33), (700, 8), (3, 2, 5)], ids=str)
@pytest.mark.parametrize("name", FOLDS)
@pytest.mark.sample(2, by="name")
def test_what_follows_a_fold_of_columns_is_in_its_kernel(
    gpu: Any, name: str, shape: tuple[int, ...]
) -> None:
    arrays = [numbers(*shape), numbers(*shape[1:]), numbers(*shape[1:])]
    arrays[1][..., -1] = np.nan
    # Parts of long columns are folded before, and what is folded of another dtype is written.
    most = 1 + (shape[0] > 64) + (name == "float16")
    assert kernels_of(FOLDS[name], arrays, gpu) <= most


def test_what_follows_reads_tensors_as_they_lie(gpu: Any) -> None:
    def compute(x: Tensor, p: Tensor, m: Tensor) -> list[Tensor]:
        return [p[1:, ::2].mT * 0.5 - x.sum(axis=0), m[::-1, 1] + (x * 2).max(axis=(0, 2))]

    assert kernels_of(compute, [numbers(9, 6, 4), numbers(5, 12), numbers(6, 3)], gpu) <= 4


@pytest.mark.parametrize("rows", [6, 300])
def test_what_follows_sums_of_the_other_way_is_in_the_kernel_that_joins_them(
    gpu: Any, rows: int
) -> None:
    """Gradients of a norm's scale and shift, and their updates."""

    def compute(x: Tensor, g: Tensor, scale: Tensor, shift: Tensor) -> list[Tensor]:
        centred = x - x.max(axis=1, keepdims=True)
        of_scale, of_shift = (
            (g * centred).sum(axis=0),
            (g * x.max(axis=1, keepdims=True)).sum(axis=0),
        )
        return [centred * g, scale - of_scale * 0.5, shift - of_shift * 0.5, of_shift]

    arrays = [numbers(rows, 12), numbers(rows, 12), numbers(12), numbers(12)]
    assert kernels_of(compute, arrays, gpu) == 3
