"""The derivative of a kernel as a kernel, and as the vjp of its op."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from inspect import Parameter
from typing import Any

from pyrite.backend.cube import CubeBackend
from pyrite.backend.cube.custom import Call, Grid
from pyrite.backend.cube.launcher import Launcher, Machine
from pyrite.backend.cube.skeleton.copy import dense
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.extension.derivative.writing import CopyWanted, DerivedWriting
from pyrite.extension.kernel import PythonKernel
from pyrite.extension.outputs import Outputs
from pyrite.op import Attributes, Op
from pyrite.runtime.interpreter import InterpreterRuntime
from pyrite.types import Array, TensorType, element_count


@dataclass(frozen=True, slots=True)
class Signature:
    """What the derivative of a kernel gets and makes.

    It gets a cotangent for each of ``outputs``, then ``inputs``; it makes a gradient for each of
    ``tracked``, and for each output that began as an input (``begun``, from output to input) the
    cotangent of what was not written over.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    tracked: tuple[str, ...]
    begun: tuple[tuple[str, str], ...]

    @property
    def cotangents(self) -> list[str]:
        """Names of the cotangents."""
        return [f"cotangent_of_{name}" for name in self.outputs]

    @property
    def gradients(self) -> dict[str, str]:
        """Names of gradients by those of inputs."""
        return {name: f"gradient_of_{name}" for name in self.tracked}

    @property
    def rests(self) -> dict[str, str]:
        """Names of what is left of the cotangents of outputs that began as inputs."""
        return {name: f"rest_of_{name}" for name, _ in self.begun}

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all that a call has, in order."""
        made = (*self.gradients.values(), *self.rests.values())
        return (*self.cotangents, *self.inputs, *made)

    @property
    def beginnings(self) -> Outputs:
        """What the outputs of the derivative hold before."""
        inout = {rest: f"cotangent_of_{name}" for name, rest in self.rests.items()}
        return Outputs("vjp", inout, dict.fromkeys(self.gradients.values(), 0))

    def types(self, given: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        """Return the types of what it makes: narrow floats are added up in float32."""
        of = dict(zip(self.names, given, strict=False))
        of_rests = [of[f"cotangent_of_{name}"] for name in self.rests]
        wanted = [of[name] for name in self.tracked]
        made = [TensorType(t.shape, t.dtype.compute) for t in wanted if t is not None]
        return (*made, *(t for t in of_rests if t is not None))


class DerivedKernel(PythonKernel):
    """The derivative of a kernel for one signature."""

    def __init__(self, kernel: PythonKernel, signature: Signature) -> None:
        super().__init__(
            kernel.function, kernel.workgroup_size, kernel.grid, tuple(kernel.static),
            signature.beginnings, kernel.inner,
        )  # fmt: skip
        self.signature = signature
        #: Cotangents that are written over, and hence copied before.
        self._changed: frozenset[str] = frozenset()

    def names_of(self, op: Op, outputs: int) -> tuple[str, ...]:
        """Return the names of the signature."""
        return self.signature.names

    def workgroups(self, launcher: Launcher, call: Call, invocations: int) -> tuple[int, ...]:
        """Return the grid of the kernel itself."""
        if self.grid is not None:
            return super().workgroups(launcher, call, invocations)
        first = dict(zip(call.names, call.types, strict=True))[self.signature.cotangents[0]]
        assert first is not None
        points = element_count(self.points(first.shape))
        return launcher.machine.grid(-(-points // invocations))

    def counts(
        self,
        grid: Grid,
        names: Sequence[str],
        types: Sequence[TensorType | None],
        attrs: Attributes,
    ) -> tuple[int, ...]:
        """Return what the grid function of the kernel itself says of that kernel's tensors."""
        of = dict(zip(names, types, strict=True))
        signature = self.signature
        given = [of[name] for name in (*signature.inputs, *signature.cotangents)]
        return super().counts(grid, (*signature.inputs, *signature.outputs), given, attrs)

    def launch(self, launcher: Launcher, call: Call) -> None:
        """Append one run, on copies of the cotangents that it writes over."""
        if self.grid is None and call.inputs[0] is not None and not call.inputs[0].type.size:
            return
        inputs = [
            dense(launcher, tensor, tensor.type)
            if tensor is not None and name in self._changed
            else tensor
            for name, tensor in zip(call.names, call.inputs, strict=False)
        ]
        try:
            super().launch(launcher, replace(call, inputs=tuple(inputs)))
        except CopyWanted as wanted:
            self._changed |= {wanted.name}
            self.launch(launcher, call)

    def results(
        self, op: Op, arrays: Sequence[Array | None], attrs: Attributes, out: Sequence[TensorType]
    ) -> Sequence[Array]:
        """Return what it makes of arrays, by the interpreter: Python runs no derivative."""
        backend = _interpreter()
        given: list[CubeTensor | None] = [None if a is None else backend.upload(a) for a in arrays]
        return backend.download_all(list(self.lower(backend.launcher, op, given, attrs, out)))

    def _writing(self, machine: Machine) -> DerivedWriting:
        signature = self.signature
        outputs = dict(zip(signature.outputs, signature.cotangents, strict=True))
        return DerivedWriting(
            self.function, self.name, self.workgroup_size, by_grid=self.grid is not None,
            inputs=signature.inputs, outputs={**outputs, **signature.rests},
            gradients=signature.gradients, changed=self._changed, inner=self.inner,
            adds_floats=machine.adds_floats,
        )  # fmt: skip


@cache
def _interpreter() -> CubeBackend:
    # Its methods take its own buffers only, which no Protocol can say.
    runtime: Any = InterpreterRuntime()
    return CubeBackend(runtime)


def vjp_of(kernel: PythonKernel, op_of: Callable[..., Any]) -> Callable[..., Any]:
    """Return the vjp of an op with a kernel; ``op_of`` declares an op (`pyrite.custom_op`)."""
    ops: dict[Any, Any] = {}

    def vjp(g: Any, out_types: Any, *inputs: Any, tracked: tuple[int, ...], **attrs: Any) -> Any:
        cotangents = _every(g, out_types)
        signature = _signature(kernel, len(inputs), tracked)
        key = (signature, *(x is None for x in inputs), *attrs)
        op = ops.get(key)
        if op is None:
            op = ops[key] = _declared(kernel, signature, inputs, tuple(attrs), op_of)
        made = op(*cotangents, *inputs, **attrs)
        every = made if isinstance(made, tuple) else (made,)
        names = signature.names[len(cotangents) + len(inputs) :]
        found = dict(zip(names, every, strict=True))
        return tuple(
            _gradient(signature, found, name, x)
            for name, x in zip(signature.inputs, inputs, strict=True)
        )

    return vjp


def _every(g: Any, types: Any) -> Sequence[Any]:
    """Return a tensor for each output: for integers, which have no cotangent, one of their type."""
    given = g if isinstance(g, tuple) else (g,)
    known = next(x for x in given if x is not None)
    of = types if isinstance(types, tuple) else (types,)
    # Its values are not read.
    return [
        known.sum().astype(t.dtype).broadcast_to(t.shape) if x is None else x
        for x, t in zip(given, of, strict=True)
    ]


def _signature(kernel: PythonKernel, inputs: int, tracked: tuple[int, ...]) -> Signature:
    names, outputs = kernel.parameters[:inputs], kernel.parameters[inputs:]
    wanted = tuple(names[position] for position in tracked)
    begun = tuple(
        (output, source) for output, source in kernel.outputs.inputs.items() if source in wanted
    )
    return Signature(names, outputs, wanted, begun)


def _declared(
    kernel: PythonKernel, signature: Signature, inputs: Sequence[Any], attrs: Sequence[str],
    op_of: Callable[..., Any],
) -> Any:  # fmt: skip
    """Return the op that the derivative makes for one signature."""
    optional = {name for name, x in zip(signature.inputs, inputs, strict=True) if x is None}
    parameters = [
        Parameter(n, Parameter.POSITIONAL_ONLY, annotation="Tensor | None" * (n in optional))
        for n in (*signature.cotangents, *signature.inputs)
    ]
    parameters += [Parameter(n, Parameter.KEYWORD_ONLY) for n in attrs]

    def function(*args: Any, **kwargs: Any) -> Any:
        """Cotangents of inputs from those of outputs."""

    function.__name__ = f"{kernel.name}_vjp"
    function.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]

    def infer(*types: TensorType | None, **_: Any) -> Any:
        return signature.types(types)

    return op_of(infer=infer, kernels=[DerivedKernel(kernel, signature)])(function)


def _gradient(signature: Signature, found: dict[str, Any], name: str, x: Any) -> Any:
    """Return the gradient of an input, None where it has none."""
    if name not in signature.tracked:
        return None
    total = found[signature.gradients[name]]
    for output, source in signature.begun:
        if source == name:
            total = total + found[signature.rests[output]]
    return total.astype(x.dtype)
