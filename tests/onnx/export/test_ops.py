"""Every op, by the examples in its record, in onnxruntime; what is not written is listed here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import pyrite
from pyrite import Tensor, nn
from pyrite.errors import ModelExportError
from pyrite.onnx import export
from pyrite.testing import Example, examples
from pyrite.types import float32

#: Ops whose result has a shape that depends on values, or that read some.
DATA_DEPENDENT = {
    "argwhere", "nonzero", "bincount", "repeat_each", "unique_values", "unique_counts",
    "unique_inverse", "unique_all",
}  # fmt: skip

#: Gradients that ONNX has no op for: an error says so.
NOT_WRITTEN = {
    "adaptive_avg_pool_backward", "avg_pool_backward", "convolution_weight_gradient",
    "embedding_backward", "max_pool_backward",
}  # fmt: skip

#: Ops of which some calls are not written: those that want the second result of attention, and a
#: gradient of attention with dropout, which draws again what was left out.
NOT_ALWAYS_WRITTEN = {"scaled_dot_product_attention", "scaled_dot_product_attention_backward"}

#: Examples that are written, and that onnxruntime cannot run.
NOT_JUDGED = {"group_norm-3": "onnxruntime reshapes no empty batch"}

#: Ops of which a call may be an error.
REFUSED = NOT_WRITTEN | DATA_DEPENDENT | NOT_ALWAYS_WRITTEN

EXAMPLES = [e for e in examples() if any(isinstance(a, np.ndarray) for a in e.arrays())]


class OneOp(nn.Module):
    """The call of an example."""

    def __init__(self, example: Example) -> None:
        self.example = example
        arrays = example.arrays(float32)
        self.given = tuple(None if isinstance(a, np.ndarray) else a for a in arrays)

    def forward(self, **tensors: Tensor) -> Any:
        inputs = [tensors.get(f"x{i}", given) for i, given in enumerate(self.given)]
        return self.example.call(inputs)


def inputs_of(example: Example) -> dict[str, Tensor]:
    arrays = example.arrays(float32)
    return {f"x{i}": pyrite.tensor(a) for i, a in enumerate(arrays) if isinstance(a, np.ndarray)}


@pytest.mark.sample(50)
@pytest.mark.parametrize("example", EXAMPLES, ids=[e.id for e in EXAMPLES])
def test_an_op_is_in_onnxruntime_what_it_is_here(example: Example, judge: Any) -> None:
    if example.id in NOT_JUDGED:
        pytest.skip(NOT_JUDGED[example.id])
    try:
        judge(OneOp(example), inputs_of(example), imports=False)
    except ModelExportError:
        if example.op.name not in REFUSED:
            raise


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_an_op_that_is_not_written_is_an_error_that_says_so(name: str, tmp_path: Path) -> None:
    errors = []
    for example in EXAMPLES:
        if example.op.name == name:
            try:
                export(OneOp(example), inputs_of(example), tmp_path / f"{example.id}.onnx")
            except ModelExportError as error:
                errors.append(error)
                assert not (tmp_path / f"{example.id}.onnx").exists()

    assert errors
    for error in errors:
        assert "requires" in str(error)
        assert error.location is not None


#: Of a few ops those that other opsets have, and that the oldest has not.
BY_OPSET = [
    ("gelu-0", 18, {"Erf"}), ("gelu-0", 20, {"Gelu"}), ("rms_norm-0", 22, {"ReduceMean"}),
    ("rms_norm-0", 23, {"RMSNormalization"}), ("layer_norm-0", 18, {"LayerNormalization"}),
    ("group_norm-0", 18, {"LayerNormalization"}), ("group_norm-0", 21, {"GroupNormalization"}),
    ("silu-0", 23, {"Sigmoid", "Mul"}), ("silu-0", 24, {"Swish"}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "opset", "wanted"), BY_OPSET)
def test_an_opset_has_its_own_ops(name: str, opset: int, wanted: set[str], judge: Any) -> None:
    example = next(e for e in EXAMPLES if e.id == name)

    path = judge(OneOp(example), inputs_of(example), opset=opset)

    made = onnx.load(path)
    assert made.opset_import[0].version == opset
    assert wanted <= {node.op_type for node in made.graph.node}
