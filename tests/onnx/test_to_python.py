"""Models written as Python: goldens for a reader, outputs of the file, hostile names, folders."""

from __future__ import annotations

import ast
import importlib.util
import math
import random
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from typer.testing import CliRunner

import pyrite
from pyrite.cli.onnx import app
from pyrite.errors import ArgumentError
from pyrite.onnx import ModelImportError, to_python
from pyrite.onnx.inspection import inspect_here
from pyrite.onnx.loading import load_with
from pyrite.onnx.python.code import PRODUCT, infix, literal, local
from pyrite.onnx.python.line import Assignment, joined

HERE = Path(__file__).parent


def imported(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


generated = imported(HERE / "generated.py")

Golden = Callable[[str, str], None]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "most"), [("resnet18", 120), ("bert", 200)])
def test_an_exported_architecture_is_written_as_a_reader_would(
    name: str, most: int, golden: Golden, full: bool, tmp_path: Path
) -> None:
    if not full and name == "resnet18":
        pytest.skip("its weights are large; --full runs it")
    pytest.importorskip("torch")
    pytest.importorskip("onnxscript")
    content, arrays = getattr(imported(HERE / "architectures.py"), name)()

    module, text = generated.written(content, tmp_path)

    golden(f"{name}.py.golden", text)
    assert len(text.splitlines()) <= most
    require_same(module.load(), content, arrays)
    generated.require_tidy(tmp_path / "model.py")


def require_same(model: Any, content: bytes, arrays: list[Any]) -> None:
    """The outputs of a generated model are those of the imported graph."""
    imported_model = load_with(content, inspect_here, device="numpy")
    inputs = [pyrite.tensor(array, device="numpy") for array in arrays]
    expected, made = imported_model(*inputs), model.to("numpy")(*inputs)
    is_one = len(imported_model.outputs) == 1
    for one, other in zip(*([made], [expected]) if is_one else (made, expected), strict=True):
        scale = float(np.abs(other.numpy()).max())
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-4, atol=1e-5 * scale)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dynamo", [False, True])
@pytest.mark.parametrize("kind", ["ResNet", "Recurrent", "Gpt", "UNet", "ViT"])
def test_what_pytorch_exports_runs_at_several_sizes(
    kind: str, dynamo: bool, full: bool, tmp_path: Path
) -> None:
    if not full and (dynamo or kind != "Gpt"):
        pytest.skip("its exporter is slow; --full runs it")
    torch = pytest.importorskip("torch")
    pytest.importorskip("onnxscript")
    exports = imported(HERE / "test_torch_exports.py")
    net = getattr(exports, kind)
    torch.manual_seed(0)
    content = exports.exported(net().eval(), net.example(2, 4), dynamo=dynamo)

    module, _ = generated.written(content, tmp_path)

    for sizes in ((2, 4), (3, 6)):
        require_same(module.load(), content, [x.numpy() for x in net.example(*sizes)])
    generated.require_tidy(tmp_path / "model.py")


def test_light_architectures_run(full: bool, tmp_path: Path) -> None:
    if not full:
        pytest.skip("they are large; --full runs them")
    architectures = imported(HERE / "test_architectures.py")
    for path in architectures.LIGHT:
        content = architectures.with_random_weights(onnx.load(path)).SerializeToString()
        module, _ = generated.written(content, tmp_path / path.stem)
        x = np.random.default_rng(1).standard_normal((1, 3, 224, 224)).astype(np.float32)
        require_same(module.load(), content, [x])
        generated.require_tidy(tmp_path / path.stem / "model.py")


def test_generated_files_are_typed(full: bool) -> None:
    if not full:
        pytest.skip("mypy reads all of Pyrite; --full runs it")
    for path in sorted((HERE / "goldens").glob("*.golden")):
        generated.require_typed(path)


# ---- names of the file ----

HOSTILE = [
    '"; import os; os.abort()  #', "'''\"\"\"", "a\nimport os\n", "\u202ename\u2066", "class",
    "__import__", "__class__", "self", "x", "forward", "load", "é ñ", "", "1", "a.b/c::d", "\\",
    "None", "{}", "\0", "print", "Tensor", "Module", "np", "math", "training", "tensor", "\ud7ff",
]  # fmt: skip


@pytest.mark.sample(6)
@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_of_the_file_is_an_identifier_or_a_literal(name: str, tmp_path: Path) -> None:
    model = named(name)
    content = model.SerializeToString()
    try:
        expected = load_with(content, inspect_here, device="numpy")
    except ModelImportError:
        pytest.skip("ONNX's checker refuses the name")

    module, text = generated.written(model, tmp_path)

    assert text.isascii()
    tree = list(ast.walk(ast.parse(text)))
    assert not {n.attr for n in tree if isinstance(n, ast.Attribute) and n.attr.startswith("_")}
    assert not {n.id for n in tree if isinstance(n, ast.Name)} & {"os", "__import__", "print"}
    assert {n.module for n in tree if isinstance(n, ast.ImportFrom)} <= {
        "pathlib", "pyrite", "pyrite.nn",
    }  # fmt: skip
    assert not [n for n in tree if isinstance(n, ast.Import)]
    x = np.float32([[1, 2, 3], [4, 5, 6]])
    made = module.load()(pyrite.tensor(x))
    np.testing.assert_allclose(made.numpy(), expected(x).numpy(), rtol=1e-6)
    generated.require_tidy(tmp_path / "model.py")


def named(name: str) -> Any:
    """A linear layer in a block, whose every name is one of a stranger."""
    helper, float32 = onnx.helper, onnx.TensorProto.FLOAT
    weight = onnx.numpy_helper.from_array(np.eye(3, 2, dtype=np.float32), f"w{name}.weight")
    scale = onnx.numpy_helper.from_array(np.float32([2, 3]), f"s{name}")
    nodes = [
        helper.make_node(
            "MatMul", [f"i{name}", f"w{name}.weight"], [f"h{name}"], name=f"/{name}/n"
        ),
        helper.make_node("Mul", [f"h{name}", f"s{name}"], [f"o{name}"], name=name),
    ]
    graph = helper.make_graph(
        nodes, name or "graph",
        [helper.make_tensor_value_info(f"i{name}", float32, ["n", 3])],
        [helper.make_tensor_value_info(f"o{name}", float32, ["n", 2])],
        [weight, scale], doc_string=name,
    )  # fmt: skip
    opset = helper.make_opsetid("", 21)
    return helper.make_model(graph, opset_imports=[opset], ir_version=8)


# ---- what is written, and where ----


def made(text: str) -> Any:
    return onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 21]>\n{text}')


ABS = "net (float[N] x) => (float[N] y) { y = Abs (x) }"
ENDLESS = """
net (float[N] x) => (float[N] y) {
    y = Loop (, , x) <body = b (int64 i, bool c, float[N] a) => (bool d, float[N] e)
        { d = Identity (c) e = Add (a, a) }>
}
"""


def test_all_that_cannot_be_written_is_named_at_once(tmp_path: Path) -> None:
    with pytest.raises(
        ModelImportError, match=r"got 1 that cannot: Loop 'y' \(opset 21\)"
    ) as caught:
        to_python(made(ENDLESS).SerializeToString(), tmp_path / "out")
    assert len(caught.value.problems) == 1
    assert not (tmp_path / "out").exists()


def test_a_folder_with_other_files_is_kept(tmp_path: Path) -> None:
    content = made(ABS).SerializeToString()
    (tmp_path / "model.py").write_text("mine")

    with pytest.raises(ArgumentError, match=r"requires an empty folder, got .*'model\.py'"):
        to_python(content, tmp_path)
    assert (tmp_path / "model.py").read_text() == "mine"

    (tmp_path / "other").write_text("mine")
    path = to_python(content, tmp_path, force=True)
    assert "x.abs()" in path.read_text()
    assert (tmp_path / "other").read_text() == "mine"


def test_a_file_in_the_place_of_the_folder_is_kept(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("mine")
    with pytest.raises(ArgumentError, match="requires a folder, got the file"):
        to_python(made(ABS).SerializeToString(), tmp_path / "out")


def test_the_command_writes_a_model_and_names_what_it_cannot(tmp_path: Path) -> None:
    onnx.save(made(ABS), tmp_path / "abs.onnx")
    onnx.save(made(ENDLESS), tmp_path / "endless.onnx")

    done = CliRunner().invoke(app, ["to-python", str(tmp_path / "abs.onnx"), str(tmp_path / "out")])
    refused = CliRunner().invoke(
        app, ["to-python", str(tmp_path / "endless.onnx"), str(tmp_path / "no")]
    )

    assert done.exit_code == 0
    assert "model.py" in done.output
    assert (tmp_path / "out" / "model.py").exists()
    assert refused.exit_code == 1
    assert "Loop 'y' (opset 21): it has no end" in refused.output


def test_numbers_are_written_with_their_own_digits(tmp_path: Path) -> None:
    text = """
    net (float[N] x) => (float[N] y) {
        a = Constant <value = float {0.1}> ()
        b = Add (x, a)
        c = Constant <value = float {-inf}> ()
        y = Max (b, c)
    }
    """
    text = text.replace("{-inf}", "{-3.0}")
    module, written = generated.written(made(text), tmp_path)

    assert "x + 0.1" in written
    x = np.float32([1, -math.pi * 9])
    expected = np.maximum(x + np.float32(0.1), np.float32(-3))
    np.testing.assert_array_equal(module.load()(pyrite.tensor(x)).numpy(), expected)


def test_a_head_that_shares_an_embedding_has_no_weight_of_its_own(tmp_path: Path) -> None:
    text = """
    net (int64[N] i) => (float[N, 5] y) {
        h = Gather ("token.weight", i)
        t = Transpose <perm = [1, 0]> ("token.weight")
        y = MatMul (h, t)
    }
    """
    model = made(text)
    weight = np.random.default_rng(0).standard_normal((5, 3)).astype(np.float32)
    model.graph.initializer.append(onnx.numpy_helper.from_array(weight, "token.weight"))

    module, text = generated.written(model, tmp_path)
    net = module.load()

    assert [path for path, _ in net.named_parameters()] == ["token.weight"]
    require_same(net, model.SerializeToString(), [np.array([0, 4, 2])])


@pytest.mark.parametrize("seed", range(20))
def test_expressions_within_others_keep_their_order(seed: int, tmp_path: Path) -> None:
    model = random_arithmetic(seed)
    content = model.SerializeToString()
    rng = np.random.default_rng(seed)
    inputs = load_with(content, inspect_here, device="numpy").inputs
    arrays = [rng.random((3, 3)).astype(np.float32) + 1 for _ in inputs]

    module, _ = generated.written(model, tmp_path)

    require_same(module.load(), content, arrays)


def random_arithmetic(seed: int) -> Any:
    """A few operators between matrices and a number, each on values before it."""
    draw, helper = random.Random(seed), onnx.helper
    nodes, values = [], ["a", "b", "c"]
    for i in range(draw.randint(2, 9)):
        near = values[-1] if draw.random() < 0.75 else draw.choice(values)
        operands = [near, draw.choice([*values, "k"])]
        draw.shuffle(operands)
        op = draw.choice(["Add", "Sub", "Mul", "Div", "MatMul", "Neg", "Tanh", "Transpose"])
        if op == "MatMul":
            operands = [x if x != "k" else "a" for x in operands]
        given = [near] if op in ("Neg", "Tanh", "Transpose") else operands
        nodes.append(helper.make_node(op, given, [f"v{i}"]))
        values.append(f"v{i}")

    def of(name: str) -> Any:
        return helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [3, 3])

    number = onnx.numpy_helper.from_array(np.float32(1.7), "k")
    graph = helper.make_graph(nodes, "g", [*map(of, "abc")], [of(values[-1])], [number])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=8)


KEYS = """
net (float[N, 2, 5, 4] q, float[N, 2, 5, 4] k, float[N, 2, 5, 4] v) => (float[N, 2, 5, 4] y) {
    flat = Reshape (k, rows)
    turned = Transpose <perm = [0, 2, 1]> (flat)
    keys = Reshape (turned, heads)
    scores = MatMul (q, keys)
    weights = Softmax (scores)
    y = MatMul (weights, v)
}
"""


@pytest.mark.parametrize(("rows", "is_found"), [((-1, 5, 4), True), ((-1, 10, 2), False)])
def test_keys_that_are_turned_without_their_heads_are_those_of_attention(
    rows: tuple[int, ...], is_found: bool, tmp_path: Path
) -> None:
    model = made(KEYS)
    for name, sizes in (("rows", rows), ("heads", (-1, 2, 4, 5))):
        array = np.array(sizes, np.int64)
        model.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    draw = np.random.default_rng(0)
    arrays = [draw.standard_normal((3, 2, 5, 4)).astype(np.float32) for _ in range(3)]

    module, text = generated.written(model, tmp_path)

    assert ("scaled_dot_product_attention(" in text) == is_found
    require_same(module.load(), model.SerializeToString(), arrays)


def test_a_size_that_doubles_again_and_again_is_a_variable(tmp_path: Path) -> None:
    doubled = "\n".join(f"s{i + 1} = Add (s{i}, s{i})" for i in range(40))
    made = onnx.parser.parse_model(f"""<ir_version: 8, opset_import: ["" : 18]>
    net (float[N, 4] x) => (float[M, 4] y) {{
        s0 = Shape <start = 0, end = 1> (x)
        {doubled}
        many = Constant <value = int64[1] {{{1 << 40}}}> ()
        n = Div (s40, many)
        four = Constant <value = int64[1] {{4}}> ()
        to = Concat <axis = 0> (n, four)
        y = Reshape (x, to)
    }}""")
    module, text = generated.written(made, tmp_path)
    x = pyrite.tensor(np.arange(12, dtype=np.float32).reshape(3, 4))

    np.testing.assert_array_equal(module.load()(x).numpy(), x.numpy())
    assert len(text) < 4000


def test_long_expressions_are_not_joined_to_be_taken_apart() -> None:
    names = ["x", *(f"v{i}" for i in range(300))]
    lines = [
        Assignment((after,), infix("*", local(before), literal(0.5), PRODUCT))
        for before, after in pairwise(names)
    ]

    longest = max(len(line.within) for line in joined(lines, names[-1:], set()))

    assert 10 < longest < 100
