"""Kernels written in Python: they run on every runtime.

    @kernel
    def linear_relu(k, x, weight, bias, out):
        i, j = k.at
        total = bias[j]
        for n in range(x.shape[1]):
            total += x[i, n] * weight[n, j]
        out[i, j] = max(total, 0.0)

The function is called once for each set of dtypes, shapes, attributes, and values of the globals
and closures that it reads: Python runs while the kernel is written, and what depends on values is
recorded (`pyrite.extension.rewriting`).  On ``numpy`` it runs as Python itself
(`pyrite.extension.direct`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import Any, overload

import numpy as np

from pyrite.backend.cube.custom import Call, CustomKernel, Grid, positional_names, sizes_of
from pyrite.backend.cube.launcher import Launcher
from pyrite.backend.cube.operand import bindings_of, layout_of
from pyrite.content import Functions, NoContentError
from pyrite.errors import DTypeError, KernelError, PyriteError, UnsupportedDTypeError
from pyrite.extension.argument import TensorArgument
from pyrite.extension.direct import DirectArgument, run
from pyrite.extension.flow import Flow
from pyrite.extension.rewriting import bound, source_of
from pyrite.extension.scope import KernelScope
from pyrite.op import Attributes, Op, attributes_key, raised_at
from pyrite.runtime.protocol import Buffer, Executable, Runtime
from pyrite.types import Array, Number, TensorType, float64
from pyrite.types import dtype as as_dtype

#: Invocations of a workgroup, on a CPU those that one vectorised loop runs.
WORKGROUP_SIZE = 64

Function = Callable[..., None]


@dataclass(frozen=True, slots=True)
class PythonForm:
    """A kernel compiled for one set of types; if anything is ``tested``, an error word is last."""

    executable: Executable
    tested: tuple[str, ...]


class PythonKernel(CustomKernel[PythonForm]):
    """A kernel in Python; made by `kernel`."""

    def __init__(
        self, function: Function, workgroup_size: int | Sequence[int], grid: Grid | None
    ) -> None:
        super().__init__(function.__name__, sizes_of(workgroup_size), grid)
        if grid is None and len(self.workgroup_size) > 1:
            raise KernelError(
                f"kernel '{self.name}' requires a grid for workgroups of several axes, got none "
                f"and workgroup_size={workgroup_size}"
            )
        self.function = function
        self.__doc__ = function.__doc__
        self._parameters = positional_names(function)[1:]
        self._reads = Functions(function)
        if isinstance(function, FunctionType):
            source_of(function)

    def runs_on(self, runtime: Runtime) -> bool:
        """On every one."""
        return True

    def names_of(self, op: Op, outputs: int) -> tuple[str, ...]:
        """Return the names of the function's parameters after the first."""
        wanted = len(op.inputs) + outputs
        if len(self._parameters) != wanted:
            raise KernelError(
                f"kernel '{self.name}' requires a parameter for the scope, {len(op.inputs)} for "
                f"the inputs of {op.name} and {outputs} for its outputs, got "
                f"{len(self._parameters) + 1}"
            )
        return self._parameters

    def results(
        self, op: Op, arrays: Sequence[Array | None], attrs: Attributes, out: Sequence[TensorType]
    ) -> Sequence[Array]:
        """Return what the function makes of arrays, run by Python: see `extension.direct`."""
        names = self.names_of(op, len(out))
        made = [np.zeros(t.shape, t.dtype.compute.numpy) for t in out]
        every = [*arrays, *made]
        types = [None if a is None else TensorType(a.shape, as_dtype(a.dtype)) for a in every]
        tensors = [
            None
            if array is None or type is None
            else DirectArgument(name, array, type.dtype, is_output=position >= len(arrays))
            for position, (name, array, type) in enumerate(zip(names, every, types, strict=True))
        ]
        grid = self.grid and self.counts(self.grid, names, types, attrs)
        run(self.function, self.name, tensors, dict(attrs), sizes=self.workgroup_size, grid=grid)
        self._require_writes([t for t in tensors[len(arrays) :] if t is not None])
        return [a.astype(t.dtype.numpy) for a, t in zip(made, out, strict=True)]

    def launch(self, launcher: Launcher, call: Call) -> None:
        """Append one run; a new set of types, strides or attributes is compiled first."""
        sizes = self.workgroup_size
        grid = self.workgroups(launcher, call, sizes[0])
        layouts = tuple(t and (t.shape, layout_of(t)) for t in call.tensors)
        attributes = attributes_key(call.op, call.attrs)
        key = (call.op, layouts, attributes, self._reads_key(), sizes, grid)
        form = self.form(launcher, key, lambda: self._compile(launcher, call, sizes, grid))
        bindings: list[Buffer | Number] = [
            b for t in call.tensors if t is not None for b in bindings_of(t)
        ]
        fault = (
            f"{call.op.name} requires every index of {', '.join(form.tested)} in its kernel "
            f"'{self.name}' to be inside, got one outside; read by x.get(i, j), which is 0 there, "
            "and write under k.if_(...)"
        )
        launcher.run(form.executable, bindings, grid, fault if form.tested else None)

    def _reads_key(self) -> Hashable:
        """Return what stands for the function and all that it reads.  Raises KernelError."""
        try:
            return self._reads.key()
        except NoContentError as error:
            raise KernelError(
                f"kernel '{self.name}' requires to read values with content, got {error}; make it "
                "an attribute or an input, or read a number, a tuple or an array of it"
            ) from None

    def _compile(
        self, launcher: Launcher, call: Call, sizes: tuple[int, ...], grid: tuple[int, ...]
    ) -> PythonForm:
        scope = KernelScope(self.name, workgroup_size=sizes, grid=len(grid), counts=grid)
        inputs = len(call.inputs)
        tensors = [
            t and TensorArgument(scope, name, t.shape, layout_of(t), is_output=position >= inputs)
            for position, (name, t) in enumerate(zip(call.names, call.tensors, strict=True))
        ]
        scope.is_written = True
        if any(t is not None and t.dtype is float64 for t in call.tensors):
            scope.weak_float = float64
        try:
            self._write(bound(self.function, Flow(scope)), scope, tensors, call)
        except PyriteError as error:
            error.location = error.location or raised_at(error)[0]
            raise
        except (AttributeError, AssertionError, LookupError, TypeError, ValueError) as error:
            location, is_ours = raised_at(error)
            if not is_ours:
                raise
            wrong = KernelError(
                f"kernel '{self.name}' requires arguments that its scope takes, got others: {error}"
            )
            wrong.location = location
            raise wrong from error
        self._require_writes([t for t in tensors[inputs:] if isinstance(t, TensorArgument)])
        try:
            executable = launcher.runtime.compile(scope.build())
        except DTypeError as error:
            raise UnsupportedDTypeError(str(error)) from None
        return PythonForm(executable, tuple(scope.tested))

    def _write(
        self, function: Function, scope: KernelScope, tensors: Sequence[Any], call: Call
    ) -> None:
        if self.grid is not None:
            return function(scope, *tensors, **call.attrs)
        output = call.outputs[0].type
        with scope.if_(scope.stand_at(output.shape) < output.size):
            function(scope, *tensors, **call.attrs)

    def _require_writes(self, outputs: Sequence[TensorArgument | DirectArgument]) -> None:
        """Raise unless each result is written: what is not holds what was in memory before."""
        unwritten = [t.name for t in outputs if t.size and not t.is_written]
        if unwritten:
            raise KernelError(
                f"kernel '{self.name}' requires every output to be written, got no write to "
                f"{', '.join(unwritten)}; write out[k.at] = value"
            )


@overload
def kernel(function: Function, /) -> PythonKernel: ...
@overload
def kernel(
    *, workgroup_size: int | Sequence[int] = WORKGROUP_SIZE, grid: Grid | None = None
) -> Callable[[Function], PythonKernel]: ...
def kernel(
    function: Function | None = None,
    /,
    *,
    workgroup_size: int | Sequence[int] = WORKGROUP_SIZE,
    grid: Grid | None = None,
) -> Any:
    """Return a function as a kernel for every runtime, to be given to `pyrite.custom_op`.

    The function gets a `KernelScope`, a `TensorArgument` for each input and output of the op (None
    for an input that was left out), and the attributes by keyword.  Without ``grid`` it is run once
    for each element of the first output, whose coordinates are ``k.at``.  With it the function is
    run by each invocation of ``grid(*types, **attrs)`` workgroups of ``workgroup_size``, and may
    use ``shared`` memory and ``barrier``; types are those of inputs and outputs.  Elements that no
    invocation writes are unspecified.

    Raises KernelError for a workgroup size without a grid that has several axes.

    >>> import pyrite
    >>> @kernel
    ... def double(k, x, out):
    ...     out[k.at] = x[k.at] * 2.0
    >>> @pyrite.custom_op(infer=lambda x: x, kernels=[double])
    ... def doubled(x, /):
    ...     '''2 x.'''
    >>> doubled(pyrite.tensor([1.0, 2.0], device="cpu")).tolist()
    [2.0, 4.0]
    """
    if function is None:
        return lambda f: PythonKernel(f, workgroup_size, grid)
    return PythonKernel(function, workgroup_size, grid)
