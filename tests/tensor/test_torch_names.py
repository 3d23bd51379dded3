"""What users of PyTorch and NumPy call is an error that says what to write, which works."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import pyrite
from pyrite import nn
from pyrite.errors import DeviceError, DTypeError
from pyrite.tensor.torch_names import INSTEAD


@pytest.mark.parametrize("name", INSTEAD)
def test_what_is_advised_works_and_the_name_is_not_here(name: str) -> None:
    x, y = pyrite.ones((2, 2)), pyrite.zeros((2, 2))
    first = (
        INSTEAD[name]
        .split(", or ")[0]
        .split(", of ")[0]
        .split(", for ")[0]
        .removesuffix(", which never changes")
    )
    first = first.removesuffix(", which is in the order that it needs")
    names = {
        "pyrite": pyrite, "x": x, "y": y, "shape": (4,), "mask": x > y, "value": 7.0, "axis": 1,
        "n": 2, "dtype": pyrite.int32, "i": pyrite.tensor([1, 0]),
    }  # fmt: skip

    with pytest.raises(AttributeError, match=f"^'Tensor' object has no attribute '{name}'; use "):
        getattr(x, name)

    if first.startswith("grads["):
        names["x"] = weight = pyrite.Parameter(x)
        names["grads"] = pyrite.value_and_grad(lambda w: w.sum())(weight)[1]
    eval(first.removesuffix(" itself").replace("'wgpu'", "'numpy'"), names)


def test_a_name_that_changes_a_tensor_there_is_a_new_tensor_here() -> None:
    x: Any = pyrite.ones((2,))

    with pytest.raises(AttributeError, match=r"no attribute 'add_'; use x = x\.add\(other\), sin"):
        x.add_(1.0)
    with pytest.raises(AttributeError, match=r"no attribute 'nonesuch_'$"):
        x.nonesuch_(1.0)


def test_what_is_advised_for_a_change_in_place_runs() -> None:
    torch = pytest.importorskip("torch")
    x = pyrite.tensor([[0.5, 1.0], [0.2, 0.9]])
    i = pyrite.tensor([1, 0])
    names = {
        "x": x, "y": x, "a": x, "b": x, "other": x, "axis": 0, "axis1": 0, "axis2": 1, "max": 1.0,
        "min": 0.0, "end": x, "weight": 0.5, "exponent": 2, "indices": i, "source": x, "sign": x,
        "updates": x, "places": x > 0.5, "values": x[0, 0],
    }  # fmt: skip
    seen = set()
    for name in dir(torch.Tensor):
        if name.startswith("_") or not name.endswith("_") or hasattr(x, name) or name in INSTEAD:
            continue
        with pytest.raises(AttributeError) as caught:
            getattr(x, name)
        advised = re.search(r"; use (x = .*), since a tensor never changes", str(caught.value))
        if advised is None:
            continue
        seen.add(name)
        of_integers = name.startswith(("bitwise", "gcd", "lcm"))
        names["x"] = i if of_integers else (x[None] if name == "baddbmm_" else x)
        names["other"] = i if of_integers else x
        if name == "baddbmm_":
            names |= {"a": x[None], "b": x[None]}
        elif name == "addmv_":
            names |= {"x": x[0], "a": x, "b": x[0]}
        elif name.startswith("cum"):
            names["x"] = x[0]
        else:
            names |= {"a": x, "b": x}
        names["indices"] = i if name == "index_add_" else pyrite.zeros((2, 2), dtype="int32")
        if name.startswith("logical"):
            names |= {"x": x > 0.5, "other": x > 0.5}
        exec(advised[1], names)
    assert len(seen) > 90


def test_names_that_are_elsewhere_are_not_listed() -> None:
    x, weight = pyrite.ones((2,)), nn.Linear(2, 2).weight

    for listed in (dir(x), dir(weight), dir(pyrite.Tensor), dir(pyrite.Parameter)):
        assert {"reshape", "add", "shape"} <= set(listed)
        assert not {"view", "add_", "cuda"} & set(listed)
    assert not hasattr(x, "view")
    assert not hasattr(pyrite.Tensor, "add_")


def test_a_parameter_says_the_same() -> None:
    weight: Any = nn.Linear(2, 2).weight

    with pytest.raises(AttributeError, match=r"^'Parameter' object .* 'view'; use x\.reshape"):
        weight.view(4)
    with pytest.raises(AttributeError, match=r"^'Parameter' object has no attribute 'shpe'$"):
        weight.shpe  # noqa: B018


def test_any_other_name_is_the_error_that_python_makes() -> None:
    x: Any = pyrite.ones((2,))

    with pytest.raises(
        AttributeError, match=r"^'Tensor' object has no attribute 'reshpe'$"
    ) as error:
        x.reshpe  # noqa: B018
    assert (error.value.name, error.value.obj) == ("reshpe", x)


def test_a_property_that_fails_keeps_its_error() -> None:
    class Broken(pyrite.Tensor):
        @property
        def other(self) -> Any:
            return [].nonesuch  # type: ignore[attr-defined]

    x = pyrite.ones((2,))
    broken = Broken(x._handle, x._type, x._backend)

    with pytest.raises(AttributeError, match="'list' object has no attribute 'nonesuch'"):
        broken.other  # noqa: B018


@pytest.mark.parametrize("make", [lambda: pyrite.ones((2,)), lambda: nn.Linear(2, 2)])
def test_a_cast_is_no_move(make: Any) -> None:
    with pytest.raises(
        DTypeError, match=r"^to requires a device, got pyrite\.float16; cast it: astype\(pyrite"
    ) as caught:
        make().to(pyrite.float16)
    assert str(caught.value.location).startswith(__file__)


def test_the_name_of_a_dtype_is_no_device() -> None:
    with pytest.raises(DTypeError, match=r"a device, got float16; cast it: astype\('float16'\)"):
        pyrite.ones((2,)).to("float16")


@pytest.mark.parametrize("make", [lambda: pyrite.ones((2,)), lambda: nn.Linear(2, 2)])
def test_a_device_that_is_none_is_an_error_at_the_users_line(make: Any) -> None:
    with pytest.raises(DeviceError, match=r"device requires one of .*, got 'gpu'; try") as caught:
        make().to("gpu")
    assert str(caught.value.location).startswith(__file__)


def test_a_parameter_is_made_of_a_tensor() -> None:
    make: Any = pyrite.Parameter

    with pytest.raises(DTypeError, match=r"^Parameter requires a tensor, got a NumPy array; conv"):
        make(np.ones(3))


def test_a_tensor_is_made_of_values_by_a_function() -> None:
    make: Any = pyrite.Tensor

    with pytest.raises(DTypeError, match=r"; make one of values by pyrite\.tensor\(\.\.\.\)$"):
        make([1.0, 2.0])
