"""Calls that are prepared by the types of their inputs: compiled, and not made."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ParamSpec, Protocol, TypeVar

from pyrite.op.record import Op
from pyrite.synchronization import awaited

P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)

#: Compiles what a call of a method launches, given types in place of its tensors, its attributes
#: and the device that is meant.
Preparation = Callable[[Callable[..., Any], Sequence[Any], Mapping[str, Any], Any], None]

_preparation: list[Preparation] = []


def prepares(preparation: Preparation) -> Preparation:
    """Mark what prepares a call: who knows devices is further up."""
    _preparation[:] = [preparation]
    return preparation


class CustomOp(Protocol[P, R_co]):
    """An op of an application, as `custom_op` returns it: called as its signature says."""

    op: Op

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Run the op."""
        ...

    async def prepare(self, *inputs: Any, device: Any = None, **attributes: Any) -> None:
        """Compile what a call would launch on a device, on another thread; see `preparing`."""
        ...


def preparing(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return the method ``prepare`` of an op's method."""

    async def prepare(*inputs: Any, device: Any = None, **attributes: Any) -> None:
        """Compile what a call would launch on a device, on another thread, and launch nothing.

        ``inputs`` are those of a call, each tensor by its type, ``TensorType((64, 64), float32)``;
        ``attributes`` are given by keyword, and numbers among them may be others later.  The event
        loop goes on meanwhile (asyncio's, trio's, rendercanvas').  Tensors of a call may have other
        sizes or lie otherwise (transposed, a slice): that may compile another kernel.

        Where an op has no kernel for the device, what its body calls is prepared; on a device that
        compiles nothing there is nothing to do.  A derivative is prepared by
        `pyrite.prepare(pyrite.grad(f), *examples)`.

        Raises what the call would raise for inputs of these types, and ArgumentError where a body
        asks for the values of tensors.
        """
        await awaited(lambda: _preparation[0](method, inputs, attributes, device))

    return prepare
