"""Handles of `CubeBackend`."""

from __future__ import annotations

from dataclasses import replace

from pyrite.backend.cube.tensor import unstored
from pyrite.types import TensorType, float32


def test_a_tensor_made_of_another_has_the_number_of_its_own_layout() -> None:
    x = unstored(TensorType((4, 6), float32))
    number = x.layout_of()

    others = [x.permuted((1, 0)), x.sliced((1, 0), (2, 6), (1, 1)), replace(x, strides=(0, 1))]
    numbers = [y.layout or y.layout_of() for y in others]

    assert len({number, *numbers}) == 4
    assert replace(x).layout_of() == unstored(TensorType((4, 6), float32)).layout_of() == number
