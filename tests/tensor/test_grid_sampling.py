"""Grids of points against PyTorch's: all modes, paddings and corners, images and volumes."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from pyrite.autodiff import value_and_grad
from pyrite.errors import ArgumentError, ShapeError
from pyrite.tensor.creation import tensor
from pyrite.tensor.grid_sampling import affine_grid, grid_sample
from pyrite.types import bfloat16

MODES = ("linear", "nearest", "cubic")
PADDINGS = ("zeros", "border", "reflection")
RNG = np.random.default_rng(0)
#: An image and a volume of odd sizes, and points of which half are outside, some far.
IMAGE, POINTS = RNG.normal(size=(2, 3, 5, 4)), RNG.uniform(-2.6, 2.6, size=(2, 3, 2, 2))
VOLUME, PLACES = RNG.normal(size=(2, 2, 3, 4, 5)), RNG.uniform(-2.6, 2.6, size=(2, 2, 1, 2, 3))


def on_pytorch(function: Any, cotangent: Any, *arrays: Any) -> list[Any]:
    """A result of PyTorch's and its gradients."""
    torch = pytest.importorskip("torch")
    inputs = [torch.tensor(a, requires_grad=True) for a in arrays]
    out = function(*inputs)
    (out * torch.tensor(cotangent)).sum().backward()
    return [out.detach().numpy(), *(i.grad.numpy() for i in inputs)]


@pytest.mark.sample(2, varies=True)
@pytest.mark.parametrize("device", ["numpy", "cpu"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("padding", PADDINGS)
def test_values_and_gradients_are_pytorchs(device: str, mode: Any, padding: Any) -> None:
    functional = pytest.importorskip("torch").nn.functional
    name = {"linear": "bilinear", "cubic": "bicubic"}.get(mode, mode)
    for (x, grid), align in itertools.product(((IMAGE, POINTS), (VOLUME, PLACES)), (True, False)):
        if mode == "cubic" and x.ndim == 5:
            continue
        cotangent = RNG.normal(size=(*x.shape[:2], *grid.shape[1:-1]))
        options: Any = {"padding_mode": padding, "align_corners": align}
        want = on_pytorch(
            lambda x, g, o=options: functional.grid_sample(x, g, mode=name, **o), cotangent, x, grid
        )

        def loss(x: Any, grid: Any, o: Any = options, c: Any = cotangent) -> Any:
            # Operands and cotangent come in the reverse order of memory.
            turned = tuple(reversed(range(x.ndim)))
            got = grid_sample(x.permute_dims(turned), grid.permute_dims(turned), mode=mode, **o)
            return (got * tensor(c.T, device=device).permute_dims(turned)).sum(), got

        (_, got), of = value_and_grad(loss, (0, 1), has_aux=True)(
            tensor(x.T, device=device), tensor(grid.T, device=device)
        )
        found = [got.numpy(), *(g.numpy().T for g in of)]
        for f, w in zip(found, want, strict=True):
            np.testing.assert_allclose(f, w, atol=1e-10, err_msg=str(options))


def test_points_on_borders_and_corners_and_between_two_elements() -> None:
    """Where pieces of a mode meet PyTorch's choice is ours, of values and of slopes."""
    functional = pytest.importorskip("torch").nn.functional
    axis = np.array([-3.0, -1.25, -1.0, -0.75, -0.5, 0.0, 0.5, 0.75, 1.0, 1.25, 3.0])
    grid = np.stack(np.meshgrid(axis, axis), -1)[None]
    x = RNG.normal(size=(1, 2, 4, 4))
    for mode, padding, align in itertools.product(("linear", "nearest"), PADDINGS, (True, False)):
        name = {"linear": "bilinear"}.get(mode, mode)
        options: Any = {"padding_mode": padding, "align_corners": align}
        cotangent = np.ones((1, 2, 11, 11))
        want = on_pytorch(
            lambda x, g, o=options, n=name: functional.grid_sample(x, g, mode=n, **o),
            cotangent, x, grid,
        )  # fmt: skip
        (_, got), of = value_and_grad(
            lambda x, g, m=mode, o=options: ((y := grid_sample(x, g, mode=m, **o)).sum(), y),
            (0, 1), has_aux=True,
        )(tensor(x), tensor(grid))  # fmt: skip
        for f, w in zip([got, *of], want, strict=True):
            np.testing.assert_allclose(f.numpy(), w, atol=1e-10, err_msg=f"{mode} {options}")


@pytest.mark.parametrize("align", [True, False])
def test_a_grid_of_an_affine_map_is_pytorchs(align: bool) -> None:
    functional = pytest.importorskip("torch").nn.functional
    for size in ((2, 1, 3, 4), (1, 5, 2, 3, 4), (3, 1, 1, 2)):
        if align and 1 in size[2:]:
            continue
        axes = len(size) - 2
        theta = RNG.normal(size=(size[0], axes, axes + 1))
        cotangent = RNG.normal(size=(size[0], *size[2:], axes))
        want = on_pytorch(
            lambda t, s=size: functional.affine_grid(t, s, align_corners=align), cotangent, theta
        )
        (_, got), g = value_and_grad(
            lambda t, s=size, c=cotangent: (
                ((y := affine_grid(t, size=s, align_corners=align)) * tensor(c)).sum(), y
            ),
            has_aux=True,
        )(tensor(theta))  # fmt: skip
        np.testing.assert_allclose(got.numpy(), want[0], atol=1e-12)
        np.testing.assert_allclose(g.numpy(), want[1], atol=1e-12)
    single = affine_grid(tensor(np.eye(2, 3)[None]), size=(1, 1, 1, 1), align_corners=align)
    assert single.tolist() == [[[[0.0, 0.0]]]]


def test_what_is_no_number_stays_where_it_is_read() -> None:
    x = np.ones((1, 1, 3, 3))
    x[0, 0, 0, 0] = np.nan
    points = tensor(np.array([[[[0.9, 0.9], [-1.0, -1.0], [-0.9, -0.9]]]]))
    for padding in PADDINGS:
        got = grid_sample(tensor(x), points, padding_mode=padding).numpy()[0, 0, 0]
        assert np.isnan(got).tolist() == [False, True, True]
    # A point that is no number reads nothing, or an element of the border; it never faults.
    nowhere = tensor(np.full((1, 1, 1, 2), np.nan))
    for mode, padding in itertools.product(MODES, PADDINGS):
        got = grid_sample(tensor(np.ones((1, 1, 3, 3))), nowhere, mode=mode, padding_mode=padding)
        assert np.isnan(got.numpy()) | np.isin(got.numpy(), [0.0, 1.0])
    far = tensor(np.array([[[[1e30, -1e30]]]]))
    assert grid_sample(tensor(np.ones((1, 1, 3, 3))), far).tolist() == [[[[0.0]]]]


def test_narrow_dtypes_are_computed_wide_and_nothing_is_read_of_no_points() -> None:
    narrow, points = tensor(IMAGE).astype(bfloat16), tensor(POINTS).astype(bfloat16)
    got = grid_sample(narrow, points)
    want = grid_sample(narrow.astype("float64"), points.astype("float64"))
    assert got.dtype is bfloat16
    np.testing.assert_allclose(got.astype("float64").numpy(), want.numpy(), atol=0.02)
    none = grid_sample(tensor(IMAGE[:0]), tensor(POINTS[:0]))
    assert none.shape == (0, 3, 3, 2)
    assert grid_sample(tensor(IMAGE), tensor(POINTS[:, :0])).shape == (2, 3, 0, 2)


def test_errors() -> None:
    x, grid = tensor(IMAGE), tensor(POINTS)
    with pytest.raises(ArgumentError, match=r"mode of nearest, linear, cubic, .* got 'area'"):
        grid_sample(x, grid, mode="area")  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match=r"padding_mode of zeros, border, refl.* got 'wrap'"):
        grid_sample(x, grid, padding_mode="wrap")  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="'linear' or 'nearest' for volumes, got 'cubic'"):
        grid_sample(tensor(VOLUME), tensor(PLACES), mode="cubic")
    with pytest.raises(ShapeError, match=r"a grid of shape \(2, H, W, 2\) for x of shape"):
        grid_sample(x, tensor(PLACES))
    with pytest.raises(ShapeError, match=r"requires x of shape \(N, C, H, W\) or"):
        grid_sample(x[0], grid)
    with pytest.raises(ShapeError, match="at least one element"):
        grid_sample(x[:, :, :0], grid)
    with pytest.raises(ShapeError, match=r"theta of shape \(2, 2, 3\) for size \(2, 1, 3, 3\)"):
        affine_grid(tensor(np.zeros((2, 3, 4))), size=(2, 1, 3, 3))
