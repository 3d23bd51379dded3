"""Rules of classes, evaluated on NumPy's arrays and judged by the independent reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyrite.backend.device import Device
from pyrite.backend.evaluation import EVALUATORS
from pyrite.backend.numpy import NumPy
from pyrite.op import OPS
from pyrite.tensor.creation import tensor
from pyrite.testing import Example, examples
from pyrite.types import FLOATS, DType

#: Ops with a rule, of a class or a scalar one, and beside it something that judges it.
EXAMPLES = [
    e for e in examples()
    if e.op.rule is not None or (e.op.scalar is not None and e.op.reference is not None)
]  # fmt: skip
#: What a rule may differ by from its reference, which adds in float64.
TOLERANCE = {"float64": 1e-12, "float32": 4e-6, "float16": 2e-3, "bfloat16": 2e-2}


class ByRules(NumPy):
    """NumPy, by rules in place of references."""

    name = "rules"
    prefers_rules = True


BY_RULES = Device(ByRules())


def test_each_class_has_an_evaluator_and_each_rule_a_judge() -> None:
    classed = [op for op in OPS.values() if op.rule is not None]
    assert {type(op.rule) for op in classed} <= set(EVALUATORS)
    assert [op.name for op in classed if op.reference is None and op.body is None] == []


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda e: e.id)
def test_a_rule_gives_what_its_reference_gives(example: Example, dtype: DType) -> None:
    arrays = example.arrays(dtype)
    got, want = called(example, arrays, BY_RULES), called(example, arrays, "numpy")
    for g, w in zip(got, want, strict=True):
        assert (g.shape, g.dtype) == (w.shape, w.dtype)
        x, y = g.numpy(), w.numpy()
        if not w.dtype.is_float:
            np.testing.assert_array_equal(x, y)
            continue
        bound = TOLERANCE[w.dtype.name]
        np.testing.assert_allclose(
            x.astype(np.float64), y.astype(np.float64), rtol=bound, atol=bound
        )


def called(example: Example, arrays: list[Any], device: Any) -> tuple[Any, ...]:
    inputs = [tensor(a, device=device) if isinstance(a, np.ndarray) else a for a in arrays]
    return example.call(inputs, device)
