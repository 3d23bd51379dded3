"""Whose mistake an error is: the user's is told in the user's terms, ours keeps its frames."""

from __future__ import annotations

import traceback

import numpy as np
import pytest

import pyrite
from pyrite.backend.cube.lowering import group_norm
from pyrite.config import config
from pyrite.errors import ArgumentError, ArgumentTypeError, DeviceError, PyriteError
from pyrite.op.location import refused

X = np.ones((2, 4, 5, 5), np.float32)


def gradient(device: str) -> object:
    x = pyrite.tensor(X, device=device)
    return pyrite.grad(lambda x: (x.group_norm(num_groups=2) ** 2).sum())(x)


def nothing(*_: object, **__: object) -> None:
    """Take the place of a function inside Pyrite, of whose result an attribute is asked."""


def test_a_fault_of_a_lowering_is_not_told_as_the_users(monkeypatch: pytest.MonkeyPatch) -> None:
    # By rules alone there is no such lowering.
    monkeypatch.setattr(config, "rules_only", False)
    monkeypatch.setattr(group_norm, "select_in_pieces", nothing)
    with pytest.raises(AttributeError) as caught:
        gradient("cpu")

    assert type(caught.value) is AttributeError
    assert "lowering/group_norm.py" in "".join(traceback.format_tb(caught.value.__traceback__))
    assert any("A fault inside Pyrite" in note for note in caught.value.__notes__)


def raised(module: str, expression: str) -> Exception:
    """Return the error of an expression in a function of a module."""
    scope: dict[str, object] = {"__name__": module, "np": np}
    exec(f"def fault(): {expression}", scope)
    function = scope["fault"]
    assert callable(function)
    try:
        function()
    except Exception as error:
        return error
    raise AssertionError(expression)


@pytest.mark.parametrize(
    ("module", "expression", "expected"),
    [
        ("pyrite.tensor.movement", "'all'.shape", ArgumentTypeError),
        ("pyrite.op.plan", "[][3]", ArgumentError),
        ("pyrite.backend.numpy.algebra", "np.power(2, -1)", ArgumentError),
        ("pyrite.backend.cube.launcher", "np.empty(1 << 50)", DeviceError),
        ("pyrite.backend.numpy.algebra", "'all'.shape", None),
        ("pyrite.backend.torch.backend", "{}['key']", None),
        ("pyrite.backend.cube.launcher", "[][3]", None),
        ("pyrite.kernel.trace", "1 + 'a'", None),
        ("pyrite.runtime.cpu.runtime", "int('a')", None),
    ],
)
def test_by_where_it_is_raised_an_error_is_the_users_or_ours(
    module: str, expression: str, expected: type[PyriteError] | None
) -> None:
    error = raised(module, expression)
    found = refused("pad", error, ("all",), {})

    assert type(found) is (expected or type(None))
    assert bool(getattr(error, "__notes__", [])) is (expected is None)
