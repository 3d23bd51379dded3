"""Kernels in Python declared: ``@kernel`` above a function."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, overload

from pyrite.backend.cube.custom import Grid
from pyrite.errors import KernelError
from pyrite.extension.derivative import vjp_of
from pyrite.extension.kernel import WORKGROUP_SIZE, Function, PythonKernel
from pyrite.extension.outputs import Outputs
from pyrite.op import custom_op
from pyrite.types import Number


@overload
def kernel(function: Function, /) -> PythonKernel: ...
@overload
def kernel(
    *,
    workgroup_size: int | Sequence[int] = WORKGROUP_SIZE,
    grid: Grid | str | None = None,
    static: Sequence[str] = (),
    inout: Mapping[str, str] | None = None,
    fill: Mapping[str, Number] | None = None,
    differentiable: bool = False,
    inner: int = 0,
) -> Callable[[Function], PythonKernel]: ...
def kernel(
    function: Function | None = None,
    /,
    *,
    workgroup_size: int | Sequence[int] = WORKGROUP_SIZE,
    grid: Grid | str | None = None,
    static: Sequence[str] = (),
    inout: Mapping[str, str] | None = None,
    fill: Mapping[str, Number] | None = None,
    differentiable: bool = False,
    inner: int = 0,
) -> Any:
    """Return a function as a kernel for every runtime, to be given to `pyrite.custom_op`.

    The function gets a `KernelScope`, a `TensorArgument` for each input and output of the op (None
    for an input that was left out), and the attributes by keyword.  Without ``grid`` it is run once
    for each element of the first output, whose coordinates are ``k.at``.  With it the function is
    run by each invocation of ``grid(*types, **attrs)`` workgroups of ``workgroup_size``, and may
    use ``shared`` memory and ``barrier``; types are those of inputs and outputs.  Elements that no
    invocation writes are unspecified.

    ``grid="groups"`` names an input, or an output that a stage before has written, which holds the
    counts: int32 or uint32 of one to three numbers, each of 0 to 65535, or of no axes.  They stay
    on the device; others are a KernelError of what is read of the outputs.

    Ints and floats among the attributes are arguments of the kernel, which is compiled once for all
    of them; those whose names are ``static`` are numbers of Python, built in.  Sizes of two or more
    are arguments too, from the second set of sizes on.

    ``fill={"out": 0}`` says what an output holds before, ``inout={"out": "x"}`` that it begins as a
    copy of an input; such outputs may be read, and changed by atomics (`TensorArgument.atomic`).

    With ``inner=1`` it is run once for each vector along the last axis of the first output, with
    ``inner=2`` for each matrix: ``out[k.at] = Vector(x, y, z)``.

    ``differentiable`` derives the vjp of its op: see `pyrite.extension.derivative`.

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

    def make(f: Function) -> PythonKernel:
        if inner and (grid is not None or inner not in (1, 2)):
            raise KernelError(
                f"kernel '{f.__name__}' requires inner to be 1 or 2, and no grid, got {inner}"
            )
        if differentiable and isinstance(grid, str):
            raise KernelError(
                f"kernel '{f.__name__}' requires a grid that is known when it is launched to be "
                f"differentiated, got one that {grid!r} counts; give its op a vjp"
            )
        outputs = Outputs(f.__name__, inout, fill)
        made = PythonKernel(f, workgroup_size, grid, static, outputs, inner)
        if differentiable:
            made.derivative = vjp_of(made, custom_op)
        return made

    return make if function is None else make(function)
