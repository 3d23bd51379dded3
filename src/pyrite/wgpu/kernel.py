"""Kernels written in WGSL, for wgpu devices.

An application writes the entry point; what depends on a call is declared after its text: bindings,
element types, shapes, attributes and the size of a workgroup; numbers come with each launch
(`pyrite.wgpu.number`).  WGSL lets declarations stand in any
order, so the text is as it was written, in an editor too, and an error names its line.

Invariant: the module is checked, as in a browser: no access leaves a buffer.
"""

from __future__ import annotations

import math
import re
from collections.abc import Hashable, Sequence
from typing import Any

from pyrite.backend.cube.custom import Call, CustomKernel, Grid, sizes_of
from pyrite.backend.cube.launcher import Given, Launcher
from pyrite.backend.cube.layout import is_row_major
from pyrite.backend.cube.registry import Input
from pyrite.backend.cube.skeleton.copy import filling
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.errors import KernelError, UnsupportedDTypeError
from pyrite.kernel.builder.number import arguments
from pyrite.op import Attributes, Op, attributes_key, public
from pyrite.runtime.protocol import Runtime
from pyrite.runtime.wgpu import Device, Executable, Signature, WgpuRuntime, check_workgroup
from pyrite.types import DType, Number, float16, float32, float64, int32, int64, uint32, uint64
from pyrite.wgpu.number import Numbers

#: What a dtype is called, and the feature that a device needs for it.
_TYPES: dict[DType, tuple[str, str | None]] = {
    float32: ("f32", None),
    int32: ("i32", None),
    uint32: ("u32", None),
    float16: ("f16", "shader-f16"),
    float64: ("f64", "shader-f64"),
    int64: ("i64", "shader-int64"),
    uint64: ("u64", "shader-int64"),
}


class WGSLKernel(CustomKernel[Executable]):
    """A kernel in WGSL; made by `kernel`."""

    def __init__(
        self,
        source: str,
        name: str,
        workgroup_size: tuple[int, ...],
        grid: Grid | None,
        outputs: tuple[str, ...],
        static: frozenset[str] = frozenset(),
    ) -> None:
        super().__init__(name, workgroup_size, grid)
        self.source = source
        self.static = static
        self.outputs = outputs

    def runs_on(self, runtime: Runtime) -> bool:
        """Whether a runtime can run it: wgpu can."""
        return isinstance(runtime, WgpuRuntime)

    def names_of(self, op: Op, outputs: int) -> tuple[str, ...]:
        """Return the names of the op's inputs, and those that were given for the outputs."""
        if len(self.outputs) != outputs:
            raise KernelError(
                f"kernel '{self.name}' requires a name for each of the {outputs} outputs of "
                f"{op.name}, got outputs={self.outputs}"
            )
        return (*op.inputs, *self.outputs)

    def launch(self, launcher: Launcher, call: Call) -> None:
        """Append one run; a new set of types, shapes or constants is compiled first."""
        grid = self.workgroups(launcher, call, math.prod(self.workgroup_size))
        numbers = self._numbers(call)
        rest = {n: v for n, v in call.attrs.items() if n not in numbers.dtypes}
        kinds = tuple(numbers.dtypes.items())
        key = (call.op, call.types, attributes_key(call.op, rest), kinds, grid)
        executable = self.form(launcher, key, lambda: self._compile(launcher, call, grid, numbers))
        given = [t for t in call.tensors if t is not None]
        # What is recorded has no buffers yet: `state` has seen to it that those of inputs are full.
        is_recorded = launcher.base is not launcher
        dense = given if is_recorded else [filling(launcher, t) for t in given]
        arguments = [*enumerate(numbers.values, start=len(dense))]
        buffers = [t.buffer for t in dense]
        launcher.run(executable, buffers, grid, (), arguments, self._given(call, grid))

    def _given(self, call: Call, grid: tuple[int, ...]) -> Given:
        """Return what gives a launch its numbers at other calls, if they have the same grid."""
        numbers = self._numbers(call).dtypes
        names, dtypes = [*numbers], [*numbers.values()]

        def given(attrs: Attributes) -> Sequence[Number]:
            return arguments([attrs[name] for name in names], dtypes)

        return self.if_same_grid(given, call, grid, names)

    def state(self, inputs: Sequence[Input]) -> Hashable | None:
        """Return a constant for inputs that are bound as they are; None where any is to be copied.

        ``arrayLength`` tells the size of what is bound, so that a tensor has to fill its buffer.
        """
        return () if all(i is None or _fills(i) for i in inputs) else None

    def _numbers(self, call: Call) -> Numbers:
        if unknown := sorted(self.static - call.attrs.keys()):
            raise KernelError(
                f"kernel '{self.name}' requires static= to name attributes of {call.op.name}, got "
                f"{', '.join(unknown)}; it has {', '.join(call.attrs) or 'none'}"
            )
        first = next(t for t in call.tensors if t is not None)
        return Numbers.of(call.attrs, self.static, first.dtype)

    def text(self, call: Call, grid: Sequence[int], device: Device, numbers: Numbers) -> str:
        """Return the module of a call: the source, then the declarations that belong to it."""
        given = [(n, t) for n, t in zip(call.names, call.tensors, strict=True) if t is not None]
        names = {name: self._type(t.dtype, device) for name, t in given}
        # A directive stands before all declarations, and must not move the lines.
        enabled = "enable f16; " if "f16" in names.values() else ""
        lines = [
            *_sizes("workgroup_size", (*self.workgroup_size, 1, 1)[:3]),
            f"alias elem = {names[given[0][0]]};",
            *self._element(grid),
        ]
        for binding, (name, tensor) in enumerate(given):
            lines += _binding(binding, name, names[name], tensor, name in self.outputs)
        constants = [(n, v) for n, v in call.attrs.items() if n not in numbers.dtypes]
        lines += [_constant(name, value) for name, value in constants if _is_known(value)]
        first, tensor = given[0]
        lines += numbers.declarations(len(given), names[first], tensor.dtype.is_float)
        return enabled + numbers.begun(self.source) + "\n" + "\n".join(lines) + "\n"

    def _compile(
        self, launcher: Launcher, call: Call, grid: Sequence[int], numbers: Numbers
    ) -> Executable:
        runtime = launcher.runtime
        assert isinstance(runtime, WgpuRuntime)
        check_workgroup(self.name, self.workgroup_size, runtime.device)
        inputs = sum(t is not None for t in call.inputs)
        writes = (False,) * inputs + (True,) * len(call.outputs)
        parameters = ((None,) * len(writes)) + tuple(numbers.dtypes.values())
        signature = Signature(self.name, parameters, writes, len(grid))
        return runtime.compile_wgsl(self.text(call, grid, runtime.device, numbers), signature)

    def _type(self, dtype: DType, device: Device) -> str:
        name, feature = _TYPES.get(dtype, (None, None))
        if name is None or (feature is not None and feature not in device.features):
            has = ", ".join(d.name for d, (_, f) in _TYPES.items() if not f or f in device.features)
            raise UnsupportedDTypeError(
                f"kernel '{self.name}' requires a dtype that WGSL has on this device ({has}), got "
                f"{dtype.name}; cast it with astype, or write the kernel in Python "
                "(pyrite.extension.kernel)"
            )
        return name

    def _element(self, grid: Sequence[int]) -> list[str]:
        """Return the function that numbers the invocations, whatever the grid."""
        if self.grid is not None:
            return []
        row = grid[0] * self.workgroup_size[0]
        return [f"fn element(id: vec3<u32>) -> u32 {{ return id.y * {row}u + id.x; }}"]


def _fills(x: Input) -> bool:
    """Whether an input is all of a buffer, in row-major order."""
    return (
        isinstance(x, CubeTensor)
        and x.offset == 0
        and is_row_major(x.shape, x.strides)
        and x.buffer.nbytes == x.type.nbytes
    )


@public
def kernel(
    source: str,
    *,
    name: str = "main",
    workgroup_size: int | Sequence[int] = 64,
    grid: Grid | None = None,
    outputs: str | Sequence[str] = "out",
    static: str | Sequence[str] = (),
) -> WGSLKernel:
    """Return WGSL as a kernel, to be given to `pyrite.custom_op`.

    The source has the entry point ``main`` with ``@workgroup_size(workgroup_size_x, ...)``.  These
    are declared for it:

    ``x``, ``out``                    ``array<elem>`` of each input and output, in row-major order
    ``x_shape``, ``x_size``           the sizes of its axes and their product, constants of u32
    ``elem``, ``x_elem``              the element type of the first input, and of each tensor
    ``workgroup_size_x``, ``_y``      the size of a workgroup
    ``element(id)``                   which element of the first output an invocation is for, given
                                      its ``global_invocation_id``; may be ``out_size`` or more
    an int or a float of the op       an ``i32``, or an ``f32`` (an ``elem``, if that is of floats):
                                      given at each launch, so that another one compiles nothing
    bools, tuples of numbers          constants; numbers that are ``static`` too

    ``grid(*types, **attrs)`` gives the counts of workgroups, from the types of inputs and outputs;
    without it there is one invocation for each element of the first output.  Elements that no
    invocation writes are unspecified.  ``outputs`` names them, ``name`` is for messages.

    The module is compiled for each set of types, shapes and constants when an op first calls it;
    KernelError then says which line is wrong, and DTypeError which dtype WGSL lacks.
    """
    if not isinstance(source, str):
        raise KernelError(
            f"kernel '{name}' requires WGSL as a str, got {type(source).__name__}; of a file it is "
            "path.read_text()"
        )
    sizes = sizes_of(workgroup_size)
    _require_sizes(name, source, (*sizes, 1, 1)[:3])
    if grid is None and len(sizes) > 1:
        raise KernelError(
            f"kernel '{name}' requires a grid for workgroups of several axes, got none and "
            f"workgroup_size={sizes}"
        )
    names = (outputs,) if isinstance(outputs, str) else tuple(outputs)
    constants = frozenset((static,) if isinstance(static, str) else static)
    return WGSLKernel(source, name, sizes, grid, names, constants)


def _require_sizes(name: str, source: str, sizes: tuple[int, ...]) -> None:
    """Raise KernelError where the text fixes another workgroup than the one that is counted."""
    code = re.sub(r"/\*.*?\*/|//[^\n]*", "", source, flags=re.DOTALL)
    for written in re.findall(r"@workgroup_size\s*\(([\d\s,iu]*)\)", code):
        given = tuple(int(number) for number in re.findall(r"\d+", written))
        if (*given, 1, 1)[:3] != sizes:
            raise KernelError(
                f"kernel '{name}' requires the workgroup that its grid is counted by, got "
                f"@workgroup_size({written}) and workgroup_size={sizes}; write "
                "@workgroup_size(workgroup_size_x), or give both the same"
            )


def _sizes(name: str, sizes: Sequence[int]) -> list[str]:
    return [f"const {name}_{axis} = {n}u;" for axis, n in zip("xyz", sizes, strict=True)]


def _binding(number: int, name: str, type: str, tensor: CubeTensor, is_output: bool) -> list[str]:
    access = "read_write" if is_output else "read"
    # WGSL has no array without elements; a zero-d tensor has no shape to be asked for.
    shape = ", ".join(f"{n}u" for n in tensor.shape)
    return [
        f"alias {name}_elem = {type};",
        f"@group(0) @binding({number}) var<storage, {access}> {name}: array<{type}>;",
        f"const {name}_size = {tensor.type.size}u;",
        *([f"const {name}_shape = array<u32, {len(tensor.shape)}>({shape});"] * bool(shape)),
    ]


def _is_known(value: Any) -> bool:
    """Whether an attribute has a form in WGSL; others are the host's business."""
    if isinstance(value, tuple):
        return bool(value) and all(isinstance(v, bool | int | float) for v in value)
    return isinstance(value, bool | int | float)


def _constant(name: str, value: Any) -> str:
    if not isinstance(value, tuple):
        return f"const {name} = {_literal(name, value)};"
    kind = "f32" if any(isinstance(v, float) for v in value) else "i32"
    items = ", ".join(_literal(name, v) for v in value)
    return f"const {name} = array<{kind}, {len(value)}>({items});"


def _literal(name: str, value: Number) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and not math.isfinite(value):
        raise KernelError(
            f"attribute {name} requires a finite number to be a constant of WGSL, got {value}; "
            "leave it out of static=, or make it an input"
        )
    return repr(value)
