"""Interpolation and pixel shuffles against torch, Lanczos against its formula."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from pyrite.autodiff import grad
from pyrite.errors import ArgumentError, ShapeError
from pyrite.tensor.creation import tensor
from pyrite.types import float16, float32

RANDOM = np.random.default_rng(0)
NAMES = {1: "linear", 2: "bilinear", 3: "trilinear"}


def floats(*shape: int) -> Any:
    return RANDOM.uniform(-1, 1, shape)


CASES: list[tuple[Any, dict[str, Any]]] = [
    ((2, 3, 7), {"size": 4, "mode": "nearest"}),
    ((2, 3, 7), {"size": 13, "mode": "nearest_exact"}),
    ((2, 3, 7), {"size": 13, "mode": "linear"}),
    ((2, 3, 7), {"size": 4, "mode": "linear", "align_corners": True}),
    ((2, 3, 7), {"size": 1, "mode": "linear", "align_corners": True}),
    ((2, 3, 1), {"size": 5, "mode": "linear"}),
    ((1, 2, 5, 6), {"size": (9, 3), "mode": "nearest"}),
    ((1, 2, 5, 6), {"scale_factor": 2, "mode": "nearest"}),
    ((1, 2, 5, 6), {"scale_factor": (1.7, 0.6), "mode": "nearest_exact"}),
    ((1, 2, 5, 6), {"scale_factor": (1.7, 0.6), "mode": "bilinear"}),
    ((1, 2, 5, 6), {"size": (5, 11), "mode": "bilinear"}),
    ((1, 2, 5, 6), {"size": (9, 3), "mode": "bilinear", "align_corners": True}),
    ((1, 2, 5, 6), {"size": (9, 3), "mode": "bicubic"}),
    ((1, 2, 5, 6), {"scale_factor": 2.3, "mode": "bicubic"}),
    ((1, 2, 5, 6), {"size": (9, 4), "mode": "bicubic", "align_corners": True}),
    ((1, 2, 3, 4, 5), {"size": (5, 4, 2), "mode": "trilinear"}),
    ((1, 2, 3, 4, 5), {"scale_factor": (2, 1, 1.5), "mode": "nearest"}),
    ((0, 2, 5, 6), {"size": (9, 3), "mode": "bilinear"}),
]


@pytest.mark.parametrize(("shape", "arguments"), CASES)
def test_interpolation_and_its_gradient_are_torchs(shape: Any, arguments: Any) -> None:
    torch = pytest.importorskip("torch")
    x = floats(*shape)
    leaf = torch.tensor(x, requires_grad=True)
    theirs = {**arguments, "mode": arguments["mode"].replace("_", "-")}
    if isinstance(arguments.get("scale_factor"), tuple):
        theirs["scale_factor"] = tuple(map(float, arguments["scale_factor"]))
    expected = torch.nn.functional.interpolate(leaf, **theirs)
    seed = floats(*expected.shape)
    (expected * torch.tensor(seed)).sum().backward()
    out = tensor(x).interpolate(**arguments)
    np.testing.assert_allclose(out.numpy(), expected.detach().numpy(), atol=1e-12)
    g = grad(lambda x: (x.interpolate(**arguments) * tensor(seed)).sum())(tensor(x))
    np.testing.assert_allclose(g.numpy(), leaf.grad.numpy(), atol=1e-12)


def test_lanczos_weighs_six_neighbours_by_a_windowed_sinc() -> None:
    x = floats(9)
    i = 8  # between elements 3 and 4 of 9, resized to 18: at (8 + 0.5) / 2 - 0.5 = 3.75
    places = np.arange(1, 7)
    weights = np.sinc(3.75 - places) * np.sinc((3.75 - places) / 3)
    expected = (weights * x[places]).sum() / weights.sum()
    out = tensor(x.reshape(1, 1, 9)).interpolate(18, mode="lanczos3")
    np.testing.assert_allclose(out.numpy()[0, 0, i], expected)


@pytest.mark.parametrize("mode", ["linear", "cubic", "lanczos3"])
def test_a_constant_stays_constant_up_to_its_ends(mode: Any) -> None:
    out = tensor(np.full((1, 1, 4), 3.0)).interpolate(11, mode=mode)
    np.testing.assert_allclose(out.numpy(), 3.0)


def test_nan_stays_where_its_neighbours_are() -> None:
    x = tensor([[[math.nan, 1.0, 2.0, 3.0]]])
    assert x.interpolate(2).numpy().tolist()[0][0][1] == 2.0
    out = x.interpolate(7, mode="linear", align_corners=True).numpy()[0, 0]
    assert out.tolist()[2:] == [1.0, 1.5, 2.0, 2.5, 3.0]
    assert np.isnan(out[:2]).all()


def test_integers_become_floats_and_half_is_rounded_once() -> None:
    assert tensor([[[1, 2]]]).interpolate(4).dtype is float32
    x = floats(1, 1, 5).astype(np.float16)
    out = tensor(x).interpolate(9, mode="cubic")
    expected = tensor(x.astype(np.float32)).interpolate(9, mode="cubic").astype("float16")
    assert out.dtype is float16
    assert out.numpy().tolist() == expected.numpy().tolist()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, r"requires either size or scale_factor, got None and None"),
        ({"size": 2, "scale_factor": 2}, r"requires either size or scale_factor, got 2 and 2"),
        ({"size": (2, 3, 4)}, r"interpolate requires size to be an integer or 2 integers >= 1"),
        ({"scale_factor": -1}, r"requires scale_factor to be a number > 0 or 2 of them, got -1"),
        ({"scale_factor": 0.1}, r"interpolate requires size .* got \(0, 0\)"),
        ({"size": 4, "mode": "area"}, r"mode to be one of nearest, .* got 'area'"),
        ({"size": 4, "mode": "trilinear"}, r"for 2 spatial axes, got 'trilinear'"),
        ({"size": 4, "align_corners": True}, r"requires align_corners=False for mode 'nearest'"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(arguments: Any, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        tensor(floats(1, 1, 4, 4)).interpolate(**arguments)


def test_shapes_without_pixels_are_refused() -> None:
    with pytest.raises(ShapeError, match=r"interpolate requires x of 3 to 5 axes, .* got \(4, 4\)"):
        tensor(floats(4, 4)).interpolate(2)
    with pytest.raises(ShapeError, match=r"interpolate requires spatial sizes >= 1"):
        tensor(floats(1, 1, 0)).interpolate(2)


def test_pixel_shuffles_are_torchs_and_undo_each_other() -> None:
    torch = pytest.importorskip("torch")
    x = floats(2, 12, 3, 5)
    expected = torch.nn.functional.pixel_shuffle(torch.tensor(x), 2).numpy()
    shuffled = tensor(x).pixel_shuffle(2)
    np.testing.assert_array_equal(shuffled.numpy(), expected)
    np.testing.assert_array_equal(shuffled.pixel_unshuffle(2).numpy(), x)
    np.testing.assert_array_equal(tensor(x[0]).pixel_shuffle(2).numpy(), expected[0])


def test_pixels_and_channels_that_do_not_divide_are_refused() -> None:
    with pytest.raises(ShapeError, match=r"pixel_shuffle requires .* got \(1, 6, 2, 2\) and 2"):
        tensor(floats(1, 6, 2, 2)).pixel_shuffle(2)
    with pytest.raises(ShapeError, match=r"pixel_unshuffle requires .* got \(1, 1, 3, 4\) and 2"):
        tensor(floats(1, 1, 3, 4)).pixel_unshuffle(2)
    with pytest.raises(ArgumentError, match=r"upscale_factor to be an integer >= 1, got 0"):
        tensor(floats(1, 4, 2, 2)).pixel_shuffle(0)


def test_an_image_of_its_own_size_is_itself() -> None:
    x = tensor(floats(1, 1, 3, 4))
    assert x.interpolate((3, 4), mode="bicubic").numpy().tolist() == x.numpy().tolist()


@pytest.mark.parametrize("arguments", [{"size": (4, 3)}, {"scale_factor": (1.7, 0.6)}])
def test_the_second_gradient_of_an_interpolation_is_that_of_what_follows(arguments: Any) -> None:
    x = tensor(floats(1, 1, 3, 5))

    def energy(x: Any) -> Any:
        return (x.interpolate(mode="bilinear", **arguments) ** 2).sum()

    def slope(x: Any) -> Any:
        return (grad(energy)(x) * x).sum()

    # energy is quadratic, so the gradient of slope(x) = g(x) x is 2 g(x).
    expected = 2 * grad(energy)(x).numpy()
    np.testing.assert_allclose(grad(slope)(x).numpy(), expected, atol=1e-12)
