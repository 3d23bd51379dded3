"""An application's ops in files: functions by their bodies, or nodes of a domain of its own."""

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
from pyrite.op import OPS


@pyrite.composite()
def scaled_tanh(x: Tensor, y: Tensor, /, *, factor: float) -> Tensor:
    return (x * factor).tanh() + y.mean(-1, keepdims=True)


del OPS["scaled_tanh"]  # suites go through those of Pyrite


@pyrite.composite()
def both_ways(x: Tensor, /) -> tuple[Tensor, Tensor]:
    return scaled_tanh(x, x, factor=2.0), x.reshape((x.shape[0] * x.shape[1],))


del OPS["both_ways"]  # suites go through those of Pyrite


class Net(nn.Module):
    def __init__(self) -> None:
        self.first = nn.Linear(3, 3)
        self.second = nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = scaled_tanh(self.first(x), x, factor=0.5)
        x = scaled_tanh(self.second(x), x, factor=0.5)
        return scaled_tanh(x, x, factor=3.0)


X = pyrite.tensor(np.random.default_rng(0).normal(size=(2, 3)).astype(np.float32))
MORE = pyrite.tensor(np.random.default_rng(0).normal(size=(7, 3)).astype(np.float32))
BATCH = {"x": {0: "batch"}}


def functions_of(path: Path) -> list[tuple[str, str]]:
    return [(f.domain, f.name) for f in onnx.load(path).functions]


def test_a_composite_is_a_function_for_each_thing_that_it_does(judge: Any) -> None:
    path = judge(Net(), X, others=[MORE], dynamic=BATCH)

    assert functions_of(path) == [("pyrite", "scaled_tanh"), ("pyrite", "scaled_tanh_1")]
    calls = [n.op_type for n in onnx.load(path).graph.node if n.domain == "pyrite"]
    assert calls == ["scaled_tanh", "scaled_tanh", "scaled_tanh_1"]


class Both(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return both_ways(x)


def test_a_function_calls_functions_and_measures_sizes(judge: Any) -> None:
    path = judge(Both(), X, others=[MORE], dynamic=BATCH)

    assert ("pyrite", "both_ways") in functions_of(path)
    assert ("pyrite", "scaled_tanh") in functions_of(path)


@pytest.mark.parametrize("opset", [18, 21, 24])
def test_functions_are_in_every_opset(opset: int, judge: Any) -> None:
    judge(Net(), X, opset=opset)


class Capturing(nn.Module):
    """A composite whose body reads a parameter of the model."""

    def __init__(self) -> None:
        self.weight = pyrite.Parameter(pyrite.ones((3,)))

    def forward(self, x: Tensor) -> Tensor:
        shift = self.weight * 2

        @pyrite.composite()
        def shifted(y: Tensor, /) -> Tensor:
            return y + shift

        return shifted(x)


def test_what_a_body_captures_is_an_input_of_the_function(judge: Any) -> None:
    path = judge(Capturing(), X, dynamic=BATCH)

    (function,) = onnx.load(path).functions
    assert list(function.input) == ["y", "captured_0"]


@pyrite.custom_op(scalar=lambda k, x: k.tanh(x) * x)
def gated(x: Tensor, /) -> Tensor:
    """x tanh(x)."""
    ...


def test_an_elementwise_op_of_an_application_is_written_by_its_rule(judge: Any) -> None:
    path = judge(nn.Lambda(gated), X)

    assert [n.op_type for n in onnx.load(path).graph.node] == ["Tanh", "Mul"]


@pyrite.custom_op(
    reference=lambda x, *, times: x * times,
    infer=lambda x, *, times: x,
)
def opaque(x: Tensor, /, *, times: int = 2) -> Tensor:
    """An op without a body or a rule."""
    ...


class Opaque(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return opaque(x, times=3)


def test_an_op_without_a_body_is_a_node_of_the_domain_that_has_it(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"

    with pytest.raises(ModelExportError, match="name a domain that has it"):
        export(Opaque(), X, path)
    export(Opaque(), X, path, domains={"opaque": "com.example"})

    (node,) = onnx.load(path).graph.node
    assert (node.domain, node.op_type) == ("com.example", "opaque")
    assert onnx.helper.get_attribute_value(node.attribute[0]) == 3
    imports = {o.domain: o.version for o in onnx.load(path).opset_import}
    assert imports["com.example"] == 1


def test_a_composite_may_be_a_node_of_a_domain_too(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"

    export(Net(), X, path, domains={"scaled_tanh": "com.example"})

    assert functions_of(path) == []
