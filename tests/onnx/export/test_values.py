"""Elementwise ops at the ends: NaN, infinities, zeros, and integers that overflow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyrite
from pyrite import Tensor, nn
from pyrite.errors import PyriteError
from pyrite.onnx import export
from pyrite.op import OPS, Op, bind

FLOATS = np.array(
    [np.nan, np.inf, -np.inf, 0.0, 1.0, -1.0, 0.5, -2.5, 1e30, -1e30, 3.0, -0.7, 1e-3, -7.0],
    np.float32,
)
INTEGERS = np.array([0, 1, -1, 2, -3, 7, -8, 2**31 - 1, -(2**31), 5], np.int32)

OF_VALUES = sorted(
    name
    for name, op in OPS.items()
    if op.is_elementwise and op.body_reads is None and not name.endswith("_backward")
    and name not in ("full", "arange", "random_bits", "dropout")
)  # fmt: skip


class Elementwise(nn.Module):
    def __init__(self, op: Op) -> None:
        self.op = op

    def forward(self, **tensors: Tensor) -> Any:
        attrs = self.op.samples[0].attrs if self.op.samples else {}
        return bind(self.op, list(tensors.values()), {**self.op.attributes, **attrs})


@pytest.mark.sample(16)
@pytest.mark.parametrize("kind", ["float", "int"])
@pytest.mark.parametrize("name", OF_VALUES)
def test_an_op_is_at_the_ends_what_it_is_here(
    name: str, kind: str, run: Any, tmp_path: Path
) -> None:
    model, path = Elementwise(OPS[name]), tmp_path / "model.onnx"
    values = FLOATS if kind == "float" else INTEGERS
    grids = [g.ravel() for g in np.meshgrid(*[values] * len(OPS[name].inputs), indexing="ij")]
    if name == "where":
        grids[0] = grids[0] > 0
    if name == "pow" and kind == "int":
        # ONNX leaves open what a power is that overflows.
        grids = [np.clip(g, -8, 8) for g in grids]
    inputs = {f"x{i}": pyrite.tensor(g) for i, g in enumerate(grids)}
    try:
        with np.errstate(all="ignore"):
            want = model(**inputs).numpy()
        export(model, inputs, path)
    except PyriteError as error:
        pytest.skip(str(error))

    (got,) = run(path, {n: t.numpy() for n, t in inputs.items()}).values()

    assert got.dtype == want.dtype
    if want.dtype.kind == "f":
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-6)
    else:
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("exponent", [0, 1, 2, 3, 7, 31])
def test_a_power_of_integers_wraps_around(exponent: int, judge: Any) -> None:
    judge(nn.Lambda(lambda x: x**exponent), pyrite.tensor(INTEGERS))
