"""What users of PyTorch look for in modules is an error that says what to write, which works."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pyrite
from pyrite import nn

PACKAGES: tuple[Any, ...] = (pyrite, nn)
NAMES = [(package, name) for package in PACKAGES for name in package._INSTEAD]


@pytest.mark.parametrize(("package", "name"), NAMES, ids=[n for _, n in NAMES])
def test_a_name_of_pytorch_is_an_error_that_says_what_to_write(package: Any, name: str) -> None:
    use = package._INSTEAD[name]

    with pytest.raises(
        AttributeError, match=f"^module '{package.__name__}' has no attribute '{name}'; use "
    ):
        getattr(package, name)

    if use.startswith("pyrite.") and name != "cuda":
        x = pyrite.ones((2,))
        names = {"values": [1, 2], "array": np.ones(2), "number": 3, "shape": (2,), "x": x, "n": 3}
        eval(use.partition(", ")[0], {"pyrite": pyrite, **names})
    if use.startswith("nn."):
        assert getattr(nn, use.removeprefix("nn."))


def test_any_other_name_is_the_error_that_python_makes() -> None:
    module: Any = pyrite
    with pytest.raises(AttributeError, match=r"^module 'pyrite' has no attribute 'nonesuch'$"):
        module.nonesuch  # noqa: B018
