"""A few ops under one name do what PyTorch's and NumPy's of that name do."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pyrite
from pyrite import value_and_grad
from pyrite.errors import ArgumentError, ShapeError
from pyrite.tensor.creation import tensor

torch = pytest.importorskip("torch")

rng = np.random.default_rng(0)
A, B, C = (rng.normal(size=(3, 4)) for _ in range(3))
SQUARE, M, N, V = (rng.normal(size=s) for s in ((3, 5), (3, 4), (4, 5), (4,)))
BATCH, BM, BN = (rng.normal(size=s) for s in ((2, 3, 5), (2, 3, 4), (2, 4, 5)))
HOLES = np.where(rng.uniform(size=(3, 4)) < 0.3, np.nan, A)
NANS = np.where(rng.uniform(size=(3, 4)) < 0.3, np.nan, B)
UNIT = rng.uniform(0.01, 0.99, size=(3, 4))
STEPS = np.array([-math.inf, -1.0, -0.0, 0.0, 2.0, math.inf])
INDICES = np.array([2, 0, 2])
PLACES = rng.integers(0, 3, (2, 4))
BOUNDS = np.array([-1.0, 0.0, 0.0, 0.5])

#: A call with equal arguments of both, by name; inputs are float64 or int64 arrays.
Case = tuple[Callable[..., Any], Callable[..., Any], tuple[np.ndarray, ...]]


def same(name: str, *arrays: np.ndarray, **options: Any) -> Case:
    theirs = {"dim" if word == "axis" else word: value for word, value in options.items()}
    return (
        lambda x, *rest: getattr(x, name)(*rest, **options),
        lambda x, *rest: getattr(x, name)(*rest, **theirs),
        arrays,
    )


CASES: dict[str, Case] = {
    "erfc": same("erfc", A * 3),
    "logit": same("logit", UNIT),
    "logit-eps": same("logit", UNIT * 2 - 0.5, eps=0.1),
    "heaviside": same("heaviside", STEPS, np.full(6, 0.5)),
    "fmax": same("fmax", HOLES, NANS),
    "fmin": same("fmin", HOLES, NANS),
    "frac": same("frac", A * 5),
    "addcmul": same("addcmul", A, B, C, value=0.5),
    "addcdiv": same("addcdiv", A, B, C, value=-2),
    "mm": same("mm", M, N),
    "mv": same("mv", M, V),
    "bmm": same("bmm", BM, BN),
    "addmm": same("addmm", SQUARE, M, N, beta=0.5, alpha=2),
    "addmm-broadcast": same("addmm", SQUARE[0], M, N),
    "addmv": same("addmv", SQUARE[:, 0], M, V, alpha=3),
    "baddbmm": same("baddbmm", BATCH, BM, BN, beta=2),
    "nansum": same("nansum", HOLES),
    "nansum-axis": same("nansum", HOLES, axis=1),
    "nanmean": same("nanmean", HOLES),
    "nanmean-axis": same("nanmean", HOLES, axis=0),
    "dist": same("dist", A, B),
    "dist-1": same("dist", A, B, p=1),
    "unflatten": (
        lambda x: x.unflatten(1, (2, -1)), lambda x: x.unflatten(1, (2, -1)), (A,)
    ),
    "fliplr": same("fliplr", A),
    "flipud": same("flipud", A),
    "index_add": (
        lambda x, i, y: x.index_add(0, i, y, alpha=2),
        lambda x, i, y: x.index_add(0, i, y, alpha=2),
        (A, INDICES, B),
    ),
    "scatter_add": (
        lambda x, i, y: x.scatter_add(0, i, y), lambda x, i, y: x.scatter_add(0, i, y),
        (A, PLACES, B[:2]),
    ),
    "bucketize": (
        lambda x, b: x.bucketize(b), lambda x, b: torch.bucketize(x, b),
        (np.array([[-1.0, 0.0], [0.25, 9.0]]), BOUNDS),
    ),
    "bucketize-right": (
        lambda x, b: x.bucketize(b, right=True), lambda x, b: torch.bucketize(x, b, right=True),
        (np.array([[-1.0, 0.0], [0.25, 9.0]]), BOUNDS),
    ),
    "one_hot": (
        lambda i: i.one_hot(), lambda i: torch.nn.functional.one_hot(i).double(), (INDICES,)
    ),
    "cdist": (lambda x, y: x.cdist(y), torch.cdist, (A, B[:2])),
    "cdist-1": (
        lambda x, y: x.cdist(y, p=1), lambda x, y: torch.cdist(x, y, p=1),
        (BM, rng.normal(size=(2, 6, 4))),
    ),
}  # fmt: skip

#: Results of which derivatives are no question.
FLAT = ("heaviside", "bucketize", "one_hot")


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("layout", ["plain", "reversed", "transposed"])
def test_values_are_pytorchs(name: str, layout: str) -> None:
    ours, theirs, arrays = CASES[name]
    given = [laid_out(a, layout) for a in arrays]
    want = theirs(*map(torch.tensor, arrays)).numpy()
    np.testing.assert_allclose(ours(*given).numpy(), want, rtol=1e-12, atol=1e-13)


def laid_out(array: np.ndarray, layout: str) -> pyrite.Tensor:
    """The same tensor, in another layout of memory."""
    if layout == "reversed":
        return tensor(np.ascontiguousarray(np.flip(array))).flip()
    return (
        tensor(np.ascontiguousarray(array.T)).permute(*range(array.ndim)[::-1])
        if layout == "transposed"
        else tensor(array)
    )


@pytest.mark.parametrize("name", [n for n in CASES if not n.startswith(FLAT)])
def test_gradients_are_pytorchs(name: str) -> None:
    ours, theirs, arrays = CASES[name]
    inputs = [torch.tensor(a, requires_grad=a.dtype.kind == "f") for a in arrays]
    out = theirs(*inputs)
    weight = np.cos(np.arange(out.numel())).reshape(tuple(out.shape))
    (out * torch.tensor(weight)).sum().backward()
    tracked = tuple(i for i, a in enumerate(arrays) if a.dtype.kind == "f")
    _, found = value_and_grad(lambda *xs: (ours(*xs) * tensor(weight)).sum(), tracked)(
        *map(tensor, arrays)
    )
    for i, g in zip(tracked, found, strict=True):
        want = inputs[i].grad.numpy()
        # Of a NaN that is not taken PyTorch gives 0 in one place and NaN in another.
        keep = ~np.isnan(want)
        np.testing.assert_allclose(g.numpy()[keep], want[keep], rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_narrow_dtypes_stay_and_are_computed_in_float32(dtype: str) -> None:
    x = tensor(np.full(4096, 40.0)).astype(dtype)
    assert x.nanmean().item() == 40.0
    assert (x.nanmean().dtype, x.erfc().dtype, (x / 64).logit().dtype) == (x.dtype,) * 3
    tail = tensor([4.0]).astype(dtype).erfc().item()
    assert tail == pytest.approx(math.erfc(4), rel=2e-2 if dtype == "bfloat16" else 1e-2, abs=1e-7)


def test_erfc_keeps_its_digits_in_the_tail() -> None:
    x = np.linspace(0, 20, 41)
    want = [math.erfc(v) for v in x]
    np.testing.assert_allclose(tensor(x).erfc().numpy(), want, rtol=1e-12)


def test_nothing_of_nothing() -> None:
    empty = pyrite.zeros((0, 3))
    assert empty.nansum().item() == 0
    assert math.isnan(empty.nanmean().item())
    assert empty.unflatten(0, (2, -1)).shape == (2, 0, 3)
    assert [part.shape for part in empty.tensor_split(2)] == [(0, 3), (0, 3)]
    assert pyrite.zeros((0,), dtype="int32").one_hot().shape == (0, 0)
    assert empty.cdist(pyrite.zeros((2, 3))).shape == (0, 2)
    assert pyrite.histogram(pyrite.zeros((0,)), 3).counts.tolist() == [0, 0, 0]


def test_beta_of_0_takes_no_nan_over() -> None:
    x = tensor(np.full((3, 5), np.nan))
    got = x.addmm(tensor(M), tensor(N), beta=0)
    np.testing.assert_allclose(got.numpy(), M @ N)


def test_a_nan_of_a_number_is_passed_over() -> None:
    x = tensor([1.0, math.nan])
    assert x.fmax(2.0).tolist() == [2.0, 2.0]
    assert x.fmin(math.nan).tolist()[0] == 1.0


def test_heaviside_of_nan_is_nan_as_in_numpy() -> None:
    assert math.isnan(tensor([math.nan]).heaviside(0.5).item())


def test_aminmax() -> None:
    low, high = tensor(A).aminmax(1, keepdims=True)
    np.testing.assert_array_equal(low.numpy(), A.min(1, keepdims=True))
    np.testing.assert_array_equal(high.numpy(), A.max(1, keepdims=True))


@pytest.mark.parametrize("sections", [1, 2, 3, 5, [1, 3], [2, 1], [-1], [0, 9], []])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_tensor_split_is_numpys_array_split(sections: Any, axis: int) -> None:
    want = np.array_split(A, sections, axis)
    got = tensor(A).tensor_split(sections, axis)
    assert len(got) == len(want)
    for ours, theirs in zip(got, want, strict=True):
        np.testing.assert_array_equal(ours.numpy(), theirs)


@pytest.mark.parametrize("name", ["hstack", "vstack", "dstack", "column_stack"])
@pytest.mark.parametrize("shapes", [((3,), (3,)), ((2, 3), (2, 3)), ((2, 3, 4), (2, 3, 4))])
def test_stacks_are_numpys(name: str, shapes: Any) -> None:
    arrays = [rng.normal(size=shape) for shape in shapes]
    want = getattr(np, name)(arrays)
    np.testing.assert_array_equal(getattr(pyrite, name)([tensor(a) for a in arrays]).numpy(), want)


@pytest.mark.parametrize("name", ["atleast_1d", "atleast_2d", "atleast_3d"])
@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (2, 3, 4), (2, 0, 1, 3)])
def test_axes_at_least_are_numpys(name: str, shape: tuple[int, ...]) -> None:
    array = rng.normal(size=shape)
    want = getattr(np, name)(array)
    np.testing.assert_array_equal(getattr(pyrite, name)(tensor(array)).numpy(), want)
    both = getattr(pyrite, name)(tensor(array), tensor(array))
    assert [t.shape for t in both] == [want.shape] * 2


@pytest.mark.parametrize(
    ("values", "bins", "range"),
    [
        (A, 10, None), (A, 3, (-1.0, 1.0)), (np.full(5, 2.0), 4, None),
        (np.array([0.0, 1.0, 2.0, 3.0]), 3, (0.0, 3.0)), (A, 1, (5.0, 6.0)),
        (np.array([1.0, np.nan, 2.0]), 2, (1.0, 2.0)),
    ],
)  # fmt: skip
def test_histogram_is_numpys(values: Any, bins: int, range: Any) -> None:
    counts, edges = pyrite.histogram(tensor(values), bins, range)
    want, bounds = np.histogram(values, bins, range)
    np.testing.assert_allclose(edges.numpy(), bounds, rtol=1e-12)
    assert counts.tolist() == want.tolist()
    assert counts.dtype.name == "int32"


def test_histogram_of_given_edges() -> None:
    edges = np.array([-2.0, 0.0, 0.25, 3.0])
    counts, _ = pyrite.histogram(tensor(A), tensor(edges))
    assert counts.tolist() == np.histogram(A, edges)[0].tolist()


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: tensor(A).mm(tensor(V)), ShapeError, r"mm requires 2 and 2 axes, got \(3, 4\)"),
        (lambda: tensor(BM).bmm(tensor(BN[:1])), ShapeError, "bmm requires one batch size"),
        (lambda: tensor(A).cdist(tensor(N)), ShapeError, "cdist requires vectors of one length"),
        (lambda: tensor(A).unflatten(1, (3, -1)), ShapeError, "product 4, of axis 1, got"),
        (lambda: tensor(A).unflatten(1, (-1, -1)), ShapeError, "product 4, of axis 1, got"),
        (lambda: tensor(A).tensor_split(0), ArgumentError, "1 <= sections <= 65536, got 0"),
        (lambda: pyrite.histogram(tensor(A), 0), ArgumentError, "bins >= 1, got 0"),
        (lambda: pyrite.histogram(tensor(A), 2, (1.0, 0.0)), ArgumentError, r"range\[0\] <="),
    ],
)
def test_what_does_not_fit_is_refused(call: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        call()


def test_more_sections_than_one_waits_for_are_refused() -> None:
    """They were made one by one, without an end."""
    assert [p.size for p in pyrite.arange(2).tensor_split(4)] == [1, 1, 0, 0]
    with pytest.raises(ArgumentError, match="tensor_split requires 1 <= sections <= 65536"):
        pyrite.arange(3).tensor_split(2**42)
