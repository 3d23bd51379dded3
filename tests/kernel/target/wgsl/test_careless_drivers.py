"""Special floats by the WGSL of each elementwise op, on a driver that takes NaN for no concern.

WGSL lets an implementation assume that there are none. So it may take `select(x, y, x > y)` for the
least of both, which is the number where one is NaN. On an NVIDIA H200 tanh of NaN was 1, where
lavapipe's was NaN; the driver does so only within more arithmetic, so no list of cases finds it.
Here every choice by a comparison of what it chooses from becomes such a least or greatest.
"""

from __future__ import annotations

import itertools
from typing import Any, ClassVar

import numpy as np
import pytest

from pyrite.backend.numpy.backend import _elementwise
from pyrite.kernel import Kernel, KernelBuilder, verify
from pyrite.kernel.interpret import interpret
from pyrite.kernel.ir import Node
from pyrite.kernel.passes.rewrite import Rewriter
from pyrite.kernel.target.wgsl.pipeline import lowered
from pyrite.kernel.trace import trace
from pyrite.op import OPS, Op
from pyrite.tensor.creation import tensor
from pyrite.testing import Example, samples_of
from pyrite.types import Array, TensorType, dtype, float32

SPECIAL = np.array([0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.0, np.inf, -np.inf, np.nan], np.float32)


class _Careless(Rewriter):
    """Takes choices by a comparison for the number of two, where one is NaN."""

    _COMPARISONS: ClassVar = frozenset(("lt", "le", "gt", "ge"))

    def __init__(self, kernel: Kernel) -> None:
        super().__init__(kernel)
        self.found = 0

    def visit(self, node: Node, inputs: tuple[Node, ...]) -> Node:
        chosen = self.keep(node, inputs)
        if node.kind != "select":
            return chosen
        condition, x, y = inputs
        if condition.attr not in self._COMPARISONS or {*condition.inputs} != {x, y} or x is y:
            return chosen
        if not x.value_type.dtype.is_float:
            return chosen
        self.found += 1
        for one, other in ((x, y), (y, x)):
            is_nan = self.make("alu", condition.type, (one, one), "ne")
            chosen = self.make("select", node.type, (is_nan, other, chosen))
        return chosen


def careless(kernel: Kernel) -> Kernel:
    """Return a kernel as such a driver would have it."""
    return verify(_Careless(lowered(verify(kernel))).run())


def test_choices_of_two_lose_nan_here() -> None:
    b = KernelBuilder("least", workgroup_size=32)
    x, y, i = b.buffer("x", float32, "read"), b.buffer("y", float32, "write"), b.global_id()
    y[i] = b.select(x[i] > 1.0, b.const(1.0, x[i].type), x[i])
    found = np.zeros(32, np.float32)

    interpret(careless(b.build()), 1, np.full(32, np.nan, np.float32), found)

    np.testing.assert_array_equal(found, 1)


#: Beside a reference NumPy does not evaluate a rule.
ELEMENTWISE = [
    op for name, op in sorted(OPS.items())
    if op.is_elementwise and op.scalar is not None and op.reference is None
    and op.accepts in ("any", "number", "float", "signed")
    and name not in ("where", "full", "dropout")
]  # fmt: skip


@pytest.mark.parametrize("op", ELEMENTWISE, ids=lambda op: op.name)
def test_special_floats_are_those_of_numpy(op: Op, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[Op, list[Any], dict[str, Any], Array]] = []

    def spy(op: Op, arrays: list[Any], attrs: dict[str, Any], out: TensorType) -> Array:
        result = _elementwise(op, arrays, attrs, out)
        calls.append((op, arrays, attrs, result))
        return result

    monkeypatch.setattr("pyrite.backend.numpy.backend._elementwise", spy)
    columns = zip(*itertools.product(SPECIAL, repeat=len(op.inputs)), strict=True)
    inputs = [tensor(np.array(column, np.float32), device="numpy") for column in columns]
    Example(op, 0, samples_of(op)[0]).call(inputs, "numpy")

    assert calls
    for called, arrays, attrs, wanted in calls:
        found = evaluate(called, arrays, attrs, wanted)
        np.testing.assert_allclose(
            found.astype(float), wanted.astype(float), rtol=4e-6, atol=4e-6, equal_nan=True
        )


def evaluate(op: Op, arrays: list[Any], attrs: dict[str, Any], wanted: Array) -> Array:
    """Return the rule of an op by a careless driver."""
    assert op.scalar is not None
    size = -(-wanted.size // 32) * 32
    given = [np.resize(np.broadcast_to(a, wanted.shape), size) for a in arrays]
    b = KernelBuilder(op.name, workgroup_size=32)
    buffers = [b.buffer(f"x{i}", dtype(a.dtype), "read") for i, a in enumerate(given)]
    y, i = b.buffer("y", float32, "write"), b.global_id()
    result = trace(b, op.scalar, [x[i] for x in buffers], dtype(wanted.dtype), **attrs)
    y[i] = b.cast(result, float32)
    found = np.zeros(size, np.float32)
    interpret(careless(b.build()), size // 32, *given, found)
    return found[: wanted.size].reshape(wanted.shape)
