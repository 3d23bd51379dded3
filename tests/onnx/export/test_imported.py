"""Models that were imported are exported again: with their branches, and as what they compute."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import pyrite
from pyrite import nn
from pyrite.onnx import export, load
from pyrite.onnx.exporter.tracer import ModelTracer


def branching() -> bytes:
    """Return a model that multiplies by a weight, or adds it, by the sign of a sum."""

    def body(op: str, name: str) -> Any:
        nodes = [helper.make_node(op, ["doubled", "weight"], [name])]
        out = helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 3])
        return helper.make_graph(nodes, name, [], [out])

    nodes = [
        helper.make_node("Add", ["x", "x"], ["doubled"]),
        helper.make_node("ReduceSum", ["x"], ["sum"], keepdims=0),
        helper.make_node("Greater", ["sum", "zero"], ["is_positive"]),
        helper.make_node(
            "If", ["is_positive"], ["chosen"],
            then_branch=body("Mul", "product"), else_branch=body("Add", "total"),
        ),
        helper.make_node("Relu", ["chosen"], ["y"]),
    ]  # fmt: skip
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 3])
    weights = [
        onnx.numpy_helper.from_array(np.array([1, 2, 3], np.float32), "weight"),
        onnx.numpy_helper.from_array(np.array(0, np.float32), "zero"),
    ]
    graph = helper.make_graph(nodes, "branching", [x], [y], weights)
    imports = [helper.make_opsetid("", 18)]
    made = helper.make_model(graph, opset_imports=imports, ir_version=8)
    return bytes(made.SerializeToString())


@pytest.mark.parametrize("dynamic", [None, {"x": {0: "n"}}])
def test_a_branch_of_an_imported_model_is_one_in_the_file(
    dynamic: Any, run: Any, tmp_path: Path
) -> None:
    path = tmp_path / "model.onnx"
    model = load(branching())
    rows = (2, 5) if dynamic else (2,)

    export(model, {"x": pyrite.ones((2, 3))}, path, dynamic=dynamic)

    assert [n.op_type for n in onnx.load(path).graph.node].count("If") == 1
    for n in rows:
        for sign in (1, -1):
            x = sign * np.random.default_rng(n).uniform(0.1, 1, (n, 3)).astype(np.float32)
            (got,) = run(path, {"x": x}).values()
            np.testing.assert_allclose(got, model(pyrite.tensor(x)).numpy(), rtol=1e-6)


def test_a_model_that_was_exported_is_exported_again(run: Any, tmp_path: Path) -> None:
    first, second = tmp_path / "first.onnx", tmp_path / "second.onnx"
    dynamic = {"x": {0: "batch", 1: "length"}}
    x = np.random.default_rng(0).normal(size=(2, 5, 8)).astype(np.float32)

    export(nn.TransformerEncoder(8, 2, 16, 1), pyrite.tensor(x), first, dynamic=dynamic)
    export(load(first), {"x": pyrite.tensor(x)}, second, dynamic=dynamic)

    more = np.random.default_rng(1).normal(size=(3, 4, 8)).astype(np.float32)
    for given in (x, more):
        (a,), (b,) = (run(p, {"x": given}).values() for p in (first, second))
        np.testing.assert_allclose(a, b, atol=1e-5)


def test_an_imported_model_keeps_nothing_of_its_exports(tmp_path: Path) -> None:
    model = load(branching())
    example = {"x": pyrite.ones((2, 3))}
    before = tracers()

    for _ in range(3):
        export(model, example, tmp_path / "model.onnx", dynamic={"x": {0: "n"}})

    assert tracers() == before
    assert set(model._memory._tensors) <= {example["x"].device.backend.root}


def tracers() -> int:
    """Return how many are alive: errors of other tests may hold some."""
    gc.collect()
    return sum(type(found) is ModelTracer for found in gc.get_objects())
