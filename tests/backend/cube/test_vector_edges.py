"""Sizes beside the multiples of a vector: every kind of op, in every dtype, on one thread and more.

What a kernel does with the last, partly filled vector is the judge's on all sizes, not on round
ones.  The values are small whole numbers, of which sums are exact in most dtypes.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

import pyrite
from pyrite import Device, Tensor
from pyrite.kernel.machine import Machine
from pyrite.types import DTYPES, DType, TensorType

pytest.importorskip("llvmlite")

from pyrite.backend.cube.backend import CubeBackend
from pyrite.backend.cube.skeleton.contraction import PRODUCT, contract
from pyrite.backend.cube.skeleton.contraction.matrix_product import matmul_product
from pyrite.kernel.template.implicit_gemm import OperandLayout
from pyrite.runtime.cpu.runtime import CpuRuntime

#: The widest vector has 16 elements.
SIZES = [16 * k + d for k in (1, 2, 5) for d in (-1, 0, 1)]
THREADS = (1, 2, 3)
TOLERANCE = {"bfloat16": 2e-2, "float16": 4e-3, "float32": 2e-5, "float64": 1e-10}

#: Makes a tensor of a shape.
Make = Callable[..., Tensor]
Family = Callable[[Make, int], Tensor | Sequence[Tensor]]


def indices(x: Tensor, count: int, below: int) -> Tensor:
    """Return indices on the tensor's device."""
    return pyrite.tensor((np.arange(count) * 7 % below).astype(np.int32), device=x.device)


def gathered(t: Make, n: int) -> list[Tensor]:
    x = t(n, 5)
    at = indices(x, 2 * n, n)
    along = indices(x, 5 * n, n).reshape(n, 5)
    return [x.take(at, axis=0), x.mT.take(at, axis=1), x.take_along_axis(along, axis=0)]


def scattered(t: Make, n: int) -> list[Tensor]:
    x = t(n, 5)
    at = pyrite.tensor(np.arange(n)[::-1].astype(np.int32).copy(), device=x.device)
    return [x.at[at].set(t(n, 5)), x.at[at[1::2]].set(t(n // 2, 5)), x.at[3:].set(t(n - 3, 5))]


def cast_to_all(t: Make, n: int) -> list[Tensor]:
    x = t(3, n)
    return [x.astype(d) for d in DTYPES]


def compared(t: Make, n: int) -> list[Tensor]:
    x, y = t(3, n), t(n)
    return [x == y, x != y, pyrite.where(x == y, x, y), pyrite.where(x[:, ::2] == y[::2], 1, 0)]


def moved(t: Make, n: int) -> list[Tensor]:
    x = t(3, n)
    return [
        x.mT.reshape(-1), x.flip((0, 1)).reshape(-1), x[:, 1::2].reshape(-1),
        pyrite.cat([x, t(3, 2), t(3, n)], 1), pyrite.stack([x, x]), x.pad(((1, 0), (2, 1))),
        x.roll(1, 1), x.repeat(3), x.expand((2, 3, n)).reshape(-1),
    ]  # fmt: skip


def joined_planes(t: Make, n: int) -> list[Tensor]:
    x = t(2, n, 3, n)
    return [x.permute((0, 3, 2, 1)).reshape(-1), x.permute((2, 0, 3, 1)).reshape(-1)]


def folded(t: Make, n: int) -> list[Tensor]:
    x, wide = t(7, n), t(n, 33)
    return [
        x.sum(1), x.sum(0), x.sum(), wide.sum(0), wide.sum(1), x.max(1), x.max(0), x.min(),
        x.argmax(1), wide.argmin(0), x.prod(0), t(2, n, 5).sum(1), t(2, n, 5).max((0, 2)),
    ]  # fmt: skip


def scanned(t: Make, n: int) -> list[Tensor]:
    x = t(5, n)
    return [
        x.cumsum(1),
        x.cumsum(0),
        x.mT.cumsum(0),
        x.cummax(1),
        x.cummin(0),
        t(3, n, 4).cumsum(1),
    ]


def sorted_(t: Make, n: int) -> list[Tensor]:
    x = t(3, n)
    return [x.sort(1), x.mT.sort(0), x.argsort(1), *x.topk(5, 1)]


def arithmetic(t: Make, n: int) -> list[Tensor]:
    x, y = t(3, n), t(n)
    return [
        x + y,
        x < y,
        x * y - x,
        x.maximum(y),
        pyrite.abs(x),
        x.mT * y.unsqueeze(1),
        x.clamp(0, 1),
    ]


def masked(t: Make, n: int) -> list[Tensor]:
    x = t(n, n)
    return [x.tril(), x.triu(1), x.diagonal(), x.mask_where(x == t(n), t(n, n))]


def multiplied(t: Make, n: int) -> list[Tensor]:
    return [
        t(65, 33) @ t(33, n), t(129, n) @ t(n, 17), t(n, 65).mT @ t(n, 33), t(5, n) @ t(9, n).mT,
        t(3, n, 7) @ t(7, n), t(n) @ t(n, 17), t(2, n, n) @ t(2, n, 1), t(n, 3) @ t(3, n),
    ]  # fmt: skip


def convolved(t: Make, n: int) -> list[Tensor]:
    return [
        t(2, 3, n).conv1d(t(5, 3, 3), padding=1), t(1, 3, 9, n).conv2d(t(4, 3, 3, 3)),
        t(1, n, 5, 5).conv2d(t(17, n, 1, 1)), t(2, 3, 5, 6).conv2d(t(n, 3, 3, 3), stride=2),
        t(1, n, 6, 7).conv2d(t(n, 1, 3, 3), groups=n), t(1, 2, 3, 4, n).conv3d(t(3, 2, 2, 2, 2)),
        t(1, 4, n, 9).conv2d(t(6, 2, 3, 2), groups=2),
        t(1, 3, 7, n).conv_transpose2d(t(3, 4, 3, 3)),
    ]  # fmt: skip


def pooled(t: Make, n: int) -> list[Tensor]:
    x = t(2, 3, 9, n)
    return [x.max_pool2d(3, stride=2, padding=1), x.avg_pool2d(2), x.interpolate(scale_factor=2)]


def normalized(t: Make, n: int) -> list[Tensor]:
    x, outer, planes = t(7, n), t(n, 33), t(2, 16, n)
    return [
        x.softmax(1), x.softmax(0), outer.softmax(0), x.log_softmax(1), outer.log_softmax(0),
        t(2, n, 5).softmax(1), x.layer_norm(), x.rms_norm(), planes.group_norm(num_groups=4),
        planes.instance_norm(), x.logsumexp(1), outer.mean(0), x.var(1), x.gelu(),
    ]  # fmt: skip


def attended(t: Make, n: int) -> list[Tensor]:
    q, k, v = t(2, 2, n, 17), t(2, 2, n, 17), t(2, 2, n, 9)
    return [q.scaled_dot_product_attention(k, v), t(7, n).cross_entropy(indices(q, 7, n))]


def gradients(t: Make, n: int) -> list[Tensor]:
    """Of products, convolutions and rows, with a cotangent of their own."""
    functions: list[tuple[Callable[..., Tensor], list[tuple[int, ...]]]] = [
        (lambda x, y: x @ y, [(65, n), (n, 17)]),
        (lambda x, w: x.conv2d(w, padding=1), [(2, 3, 5, n), (4, 3, 3, 3)]),
        (lambda x, w: x.conv2d(w), [(2, n, 5, 5), (17, n, 3, 3)]),
        (lambda x, w: x.conv2d(w), [(2, 5, 6, 6), (n, 5, 1, 1)]),
        (lambda x, w: x.conv2d(w, groups=n), [(2, n, 5, 5), (n, 1, 3, 3)]),
        (lambda x, w: x.conv1d(w, stride=2), [(2, 3, n), (n, 3, 3)]),
        (lambda x: x.softmax(1), [(7, n)]),
        (lambda x: x.softmax(0), [(n, 7)]),
        (lambda x, w: x.layer_norm(w), [(7, n), (n,)]),
        (lambda x: x.max_pool2d(3, stride=2), [(1, 2, 9, n)]),
        (lambda x: x.cumsum(1), [(3, n)]),
    ]
    return [g for f, shapes in functions for g in gradient(f, [t(*s) for s in shapes])]


def gradient(f: Callable[..., Tensor], operands: list[Tensor]) -> list[Tensor]:
    out = f(*operands)
    count = np.arange(np.prod(out.shape)).reshape(out.shape) % 3 - 1.0
    g = pyrite.tensor(count, device=out.device).astype(out.dtype)
    found = pyrite.grad(lambda *xs: (f(*xs) * g).sum(), argnums=tuple(range(len(operands))))(
        *operands
    )
    return list(found) if isinstance(found, tuple | list) else [found]


OF_ANY = (gathered, scattered, cast_to_all, compared, moved, joined_planes, masked)
OF_NUMBERS = (folded, scanned, sorted_, arithmetic, multiplied, convolved)
OF_FLOATS = (pooled, normalized, attended, gradients)


def cases() -> Iterator[Any]:
    for families, dtypes in (
        (OF_ANY, DTYPES),
        (OF_NUMBERS, [d for d in DTYPES if not d.is_bool]),
        (OF_FLOATS, [d for d in DTYPES if d.is_float]),
    ):
        for family in families:
            for dtype in dtypes:
                yield pytest.param(family, dtype, id=f"{family.__name__}-{dtype.name}")


@pytest.fixture(scope="module")
def devices() -> list[Device]:
    return [Device(CubeBackend(CpuRuntime(threads=threads))) for threads in THREADS]


def maker(dtype: DType, device: Device | str, seed: str) -> Make:
    """Return what makes the same small whole numbers on every device."""
    generator = np.random.default_rng([ord(c) for c in seed])
    low = 0 if dtype.kind in ("uint", "bool") else -2

    def make(*shape: int) -> Tensor:
        return pyrite.tensor(generator.integers(low, 2, shape).astype(dtype.numpy), device=device)

    return make


def values(family: Family, dtype: DType, n: int, device: Device | str) -> list[Any]:
    made = family(maker(dtype, device, f"{dtype.name} {n}"), n)
    return [x.numpy() for x in made]


@pytest.mark.filterwarnings("ignore::pyrite.backend.fallback.FallbackWarning")
@pytest.mark.sample(6)
@pytest.mark.parametrize(("family", "dtype"), [*cases()])
def test_sizes_beside_a_vectors_are_as_on_numpy(
    devices: list[Device], full: bool, family: Family, dtype: DType
) -> None:
    draw = random.Random(f"{family.__name__} {dtype.name}")
    sizes = SIZES if full else draw.sample(SIZES, 2)
    for n in sizes:
        threads = draw.randrange(len(THREADS))
        found = values(family, dtype, n, devices[threads])
        for i, (got, want) in enumerate(zip(found, values(family, dtype, n, "numpy"), strict=True)):
            where = f"result {i} for n = {n} on {THREADS[threads]} threads"
            assert (got.shape, got.dtype) == (want.shape, want.dtype), where
            tolerance = TOLERANCE.get(want.dtype.name, 0)
            got, want = (x.astype(np.float64) if tolerance else x for x in (got, want))
            np.testing.assert_allclose(got, want, tolerance, tolerance * 4, err_msg=where)


#: Processors of each level, and a GPU, whose plans a processor can run too.
MACHINES = (
    Machine.cpu(64, 32),
    Machine.cpu(32, 16),
    Machine.cpu(16, 16, 3),
    Machine.gpu(workgroups=8),
)


@pytest.mark.sample(6)
@pytest.mark.parametrize("machine", MACHINES, ids=["v4", "v3", "v2", "gpu"])
@pytest.mark.parametrize("dtype", [d for d in DTYPES if not d.is_bool], ids=lambda d: d.name)
def test_every_plan_of_a_product_is_as_numpys(
    devices: list[Device], full: bool, dtype: DType, machine: Any
) -> None:
    draw = random.Random(f"{dtype.name} {machine}")
    for _ in range(4 if full else 1):
        m, n, k = draw.choice([1, 5, 64, 65]), draw.choice(SIZES), draw.choice([7, *SIZES])
        integers = np.random.default_rng(0).integers
        x, y = (integers(0, 2, s).astype(dtype.numpy) for s in ((m, k), (k, n)))
        want = (x.astype(np.float64) @ y.astype(np.float64)).astype(dtype.numpy)
        backend: Any = draw.choice(devices).backend
        left, right = backend.upload(x), backend.upload(y)
        layouts = OperandLayout(dtype, (0, k, 1)), OperandLayout(dtype, (0, n, 1))
        product = matmul_product((1, m, k, n), *layouts)
        plans = PRODUCT.candidates(product, machine)
        for i in draw.sample(range(len(plans)), min(len(plans), 12 if full else 3)):
            target = backend.launcher.empty(TensorType((1, m, n), dtype))
            contract(backend.launcher, product, left, right, target, schedule=plans[i])
            got = backend.download(target)[0]
            np.testing.assert_array_equal(got, want, f"{m} x {k} x {n} by {plans[i].config}")
