"""Convolutions and their gradients against torch, second order against finite differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyrite.autodiff import grad
from pyrite.errors import ArgumentError, ShapeError
from pyrite.tensor.creation import tensor
from pyrite.types import float16, float32, int32

RANDOM = np.random.default_rng(0)


def floats(*shape: int) -> Any:
    return RANDOM.uniform(-1, 1, shape)


CASES: list[tuple[Any, Any, dict[str, Any]]] = [
    ((2, 3, 7), (4, 3, 3), {}),
    ((2, 3, 7), (4, 3, 2), {"stride": 3, "padding": 1}),
    ((2, 4, 9), (6, 2, 3), {"groups": 2, "dilation": 2, "padding": 2}),
    ((2, 3, 7, 6), (4, 3, 3, 2), {"stride": (2, 1), "padding": (1, 0)}),
    ((2, 4, 8, 7), (4, 1, 3, 3), {"groups": 4, "padding": 1}),
    ((1, 4, 9, 9), (8, 2, 3, 2), {"groups": 2, "dilation": (2, 3), "stride": 2}),
    ((2, 2, 9, 9), (3, 2, 2, 2), {"stride": 4}),
    ((2, 2, 5, 5), (3, 2, 1, 1), {}),
    ((2, 2, 5, 5), (3, 2, 5, 5), {}),
    ((0, 2, 5, 5), (3, 2, 3, 3), {"padding": 1}),
    ((1, 2, 4, 5, 6), (3, 2, 2, 3, 1), {"stride": (1, 2, 2), "padding": (1, 1, 0)}),
    ((1, 4, 4, 4, 3), (4, 2, 2, 2, 2), {"groups": 2, "dilation": (1, 2, 1)}),
]


@pytest.mark.parametrize(("x", "weight", "arguments"), CASES)
def test_convolution_and_its_gradients_are_torchs(x: Any, weight: Any, arguments: Any) -> None:
    torch = pytest.importorskip("torch")
    name = f"conv{len(x) - 2}d"
    arrays = floats(*x), floats(*weight), floats(weight[0])
    leaves = [torch.tensor(a, requires_grad=True) for a in arrays]
    expected = getattr(torch.nn.functional, name)(*leaves, **arguments)
    seed = floats(*expected.shape)
    (expected * torch.tensor(seed)).sum().backward()

    def call(x: Any, w: Any, b: Any) -> Any:
        return getattr(x, name)(w, b, **arguments)

    inputs = [tensor(a) for a in arrays]
    np.testing.assert_allclose(call(*inputs).numpy(), expected.detach().numpy(), atol=1e-12)
    found = grad(lambda *t: (call(*t) * tensor(seed)).sum(), (0, 1, 2))(*inputs)
    for g, leaf in zip(found, leaves, strict=True):
        np.testing.assert_allclose(g.numpy(), leaf.grad.numpy(), atol=1e-12)


def test_padding_of_one_side_is_that_of_a_padded_input() -> None:
    x, weight = floats(1, 2, 5, 4), floats(3, 2, 3, 2)
    padded = np.pad(x, ((0, 0), (0, 0), (2, 0), (0, 3)))
    one_sided = tensor(x).conv2d(tensor(weight), padding=((2, 0), (0, 3)))
    expected = tensor(padded).conv2d(tensor(weight))
    np.testing.assert_allclose(one_sided.numpy(), expected.numpy(), atol=1e-12)


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel")
@pytest.mark.parametrize("kernel", [(3, 3), (2, 4), (1, 5)])
def test_same_keeps_the_size_also_with_an_even_kernel(kernel: Any) -> None:
    torch = pytest.importorskip("torch")
    x, weight = floats(1, 2, 6, 7), floats(3, 2, *kernel)
    expected = torch.nn.functional.conv2d(torch.tensor(x), torch.tensor(weight), padding="same")
    out = tensor(x).conv2d(tensor(weight), padding="same")
    assert out.shape == (1, 3, 6, 7)
    np.testing.assert_allclose(out.numpy(), expected.numpy(), atol=1e-12)


def test_the_odd_zero_of_same_stands_at_the_end() -> None:
    x, weight = tensor([[[1.0, 2.0, 3.0]]]), tensor([[[1.0, 10.0]]])
    assert x.conv1d(weight, padding="same").numpy().tolist() == [[[21.0, 32.0, 3.0]]]


def test_same_with_a_stride_gives_as_many_positions_as_strides_fit() -> None:
    x, weight = tensor(floats(1, 1, 7)), tensor(floats(1, 1, 3))
    assert x.conv1d(weight, stride=2, padding="same").shape == (1, 1, 4)
    assert x.conv1d(weight, padding="valid").shape == (1, 1, 5)


def test_integers_convolve_in_their_dtype() -> None:
    out = tensor(np.arange(6).reshape(1, 1, 6), dtype="int32").conv1d(tensor([[[1, 1]]]))
    assert out.dtype is int32
    assert out.numpy().tolist() == [[[1, 3, 5, 7, 9]]]


def test_float32_stays_float32_and_half_is_rounded_once() -> None:
    x, weight = floats(2, 3, 5, 5).astype(np.float32), floats(4, 3, 3, 3).astype(np.float32)
    full = tensor(x).conv2d(tensor(weight))
    assert full.dtype is float32
    half = [tensor(a).astype("float16") for a in (x, weight)]
    expected = half[0].astype("float32").conv2d(half[1].astype("float32")).astype("float16")
    out = half[0].conv2d(half[1])
    assert out.dtype is float16
    assert out.numpy().tolist() == expected.numpy().tolist()


def test_the_second_derivative_of_a_penalty_on_the_gradient_is_exact() -> None:
    torch = pytest.importorskip("torch")
    x, weight = floats(1, 2, 5, 5), floats(2, 2, 3, 3)

    def penalty(w: Any) -> Any:
        g = grad(lambda x: (x.conv2d(w, stride=2, padding=1) ** 3).sum())(tensor(x))
        return (g * g).sum()

    tx, tw = (torch.tensor(a, requires_grad=True) for a in (x, weight))
    out = (torch.nn.functional.conv2d(tx, tw, stride=2, padding=1) ** 3).sum()
    (g,) = torch.autograd.grad(out, tx, create_graph=True)
    (g * g).sum().backward()
    np.testing.assert_allclose(
        grad(penalty)(tensor(weight)).numpy(), tw.grad.numpy(), rtol=1e-10, atol=1e-10
    )


@pytest.mark.parametrize(
    ("x", "weight", "arguments", "message"),
    [
        (
            (1, 3, 8, 8), (4, 2, 3, 3), {},
            r"conv2d requires x.shape\[1\] == groups \* weight.shape\[1\], "
            r"got \(1, 3, 8, 8\) and \(4, 2, 3, 3\) with groups=1",
        ),
        (
            (1, 4, 8, 8), (3, 2, 3, 3), {"groups": 2},
            r"conv2d requires weight.shape\[0\] to be a multiple of groups, got \(3, 2, 3, 3\)",
        ),
        (
            (1, 1, 2, 8), (1, 1, 3, 3), {},
            r"windows no larger than the padded input, got windows \(3, 3\) and input \(2, 8\)",
        ),
        (
            (1, 1, 4, 4), (1, 1, 0, 3), {},
            r"conv2d requires a kernel of sizes >= 1, got \(0, 3\)",
        ),
        (
            (1, 8, 8), (1, 1, 3, 3), {},
            r"conv2d requires x and weight of 4 axes, got \(1, 8, 8\) and \(1, 1, 3, 3\)",
        ),
    ],
)  # fmt: skip
def test_shapes_that_do_not_fit_are_named(
    x: Any, weight: Any, arguments: Any, message: str
) -> None:
    with pytest.raises(ShapeError, match=message) as caught:
        tensor(floats(*x)).conv2d(tensor(floats(*weight)), **arguments)
    assert __file__ in str(caught.value.location)


def test_a_bias_has_one_element_for_each_output_channel() -> None:
    x, weight = tensor(floats(1, 2, 4, 4)), tensor(floats(3, 2, 2, 2))
    with pytest.raises(ShapeError, match=r"conv2d requires bias.shape == \(3,\), .* got \(2,\)"):
        x.conv2d(weight, tensor(floats(2)))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"stride": 0}, r"conv2d requires stride to be an integer or 2 integers >= 1, got 0"),
        ({"stride": (1, 2, 3)}, r"conv2d requires stride .* got \(1, 2, 3\)"),
        ({"dilation": 1.5}, r"conv2d requires dilation .* got 1.5"),
        ({"groups": 0}, r"conv2d requires groups to be an integer >= 1, got 0"),
        ({"padding": -1}, r'conv2d requires padding to be "same", "valid", .* got -1'),
        ({"padding": "full"}, r"conv2d requires padding .* got 'full'"),
        ({"padding": ((1, 2), 3, 4)}, r"conv2d requires padding"),
    ],
)
def test_arguments_out_of_range_are_refused(arguments: Any, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        tensor(floats(1, 1, 4, 4)).conv2d(tensor(floats(1, 1, 2, 2)), **arguments)
