"""Whether the derivatives of a function are right, judged by differences: for who writes a vjp."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pyrite.autodiff import grad
from pyrite.backend.device import DeviceLike
from pyrite.tensor.creation import tensor
from pyrite.tensor.tensor import Tensor
from pyrite.testing.differences import central_difference, directional_difference
from pyrite.types import Array

#: What central differences in float64 leave of a right derivative of values near 1.
RELATIVE, ABSOLUTE = 2e-5, 2e-6


def check_gradients(
    function: Callable[..., Tensor],
    *arrays: Array,
    device: DeviceLike = None,
    second_order: bool = False,
) -> None:
    """Assert that the gradients of a function with respect to its float64 arrays are right.

    They are computed on the device, and so are the values that the differences are taken of; two
    calls of the function for each element.  With ``second_order`` the derivative of each gradient
    along a random direction is judged as well.  AssertionError names the elements.

    >>> check_gradients(lambda x: x.exp(), np.array([0.5, 1.0]), device="numpy", second_order=True)
    """
    rng = np.random.default_rng(7)
    for position, array in enumerate(arrays):
        of_one = _Along(function, arrays, position, device)
        got = grad(of_one)(tensor(array, device=device)).numpy()
        want = central_difference(of_one.value, [array], 0)
        _assert_close(got, want, f"the gradient with respect to input {position}")
        if second_order:
            direction = rng.uniform(-1, 1, array.shape)
            _check_second(of_one, array, direction, f"the second derivative along input {position}")


class _Along:
    """A weighted sum of what the function gives, as a function of one of its inputs."""

    def __init__(
        self, function: Callable[..., Tensor], arrays: Sequence[Array], position: int,
        device: DeviceLike,
    ) -> None:  # fmt: skip
        self.function = function
        self.arrays = arrays
        self.position = position
        self.device = device

    def __call__(self, x: Tensor) -> Tensor:
        inputs: list[Any] = [tensor(a, device=self.device) for a in self.arrays]
        inputs[self.position] = x
        out = self.function(*inputs)
        # Each element has a weight of its own, so that none stands for another.
        weight = np.random.default_rng(5).uniform(-1, 1, out.shape)
        return (out * tensor(weight, device=self.device)).sum()

    def value(self, array: Array) -> float:
        return float(self(tensor(array, device=self.device)).item())

    def gradient(self, array: Array) -> Array:
        return np.array(grad(self)(tensor(array, device=self.device)).numpy())


def _check_second(of_one: _Along, array: Array, direction: Array, named: str) -> None:
    def slope(x: Tensor) -> Tensor:
        along: Tensor = (grad(of_one)(x) * tensor(direction, device=of_one.device)).sum()
        return along

    got = grad(slope)(tensor(array, device=of_one.device)).numpy()
    _assert_close(got, directional_difference(of_one.gradient, array, direction), named)


def _assert_close(got: Array, want: Array, named: str) -> None:
    np.testing.assert_allclose(got, want, RELATIVE, ABSOLUTE, err_msg=named)
