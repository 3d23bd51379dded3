"""Matrix products, and the layer made of one.

float16 and bfloat16 go to a GPU's tensor cores as they are, which sum in float32; on the host they
are multiplied in float32.  Integers are multiplied exactly, in pieces that floats hold.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from pyrite.backend.torch.dtype import NARROW
from pyrite.backend.torch.native import Native, native
from pyrite.backend.torch.precision import EXACT, summed_wide, sums_are_narrow


class Contraction(Native):
    """Matrix products."""

    @native("matmul", narrow="cuda")
    def matmul(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        if x.dtype is torch.float32:
            if self.product_switch() not in EXACT:
                self.note_products(x)
            return torch.matmul(x, y)
        if not x.is_floating_point():
            return exact_product(torch.matmul, x, y, x.shape[-1])
        if x.dtype in NARROW and sums_are_narrow(x.dtype):
            return summed_wide(x, y)
        return torch.matmul(x, y)

    @native("linear", narrow="cuda")
    def linear(
        self, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None
    ) -> torch.Tensor:
        if x.dtype is torch.float32:
            if self.product_switch() not in EXACT:
                self.note_products(x)
            return torch.nn.functional.linear(x, weight, bias)
        is_narrow = x.dtype in NARROW and sums_are_narrow(x.dtype)
        if x.is_floating_point() and not is_narrow:
            return torch.nn.functional.linear(x, weight, bias)
        product = self.matmul(x, weight.mT)
        return product if bias is None else product + bias

    @native("linear_weight_gradient", narrow="cuda")
    def linear_weight_gradient(self, g: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return self.matmul(_rows(g).t(), _rows(x))

    @native("linear_backward", narrow="cuda")
    def linear_backward(
        self,
        g: torch.Tensor,
        x: torch.Tensor,
        weight: torch.Tensor,
        *,
        argnums: tuple[int, ...],
    ) -> Any:
        rows = _rows(g)
        made: list[torch.Tensor] = []
        for position in argnums:
            if position == 0:
                made.append(self.matmul(g, weight))
            elif position == 1:
                made.append(self.matmul(rows.t(), _rows(x)))
            else:
                made.append(rows.sum(0, dtype=g.dtype))
        return made[0] if len(made) == 1 else tuple(made)


def _rows(x: torch.Tensor) -> torch.Tensor:
    """Return x as a matrix: (..., D) -> (N, D)."""
    if x.ndim == 2:
        return x
    return x.flatten(0, -2) if x.ndim > 2 else x.unsqueeze(0)


def exact_product(
    multiply: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
    x: torch.Tensor,
    y: torch.Tensor,
    terms: int,
) -> torch.Tensor:
    """Return a bilinear function of integers, wrapped around, by products of floats that are exact.

    ``terms`` is how many products are summed up in one element.  Each integer is cut into limbs so
    short that sums of products of two limbs fit the 53 bits of a float64 (24 where there is none);
    limbs whose product is beyond the width are left out, for integers wrap around.
    """
    is_wide = x.device.type != "mps"
    wide, mantissa = (torch.float64, 53) if is_wide else (torch.float32, 24)
    width = 8 * x.dtype.itemsize
    limb = min(width, (mantissa - math.ceil(math.log2(max(terms, 2)))) // 2)
    count = -(-width // limb)
    of_x, of_y = (_limbs(v, limb, count, wide) for v in (x, y))
    total: torch.Tensor | None = None
    for i, left in enumerate(of_x):
        for j, right in enumerate(of_y[: count - i]):
            part = multiply(left, right).to(torch.int64) << limb * (i + j)
            total = part if total is None else total + part
    assert total is not None
    return total.to(x.dtype)


def _limbs(x: torch.Tensor, limb: int, count: int, dtype: torch.dtype) -> list[torch.Tensor]:
    whole, mask = x.to(torch.int64), (1 << limb) - 1
    return [((whole >> limb * i) & mask).to(dtype) for i in range(count)]
