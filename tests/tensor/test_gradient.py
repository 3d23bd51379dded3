"""The choice of which gradients a gradient op computes, and in what precision."""

from __future__ import annotations

import numpy as np

from pyrite.tensor.creation import tensor
from pyrite.tensor.gradient import by_position, chosen, in_dtype, widened
from pyrite.tensor.tensor import Tensor
from pyrite.types import bfloat16, float16, float32, float64


def test_only_the_chosen_gradients_are_made() -> None:
    made: list[int] = []

    def maker(position: int) -> Tensor:
        made.append(position)
        return tensor(float(position))

    makers = {position: lambda p=position: maker(p) for position in range(3)}
    both = chosen(makers, (2, 0), float32)
    alone = chosen(makers, (1,), float64)
    assert made == [2, 0, 1]
    assert [g.item() for g in both] == [2.0, 0.0]
    assert (alone.item(), alone.dtype) == (1.0, float64)


def test_chosen_gradients_go_back_to_their_positions() -> None:
    assert by_position(("a", "b"), (2, 0), 4) == ("b", None, "a", None)
    assert by_position("a", (1,), 2) == (None, "a")


def test_narrow_floats_are_widened_and_others_are_left_alone() -> None:
    for dtype in (float16, bfloat16):
        assert widened(tensor(np.zeros(2, dtype.numpy))).dtype is float32
    x = tensor(np.zeros(2))
    assert widened(x) is x
    assert in_dtype(x, float64) is x
