"""What buffers hold after a launch: on a runtime, and as the interpreter says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pyrite.kernel import Kernel
from pyrite.kernel.interpret import interpret
from pyrite.runtime.protocol import Runtime
from pyrite.types import Array, Number, dtype

Values = Sequence[Array | Number]


def launched(
    runtime: Runtime, kernel: Kernel, grid: Sequence[int], values: Values
) -> list[Array | Number]:
    """Return the values of a kernel's parameters after it has run on a runtime."""
    bindings: list[Any] = [runtime.upload(v) if isinstance(v, np.ndarray) else v for v in values]
    runtime.launch(runtime.compile(kernel), bindings, grid)
    return [
        runtime.read(b, dtype(v.dtype), v.shape) if isinstance(v, np.ndarray) else v
        for b, v in zip(bindings, values, strict=True)
    ]


def interpreted(
    kernel: Kernel, grid: Sequence[int], values: Values, *, subgroup_size: int = 32
) -> list[Array | Number]:
    """Return the values of a kernel's parameters after the interpreter has run it on copies."""
    copies = [v.copy() if isinstance(v, np.ndarray) else v for v in values]
    interpret(kernel, tuple(grid), *copies, subgroup_size=subgroup_size)
    return copies
