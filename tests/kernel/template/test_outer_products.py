"""What only sums of outer products have; the rest is judged in test_weight_gradient.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pyrite.kernel import verify
from pyrite.kernel.interpret import interpret
from pyrite.kernel.machine import Machine
from pyrite.kernel.template.gradient_blocks import workgroups
from pyrite.kernel.template.outer_config import select
from pyrite.kernel.template.outer_products import outer_products
from pyrite.types import float32

SSE = Machine.cpu(16, 16)
PADDED = ((2, 3, 4, 1), (7, 9), (3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1))


def test_gradients_whose_channels_are_last_are_read_where_they_lie(
    layer_of: Callable[..., Any], layout: Callable[..., Any]
) -> None:
    made = layer_of(PADDED, float32)
    last = np.ascontiguousarray(np.moveaxis(made.g, 1, -1))
    config = select(made.windows, float32, SSE)
    lg = layout(np.moveaxis(last, -1, 1), float32)
    kernel = verify(outer_products(made.windows, layout(made.x, float32), lg, float32, config))
    out = np.full(made.weight.shape, np.nan, np.float32)
    count = workgroups(made.windows, config)
    assert config.parts == 1
    interpret(kernel, count, made.x.ravel(), last.ravel(), out.reshape(-1))
    made.check(out, made.weight_gradient)
