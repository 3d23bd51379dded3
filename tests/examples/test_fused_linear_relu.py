"""The worked example of a kernel of one's own: values by NumPy, gradients by finite differences."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

pytest.importorskip("wgpu")

import pyrite
from pyrite.backend.cube import CubeBackend
from pyrite.backend.device import Device, device_problem
from pyrite.errors import DTypeError, ShapeError
from pyrite.runtime.interpreter import InterpreterRuntime
from pyrite.testing import check_gradients

SHAPES = ((5, 3), (3, 4), (4,))
OPS = ("in_python", "in_wgsl")


@pytest.fixture(scope="module")
def example() -> ModuleType:
    file = Path(__file__).parents[2] / "examples" / "fused_linear_relu.py"
    spec = importlib.util.spec_from_file_location("fused_linear_relu", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(params=["interpreter", "cpu", "wgpu", "numpy"])
def device(request: pytest.FixtureRequest) -> Device:
    if request.param == "interpreter":
        return Device(CubeBackend(InterpreterRuntime()))
    if problem := device_problem(request.param):
        pytest.skip(problem)
    return pyrite.device(request.param)


def arrays(dtype: str = "float64") -> list[Any]:
    rng = np.random.default_rng(3)
    return [rng.uniform(-1, 1, shape).astype(dtype) for shape in SHAPES]


def expected(x: Any, weight: Any, bias: Any) -> Any:
    return np.maximum(x @ weight + bias, 0)


@pytest.mark.parametrize("name", OPS)
def test_its_values_are_those_of_numpy(example: ModuleType, device: Device, name: str) -> None:
    given = arrays("float32")

    got = getattr(example, name)(*(pyrite.tensor(a, device=device) for a in given))

    np.testing.assert_allclose(got.numpy(), expected(*given), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", OPS)
def test_its_gradients_are_those_of_numpy(example: ModuleType, device: Device, name: str) -> None:
    x, weight, bias = arrays("float32")
    g = np.random.default_rng(4).uniform(-1, 1, (5, 4)).astype("float32")

    leaves = [
        pyrite.tensor(a, device=pyrite.autodiff(device)).require_grad() for a in (x, weight, bias)
    ]
    out = getattr(example, name)(*leaves)
    grads = (out * pyrite.tensor(g, device=device)).sum().backward()

    passed = np.where(expected(x, weight, bias) > 0, g, 0)
    for leaf, want in zip(leaves, (passed @ weight.T, x.T @ passed, passed.sum(0)), strict=True):
        np.testing.assert_allclose(grads[leaf].numpy(), want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", OPS)
def test_its_gradients_are_those_of_differences_in_float64(example: ModuleType, name: str) -> None:
    if problem := device_problem("cpu"):
        pytest.skip(problem)

    check_gradients(getattr(example, name), *arrays(), device="cpu", second_order=True)


def test_it_is_one_kernel(example: ModuleType) -> None:
    device = Device(CubeBackend(InterpreterRuntime()))
    backend: Any = device.backend
    given = [pyrite.tensor(a, device=device) for a in arrays("float32")]

    example.in_python(*given)

    assert backend.runtime.report()["launches"] == 1


@pytest.mark.parametrize("name", OPS)
def test_shapes_and_dtypes_that_do_not_fit_are_errors_at_the_call(
    example: ModuleType, device: Device, name: str
) -> None:
    op = getattr(example, name)
    x, weight, bias = (pyrite.tensor(a, device=device) for a in arrays("float32"))

    with pytest.raises(ShapeError, match=r"linear_relu requires x of \(N, D\)") as caught:
        op(x.mT, weight, bias)
    assert str(caught.value.location).startswith(__file__)
    with pytest.raises(DTypeError, match="requires tensors or Python numbers"):
        op(x, weight, "bias")


@pytest.mark.parametrize("name", OPS)
def test_inputs_meet_in_one_dtype(example: ModuleType, device: Device, name: str) -> None:
    x, weight, _ = (pyrite.tensor(a, device=device) for a in arrays("float32"))
    bias = pyrite.tensor(np.array([0, 1, 2, 3], np.int32), device=device)

    out = getattr(example, name)(x, weight, bias)

    assert out.dtype is pyrite.float32


def test_the_program_says_how_well_it_does(
    example: ModuleType, device: Device, capsys: pytest.CaptureFixture[str]
) -> None:
    example.main(device)

    for line in capsys.readouterr().out.splitlines():
        value, gradients = line.partition("differs by ")[2].split(", gradients by ")
        assert float(value) < 1e-5
        assert float(gradients) < 1e-5
