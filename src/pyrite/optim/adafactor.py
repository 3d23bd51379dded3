"""Adafactor: second moments of matrices as a row and a column."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass

from pyrite.optim.optimizer import Optimizer
from pyrite.optim.schedule.rate import Rate
from pyrite.optim.settings import non_negative, positive, require
from pyrite.optim.state import RuleState
from pyrite.tensor.creation import zeros, zeros_like
from pyrite.tensor.inspection import finfo
from pyrite.tensor.tensor import Tensor


@dataclass(frozen=True, eq=False, repr=False)
class Adafactor(Optimizer):
    """Adafactor: g / sqrt(V), clipped as a whole, times the parameter's own size.

    V of a matrix (M, N) is kept as the means of its rows and columns, M + N numbers instead of M N;
    of more axes, for the last two.  The rate is min(learning_rate, 1 / sqrt(step)) times the root
    mean square of the parameter, which counts as ``eps2`` at least.

    beta2_decay: the means forget by step ** beta2_decay.  clip: bound of the step's root mean
    square.  eps1: least root of V; by default the dtype's epsilon.  Decay of weights is decoupled.
    Defaults and definition as PyTorch's.  Source: Shazeer & Stern 2018, arXiv:1804.04235.
    """

    learning_rate: Rate = 1e-2
    _: KW_ONLY
    beta2_decay: float = -0.8
    eps1: float | None = None
    eps2: float = 1e-3
    clip: float = 1.0
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        non_negative(self, "eps2", "weight_decay")
        positive(self, "clip")
        require(self, "beta2_decay <= 0", f"beta2_decay={self.beta2_decay}", self.beta2_decay <= 0)
        eps1 = 0.0 if self.eps1 is None else self.eps1
        require(self, "eps1 >= 0 or None", f"eps1={self.eps1}", eps1 >= 0)

    def init(self, parameter: Tensor) -> RuleState:
        """Return means of 0: of rows and columns, or of single elements of a vector."""
        if parameter.ndim < 2:
            return {"squares": zeros_like(parameter)}
        *batch, rows, columns = parameter.shape
        dtype, device = parameter.dtype, parameter.device
        return {
            "rows": zeros((*batch, rows, 1), dtype=dtype, device=device),
            "columns": zeros((*batch, 1, columns), dtype=dtype, device=device),
        }

    def update(
        self,
        gradient: Tensor,
        parameter: Tensor,
        state: RuleState,
        *,
        learning_rate: float,
        step: int,
    ) -> tuple[Tensor, RuleState]:
        """Return the parameter and the means after a step."""
        eps1 = finfo(parameter.dtype).eps if self.eps1 is None else self.eps1
        new = step**self.beta2_decay
        squares = gradient.square()
        if parameter.ndim < 2:
            state = {"squares": state["squares"].lerp(squares, new)}
            found = state["squares"]
        else:
            rows = state["rows"].lerp(squares.mean(-1, keepdims=True), new)
            columns = state["columns"].lerp(squares.mean(-2, keepdims=True), new)
            state = {"rows": rows, "columns": columns}
            found = rows @ columns / rows.mean(-2, keepdims=True).maximum(eps1)
        change = gradient * found.maximum(eps1 * eps1).rsqrt()
        rate = _size(parameter).maximum(self.eps2) * min(learning_rate, step**-0.5)
        rate = rate / (_size(change) / self.clip).maximum(1.0)
        kept = parameter * (1 - learning_rate * self.weight_decay)
        return kept - rate * change, state


def _size(x: Tensor) -> Tensor:
    """Return the root mean square."""
    return x.vector_norm() / math.sqrt(max(x.size, 1))
