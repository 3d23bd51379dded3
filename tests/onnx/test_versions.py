"""Ops as older opsets have them, judged by onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

from pyrite.onnx.inspection import inspect_here
from pyrite.onnx.loading import load_with

runtime = pytest.importorskip("onnxruntime")


def f(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def i(*values: int) -> Any:
    return np.array(values, np.int64)


X = f(2, 3, 6, 8)
#: Op, opset, operands, and attributes; arrays of integers are initializers, as files have them.
CASES: list[tuple[str, int, list[Any], dict[str, Any]]] = [
    ("ArgMax", 11, [X], {"axis": 2, "keepdims": 0}),
    ("ArgMin", 12, [X], {"axis": -1, "select_last_index": 1}),
    ("AveragePool", 7, [X], {"kernel_shape": [3, 2], "strides": [2, 2], "pads": [1, 0, 1, 1]}),
    ("AveragePool", 10, [X], {"kernel_shape": [3, 3], "ceil_mode": 1, "strides": [2, 2]}),
    ("AveragePool", 11, [X], {"kernel_shape": [3, 3], "auto_pad": "SAME_LOWER", "strides": [2, 2]}),
    ("AveragePool", 19, [X], {"kernel_shape": [2, 2], "dilations": [2, 3], "count_include_pad": 1}),
    ("BatchNormalization", 7, [X, f(3), f(3), f(3), f(3) ** 2], {}),
    ("BatchNormalization", 9, [X, f(3), f(3), f(3), f(3) ** 2], {"epsilon": 1e-3}),
    ("Cast", 9, [X], {"to": 7}),
    ("Clip", 6, [X], {"min": -0.5, "max": 0.25}),
    ("Clip", 11, [X, np.float32(-0.5), np.float32(0.5)], {}),
    ("Compress", 9, [X, np.array([1, 0, 1], bool)], {"axis": 1}),
    ("Concat", 4, [X, X], {"axis": 1}),
    ("ConvTranspose", 11, [X, f(3, 2, 3, 3)], {"strides": [2, 3], "output_shape": [13, 25]}),
    ("ConvTranspose", 11, [X, f(3, 2, 3, 3)], {"strides": [2, 2], "output_padding": [1, 1]}),
    ("ConvTranspose", 11, [X, f(3, 2, 3, 3)], {"strides": [2, 2], "auto_pad": "SAME_UPPER"}),
    ("CumSum", 11, [X, np.int64(2)], {"exclusive": 1, "reverse": 1}),
    ("DepthToSpace", 11, [f(1, 8, 2, 3)], {"blocksize": 2, "mode": "CRD"}),
    ("Dropout", 7, [X], {"ratio": 0.3}),
    ("Dropout", 10, [X], {}),
    ("Elu", 6, [X], {"alpha": 0.7}),
    ("Expand", 8, [f(3, 1), i(2, 1, 4)], {}),
    ("Flatten", 9, [X], {"axis": 2}),
    ("Gather", 11, [X, i(2, -1, 0)], {"axis": 1}),
    ("GatherND", 12, [X, i(1, 0).reshape(2, 1)], {"batch_dims": 1}),
    ("Gemm", 7, [f(3, 2), f(4, 3), f(4)], {"transA": 1, "transB": 1, "alpha": 0.5, "beta": 2.0}),
    ("Gemm", 11, [f(2, 3), f(3, 4)], {}),
    ("HardSigmoid", 6, [X], {"alpha": 0.3}),
    ("Hardmax", 11, [X], {"axis": 2}),
    ("InstanceNormalization", 6, [X, f(3), f(3)], {}),
    ("LRN", 1, [f(1, 7, 2, 2)], {"size": 3, "alpha": 0.2}),
    ("LogSoftmax", 11, [X], {"axis": 2}),
    ("LpNormalization", 1, [X], {"p": 1, "axis": 1}),
    ("LpPool", 2, [X], {"kernel_shape": [2, 2], "p": 3, "strides": [2, 2]}),
    ("Max", 8, [X, f(8)], {}),
    ("MaxPool", 8, [X], {"kernel_shape": [3, 3], "strides": [2, 2]}),
    ("MaxPool", 10, [X], {"kernel_shape": [2, 2], "dilations": [2, 2], "ceil_mode": 1}),
    ("MeanVarianceNormalization", 9, [X], {}),
    ("Mod", 10, [X, f(8)], {"fmod": 1}),
    ("OneHot", 9, [i(1, 4, -1), np.int64(5), np.float32([2, 3])], {"axis": 0}),
    ("PRelu", 7, [X, f(3, 1, 1)], {}),
    ("Pad", 2, [X], {"pads": [0, 1, 2, 0, 0, 0, 1, 3], "mode": "reflect"}),
    ("Pad", 2, [X], {"pads": [0, 0, -1, 0, 0, 1, 1, -2], "value": 1.5}),
    ("Pad", 11, [X, i(0, 0, 1, 2, 0, 0, 1, 2)], {"mode": "edge"}),
    ("Pow", 7, [np.abs(X), f(8)], {}),
    ("QuantizeLinear", 10, [X, np.float32(0.02), np.uint8(100)], {}),
    ("ReduceL2", 13, [X], {"axes": [1, -1], "keepdims": 0}),
    ("ReduceLogSumExp", 11, [X], {"axes": [2]}),
    ("ReduceMax", 12, [X], {}),
    ("ReduceMean", 13, [X], {"axes": [-1, -2]}),
    ("ReduceSum", 11, [X], {"axes": [1], "keepdims": 0}),
    ("Reshape", 5, [X, i(0, -1, 4)], {}),
    ("Resize", 10, [X, np.float32([1, 1, 1.5, 0.5])], {"mode": "linear"}),
    ("Resize", 10, [X, np.float32([1, 1, 2, 2])], {"mode": "nearest"}),
    ("Resize", 11, [X, f(0), np.float32([1, 1, 1.3, 2])], {"mode": "cubic"}),
    ("RoiAlign", 10, [X, np.float32([[0, 1, 4, 5], [1, 0, 7, 3]]), i(0, 1)],
     {"output_height": 2, "output_width": 3, "sampling_ratio": 2}),
    ("Scatter", 9, [f(3, 4), i(0, 2).reshape(1, 2), f(1, 2)], {"axis": 1}),
    ("ScatterElements", 16, [f(3, 4), i(0, 0).reshape(1, 2), f(1, 2)], {"reduction": "add"}),
    ("ScatterND", 11, [f(3, 4), i(2, 0).reshape(2, 1), f(2, 4)], {}),
    ("Selu", 6, [X], {}),
    ("Slice", 1, [X], {"axes": [3, 1], "starts": [1, -2], "ends": [100, 3]}),
    ("Slice", 10, [X, i(5, 0), i(-100, 2), i(2, 1), i(-2, 1)], {}),
    ("Softmax", 11, [X], {}),
    ("SpaceToDepth", 1, [f(1, 2, 4, 6)], {"blocksize": 2}),
    ("Split", 2, [X], {"axis": 1, "split": [1, 2]}),
    ("Split", 11, [X], {"axis": 2}),
    ("Split", 13, [X, i(2, 4)], {"axis": 2}),
    ("Squeeze", 11, [f(1, 3, 1)], {"axes": [-1]}),
    ("Sum", 8, [X, f(8), f(6, 1)], {}),
    ("ThresholdedRelu", 10, [X], {"alpha": 0.3}),
    ("Tile", 6, [f(2, 3), i(2, 3)], {}),
    ("TopK", 1, [X], {"k": 2, "axis": 1}),
    ("TopK", 10, [X, i(3)], {}),
    ("Trilu", 14, [f(3, 5), np.int64(1)], {"upper": 0}),
    ("Unsqueeze", 11, [f(2, 3)], {"axes": [0, -1]}),
    ("Upsample", 7, [X], {"mode": "nearest", "scales": [1.0, 1.0, 2.0, 3.0]}),
    ("Upsample", 9, [X, np.float32([1, 1, 2, 2])], {"mode": "linear"}),
    ("Where", 9, [np.array([True, False] * 4), X, f(8)], {}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("op", "opset", "operands", "attributes"),
    CASES,
    ids=[f"{op}-{opset}-{n}" for n, (op, opset, *_) in enumerate(CASES)],
)
def test_an_op_of_an_older_opset_agrees_with_onnxruntime(
    op: str, opset: int, operands: list[Any], attributes: dict[str, Any]
) -> None:
    outputs = ["y", "z"] if op in ("Split", "TopK") else ["y"]
    names = [f"x{n}" for n in range(len(operands))]
    node = onnx.helper.make_node(op, names, outputs, **attributes)
    to_type = onnx.helper.np_dtype_to_tensor_dtype
    x = onnx.helper.make_tensor_value_info("x0", to_type(operands[0].dtype), operands[0].shape)
    weights = [
        onnx.numpy_helper.from_array(operand, name)
        for operand, name in zip(operands[1:], names[1:], strict=True)
    ]
    y = [onnx.ValueInfoProto(name=name) for name in outputs]
    graph = onnx.helper.make_graph([node], "old", [x], y, weights)
    opsets = [onnx.helper.make_opsetid("", opset)]
    model = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8)
    options = runtime.SessionOptions()
    options.log_severity_level = 4
    content = model.SerializeToString()
    session = runtime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    expected = session.run(None, {"x0": operands[0]})
    for value, array in zip(model.graph.output, expected, strict=True):
        of = onnx.helper.make_tensor_type_proto(to_type(array.dtype), array.shape)
        value.type.CopyFrom(of)

    made = load_with(model.SerializeToString(), inspect_here, device="numpy")(operands[0])

    for one, other in zip([made] if len(outputs) == 1 else made, expected, strict=True):
        found = one.numpy()
        assert (found.dtype, found.shape) == (other.dtype, other.shape)
        np.testing.assert_allclose(found, other, rtol=1e-4, atol=1e-5)
