"""Sizes that vary: formulas, and every op at other sizes than those of its example."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import pyrite
from pyrite import Tensor, nn
from pyrite.errors import ModelExportError, PyriteError
from pyrite.onnx import export
from pyrite.onnx.exporter.formula import formula_of
from pyrite.onnx.exporter.size import Varying
from pyrite.op import Sample, Spec
from pyrite.testing import Example, examples
from pyrite.types import float32

# ---- formulas ----

#: Sizes of two axes: three of each alone, and two at which both differ.
POINTS = [(2, 3), (3, 3), (5, 3), (2, 4), (2, 6), (6, 7), (9, 10)]

FORMULAS: list[Callable[[int, int], int]] = [
    lambda n, _: n,
    lambda n, _: 4 * n + 1,
    lambda n, _: n // 2,
    lambda n, _: (n + 1) // 2,
    lambda n, _: (n - 3) // 2 + 7,
    lambda n, _: n * n,
    lambda n, t: n * t,
    lambda n, t: n + t,
    lambda n, t: 2 * n * t + 3,
    lambda n, t: 3 * n - t + 8,
    lambda n, t: n * n * t,
]


@pytest.mark.parametrize("number", range(len(FORMULAS)))
def test_a_formula_of_sizes_is_found_and_holds_elsewhere(number: int) -> None:
    function = FORMULAS[number]

    formula = formula_of([function(*p) for p in POINTS], POINTS, 5)

    assert formula is not None
    for n in range(1, 40):
        for t in range(1, 40):
            assert formula.at((n, t)) == function(n, t)


@pytest.mark.parametrize(
    "function", [max, lambda n, t: n**t, lambda n, _: n % 2, lambda n, _: max(n, 4)]
)
def test_what_is_no_formula_is_not_found(function: Callable[[int, int], int]) -> None:
    assert formula_of([function(*p) for p in POINTS], POINTS, 5) is None


def test_varying_integers_are_computed_with_at_each_trace_apart() -> None:
    n = Varying((2, 3, 5))

    assert n + 1 == Varying((3, 4, 6))
    assert 10 - n == Varying((8, 7, 5))
    assert 2 * n - n == n
    assert n - n == 0


# ---- every op ----


def grown(example: Example, axis: int, size: int, by: int) -> Example:
    """Return an example whose inputs are longer where they have a size on an axis."""

    def longer(spec: Any) -> Any:
        if not isinstance(spec, Spec) or not spec.shape or spec.shape[axis] != size:
            return spec
        shape = list(spec.shape)
        shape[axis] += by
        return dataclasses.replace(spec, shape=tuple(shape))

    inputs = tuple(longer(spec) for spec in example.sample.inputs)
    return Example(example.op, example.number, Sample(inputs, example.sample.attrs))


def cases() -> Iterator[tuple[Example, int, int]]:
    """Give examples, an axis, the first or the last, and a size on it that is to vary."""
    for example in examples():
        shapes = [s.shape for s in example.sample.inputs if isinstance(s, Spec) and s.shape]
        for axis in (0, -1):
            for size in sorted({shape[axis] for shape in shapes} - {0}):
                yield example, axis, size


CASES = list(cases())


class OneOp(nn.Module):
    """The call of an example."""

    def __init__(self, example: Example) -> None:
        self.example = example
        arrays = example.arrays(float32)
        self.given = tuple(None if isinstance(a, np.ndarray) else a for a in arrays)

    def forward(self, **tensors: Tensor) -> Any:
        given = enumerate(self.given)
        return self.example.call([tensors.get(f"x{i}", number) for i, number in given])


def inputs_of(example: Example) -> dict[str, Tensor]:
    arrays = example.arrays(float32)
    return {f"x{i}": pyrite.tensor(a) for i, a in enumerate(arrays) if isinstance(a, np.ndarray)}


@pytest.mark.sample(40)
@pytest.mark.parametrize(
    ("example", "axis", "size"), CASES, ids=[f"{e.id}-axis {a}-size {n}" for e, a, n in CASES]
)
def test_an_op_is_right_at_other_sizes_or_refused(
    example: Example, axis: int, size: int, run: Any, tmp_path: Path
) -> None:
    if example.id == "group_norm-3":
        pytest.skip("onnxruntime reshapes no empty batch")
    inputs, path = inputs_of(example), tmp_path / "model.onnx"
    dynamic = {name: {axis: "n"} for name, t in inputs.items() if t.ndim and t.shape[axis] == size}
    try:
        export(OneOp(example), inputs, path, dynamic=dynamic)
    except ModelExportError as error:
        refusal = str(error)
    except PyriteError:
        refusal = "requires"  # the op itself takes no such sizes
    else:
        refusal = None
    if refusal is not None:
        assert "requires" in refusal
        assert "report it" not in refusal
        return

    for by in (2, 5):
        other = grown(example, axis, size, by)
        given = inputs_of(other)
        try:
            want = OneOp(other)(**given)
        except PyriteError:
            continue
        got = run(path, {name: t.numpy() for name, t in given.items()})
        for array, tensor in zip(got.values(), want, strict=True):
            expected = tensor.numpy()
            assert (array.dtype, array.shape) == (expected.dtype, expected.shape)
            np.testing.assert_allclose(
                array.astype(np.float64), expected.astype(np.float64), rtol=1e-4, atol=2e-5
            )


# ---- models ----


class Arithmetic(nn.Module):
    """What a model does with sizes: halves, products, sums, positions."""

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        n, t, d = x.shape
        s = y.shape[1]
        return (
            x[:, : t // 2],
            x[:, (t + 1) // 2 :],
            x.reshape(n * t, d),
            x.reshape(n, t * d // 2, 2),
            pyrite.concat([x, y], axis=1)[:, -(s + 1) :],
            pyrite.arange(t + s) * n,
            x.sum() / (n * t),
            x * (1 / d) + n,
            x.pad(((0, 0), (1, s), (0, 0))),
            pyrite.zeros((t, s)).broadcast_to((n, t, s)),
            x.mT @ x,
            x.flip(1).roll(1, 0)[:, 1:],
            pyrite.eye(t) @ x,
            y[:, :: 2],
        )  # fmt: skip


def test_a_model_computes_with_sizes(judge: Any) -> None:
    def example(n: int, t: int, s: int) -> tuple[Tensor, Tensor]:
        rng = np.random.default_rng(0)
        shapes = (n, t, 4), (n, s, 4)
        return tuple(pyrite.tensor(rng.normal(size=z).astype(np.float32)) for z in shapes)  # type: ignore[return-value]

    judge(
        Arithmetic(), example(2, 6, 3), others=[example(1, 5, 7), example(3, 12, 2)],
        dynamic={"x": {0: "n", 1: "t"}, "y": {0: "n", 1: "s"}},
    )  # fmt: skip


def test_a_size_of_one_in_the_example_is_no_stretching(judge: Any) -> None:
    class Scores(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.reshape(x.shape[0], 1, 3) - x.reshape(1, x.shape[0], 3)

    one, many = pyrite.ones((1, 3)), pyrite.tensor(np.eye(5, 3, dtype=np.float32))

    path = judge(Scores(), one, others=[many], dynamic={"x": {0: "batch"}})

    dims = onnx.load(path).graph.output[0].type.tensor_type.shape.dim
    assert [d.dim_param or d.dim_value for d in dims] == ["batch", "batch", 3]


def test_a_table_that_ends_at_the_example_is_read_at_smaller_sizes(judge: Any) -> None:
    model = nn.Sequential(nn.PositionalEncoding(4, max_length=12), nn.Linear(4, 2))
    x = pyrite.ones((1, 12, 4))

    # Not loaded and exported again: a slice that takes all is none, which is a branch on the size.
    judge(model, x, others=[pyrite.ones((1, 5, 4))], dynamic={"x": {1: "length"}}, imports=False)


def test_a_reshape_is_spelled_without_arithmetic_where_it_can_be(judge: Any) -> None:
    path = judge(
        nn.MultiHeadAttention(8, 2), pyrite.ones((2, 3, 8)),
        dynamic={"query": {0: "batch", 1: "length"}},
    )  # fmt: skip

    assert "Shape" not in {node.op_type for node in onnx.load(path).graph.node}


class CrossEntropy(nn.Module):
    """A loss over any number of classes."""

    def forward(self, logits: Tensor, targets: Tensor) -> Tensor:
        return logits.cross_entropy_with_logits(targets)


def test_a_loss_is_taken_over_any_number_of_classes(judge: Any) -> None:
    def given(n: int, classes: int) -> dict[str, Tensor]:
        rng = np.random.default_rng(n)
        return {
            "logits": pyrite.tensor(rng.standard_normal((n, classes), np.float32)),
            "targets": pyrite.tensor(rng.integers(0, classes, n).astype(np.int32)),
        }

    judge(
        CrossEntropy(), given(4, 5), others=[given(2, 3), given(7, 11)],
        dynamic={"logits": {0: "n", 1: "classes"}, "targets": {0: "n"}},
    )  # fmt: skip
