"""Layers that files spell in single ops: found as one, equal to onnxruntime, and trained alike."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest

import pyrite
from pyrite.onnx import ModelImportError, OnnxModule, program
from pyrite.onnx.inspection import inspect_here
from pyrite.onnx.loading import load_with
from pyrite.onnx.pattern.view import PATTERN

HEAD = '<ir_version: 8, opset_import: ["" : 17]>'
QKV = "float[N, 2, T, 4] q, float[N, 2, 4, S] k, float[N, 2, S, 3] v"

LINEAR = [
    "product = MatMul (x, w)  y = Add (product, b)",
    "product = MatMul (x, w)  y = Add (b, product)",
    "turned = Transpose <perm = [1, 0]> (u)  product = MatMul (x, turned)  y = Add (product, b)",
    "turned = Transpose (u)  product = MatMul (x, turned)  y = Add (product, b)",
]
GELU = [
    "a = Div (x, root)  e = Erf (a)  s = Add (e, one)  p = Mul (x, s)  y = Mul (p, half)",
    "a = Mul (x, inverse)  e = Erf (a)  s = Add (one, e)  h = Mul (half, x)  y = Mul (h, s)",
    "a = Div (x, root)  e = Erf (a)  s = Add (e, one)  p = Mul (s, x)  y = Mul (half, p)",
    "a = Div (x, root)  e = Erf (a)  s = Add (e, one)  h = Mul (x, half)  y = Mul (s, h)",
]
GELU_TANH = [
    """d = Mul (x, x)  f = Mul (d, x)  c = Mul (cubic, f)  i = Add (x, c)  w2 = Mul (i, tangent)
    e = Tanh (w2)  s = Add (one, e)  h = Mul (half, x)  y = Mul (h, s)""",
    """p = Pow (x, three)  c = Mul (cubic, p)  i = Add (c, x)  w2 = Mul (tangent, i)
    e = Tanh (w2)  s = Add (e, one)  h = Mul (x, s)  y = Div (h, two)""",
]
SILU = ["s = Sigmoid (x)  y = Mul (s, x)", "s = Sigmoid (x)  y = Mul (x, s)"]
NORM = [
    """mean = ReduceMean <axes = [-1]> (x)  d = Sub (x, mean)  p = Pow (d, two)
    v = ReduceMean <axes = [2]> (p)  w1 = Add (v, eps)  r = Sqrt (w1)  n = Div (d, r)
    g = Mul (n, b)  y = Add (g, b2)""",
    """mean = ReduceMean <axes = [-1]> (x)  d = Sub (x, mean)  p = Mul (d, d)
    v = ReduceMean <axes = [-1]> (p)  w1 = Add (eps, v)  r = Sqrt (w1)  n = Div (d, r)
    g = Mul (b, n)  y = Add (b2, g)""",
]
ATTENTION = [
    "s = MatMul (q, k)  p = Softmax <axis = -1> (s)  y = MatMul (p, v)",
    "s = MatMul (q, k)  t = Mul (half, s)  p = Softmax <axis = 3> (t)  y = MatMul (p, v)",
    "s = MatMul (q, k)  t = Div (s, root)  a = Add (m, t)  p = Softmax (a)  y = MatMul (p, v)",
    "s = MatMul (q, k)  a = Add (s, m)  p = Softmax (a)  y = MatMul (p, v)",
    # The factor is the size of a head, which the host computes.
    """z = Shape (q)  i = Constant <value_int = 3> ()  d = Gather (z, i)  f = Cast <to = 1> (d)
    g = Sqrt (f)  s = MatMul (q, k)  t = Div (s, g)  p = Softmax (t)  y = MatMul (p, v)""",
]
#: What looks alike and is not: nothing is found, and the result is right.
OTHERS = [
    ("float[N, T, 4] x", "s = Sigmoid (x)  t = Tanh (x)  y = Mul (s, t)"),
    ("float[N, T, 4] x", "t = Tanh (x)  s = Add (t, one)  h = Mul (x, s)  y = Mul (h, half)"),
    ("float[N, T, 4] x", GELU_TANH[1].replace("three", "two")),
    ("float[N, T, 4] x", NORM[0].replace("<axes = [2]>", "<axes = [1]>")),
    ("float[N, T, 4] x", NORM[0].replace("Pow (d, two)", "Pow (x, two)")),
    ("float[N, T, 4] x", NORM[1].replace("Mul (d, d)", "Mul (d, x)")),
    ("float[N, T, 4] x", NORM[1].replace("Mul (b, n)", "Mul (x, n)")),
    # What is between is read again.
    ("float[N, T, 4] x", "s = Sigmoid (x)  q = Mul (x, s)  y = Add (q, s)"),
    ("float[N, T, 4] x", "product = MatMul (x, w)  s = Add (product, b)  y = Mul (s, product)"),
    ("float[N, T, 4] x", "product = MatMul (x, w)  y = Add (product, product)"),
    ("float[N, T, 4] x", "t = Transpose <perm = [0, 2, 1]> (x)  p = MatMul (w, t)  "
     "y = Add (p, one)"),
    ("float[N, T, 4] x", "a = Div (x, one)  e = Erf (a)  s = Add (e, one)  p = Mul (x, s)  "
     "y = Mul (p, half)"),
    ("float[N, T, 4] x", "a = Div (x, root)  e = Erf (a)  s = Add (e, half)  p = Mul (x, s)  "
     "y = Mul (p, half)"),
    ("float[N, T, 4] x", "a = Div (root, x)  e = Erf (a)  s = Add (e, one)  p = Mul (x, s)  "
     "y = Mul (p, half)"),
    (QKV, "s = MatMul (q, k)  p = Softmax <axis = 2> (s)  y = MatMul (p, v)"),
    (QKV, "s = MatMul (q, k)  t = Div (one, s)  p = Softmax (t)  y = MatMul (p, v)"),
    (QKV, "s = MatMul (q, k)  p = Softmax (s)  r = MatMul (p, v)  z = ReduceMax (p)  "
     "y = Add (r, z)"),
]  # fmt: skip
#: Shapes of query, keys, value, bias and factor: heads, and what is stretched.
STRETCHED = [
    ((2, 3, 5, 4), (2, 3, 4, 6), (2, 3, 6, 2), (2, 1, 1, 6), ()),
    ((2, 3, 5, 4), (2, 3, 4, 6), (2, 3, 6, 2), (5, 6), ()),
    ((1, 3, 5, 4), (1, 1, 4, 6), (2, 1, 6, 2), (1,), ()),
    ((2, 1, 5, 4), (2, 3, 4, 6), (2, 3, 6, 2), (2, 1, 1, 6), ()),
    ((1, 1, 5, 4), (1, 1, 4, 6), (1, 1, 6, 2), (2, 3, 1, 6), ()),
    ((2, 3, 5, 4), (2, 3, 4, 6), (2, 3, 6, 2), (1, 1), (5, 1)),
    ((5, 4), (4, 6), (6, 2), (5, 1), (1,)),
    ((1, 2, 0, 4), (1, 2, 4, 3), (1, 2, 3, 2), (1,), ()),
]  # fmt: skip


def content_of(inputs: str, body: str, rank: int | None = None) -> bytes:
    axes = "ABCD"[: rank or (4 if inputs == QKV else 3)]
    head = f"{HEAD} net ({inputs}) => (float[{', '.join(axes)}] y)"
    made = onnx.parser.parse_model(f"{head} {{\n{body.replace('  ', chr(10))}\n}}")
    rng = np.random.default_rng(0)
    read = {name for node in made.graph.node for name in node.input}
    for name, value in {
        "w": rng.standard_normal((4, 4)), "u": rng.standard_normal((4, 4)), "b": np.arange(4) / 3,
        "m": rng.standard_normal((1, 1, 1, 6)), "root": np.sqrt(2), "inverse": np.sqrt(0.5),
        "half": 0.5, "one": 1, "two": 2, "three": 3, "eps": 1e-5, "cubic": 0.044715,
        "tangent": np.sqrt(2 / np.pi), "b2": np.arange(4) - 2.0,
    }.items():  # fmt: skip
        if name in read:
            made.graph.initializer.append(
                onnx.numpy_helper.from_array(np.asarray(value, np.float32), name)
            )
    return bytes(made.SerializeToString())


def opened(content: bytes, device: str = "cpu") -> OnnxModule:
    return load_with(content, inspect_here, device=device)


def found_in(model: OnnxModule) -> Counter[str]:
    of_file = {node.outputs: node.op for node in model.graph.nodes}
    found = [step.node for step in model._program.steps]
    return Counter(node.op for node in found if of_file[node.outputs] != node.op)


def arrays_of(model: OnnxModule) -> dict[str, Any]:
    sizes = {"N": 2, "T": 5, "S": 6}
    rng = np.random.default_rng(1)
    return {
        name: rng.standard_normal([sizes.get(str(n), n) for n in of.shape or ()], np.float32)
        for name, of in model.inputs.items()
    }


def require_as_onnxruntime(content: bytes, arrays: dict[str, Any], model: OnnxModule) -> None:
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(content, providers=["CPUExecutionProvider"])
    (expected,) = session.run(None, arrays)
    np.testing.assert_allclose(model(**arrays).numpy(), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("inputs", "body", "op"),
    [
        *(("float[N, T, 4] x", body, "Linear") for body in LINEAR),
        *(("float[N, T, 4] x", body, "Gelu") for body in GELU),
        *(("float[N, T, 4] x", body, "Gelu") for body in GELU_TANH),
        *(("float[N, T, 4] x", body, "Swish") for body in SILU),
        *(("float[N, T, 4] x", body, "LayerNormalization") for body in NORM),
        *((QKV, body, "Attention") for body in ATTENTION),
    ],
)
def test_a_pattern_is_found_and_is_what_onnxruntime_computes(
    inputs: str, body: str, op: str
) -> None:
    content = content_of(inputs, body)
    model = opened(content)

    assert found_in(model) == {op: 1}
    assert model.graph.nodes[-1].op != op  # the graph is shown as the file has it
    require_as_onnxruntime(content, arrays_of(model), model)


@pytest.mark.parametrize(("inputs", "body"), OTHERS)
def test_what_looks_alike_is_computed_as_it_is_written(inputs: str, body: str) -> None:
    content = content_of(inputs, body)
    model = opened(content)

    assert not found_in(model)
    require_as_onnxruntime(content, arrays_of(model), model)


def test_an_addition_along_another_axis_is_no_bias() -> None:
    node = onnx.helper.make_node
    nodes = [node("MatMul", ["x", "w"], ["p"]), node("Add", ["p", "b"], ["y"], broadcast=1, axis=0)]
    infos = [onnx.helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, [4, 4]) for n in "xy"]
    weights = {"w": np.eye(4, dtype=np.float32), "b": np.arange(4, dtype=np.float32)}
    held = [onnx.numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = onnx.helper.make_graph(nodes, "net", infos[:1], infos[1:], held)
    opset = onnx.helper.make_opsetid("", 6)
    made = onnx.helper.make_model(graph, opset_imports=[opset], ir_version=4)
    x = np.ones((4, 4), np.float32)

    found = opened(made.SerializeToString())(x).numpy()

    np.testing.assert_array_equal(found, x + weights["b"][:, None])


@pytest.mark.parametrize("shapes", STRETCHED, ids=str)
def test_attention_stretches_as_its_single_ops(shapes: tuple[Any, ...]) -> None:
    names = ("q", "k", "v", "bias", "f")
    inputs = ", ".join(
        f"float[{', '.join(map(str, s))}] {n}" for n, s in zip(names, shapes, strict=True)
    )
    body = (
        "s = MatMul (q, k)  t = Div (s, f)  a = Add (t, bias)  p = Softmax (a)  y = MatMul (p, v)"
    )
    content = content_of(inputs.replace("float[] f", "float f"), body, max(map(len, shapes)))
    rng = np.random.default_rng(2)
    arrays = {
        n: rng.uniform(0.5, 2, s).astype(np.float32) for n, s in zip(names, shapes, strict=True)
    }
    model = opened(content)

    assert found_in(model) == {"Attention": 1}
    require_as_onnxruntime(content, arrays, model)


def test_what_a_body_or_a_result_reads_is_kept() -> None:
    text = f"""{HEAD}
    net (float[N, 4] x, bool c) => (float[N, 4] y, float[N, 4] p) {{
        p = MatMul (x, w)
        r = Add (p, b)
        q = MatMul (x, w)
        s = Add (q, b)
        t = If (c) <then_branch = one () => (f) {{ f = Relu (q) }},
                    else_branch = two () => (g) {{ g = Neg (s) }}>
        y = Add (r, t)
    }}"""
    made = onnx.parser.parse_model(text)
    for name, array in (("w", np.eye(4, dtype=np.float32)), ("b", np.ones(4, np.float32))):
        made.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    model = opened(made.SerializeToString())
    x = np.arange(8, dtype=np.float32).reshape(2, 4)

    assert not found_in(model)
    for c, expected in ((True, x + 1 + x), (False, x + 1 - (x + 1))):
        y, p = model(x, np.array(c))
        np.testing.assert_allclose(y.numpy(), expected)
        np.testing.assert_allclose(p.numpy(), x)


@pytest.mark.parametrize("body", [LINEAR[0], LINEAR[2]])
def test_it_trains_as_the_single_ops_do(body: str, monkeypatch: pytest.MonkeyPatch) -> None:
    content = content_of("float[N, T, 4] x", body)
    x = arrays_of(opened(content))["x"]

    def gradients(model: OnnxModule) -> dict[str, Any]:
        _, found = pyrite.value_and_grad(lambda m: (m(x) ** 2).sum())(model)
        return {path: found[p].numpy() for path, p in model.named_parameters()}

    one = gradients(opened(content, "numpy"))
    monkeypatch.setattr(program, "LOADED", ())
    several = opened(content, "numpy")

    assert not found_in(several)
    assert one.keys() == {"b", "w" if "w)" in body else "u"}
    for path, expected in gradients(several).items():
        np.testing.assert_allclose(one[path], expected, rtol=1e-5, atol=1e-5)


def test_a_file_cannot_name_what_is_found() -> None:
    made = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : 17, "{PATTERN}" : 1]>'
        f" net (float[N] x) => (float[N] y) {{ y = {PATTERN}.Gelu (x) }}"
    )

    with pytest.raises(ModelImportError, match=r"Gelu .*: this domain is Pyrite's own"):
        opened(made.SerializeToString())


def test_a_copied_weight_is_what_it_is_used_as() -> None:
    text = f"""{HEAD}
    net (float[N, 2] x) => (float[N, 2] y, float[2] z) {{
        mean = Identity (shift)
        again = Identity (mean)
        h = BatchNormalization (x, scale, bias, again, var)
        z = Identity (bias)
        y = Relu (h)
    }}"""
    made = onnx.parser.parse_model(text)
    for name in ("shift", "scale", "bias", "var"):
        array = np.array([0.5, 2], np.float32)
        made.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    model = opened(made.SerializeToString())

    assert {path for path, _ in model.named_parameters()} == {"scale", "bias"}
    assert [step.node.op for step in model._program.steps].count("Identity") == 1
    np.testing.assert_allclose(model(np.zeros((1, 2), np.float32))[1].numpy(), [0.5, 2])
