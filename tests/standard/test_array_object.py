"""The array object of the array API standard: operators, methods, attributes and subscripts."""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable
from typing import Any

import array_api_strict as strict
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.array_api import make_strategies_namespace

import pyrite
from pyrite import Tensor

from .calls import ANY, CALLS, FULL_SHAPES, INTEGERS, RANKED, tensors
from .exclusions import MISSING_METHODS
from .judge import Call, as_strict, assert_agree, assert_equal_arrays
from .test_functions import DEVICES, EXAMPLES

xps = make_strategies_namespace(pyrite, api_version="2024.12")

#: Operators, and the function of the standard whose calls they take.
OPERATORS: dict[str, tuple[Callable[..., Any], str]] = {
    "+": (operator.add, "add"), "-": (operator.sub, "subtract"), "*": (operator.mul, "multiply"),
    "/": (operator.truediv, "divide"), "//": (operator.floordiv, "floor_divide"),
    "%": (operator.mod, "remainder"), "**": (operator.pow, "pow"), "@": (operator.matmul, "matmul"),
    "&": (operator.and_, "bitwise_and"), "|": (operator.or_, "bitwise_or"),
    "^": (operator.xor, "bitwise_xor"), "<<": (operator.lshift, "bitwise_left_shift"),
    ">>": (operator.rshift, "bitwise_right_shift"), "<": (operator.lt, "less"),
    "<=": (operator.le, "less_equal"), ">": (operator.gt, "greater"),
    ">=": (operator.ge, "greater_equal"), "==": (operator.eq, "equal"),
    "!=": (operator.ne, "not_equal"), "~": (operator.invert, "bitwise_invert"),
    "-x": (operator.neg, "negative"), "+x": (operator.pos, "positive"), "abs": (abs, "abs"),
}  # fmt: skip

METHODS = sorted(
    name
    for name in vars(strict._array_object.Array)
    if (name.startswith("__") or name[0] != "_") and name not in vars(object)
    and name not in ("__module__", "__annotations__", "__weakref__", "__dict__", "__slots__")
)  # fmt: skip


@pytest.mark.parametrize("name", METHODS)
def test_a_tensor_has_every_method_and_attribute_but_those_said_to_be_missing(name: str) -> None:
    if name == "__setitem__":
        with pytest.raises(TypeError, match=r"x\.at"):
            pyrite.zeros((2,))[0] = 1.0
        return
    if name == "__array_priority__" or name == "__array__":
        return
    assert hasattr(pyrite.zeros((1, 1)), name) != (name in MISSING_METHODS)


@pytest.mark.sample(12)
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("symbol", list(OPERATORS))
def test_an_operator_does_what_its_function_does(symbol: str, device: str) -> None:
    function, name = OPERATORS[symbol]

    @EXAMPLES
    @given(CALLS[name])
    def agrees(call: Call) -> None:
        if any(isinstance(a, Tensor) for a in call.args):
            assert_agree(name, call, device, function)

    agrees()


@pytest.mark.parametrize("device", DEVICES)
@EXAMPLES
@given(data=st.data())
def test_a_subscript_selects_what_it_selects_of_the_judge(device: str, data: Any) -> None:
    x = data.draw(tensors(ANY, RANKED))
    key = data.draw(xps.indices(x.shape, allow_newaxis=True))
    assert_equal_arrays(x.to(device)[key], as_strict(x)[key], {x.dtype.name})


@pytest.mark.parametrize("device", DEVICES)
@EXAMPLES
@given(data=st.data())
def test_a_mask_selects_what_it_selects_of_the_judge(device: str, data: Any) -> None:
    x = data.draw(tensors(ANY, FULL_SHAPES))
    mask = data.draw(tensors(pyrite.bool, st.just(x.shape)))
    found = x.to(device)[mask.to(device)]
    assert_equal_arrays(found, as_strict(x)[as_strict(mask)], {x.dtype.name})


@EXAMPLES
@given(tensors(ANY))
def test_attributes_are_those_of_the_judge(x: Tensor) -> None:
    theirs = as_strict(x)
    assert x.shape == theirs.shape
    assert type(x.shape) is tuple
    assert (x.ndim, x.size, x.device) == (theirs.ndim, theirs.size, "numpy")
    assert as_strict(x.dtype) == theirs.dtype
    if x.ndim == 2:
        assert_equal_arrays(x.T, theirs.T, {x.dtype.name})
    if x.ndim >= 2:
        assert_equal_arrays(x.mT, theirs.mT, {x.dtype.name})


@EXAMPLES
@given(tensors(ANY, st.just(()), min_value=0, max_value=100))
def test_a_zero_d_tensor_is_a_number_of_python(x: Tensor) -> None:
    theirs = as_strict(x)
    assert (bool(x), int(x), float(x)) == (bool(theirs), int(theirs), float(theirs))
    assert complex(x) == complex(float(theirs))
    if x.dtype.is_integer:
        assert operator.index(x) == operator.index(theirs)
    else:
        with pytest.raises(TypeError):
            operator.index(x)
    for of_no_axis in (len, iter, list):
        with pytest.raises(TypeError):
            of_no_axis(x)


@pytest.mark.parametrize("convert", [bool, int, float, complex, operator.index])
def test_only_one_element_is_a_number_of_python(convert: Callable[[Any], Any]) -> None:
    with pytest.raises((TypeError, ValueError)):
        convert(pyrite.ones((2,), dtype="int32"))


@pytest.mark.parametrize("symbol", ["+", "-", "*", "/", "//", "%", "**", "<<", ">>", "&", "|", "^"])
@EXAMPLES
@given(data=st.data())
def test_an_augmented_operator_binds_what_the_operator_returns(symbol: str, data: Any) -> None:
    x = data.draw(tensors(INTEGERS, min_value=1, max_value=5))
    if symbol == "/":
        x = x.astype("float32")
    inplace = {
        "+": operator.iadd, "-": operator.isub, "*": operator.imul, "/": operator.itruediv,
        "//": operator.ifloordiv, "%": operator.imod, "**": operator.ipow, "<<": operator.ilshift,
        ">>": operator.irshift, "&": operator.iand, "|": operator.ior, "^": operator.ixor,
    }[symbol]  # fmt: skip
    before = x.tolist()
    assert_equal_arrays(inplace(x, x), OPERATORS[symbol][0](*[as_strict(x)] * 2), set())
    assert x.tolist() == before


# ---- the namespace, devices, exchange ----


def test_the_namespace_is_pyrite_for_every_version_that_it_follows() -> None:
    x = pyrite.zeros((2,))
    assert pyrite.__array_api_version__ == "2024.12"
    for version in (None, "2022.12", "2023.12", "2024.12"):
        assert x.__array_namespace__(api_version=version) is pyrite
    with pytest.raises(ValueError, match="2019"):
        x.__array_namespace__(api_version="2019.12")


def test_the_namespace_is_inspected(full: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not full:
        # To try PyTorch and wgpu takes seconds.
        module = sys.modules["pyrite.tensor.namespace"]
        monkeypatch.setattr(module, "device_names", lambda: [*DEVICES])
    info = pyrite.__array_namespace_info__()
    capabilities = info.capabilities()
    assert capabilities["boolean indexing"] is True
    assert capabilities["data-dependent shapes"] is True
    assert pyrite.zeros((1,) * capabilities["max dimensions"]).ndim == 64
    assert info.default_device() == pyrite.default_device()
    assert info.default_device() in info.devices()
    assert set(DEVICES) <= {device.name for device in info.devices()}
    made = {
        "real floating": pyrite.asarray([0.5]).dtype, "integral": pyrite.asarray([1]).dtype,
        "indexing": pyrite.argsort(pyrite.zeros((2,))).dtype,
    }  # fmt: skip
    assert info.default_dtypes() == info.default_dtypes(device="cpu") == made


KINDS = ["bool", "signed integer", "unsigned integer", "integral", "real floating", "numeric"]


@pytest.mark.parametrize("kind", [None, *KINDS, ("bool", "signed integer"), "complex floating"])
def test_the_dtypes_of_a_kind_are_those_of_the_standard(kind: Any) -> None:
    theirs = strict.__array_namespace_info__().dtypes(kind=kind)
    for device in (None, *DEVICES):
        ours = pyrite.__array_namespace_info__().dtypes(kind=kind, device=device)
        assert set(ours) == {name for name in theirs if "complex" not in name}
        assert all(getattr(pyrite, name) is dtype for name, dtype in ours.items())


def test_an_unknown_kind_is_an_error() -> None:
    with pytest.raises(TypeError, match="imaginary"):
        pyrite.__array_namespace_info__().dtypes(kind="imaginary")


@pytest.mark.parametrize("device", DEVICES)
def test_tensors_move_between_devices_and_are_made_there(device: str) -> None:
    x = pyrite.arange(3)
    moved = x.to_device(pyrite.device(device))
    assert moved.device == device
    assert moved.tolist() == [0, 1, 2]
    assert pyrite.astype(x, pyrite.float32, device=device).device == device
    assert pyrite.ones_like(moved).device == device
    for made in (pyrite.zeros((2,), device=device), pyrite.eye(2, device=moved.device)):
        assert made.device == device


@pytest.mark.parametrize("device", DEVICES)
@EXAMPLES
@given(tensors(ANY))
def test_arrays_are_exchanged_through_dlpack_both_ways(device: str, x: Tensor) -> None:
    there = x.to(device)
    np.testing.assert_array_equal(np.from_dlpack(there), x.numpy())
    for copy in (None, True):
        back = pyrite.from_dlpack(as_strict(x)._array, device=device, copy=copy)
        assert back.device == device
        assert back.dtype is x.dtype
        np.testing.assert_array_equal(back.numpy(), x.numpy())
    assert isinstance(there.__dlpack_device__(), tuple)
