"""The tensors that rules compute with: on the plain device, in the dtype of arithmetic.

What an optimiser keeps holds no graph; moments of a float16 or bfloat16 parameter are float32.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pyrite.tensor.parameter import Identified, State
from pyrite.tensor.tensor import Tensor
from pyrite.types import DType


def computed(t: Tensor) -> Tensor:
    """Return a tensor on its plain device, in the dtype in which it is computed."""
    return grounded(t, t._type.dtype.compute)


def grounded(t: Tensor, dtype: DType) -> Tensor:
    """Return the tensor on its plain device, in a dtype."""
    if t._backend.level:
        t = ground(t)
    return t if t._type.dtype is dtype else t.astype(dtype)


def ground(t: Tensor) -> Tensor:
    """Return the tensor under all autodiff levels."""
    while t._backend.level:
        t = t.inner()
    return t


def on_device(t: Tensor, other: Tensor) -> Tensor:
    """Return the tensor on the device and autodiff level of another one."""
    return t if t._backend is other._backend else t.to(other.device)


def like(t: Tensor, other: Tensor) -> Tensor:
    """Return the tensor in the dtype and on the device and autodiff level of another one."""
    dtype = other._type.dtype
    if t._type.dtype is not dtype:
        t = t.astype(dtype)
    return t if t._backend is other._backend else t._on(other._backend)


def in_dtype(t: Tensor, dtype: DType) -> Tensor:
    """Return the tensor itself where it has that dtype, else cast."""
    return t if t._type.dtype is dtype else t.astype(dtype)


def renewed(held: Iterable[Identified], updates: Mapping[int, Tensor]) -> dict[int, Identified]:
    """Return the states among what a model holds that a forward pass renewed, by id."""
    if not updates:
        return {}
    return {
        state.id: state.with_value(
            ground(updates[state.id]).to(state.device), version=state.version + 1
        )
        for state in held
        if isinstance(state, State) and state.id in updates
    }


def decayed(gradient: Tensor, parameter: Tensor, weight_decay: float) -> Tensor:
    """Return the gradient of the loss with weight_decay / 2 * parameter ** 2 added to it."""
    return gradient + weight_decay * parameter if weight_decay else gradient
