"""Calls prepared by types: the device compiles what they launch, and launches nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from pyrite.backend.protocol import Backend
from pyrite.errors import ArgumentError
from pyrite.op import Attributes, Handle, Op, Plan, TensorBase
from pyrite.types import Array, TensorType


class PreparingBackend(Backend):
    """A device whose ops are compiled and not run: its handles have layouts, and no memory."""

    def __init__(self, backend: Backend, op: str) -> None:
        self._backend = backend
        self._op = op
        self.name = backend.name

    def execute(self, op: Op, inputs: Sequence[Handle], plan: Plan) -> Sequence[Handle] | None:
        """Have a call compiled; return its results without values, None for it to be expanded."""
        found = self._backend.prepare(op, inputs, plan)
        if found is None and op.body is None:
            self._refuse(f"{op.name}, whose results only a run can tell")
        return found

    def supports(self, type: TensorType) -> bool:
        """Whether the device has tensors of a dtype."""
        return self._backend.supports(type)

    def type_of(self, handle: Handle) -> TensorType:
        """Return the type of a handle."""
        return self._backend.type_of(handle)

    def upload(self, array: Array) -> Handle:
        """Refuse an array of the host: of what is made of it nothing may be known."""
        self._refuse("an array of the host")

    def download(self, handle: Handle) -> Array:
        """Refuse to tell values: there are none."""
        self._refuse("a value of a tensor")

    def lift(self, tensor: TensorBase) -> Handle:
        """Refuse a tensor that is no input."""
        if tensor._backend is self:
            return tensor._handle
        self._refuse("a tensor that is none of its inputs")

    def _refuse(self, what: str) -> NoReturn:
        raise ArgumentError(
            f"{self._op}.prepare requires a body that computes with types, got one that asks for "
            f"{what}; prepare it by examples: await pyrite.prepare({self._op}, x)"
        )


def prepare(
    backend: Backend, method: Callable[..., Any], inputs: Sequence[Any], attributes: Attributes
) -> None:
    """Compile what a call of an op's method launches, given types in place of its tensors."""
    op: Op = method.op  # type: ignore[attr-defined]
    on = PreparingBackend(backend, op.name)
    cls: Any = TensorBase.concrete

    def tensor(x: Any) -> Any:
        if not isinstance(x, TensorType):
            return x
        handle = backend.unstored(x)
        return None if handle is None else cls._wrap(handle, x, on)

    given = [tensor(x) for x in inputs]
    if any(x is None and y is not None for x, y in zip(given, inputs, strict=True)):
        return  # a device that compiles nothing
    method(*given, **attributes)
