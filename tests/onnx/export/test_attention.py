"""Attention in onnxruntime: masks, biases, caps, and queries that may attend to nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

import pyrite
from pyrite import Tensor, nn


class Attend(nn.Module):
    """Attention, with a mask, a bias, or both."""

    def __init__(self, **options: Any) -> None:
        self.options = options

    def forward(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None,
        bias: Tensor | None = None,
    ) -> Tensor:  # fmt: skip
        found: Tensor = q.scaled_dot_product_attention(k, v, mask, bias=bias, **self.options)
        return found


def example(
    n: int, t: int, s: int, *, mask: str = "", bias: str = "", heads: tuple[int, ...] = (4, 2)
) -> dict[str, Tensor]:
    """Inputs; a mask and a bias have the axes that are named, 1 for others."""
    rng = np.random.default_rng(n + t + s)
    sizes = {"n": n, "h": heads[0] if heads else 0, "t": t, "s": s, "1": 1}
    of = {"q": (t, 3), "k": (s, 3), "v": (s, 5)}
    found = {
        name: (n, heads[name != "q"], *shape) if heads else shape for name, shape in of.items()
    }
    arrays: dict[str, Any] = {
        name: rng.standard_normal(shape, np.float32) for name, shape in found.items()
    }
    if mask:
        chosen = rng.random([sizes[a] for a in mask]) < 0.5
        arrays["mask"] = chosen & (rng.random((*chosen.shape[:-1], 1)) < 0.7)  # rows without any
    if bias:
        added = rng.standard_normal([sizes[a] for a in bias], np.float32)
        arrays["bias"] = np.where(rng.random((*added.shape[:-1], 1)) < 0.3, -np.inf, added).astype(
            np.float32
        )
    return {name: pyrite.tensor(array) for name, array in arrays.items()}


SIZES = {"q": {0: "n", 2: "t"}, "k": {0: "n", 2: "s"}, "v": {0: "n", 2: "s"}}
LETTERS = {"n": "n", "t": "t", "s": "s"}


@pytest.mark.parametrize("opset", [18, 23, 24])
@pytest.mark.parametrize("options", [{}, {"is_causal": True}, {"softcap": 1.5, "scale": 0.3}])
@pytest.mark.parametrize(
    ("mask", "bias"),
    [("nhts", ""), ("n11s", ""), ("ts", ""), ("s", ""), ("", "1hts"), ("", "t1"), ("n1ts", "h1s"),
     ("", "")],
)  # fmt: skip
@pytest.mark.sample(3)
def test_a_mask_and_a_bias_are_in_the_file_what_they_are_here(
    mask: str, bias: str, options: dict[str, Any], opset: int, judge: Any
) -> None:
    dynamic = dict(SIZES)
    for name, axes in (("mask", mask), ("bias", bias)):
        if found := {i: LETTERS[a] for i, a in enumerate(axes) if a in LETTERS}:
            dynamic[name] = found
    given = [example(*sizes, mask=mask, bias=bias) for sizes in ((2, 4, 6), (3, 5, 2), (1, 1, 7))]

    path = judge(Attend(**options), given[0], others=given[1:], dynamic=dynamic, opset=opset)

    ops = [node.op_type for node in onnx.load(path).graph.node]
    assert ("Attention" in ops) == (opset >= 23)


@pytest.mark.parametrize("heads", [(), (2, 2)])
def test_fewer_axes_than_four_are_attended_over(heads: tuple[int, ...], judge: Any) -> None:
    judge(Attend(is_causal=True), example(2, 4, 6, mask="ts", heads=heads), imports=True)
