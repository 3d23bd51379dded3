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


HEAD = '<ir_version: 8, opset_import: ["" : 18]>'
#: Loops with their inputs: by a count of the file, by one that is given, by a condition, with what
#: each round gives stacked, and one within another.
LOOPS = {
    "counted": ("float[N, 3] x", """y = Loop (four, , x) <body = b (int64 i, bool c, float[N, 3] h)
        => (bool d, float[N, 3] e) { d = Identity (c)  f = Mul (h, weight)  g = Cast <to = 1> (i)
        e = Add (f, g) }>"""),
    "given": ("float[N, 3] x, int64 n", """y = Loop (n, , x) <body = b (int64 i, bool c,
        float[N, 3] h) => (bool d, float[N, 3] e) { d = Identity (c)  e = Add (h, weight) }>"""),
    "conditioned": ("float[N, 3] x, bool on", """y = Loop (, on, x) <body = b (int64 i, bool c,
        float[N, 3] h) => (bool d, float[N, 3] e) { e = Add (h, weight)
        m = ReduceMax <keepdims = 0> (e)  d = Less (m, ten) }>"""),
    "stacked": ("float[N, 3] x", """z, s = Loop (four, , x) <body = b (int64 i, bool c,
        float[N, 3] h) => (bool d, float[N, 3] e, float[N, 3] f) { d = Identity (c)
        e = Add (h, weight)  f = Abs (h) }>  y = Add (s, z)"""),
    "nested": ("float[N, 3] x, int64 n", """y = Loop (n, , x) <body = b (int64 i, bool c,
        float[N, 3] h) => (bool d, float[N, 3] e) { d = Identity (c)
        e = Loop (four, , h) <body = k (int64 j, bool o, float[N, 3] p)
            => (bool q, float[N, 3] r) { q = Identity (o)  t = Add (p, h)  r = Mul (t, weight) }>
        }>"""),
}  # fmt: skip


@pytest.mark.parametrize("dynamic", [None, {"x": {0: "n"}}])
@pytest.mark.parametrize("name", LOOPS)
def test_a_loop_of_an_imported_model_is_one_in_the_file(
    name: str, dynamic: Any, run: Any, tmp_path: Path
) -> None:
    inputs, text = LOOPS[name]
    axes = "A, B, C" if name == "stacked" else "A, B"
    made = onnx.parser.parse_model(
        f"{HEAD} net ({inputs}) => (float[{axes}] y) {{\n{text.replace('  ', chr(10))}\n}}"
    )
    for key, value in (("weight", np.float32([0.5, 1, 2])), ("four", np.int64(4)),
                       ("ten", np.float32(10))):  # fmt: skip
        made.graph.initializer.append(onnx.numpy_helper.from_array(np.asarray(value), key))
    model, path = load(made.SerializeToString()), tmp_path / "model.onnx"
    more = {"n": np.array(3), "on": np.array(True)}
    given = {key: more[key] for key in model.inputs if key in more}
    example = {"x": pyrite.ones((2, 3)), **{k: pyrite.tensor(v) for k, v in given.items()}}

    export(model, example, path, dynamic=dynamic)

    assert [n.op_type for n in onnx.load(path).graph.node].count("Loop") == 1
    for rows in (2, 5) if dynamic else (2,):
        x = np.random.default_rng(rows).uniform(-1, 1, (rows, 3)).astype(np.float32)
        (got,) = run(path, {"x": x, **given}).values()
        expected = model(pyrite.tensor(x), *map(pyrite.tensor, given.values())).numpy()
        np.testing.assert_allclose(got, expected, rtol=1e-5)


def test_a_loop_whose_variable_grows_is_written_round_by_round(run: Any, tmp_path: Path) -> None:
    made = onnx.parser.parse_model(f"""{HEAD} net (float[2] x) => (float[A] y) {{
        y = Loop (four, , x) <body = b (int64 i, bool c, float[M] h) => (bool d, float[K] e)
            {{ d = Identity (c)\n e = Concat <axis = 0> (h, x) }}>
    }}""")
    made.graph.initializer.append(onnx.numpy_helper.from_array(np.array(4), "four"))
    model, x = load(made.SerializeToString()), np.float32([1, 2])

    export(model, {"x": pyrite.tensor(x)}, tmp_path / "model.onnx")

    (got,) = run(tmp_path / "model.onnx", {"x": x}).values()
    assert got.tolist() == [1, 2] * 5


def test_an_imported_model_keeps_nothing_of_its_exports(tmp_path: Path) -> None:
    model = load(branching())
    example = {"x": pyrite.ones((2, 3))}
    before = tracers()

    for _ in range(3):
        export(model, example, tmp_path / "model.onnx", dynamic={"x": {0: "n"}})

    assert tracers() <= before
    assert set(model._memory._tensors) <= {example["x"].device.backend.root}


def tracers() -> int:
    """Return how many are alive: errors of other tests may hold some."""
    gc.collect()
    return sum(type(found) is ModelTracer for found in gc.get_objects())
