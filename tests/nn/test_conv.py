"""Convolution layers against PyTorch's, their initial values, and their errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyrite import nn
from pyrite.errors import ArgumentError, ShapeError
from pyrite.tensor.creation import full, tensor
from pyrite.tensor.stream import random_stream

torch = pytest.importorskip("torch")

rng = np.random.default_rng(0)

CONVOLUTIONS: list[tuple[str, dict[str, Any], tuple[int, ...]]] = [
    ("Conv1d", {"kernel_size": 3}, (2, 4, 9)),
    ("Conv1d", {"kernel_size": 3, "stride": 2, "padding": 2, "groups": 2}, (2, 4, 9)),
    ("Conv1d", {"kernel_size": 4, "padding": "same", "bias": False}, (2, 4, 9)),
    ("Conv2d", {"kernel_size": (3, 2), "stride": (2, 1), "padding": (1, 0)}, (2, 4, 7, 6)),
    ("Conv2d", {"kernel_size": 3, "padding": "same", "dilation": 2}, (1, 4, 7, 6)),
    ("Conv2d", {"kernel_size": 3, "padding": "valid", "groups": 4}, (1, 4, 7, 6)),
    ("Conv1d", {"kernel_size": 3, "padding": 2, "padding_mode": "reflect"}, (2, 4, 9)),
    ("Conv1d", {"kernel_size": 4, "padding": "same", "padding_mode": "circular"}, (2, 4, 9)),
    (
        "Conv2d",
        {"kernel_size": (3, 2), "stride": 2, "padding": (2, 1), "padding_mode": "replicate"},
        (2, 4, 7, 6),
    ),
    (
        "Conv3d",
        {"kernel_size": 2, "padding": (1, 2, 0), "padding_mode": "circular", "groups": 2},
        (1, 4, 4, 5, 4),
    ),
    ("Conv3d", {"kernel_size": (2, 1, 3), "padding": 1, "stride": (1, 2, 2)}, (1, 4, 4, 5, 4)),
    ("ConvTranspose1d", {"kernel_size": 3, "stride": 2, "output_padding": 1}, (2, 4, 5)),
    ("ConvTranspose2d", {"kernel_size": 3, "stride": 2, "padding": 1, "groups": 2}, (2, 4, 4, 3)),
    ("ConvTranspose2d", {"kernel_size": 2, "dilation": 2, "bias": False}, (2, 4, 4, 3)),
    ("ConvTranspose3d", {"kernel_size": 2, "stride": (1, 2, 1)}, (1, 4, 3, 2, 3)),
]


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel")
@pytest.mark.parametrize(("name", "options", "shape"), CONVOLUTIONS)
def test_it_does_as_pytorchs_with_its_weights(
    agrees: Any, name: str, options: dict[str, Any], shape: tuple[int, ...]
) -> None:
    ours = getattr(nn, name)(4, 8, **options)
    theirs = getattr(torch.nn, name)(4, 8, **options)
    agrees(ours, theirs, rng.standard_normal(shape))


def test_the_mode_of_padding_is_shown_where_it_is_not_zeros() -> None:
    assert "padding_mode" not in repr(nn.Conv1d(1, 1, 3, padding=1))
    assert "padding_mode='reflect'" in repr(nn.Conv1d(1, 1, 3, padding=1, padding_mode="reflect"))


def test_padding_may_differ_on_every_side() -> None:
    layer = nn.Conv2d(1, 1, 2, padding=((1, 0), (0, 2)), bias=False)
    x = rng.standard_normal((1, 1, 4, 4)).astype(np.float32)
    want = torch.nn.functional.conv2d(
        torch.nn.functional.pad(torch.tensor(x), (0, 2, 1, 0)), torch.tensor(layer.weight.numpy())
    )
    np.testing.assert_allclose(layer(tensor(x)).numpy(), want.numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("layer", "shape", "fan_in"),
    [
        (lambda: nn.Conv2d(8, 64, 3, groups=2), (64, 4, 3, 3), 36),
        (lambda: nn.ConvTranspose2d(64, 8, 3), (64, 8, 3, 3), 72),
    ],
)
def test_it_starts_as_pytorchs(layer: Any, shape: tuple[int, ...], fan_in: int) -> None:
    with random_stream(0):
        made = layer()
    assert made.weight.shape == shape
    bound = fan_in**-0.5
    for values in (made.weight.numpy(), made.bias.numpy()):
        assert 0.5 * bound < np.abs(values).max() <= bound
    assert made.weight.numpy().std() == pytest.approx(bound / 3**0.5, rel=0.05)


def test_parameters_have_the_dtype_asked_for() -> None:
    layer = nn.Conv1d(2, 3, 2, dtype="float64", initializer=nn.init.Ones())
    assert {p.dtype.name for p in layer.parameters()} == {"float64"}
    assert layer.weight.numpy().min() == 1


def test_repr_says_how_it_is_declared() -> None:
    assert repr(nn.Conv2d(1, 2, 3, stride=2, padding="same", bias=False)) == (
        "Conv2d(in_channels=1, out_channels=2, kernel_size=(3, 3), stride=(2, 2), "
        "padding='same', weight=[2, 1, 3, 3])"
    )


@pytest.mark.parametrize(
    ("declare", "message"),
    [
        (
            lambda: nn.Conv2d(1, 1, 3, padding_mode="edge"),
            "Conv2d requires padding_mode of zeros, reflect, replicate, circular, got 'edge'",
        ),
        (lambda: nn.Conv2d(0, 1, 3), "Conv2d requires in_channels >= 1, got 0"),
        (lambda: nn.Conv1d(3, 4, 3, groups=2), "multiples of groups, got 3 and 4 for groups=2"),
        (lambda: nn.Conv2d(1, 1, (3, 3, 3)), r"Conv2d requires kernel_size to be an integer or 2"),
        (lambda: nn.Conv2d(1, 1, 3, padding="full"), 'padding to be "same", "valid".*got \'full\''),
        (lambda: nn.ConvTranspose1d(1, 1, 3, padding="same"), "requires padding in elements"),
    ],
)
def test_a_wrong_declaration_is_an_error_at_once(declare: Any, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        declare()


def test_a_wrong_input_is_named_by_its_shape() -> None:
    layer = nn.Conv2d(3, 4, 3)
    with pytest.raises(ShapeError, match=r"x of shape \(N, 3, H, W\), got \(1, 4, 5, 5\)\nin"):
        layer(full((1, 4, 5, 5), 0.0))
    with pytest.raises(ShapeError, match=r"got \(3, 5, 5\); add a batch axis: x\[None\]"):
        layer(full((3, 5, 5), 0.0))
    with pytest.raises(ShapeError, match="windows no larger than the padded input"):
        layer(full((1, 3, 2, 2), 0.0))
