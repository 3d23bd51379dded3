"""What adds up many elements stays near the truth: long axes, offset data, every fold, anywhere.

A sum of n float32 taken one after the other is off by up to n roundings; around 1,001 they all go
in one direction.  Lanes, blocks or pairs keep them few.  The truth is the same fold in float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

import pyrite
from pyrite.backend.device import device_names, device_problem
from pyrite.tensor.creation import tensor
from pyrite.tensor.tensor import Tensor
from pyrite.types import Array, DType, bfloat16, float16, float32

pytestmark = pytest.mark.filterwarnings("ignore::pyrite.backend.fallback.FallbackWarning")

WORKING = [n for n in device_names() if device_problem(n) is None]
DTYPES = (float32, float16, bfloat16)
ROUNDING = {float32: 2.0**-24, float16: 2.0**-11, bfloat16: 2.0**-8}
TINY = {float32: 2.0**-126, float16: 2.0**-14, bfloat16: 2.0**-126}

#: What a fold of NumPy's may cost, in roundings of float32 relative to the fold of absolute values:
#: it adds in float64 and rounds once, and once for each op of the few that make up a composite.
JUDGE = 4.0

#: What a fold may cost elsewhere, for each element, in roundings: of 64 lanes or blocks each is
#: added apart, and an addition costs half a rounding.
BLOCKED = 1 / 128

#: Or it adds one element after the other, as BLAS, PyTorch's CPU kernels and scans do.
SEQUENTIAL = 1 / 2

ROWS = 3
LENGTH = 100_000
#: NumPy's pools take one step for each element of a window.
SHORT = 10_000

Fold = Callable[[Tensor], Any]


def ones(x: Tensor, *shape: int) -> Tensor:
    return pyrite.ones(shape, dtype=x.dtype, device=x.device)


def first_places(x: Tensor, *shape: int) -> Tensor:
    return pyrite.zeros(shape, dtype="int32", device=x.device)


def near_one(x: Tensor) -> Tensor:
    """Return factors 1 - 1/128 and 1 + 1/128."""
    return (x > x.round()).astype(x.dtype) / 64 + 127 / 128


def slope(fn: Callable[[Tensor], Tensor], at: Tensor, cotangent: Tensor) -> Tensor:
    """Return the gradient of something for a cotangent."""
    return pyrite.grad(lambda w: (fn(w) * cotangent).sum())(at)


#: Folds of rows (3, n) that are linear in them.
LINEAR: dict[str, Fold] = {
    "sum": lambda x: x.sum(-1),
    "sum of all": lambda x: x.sum(),
    "mean": lambda x: x.mean(-1),
    "mean of all": lambda x: x.mean(),
    "cumulative_sum": lambda x: x.cumulative_sum(-1),
    "cumulative_sum in reverse": lambda x: x.cumulative_sum(-1, reverse=True),
    "matmul": lambda x: x @ ones(x, x.shape[-1], 2),
    "matmul of rows": lambda x: x.unsqueeze(1) @ ones(x, x.shape[-1], 1),
    "wide matmul": lambda x: ones(x, 40, x.shape[-1]) @ x.mT,
    "vecdot": lambda x: x.vecdot(ones(x, x.shape[-1])),
    "linear": lambda x: x.linear(ones(x, 2, x.shape[-1])),
    "einsum": lambda x: pyrite.einsum("ij,jk->ik", x, ones(x, x.shape[-1], 2)),
    "conv1d": lambda x: x[None].conv1d(ones(x, 2, ROWS, x.shape[-1])),
    "avg_pool1d": lambda x: x[None, :, :SHORT].avg_pool1d(SHORT),
    "adaptive_avg_pool1d": lambda x: x[None, :, :SHORT].adaptive_avg_pool1d(1),
    "scatter add": lambda x: (ones(x, ROWS, 2) * 0).scatter(
        1, first_places(x, *x.shape), x, reduction="add"
    ),
    "gradient of conv1d's weight": lambda x: slope(
        lambda w: ones(x, 1, 1, x.shape[-1] + 2).conv1d(w), ones(x, ROWS, 1, 3), x[None]
    ),
    "gradient of conv1d's bias": lambda x: slope(
        lambda b: ones(x, 1, 1, x.shape[-1]).conv1d(ones(x, ROWS, 1, 1), b), ones(x, ROWS), x[None]
    ),
    "gradient of linear's weight": lambda x: slope(
        lambda w: ones(x, x.shape[-1], 2).linear(w), ones(x, ROWS, 2), x.mT
    ),
    "gradient of linear's bias": lambda x: slope(
        lambda b: ones(x, x.shape[-1], 2).linear(ones(x, ROWS, 2), b), ones(x, ROWS), x.mT
    ),
    "gradient of broadcasting": lambda x: slope(
        lambda b: b + ones(x, *x.shape), ones(x, ROWS, 1), x
    ),
    "gradient of embedding": lambda x: slope(
        lambda w: w.embedding(first_places(x, x.shape[-1])), ones(x, 2, ROWS), x.mT
    ),
    "gradient of take": lambda x: slope(
        lambda w: w.take(first_places(x, x.shape[-1]), axis=0), ones(x, 2, ROWS), x.mT
    ),
    "gradient of cumulative_sum": lambda x: slope(
        lambda w: w.cumulative_sum(-1), ones(x, *x.shape), x
    ),
    "gradient of batch_norm's bias": lambda x: slope(
        lambda b: (ones(x, 1, ROWS, x.shape[-1])).batch_norm(None, b)[0], ones(x, ROWS), x[None]
    ),
    "gradient of layer_norm's bias": lambda x: slope(
        lambda b: (ones(x, x.shape[-1], ROWS)).layer_norm(None, b), ones(x, ROWS), x.mT
    ),
}


def far(x: Array, _: Array) -> Any:
    """What an error of the mean, relative to it, makes of elements divided by their spread."""
    return np.abs(x).max() / x.std(-1).min()


def itself(_: Array, out: Array) -> Any:
    return np.abs(out)


#: Folds of rows that are not linear, and what an error of one part in x is of: (x, result).
CURVED: dict[str, tuple[Fold, Callable[[Array, Array], Any]]] = {
    "var": (lambda x: x.var(-1), itself),
    "var of all": (lambda x: x.var(), itself),
    "std": (lambda x: x.std(-1), itself),
    "cov": (lambda x: x.cov(), lambda x, out: np.diag(out).max()),
    "vector_norm": (lambda x: x.vector_norm(-1), itself),
    "l1_norm": (lambda x: x.l1_norm(-1), itself),
    "logsumexp": (lambda x: (x / 64).logsumexp(-1), itself),
    "cumulative_logsumexp": (
        lambda x: (x / 64).cumulative_logsumexp(-1),
        lambda x, out: np.maximum(np.abs(out), np.abs(x / 64).max()),
    ),
    "softmax": (lambda x: (x / 64).softmax(-1), lambda x, out: out * np.abs(x / 64).max()),
    "log_softmax": (
        lambda x: (x / 64).log_softmax(-1),
        lambda x, out: np.abs(out) + np.abs(x / 64).max(),
    ),
    "layer_norm": (lambda x: x.layer_norm(), far),
    "batch_norm": (lambda x: x[None].batch_norm()[0], far),
    "batch_norm's mean": (lambda x: x[None].batch_norm()[1], lambda x, out: np.abs(x).max()),
    "batch_norm's variance": (lambda x: x[None].batch_norm()[2], itself),
    "group_norm": (lambda x: x[None].group_norm(num_groups=1), far),
    "instance_norm": (lambda x: x[None].instance_norm(), far),
    "rms_norm": (lambda x: x.rms_norm(), itself),
    "cross_entropy": (
        lambda x: (x.mT / 64).cross_entropy_with_logits(first_places(x, x.shape[-1])),
        lambda x, out: np.abs(x / 64).max(),
    ),
    "nll_loss": (
        lambda x: x.mT.nll_loss(first_places(x, x.shape[-1])),
        lambda x, out: np.abs(x).max(),
    ),
    "binary_cross_entropy": (
        lambda x: (x / 1024).binary_cross_entropy_with_logits(x * 0 + 1),
        lambda x, out: 1,
    ),
    "prod": (lambda x: near_one(x).prod(-1), itself),
    "cumulative_prod": (lambda x: near_one(x).cumulative_prod(-1), itself),
}

DATA: dict[str, Callable[[np.random.Generator, int], Array]] = {
    "offset": lambda rng, n: 1001 + rng.standard_normal((ROWS, n)),
    "constant": lambda rng, n: np.full((ROWS, n), 1001.3),
    "alternating": lambda rng, n: 1001 * (-1.0) ** np.arange(n) + rng.standard_normal((ROWS, n)),
}

#: Of constant rows these say more of the rounding of one mean than of a sum.
DIVIDES_BY_A_SPREAD = {
    *("var", "var of all", "std", "cov", "layer_norm", "batch_norm", "batch_norm's variance"),
    *("group_norm", "instance_norm"),
    *("gradient of batch_norm's bias", "gradient of layer_norm's bias"),
}

#: What elsewhere adds in the order of the elements, in some layouts and on some devices.
ONE_BY_ONE = {
    *("matmul", "matmul of rows", "wide matmul", "vecdot", "linear", "einsum", "cov"),
    *("conv1d", "gradient of conv1d's weight", "gradient of linear's weight"),
    *("cumulative_sum", "cumulative_sum in reverse", "gradient of cumulative_sum"),
    *("cumulative_logsumexp", "prod", "cumulative_prod"),
    *("scatter add", "gradient of embedding", "gradient of take"),
    *("avg_pool1d", "adaptive_avg_pool1d", "gradient of layer_norm's bias"),
    *("batch_norm", "batch_norm's variance"),
}

#: What takes NumPy long for a million elements.
SLOW = {"conv1d", "gradient of conv1d's weight", "avg_pool1d", "adaptive_avg_pool1d"}


@cache
def rows(data: str, n: int, dtype: DType) -> Array:
    rng = np.random.default_rng([n, sorted(DATA).index(data)])
    return DATA[data](rng, n).astype(np.float32).astype(dtype.numpy)


def given(array: Array, device: str, lies: str) -> Tensor:
    """Return rows that lie in memory one after the other, or beside one another."""
    if lies == "in columns":
        return tensor(np.ascontiguousarray(array.T), device=device).mT
    return tensor(array, device=device)


@cache
def truth(fold: str, data: str, n: int, dtype: DType) -> tuple[Array, Array]:
    """Return a fold in float64, and what its errors are relative to."""
    wide = rows(data, n, dtype).astype(np.float64)
    if fold in LINEAR:
        found = [LINEAR[fold](tensor(a, device="numpy")).numpy() for a in (wide, np.abs(wide))]
        return found[0], found[1]
    fn, part = CURVED[fold]
    out = fn(tensor(wide, device="numpy")).numpy()
    return out, np.broadcast_to(part(wide, out), out.shape)


def excess(fold: str, data: str, n: int, dtype: DType, device: str, lies: str) -> float:
    """Return the greatest error of a fold, in roundings of float32, beyond those of its dtype."""
    want, part = truth(fold, data, n, dtype)
    fn = LINEAR[fold] if fold in LINEAR else CURVED[fold][0]
    got = fn(given(rows(data, n, dtype), device, lies)).numpy().astype(np.float64)
    with np.errstate(over="ignore"):
        rounded = want.astype(np.float32).astype(dtype.numpy).astype(np.float64)
    near = np.isfinite(rounded) & np.isfinite(got)
    assert (near | (got == rounded)).all()
    got, want, part = got[near], want[near], part[near]
    own = 4 * ROUNDING[dtype] * np.abs(want) + TINY[dtype]
    error = np.maximum(np.abs(got - want) - own, 0)
    share = np.divide(error, part, out=np.zeros_like(error), where=error > 0)
    return float((share * 2**24).max(initial=0))


def allowed(fold: str, n: int, device: str) -> float:
    if device == "numpy":
        return JUDGE
    return n * (SEQUENTIAL if fold in ONE_BY_ONE else BLOCKED)


#: Narrow dtypes are added up in float32: what data of other kinds would find, float32 finds.
KINDS = [
    pytest.param(data, dtype, id=f"{data}-{dtype.name}")
    for data in DATA
    for dtype in (DTYPES if data == "offset" else (float32,))
]


@pytest.mark.sample(1, by="fold")
@pytest.mark.parametrize("lies", ["in rows", "in columns"])
@pytest.mark.parametrize(("data", "dtype"), KINDS)
@pytest.mark.parametrize("device", WORKING)
@pytest.mark.parametrize("fold", [*LINEAR, *CURVED])
def test_a_long_fold_is_near_the_truth(
    fold: str, device: str, data: str, dtype: DType, lies: str
) -> None:
    if data == "constant" and fold in DIVIDES_BY_A_SPREAD:
        return
    found = excess(fold, data, LENGTH, dtype, device, lies)
    assert found <= allowed(fold, LENGTH, device), f"{found:.0f} roundings"


@pytest.mark.sample(1, by="fold")
@pytest.mark.parametrize("lies", ["in rows", "in columns"])
@pytest.mark.parametrize("data", DATA)
@pytest.mark.parametrize("fold", [f for f in [*LINEAR, *CURVED] if f not in SLOW])
def test_the_judge_is_near_the_truth(fold: str, data: str, lies: str, full: bool) -> None:
    if data == "constant" and fold in DIVIDES_BY_A_SPREAD:
        return
    n = 10 * LENGTH if full else LENGTH
    assert excess(fold, data, n, float32, "numpy", lies) <= JUDGE


#: What a sum may be off by in kernels of this framework, however long it is: it adds in blocks.
IN_BLOCKS = 160

#: A shape with an axis of n, and the axes of a sum: alone, beside few neighbours and many, between.
PLACES: dict[str, tuple[Callable[[int], tuple[int, ...]], int | tuple[int, ...] | None]] = {
    "a row": (lambda n: (n,), None),
    "rows": (lambda n: (3, n), 1),
    "a column": (lambda n: (n, 1), 0),
    "columns of an odd count": (lambda n: (n, 3), 0),
    "columns": (lambda n: (n, 16), 0),
    "columns in whole vectors": (lambda n: (n, 80), 0),
    "columns between": (lambda n: (2, n, 8), 1),
    "both axes of columns": (lambda n: (n // 100, 100, 7), (0, 1)),
}


@pytest.mark.sample(1, by="place")
@pytest.mark.parametrize("lies", ["dense", "every second", "reversed"])
@pytest.mark.parametrize("name", ["sum", "mean"])
@pytest.mark.parametrize("device", [n for n in WORKING if n in ("cpu", "wgpu")])
@pytest.mark.parametrize("place", PLACES)
def test_a_sum_of_equal_elements_is_off_by_no_more_where_it_is_long(
    device: str, name: str, place: str, lies: str, full: bool
) -> None:
    shape, axis = PLACES[place]
    n = 10 * LENGTH if full else 2 * LENGTH
    element = np.float32(0.1)
    made = pyrite.full(shape(2 * n), float(element), device=device)
    longest = made.shape.index(max(made.shape))
    steps = {"dense": slice(made.shape[longest] // 2), "every second": slice(None, None, 2)}
    x = made[(*[slice(None)] * longest, steps.get(lies, slice(None, None, -1)))]
    got = getattr(x, name)(axis=axis).numpy().astype(np.float64)
    want = float(element) * (x.size // got.size if name == "sum" else 1)
    assert np.abs(got / want - 1).max() * 2**24 <= IN_BLOCKS


@pytest.mark.parametrize("axis", [0, 1, None])
def test_sums_of_float64_are_added_in_pairs(axis: int | None) -> None:
    x = np.full((100_000, 2), 1001.3)
    exact = math.fsum(x[:, 0]) * (2 if axis is None else 1)
    got = tensor(x if axis != 1 else x.T, device="numpy").sum(axis).numpy()
    np.testing.assert_allclose(got, exact, rtol=4e-16, atol=0)
