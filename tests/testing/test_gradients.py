"""What judges a vjp finds a wrong one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pyrite import custom_op
from pyrite.testing import check_gradients


def product(vjp: Any) -> Callable[..., Any]:
    """x ** 2 * y with that derivative."""

    @custom_op(infer=lambda x, y: x, body=lambda x, y: x * x * y, vjp=vjp)
    def op(x: Any, y: Any, /) -> Any:
        """X² y."""
        ...

    return op


X, Y = np.array([0.5, -1.5, 2.0]), np.array([1.0, 3.0, -2.0])


def along_x(g: Any, _out: None, x: Any, y: Any) -> Any:
    return 2.0 * g * x * y


def along_y(g: Any, _out: None, x: Any) -> Any:
    return g * x * x


def test_a_right_one_passes() -> None:
    check_gradients(product((along_x, along_y)), X, Y, device="numpy", second_order=True)


@pytest.mark.parametrize(
    ("vjp", "position"),
    [
        ((lambda g, _out, x, y: g * x * y, along_y), 0),
        ((along_x, lambda g, _out, x: g * x), 1),
    ],
)
def test_a_wrong_one_fails_and_is_named(vjp: Any, position: int) -> None:
    with pytest.raises(AssertionError, match=f"the gradient with respect to input {position}"):
        check_gradients(product(vjp), X, Y, device="numpy")


def test_a_derivative_that_is_cut_off_fails_in_second_order() -> None:
    cut = product((lambda g, _out, x, y: 2.0 * g * x.detach() * y, along_y))

    check_gradients(cut, X, Y, device="numpy")
    with pytest.raises(AssertionError, match="the second derivative along input 0"):
        check_gradients(cut, X, Y, device="numpy", second_order=True)
