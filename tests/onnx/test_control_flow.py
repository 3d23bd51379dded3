"""Branches and loops of a graph as Python's: its values, in lines as a reader would write them."""

from __future__ import annotations

import importlib.util
import random
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import TensorProto, helper, numpy_helper

import pyrite
from pyrite.errors import ModelImportError
from pyrite.onnx.inspection import inspect_here
from pyrite.onnx.loading import load_with

HERE = Path(__file__).parent


def imported(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


generated = imported(HERE / "generated.py")


def model_of(text: str, **weights: Any) -> Any:
    made = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 21]>\n{text}')
    for name, value in weights.items():
        made.graph.initializer.append(numpy_helper.from_array(np.asarray(value), name))
    return made


def body_of(text: str) -> str:
    """The lines of a file's last ``forward``, without indentation in common."""
    lines = text.split("def forward(")[-1].partition("\n\n\n")[0].splitlines()[1:]
    return "\n".join(line[8:] for line in lines if line.startswith("        "))


def require_same(module: ModuleType, model: Any, *arrays: Any) -> None:
    """The outputs of a generated model are those of the imported graph."""
    known = load_with(model.SerializeToString(), inspect_here, device="numpy")
    inputs = [pyrite.tensor(array, device="numpy") for array in arrays]
    expected, made = known(*inputs), module.load().to("numpy")(*inputs)
    if len(known.outputs) == 1:
        expected, made = [expected], [made]
    for one, other in zip(made, expected, strict=True):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-5, atol=1e-6)


BRANCH = """
net (bool c, float[N] x) => (float[N] y) {
    z = Abs (x)
    y = If (c) <then_branch = a () => (float[N] u) { t = Sqrt (z)  u = Mul (t, w) },
                else_branch = b () => (float[N] u) { t = Neg (x)  u = Add (t, z) }>
}
"""


def test_a_branch_is_an_if_whose_bodies_may_name_values_alike(tmp_path: Path) -> None:
    model = model_of(BRANCH.replace("  ", "\n"), w=np.float32([2, 3]))

    module, text = generated.written(model, tmp_path)

    assert body_of(text) == (
        "y = x.abs()\nif c:\n    z = y.sqrt() * self.w\nelse:\n    z = -x + y\nreturn z"
    )
    for flag in (True, False):
        require_same(module, model, np.array(flag), np.float32([4, -9]))
    assert [path for path, _ in module.load().named_parameters()] == ["w"]
    generated.require_tidy(tmp_path / "model.py")


def test_a_condition_that_the_file_decides_is_no_branch(tmp_path: Path) -> None:
    text = BRANCH.replace("bool c, ", "").replace("  ", "\n")
    model = model_of(text, w=np.float32([2, 3]), c=np.array(False))

    module, text = generated.written(model, tmp_path)

    assert "if " not in text
    require_same(module, model, np.float32([4, -9]))


def test_a_branch_on_a_size_is_a_comparison(tmp_path: Path) -> None:
    model = model_of("""net (float[N, K] x) => (float[A] y) {
        shape = Shape (x)
        k = Gather (shape, one)
        c = Equal (k, one)
        y = If (c) <then_branch = a () => (u) { u = Squeeze (x, axes) },
                    else_branch = b () => (v) { v = ReduceSum (x, axes) }>
    }""", one=np.int64(1), axes=np.int64([1]))  # fmt: skip

    module, text = generated.written(model, tmp_path)

    assert "if x.shape[1] == 1:" in text
    for columns in (1, 3):
        require_same(module, model, np.ones((2, columns), np.float32))


WHILE = """
net (float[2] x, float limit) => (float[2] y, float[I, 2] s) {
    y, s = Loop (, , x) <body = b (int64 i, bool c, float[2] a) => (bool d, float[2] e, float[2] f)
        { f = Add (a, a)  m = ReduceMax <keepdims = 0> (a)  d = Less (m, limit)  e = Identity (f) }>
}
"""


def test_a_loop_without_a_count_is_left_by_its_condition(tmp_path: Path) -> None:
    model = model_of(WHILE.replace("  ", "\n"))

    module, text = generated.written(model, tmp_path)

    assert "while True:" in text
    assert "    break" in text
    for limit in (-1, 30):
        require_same(module, model, np.float32([1, 2]), np.float32(limit))
    generated.require_tidy(tmp_path / "model.py")


def test_the_condition_is_of_the_round_that_ends(tmp_path: Path) -> None:
    """What goes on is asked of the value before, though its variable has the next one by then."""
    text = WHILE.replace("m = ReduceMax <keepdims = 0> (a)  d", "d").replace("Less (m,", "Less (a,")
    text = text.replace("float[2]", "float[1]").replace("e = Identity (f)", "e = Mul (f, a)")
    model = model_of(text.replace("  ", "\n").replace("I, 2", "I, 1"))

    module, _ = generated.written(model, tmp_path)

    for limit in (1, 2, 3, 30):
        require_same(module, model, np.float32([1.5]), np.float32(limit))


SWAP = """
net (int64 n, bool c, float[2] x, float[2] w) => (float[2] y, float[2] z, float[I, 2] s) {
    y, z, s = Loop (n, c, x, w) <body = b (int64 i, bool d, float[2] p, float[2] q)
        => (bool e, float[2] r, float[2] t, float[2] u)
        { e = Identity (d)  r = Identity (q)  t = Add (p, q)  g = Cast <to = 1> (i)
          u = Mul (p, g) }>
}
"""


def test_variables_of_a_loop_get_their_values_at_once(tmp_path: Path) -> None:
    model = model_of(SWAP.replace("  ", "\n"))

    module, text = generated.written(model, tmp_path)

    assert "for i in range(int(n) if c else 0):" in text
    x = np.float32([1, 2]), np.float32([3, 5])
    for count, flag in ((4, True), (0, True), (-2, True), (4, False)):
        require_same(module, model, np.int64(count), np.array(flag), *x)
    generated.require_tidy(tmp_path / "model.py")


SCAN = """
net (float[2] h, float[2, T, 3] x, float[4, T] w) => (float[2] y, float[T, 2] s) {
    y, s = Scan <num_scan_inputs = 2, scan_input_axes = [1, -1], scan_input_directions = [1, 0],
                 scan_output_axes = [0], scan_output_directions = [1], body = b
        (float[2] a, float[2, 3] p, float[4] q) => (float[2] d, float[2] e)
        { g = ReduceSum <keepdims = 0> (p, one)  k = ReduceMax <keepdims = 0> (q)
          f = Mul (a, k)  d = Add (f, g)  e = Identity (d) }> (h, x, w)
}
"""


def test_a_scan_goes_over_axes_both_ways(tmp_path: Path) -> None:
    model = model_of(SCAN.replace("  ", "\n"), one=np.int64([1]))

    module, text = generated.written(model, tmp_path)

    assert "in zip(reversed(x.unstack(1)), w.unstack(-1), strict=True):" in text
    rng = np.random.default_rng(0)
    for length in (3, 1):
        arrays = (rng.normal(size=s) for s in ((2,), (2, length, 3), (4, length)))
        require_same(module, model, *(array.astype(np.float32) for array in arrays))
    generated.require_tidy(tmp_path / "model.py")


def test_layers_are_found_in_bodies(tmp_path: Path) -> None:
    model = model_of("""net (float[N, 3] x, int64 n) => (float[N, 3] y) {
        y = Loop (n, , x) <body = b (int64 i, bool c, float[N, 3] h) => (bool d, float[N, 3] e) {
            d = Identity (c)
            p = MatMul (h, "cell.weight")
            q = Add (p, "cell.bias")
            e = Tanh (q)
        }>
    }""")  # fmt: skip
    rng = np.random.default_rng(0)
    for name, shape in (("cell.weight", (3, 3)), ("cell.bias", (3,))):
        array = rng.normal(size=shape).astype(np.float32)
        model.graph.initializer.append(numpy_helper.from_array(array, name))

    module, text = generated.written(model, tmp_path)

    assert "self.cell = Linear(3, 3)" in text
    assert "for _ in range(int(n)):" in text
    require_same(module, model, rng.normal(size=(2, 3)).astype(np.float32), np.int64(3))


ENDLESS = """
net (float[N] x) => (float[N] y) {
    y = Loop (, , x) <body = b (int64 i, bool c, float[N] a) => (bool d, float[N] e)
        { d = Identity (c)  e = Add (a, a) }>
}
"""


def test_a_loop_without_an_end_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelImportError, match=r"Loop 'y' \(opset 21\): it has no end"):
        generated.written(model_of(ENDLESS.replace("  ", "\n")), tmp_path)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("float[N] a) => (bool d, float[N] e)", "float[N] a) => (bool d)"),
        ("float[N] a) => (bool d, float[N] e)", "float[N] a, float[N] g) => (bool d, float[N] e)"),
        ("y = Loop (, , x)", "y, z = Loop (, , x)"),
    ],
)
def test_a_body_that_does_not_fit_its_loop_is_refused(old: str, new: str, tmp_path: Path) -> None:
    text = ENDLESS.replace(old, new)
    assert text != ENDLESS
    with pytest.raises(ModelImportError, match=r"got 1 that cannot: Loop 'y'"):
        generated.written(model_of(text.replace("  ", "\n")), tmp_path)


@pytest.mark.sample(10)
@pytest.mark.parametrize("seed", range(200))
def test_any_loops_and_branches_give_what_the_graph_gives(
    seed: int, full: bool, tmp_path: Path
) -> None:
    model = RandomModel(seed).model()
    rng = np.random.default_rng(seed)
    module, _ = generated.written(model, tmp_path)
    for count, flag in ((0, True), (1, False), (3, True)):
        vectors = [rng.uniform(-1, 1, 3).astype(np.float32) for _ in range(2)]
        require_same(module, model, *vectors, np.int64(count), np.array(flag))
    if full and seed < 40:
        generated.require_tidy(tmp_path / "model.py")
    if full and seed < 6:
        generated.require_typed(tmp_path / "model.py")


class RandomModel:
    """Vectors computed with in loops and branches within each other, which read what is around."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.count = 0

    def model(self) -> Any:
        nodes, values = self.nodes(["a", "b"], 2)
        kinds = {"a": [3], "b": [3], "n": [], "c": []}
        types = {"n": TensorProto.INT64, "c": TensorProto.BOOL}
        inputs = [helper.make_tensor_value_info(name, types.get(name, TensorProto.FLOAT), shape)
                  for name, shape in kinds.items()]  # fmt: skip
        outputs = [self.vector(name) for name in dict.fromkeys([values[-1], values[-2]])]
        graph = helper.make_graph(nodes, "g", inputs, outputs)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=8)

    def name(self) -> str:
        self.count += 1
        return f"v{self.count}"

    @staticmethod
    def vector(name: str) -> Any:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, [3])

    def nodes(self, values: list[str], depth: int) -> tuple[list[Any], list[str]]:
        """A few nodes, and the values that can be read after them."""
        values, made = list(values), []
        for _ in range(self.draw.randint(2, 4)):
            kind = self.draw.choice(["plain", "plain", "if", "loop"]) if depth else "plain"
            node = getattr(self, f"{kind}_node")(values, depth)
            made.append(node)
            values += [name for name in node.output if name]
        return made, values

    def pick(self, values: list[str]) -> str:
        return values[-1] if self.draw.random() < 0.5 else self.draw.choice(values)

    def plain_node(self, values: list[str], depth: int) -> Any:
        op = self.draw.choice(["Add", "Sub", "Mul", "Sin", "Identity"])
        given = [self.pick(values) for _ in range(1 if op in ("Sin", "Identity") else 2)]
        return helper.make_node(op, given, [self.name()])

    def body(
        self, values: list[str], depth: int, results: int, inputs: Any = (), first: Any = ()
    ) -> Any:
        nodes, made = self.nodes(values, depth - 1)
        outputs = []
        for _ in range(results):
            name = self.name()
            nodes.append(helper.make_node("Identity", [self.pick(made)], [name]))
            outputs.append(self.vector(name))
        heads = [node for node, _ in first]
        return helper.make_graph(
            heads + nodes, "body", list(inputs), [value for _, value in first] + outputs
        )

    def if_node(self, values: list[str], depth: int) -> Any:
        count = self.draw.randint(1, 2)
        sides = [self.body(values, depth, count) for _ in range(2)]
        return helper.make_node(
            "If", ["c"], [self.name() for _ in range(count)],
            then_branch=sides[0], else_branch=sides[1],
        )  # fmt: skip

    def loop_node(self, values: list[str], depth: int) -> Any:
        states = [self.name() for _ in range(self.draw.randint(1, 3))]
        number, going, on = self.name(), self.name(), self.name()
        inputs = [
            helper.make_tensor_value_info(number, TensorProto.INT64, []),
            helper.make_tensor_value_info(going, TensorProto.BOOL, []),
            *map(self.vector, states),
        ]
        ends = self.draw.random() < 0.4
        source = helper.make_node("Identity", ["c" if ends else going], [on])
        first = [(source, helper.make_tensor_value_info(on, TensorProto.BOOL, []))]
        body = self.body([*values, *states], depth, len(states), inputs, first)
        return helper.make_node(
            "Loop", ["n", self.draw.choice(["", "c"]), *(self.pick(values) for _ in states)],
            [self.name() for _ in states], body=body,
        )  # fmt: skip
