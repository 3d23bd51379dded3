"""What a graph cannot hold is an error, at the line of the model that does it."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyrite
from pyrite import Tensor, nn
from pyrite.errors import ArgumentError, ModelExportError, ShapeError
from pyrite.onnx import export


class Model(nn.Module):
    """A function as a model."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def forward(self, x: Tensor) -> Any:
        return self.function(x)


X = pyrite.tensor(np.ones((2, 3), np.float32))


def line_of(function: Callable[..., Any]) -> str:
    """Return where the second line of a function is, which does it."""
    return f"{__file__}:{inspect.getsourcelines(function)[1] + 1}"


def branches(x: Tensor) -> Tensor:
    return x if x.sum() > 0 else -x


def reads(x: Tensor) -> Tensor:
    return x * x.max().item()


def reads_an_array(x: Tensor) -> Tensor:
    return pyrite.tensor(x.numpy())


def draws(x: Tensor) -> Tensor:
    return x + pyrite.normal(x.shape, device=x.device)


def selects(x: Tensor) -> Tensor:
    return x[x > 0]


def has_no_op(x: Tensor) -> Tensor:
    return x.astype("float64").erfinv()


@pytest.mark.parametrize(
    ("function", "what"),
    [
        (branches, "a read of a tensor's values"),
        (reads, "a read of a tensor's values"),
        (reads_an_array, "a read of a tensor's values"),
        (draws, "a random draw"),
        (selects, "depends on values"),
        (has_no_op, "float32 for erfinv, which ONNX has not"),
    ],
)
def test_what_depends_on_values_is_refused_at_its_line(
    function: Callable[..., Any], what: str, tmp_path: Path
) -> None:
    with pytest.raises(ModelExportError, match=what) as caught:
        export(Model(function), X, tmp_path / "model.onnx")

    assert caught.value.location == line_of(function)
    assert not list(tmp_path.iterdir())


def loops(x: Tensor) -> Tensor:
    return pyrite.stack([x[i] * 2 for i in range(x.shape[0])])


def branches_on_size(x: Tensor) -> Tensor:
    return x.exp() if x.shape[0] > 3 else x.log()


def has_a_host_array(x: Tensor) -> Tensor:
    return x + pyrite.tensor(np.arange(x.shape[0], dtype=np.float32)[:, None])


def has_a_root_of_a_size(x: Tensor) -> Tensor:
    return x / math.sqrt(x.shape[0] + 0.5)


def has_the_greater_size(x: Tensor) -> Tensor:
    return pyrite.arange(max(x.shape[0], 4))


@pytest.mark.parametrize(
    ("function", "what"),
    [
        (loops, "the same ops at every size"),
        (branches_on_size, "the same ops at every size"),
        (has_a_host_array, "arrays that do not depend on a dynamic axis"),
        (has_a_root_of_a_size, "numbers that are the same at every size"),
        (has_the_greater_size, "sizes that follow from the dynamic axes"),
    ],
)
def test_what_depends_on_a_size_otherwise_is_refused_at_its_line(
    function: Callable[..., Any], what: str, tmp_path: Path
) -> None:
    with pytest.raises(ModelExportError, match=what) as caught:
        export(Model(function), X, tmp_path / "model.onnx", dynamic={"x": {0: "batch"}})

    assert caught.value.location == line_of(function)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "function", [loops, branches_on_size, has_a_host_array, has_a_root_of_a_size,
                 has_the_greater_size],
)  # fmt: skip
def test_at_static_sizes_it_is_written(function: Callable[..., Any], judge: Any) -> None:
    judge(Model(function), X)


def test_an_error_of_the_model_is_raised_as_it_is(tmp_path: Path) -> None:
    with pytest.raises(ShapeError, match="matmul requires"):
        export(Model(lambda x: x @ x), X, tmp_path / "model.onnx")


def test_a_model_in_training_is_refused(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.Dropout()).with_training(True)

    with pytest.raises(ModelExportError, match="a model in evaluation"):
        export(model, X, tmp_path / "model.onnx")


def test_dropout_and_noise_of_a_tracked_model_are_left_out(judge: Any) -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.Dropout(), nn.GaussianNoise(1.0))
    tracked = model.to(pyrite.autodiff("numpy"))

    path = judge(model.with_training(False), X)
    export(tracked, X, path)

    assert path.read_bytes()


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"dynamic": {"y": {0: "batch"}}}, "names of inputs in dynamic, got 'y'"),
        ({"dynamic": {"x": {2: "batch"}}}, "got axis 2"),
        ({"dynamic": {"x": {0: ""}}}, "a name for axis 0"),
        ({"dynamic": {"x": {0: "n", 1: "n"}}}, "one size of 'n', got 2 and 3"),
        ({"opset": 17}, "18 <= opset"),
        ({"opset": 99}, "18 <= opset"),
    ],
)
def test_options_that_do_not_fit_are_refused(options: Any, what: str, tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match=what):
        export(Model(lambda x: x + 1), X, tmp_path / "model.onnx", **options)


@pytest.mark.parametrize(("example", "what"), [((), "with tensors"), ((X, X), "at most 1")])
def test_examples_that_do_not_fit_are_refused(example: Any, what: str, tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match=what):
        export(Model(lambda x: x + 1), example, tmp_path / "model.onnx")
