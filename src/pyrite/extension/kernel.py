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
from functools import cached_property
from types import FunctionType
from typing import Any
from weakref import WeakKeyDictionary

from pyrite.backend.cube import CubeBackend
from pyrite.backend.cube.custom import (
    FORMS,
    Call,
    CustomKernel,
    Grid,
    keywords,
    positional_names,
    sizes_of,
)
from pyrite.backend.cube.launcher import Given, Launcher, Machine
from pyrite.backend.cube.operand import bindings_of
from pyrite.backend.cube.registry import Input
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.backend.device import DeviceLike
from pyrite.backend.device import device as as_device
from pyrite.config import config
from pyrite.content import Functions, NoContentError
from pyrite.errors import (
    DeviceError,
    DTypeError,
    KernelError,
    UnsupportedDTypeError,
    UnsupportedKernelError,
)
from pyrite.extension.counting import COUNTS, Counting
from pyrite.extension.direct import arguments_of, run
from pyrite.extension.fault import Places, element_places, faults_of, invocation_places
from pyrite.extension.lanes import VectorLaneScope
from pyrite.extension.outputs import Outputs, type_of
from pyrite.extension.parameters import require_parameters
from pyrite.extension.printing import WORDS, empty_words
from pyrite.extension.problem import Family, Member, Problem, Served, call_key, problem_of
from pyrite.extension.rewriting import source_of
from pyrite.extension.scope import KernelScope
from pyrite.extension.writing import Writing, require_writes
from pyrite.kernel.ir import Kernel
from pyrite.op import Attributes, Op, user_location
from pyrite.op.launch_number import number_at, numbers_among
from pyrite.recent import Recent
from pyrite.runtime.protocol import Buffer, Runtime
from pyrite.types import Array, Number, Shape, TensorType, element_count, uint32

#: Invocations of a workgroup, on a CPU those that one vectorised loop runs.
WORKGROUP_SIZE = 64

Function = Callable[..., None]


class PythonKernel(CustomKernel[Member]):
    """A kernel in Python; made by `pyrite.extension.kernel`."""

    def __init__(
        self,
        function: Function,
        workgroup_size: int | Sequence[int],
        grid: Grid | str | None,
        static: Sequence[str] = (),
        outputs: Outputs | None = None,
        inner: int = 0,
    ) -> None:
        #: What counts its workgroups on the device, where no function does.
        self.counting = Counting(function.__name__, grid) if isinstance(grid, str) else None
        known = None if isinstance(grid, str) else grid
        super().__init__(function.__name__, sizes_of(workgroup_size), known)
        if grid is None and len(self.workgroup_size) > 1:
            raise KernelError(
                f"kernel '{self.name}' requires a grid for workgroups of several axes, got none "
                f"and workgroup_size={workgroup_size}"
            )
        self.function = function
        self.__doc__ = function.__doc__
        self.static = frozenset((static,) if isinstance(static, str) else static)
        #: So many last axes of the first output are the business of one invocation.
        self.inner = inner
        #: What outputs hold before.
        self.outputs = outputs or Outputs(self.name, None, None)
        #: Whether all outputs hold something: those of a kernel that comes after another.
        self.follows = False
        #: Names of the inputs and outputs.
        self.parameters = positional_names(function)[1:]
        self._keywords = keywords(function)
        self._families: WeakKeyDictionary[Launcher, Recent[Hashable, Family]] = WeakKeyDictionary()
        #: What the last calls ran, by `call_key`.
        self._recent: WeakKeyDictionary[Launcher, Recent[Hashable, Served]] = WeakKeyDictionary()
        self._reads = Functions(function)
        self._launch_reads = Functions(function, grid)
        #: Whether any form of it prints: its launches are waited for, and never recorded.
        self._prints = False
        if isinstance(function, FunctionType):
            source_of(function)

    def as_stage(self) -> PythonKernel:
        """Return it as one of several, whose outputs hold what others wrote."""
        grid = self.grid if self.counting is None else self.counting.tensor
        made = PythonKernel(
            self.function, self.workgroup_size, grid, tuple(self.static), self.outputs, self.inner
        )
        made.follows = True
        return made

    def points(self, shape: Shape) -> Shape:
        """Return the part of the first output's shape of which each point has an invocation."""
        if self.inner > len(shape):
            raise KernelError(
                f"kernel '{self.name}' requires a first output of {self.inner} axes and more for "
                f"inner={self.inner}, got shape {shape}"
            )
        return shape[: len(shape) - self.inner]

    def workgroups(self, launcher: Launcher, call: Call, invocations: int) -> tuple[int, ...]:
        """Return the counts of workgroups of a call: of ones, where the device counts them."""
        if self.counting is not None:
            self._require_counts(call.names[len(call.inputs) :])
            return (1,) * self.counting.axes(call.names, call.types)
        if self.grid is not None:
            return super().workgroups(launcher, call, invocations)
        points = element_count(self.points(call.outputs[0].shape))
        return launcher.machine.grid(-(-points // invocations))

    @property
    def runs_by_grid(self) -> bool:
        """Whether each invocation of a grid runs it, and not each element of the first output."""
        return self.grid is not None or self.counting is not None

    def runs_on(self, runtime: Runtime) -> bool:
        """Whether a runtime can run it: every one can."""
        return True

    def names_of(self, op: Op, outputs: int) -> tuple[str, ...]:
        """Return the names of the function's parameters after the first."""
        require_parameters(self.name, op, outputs, self.parameters, self._keywords, self.static)
        return self.parameters

    def results(
        self, op: Op, arrays: Sequence[Array | None], attrs: Attributes, out: Sequence[TensorType]
    ) -> Sequence[Array]:
        """Return what the function makes of arrays, run by Python: see `extension.direct`."""
        names = self.names_of(op, len(out))
        made = self.outputs.in_numpy(names, arrays, out)
        self.run(op, names, arrays, made, attrs)
        return [a.astype(t.dtype.numpy) for a, t in zip(made, out, strict=True)]

    def run(
        self,
        op: Op,
        names: Sequence[str],
        arrays: Sequence[Array | None],
        made: Sequence[Array],
        attrs: Attributes,
    ) -> None:
        """Run the function by Python, on arrays that it reads and writes."""
        types = [None if a is None else type_of(a) for a in (*arrays, *made)]
        grid = None if self.grid is None else self.counts(self.grid, names, types, attrs)
        if self.counting is not None:
            self._require_counts(names[len(arrays) :])
            grid = self.counting.of_arrays(names, [*arrays, *made])
        readable = {name for name in names[len(arrays) :] if self._is_readable(name)}
        tensors = arguments_of(names, arrays, made, readable)
        points = self.points(made[0].shape) if grid is None else ()
        try:
            run(
                self.function, self.name, tensors, dict(attrs), sizes=self.workgroup_size,
                grid=grid, points=points,
            )  # fmt: skip
        except UnsupportedKernelError as error:
            self.refuse("numpy", str(error))
            raise
        made_of = [t for t in tensors[len(arrays) :] if t is not None]
        require_writes(self.name, made_of, self.outputs.names, self.follows)

    def _require_counts(self, outputs: Sequence[str]) -> None:
        name = None if self.counting is None else self.counting.tensor
        if name in outputs and not self._is_readable(str(name)):
            raise KernelError(
                f"kernel '{self.name}' requires a grid that is known before it, got its output "
                f"{name!r}; let a stage before write it"
            )

    def _is_readable(self, output: str) -> bool:
        return self.follows or output in self.outputs.names

    def begin(
        self,
        launcher: Launcher,
        names: Sequence[str],
        sources: Sequence[CubeTensor | None],
        targets: Sequence[CubeTensor],
    ) -> None:
        """Append what gives outputs the values that they hold before."""
        if self.outputs.names:
            self.outputs.on_device(launcher, names, sources, targets)

    def state(self, inputs: Sequence[Input]) -> Hashable | None:
        """Return what stands for all that the function and its grid read.

        None where it prints, or is counted: then it is launched anew each time.
        """
        if self._prints or self.counting is not None:
            return None
        try:
            return (self._launch_reads.key(), config.static_sizes)
        except NoContentError:
            return None

    def launch(self, launcher: Launcher, call: Call) -> None:
        """Append one run; a new set of dtypes, ranks or static attributes is compiled first."""
        grid = self.workgroups(launcher, call, self.workgroup_size[0])
        served, arguments = self._served(launcher, call, grid)
        bindings: list[Buffer | Number] = [
            b for t in call.tensors if t is not None for b in bindings_of(t)
        ]
        if served.member.prints.calls:
            self._prints = True
            if launcher.base is launcher:  # and not one that records
                self._print(launcher, served, call, bindings, grid, arguments)
            return
        # Also where there are none: what the kernel asked about numbers may be answered otherwise.
        given = self._given(served, call, grid)
        counts = self._counted_grid(launcher, call)
        launcher.run(
            served.member.executable, bindings, grid, served.faults, arguments, given, counts
        )

    @cached_property
    def _counter(self) -> PythonKernel:
        """What makes a grid of the tensor that counts it."""
        assert self.counting is not None, "a kernel that is counted"
        return PythonKernel(self.counting.function(), 1, lambda *_: (1,))

    def _counted_grid(self, launcher: Launcher, call: Call) -> Buffer | None:
        """Append what reads the grid from a tensor; return where it will be, None for others."""
        if self.counting is None:
            return None
        source = dict(zip(call.names, call.tensors, strict=True))[self.counting.tensor]
        made = launcher.empty(COUNTS)
        names = ("given", "counts")
        self._counter.launch(launcher, Call(call.op, names, (source,), (made,), {}))
        return made.buffer

    def _given(self, served: Served, call: Call, grid: tuple[int, ...]) -> Given:
        """Return what gives a launch its numbers at other calls, if they have the same grid."""
        given = served.member.giving(served.extents, served.numbers)
        return self.if_same_grid(given, call, grid, [name for name, _ in served.numbers])

    def _print(
        self,
        launcher: Launcher,
        served: Served,
        call: Call,
        bindings: Sequence[Buffer | Number],
        grid: tuple[int, ...],
        numbers: Sequence[tuple[int, Number]],
    ) -> None:
        """Run a kernel, wait, and print what it printed."""
        counts = self._counted_grid(launcher, call)
        member, words = served.member, launcher.runtime.upload(empty_words())
        arguments = sorted([*numbers, (member.prints.position, words)], key=lambda a: a[0])
        launcher.run(member.executable, bindings, grid, served.faults, arguments, counts=counts)
        read = launcher.runtime.read(words, uint32, (WORDS,))
        print(member.prints.text(read), end="")

    def _served(
        self, launcher: Launcher, call: Call, grid: tuple[int, ...]
    ) -> tuple[Served, list[tuple[int, Number]]]:
        """Return what a call runs, compiled if there is nothing that serves it, and its numbers."""
        reads = self._reads_key()
        key = call_key(call, grid, self.static)
        recent = self._recent.setdefault(launcher.base, Recent(FORMS))
        served = None if key is None else recent.get((reads, key))
        arguments = None if served is None else served.arguments(call.attrs)
        if served is None or arguments is None:
            served = self._found(launcher, call, grid, reads)
            if key is not None:
                recent.put((reads, key), served)
            arguments = served.arguments(call.attrs)
            assert arguments is not None, "the kernel of these numbers"
        return served, arguments

    def _found(
        self, launcher: Launcher, call: Call, grid: tuple[int, ...], reads: Hashable
    ) -> Served:
        problem = problem_of(call, grid, self.static, is_by_grid=self.runs_by_grid)
        pattern = (call.op, problem.pattern, reads, self.workgroup_size)
        families = self._families.setdefault(launcher.base, Recent(FORMS))
        family = families.get(pattern)
        if family is None:
            families.put(pattern, family := Family())
        of = family
        member = of.found(problem) or self.form(
            launcher, (pattern, problem.exact),
            lambda: of.made(
                problem, lambda are_known: self._compile(launcher, call, grid, problem, are_known)
            ),
        )  # fmt: skip
        faults = faults_of(self.name, call.op, member, self._places(call, grid))
        return Served(member, faults, problem.extents, problem.classes)

    def _places(self, call: Call, grid: tuple[int, ...]) -> Places:
        """Return what tells the place of an invocation from its number."""
        if not self.runs_by_grid:
            return element_places(self.points(call.outputs[0].shape))
        counts = grid if self.counting is None else None
        return invocation_places(self.workgroup_size, counts)

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
        self,
        launcher: Launcher,
        call: Call,
        grid: tuple[int, ...],
        problem: Problem,
        are_known: bool,
    ) -> Member:
        self._require_static(call)
        writing = self._writing(launcher.machine)
        scope, symbols = writing.written(call, grid, problem, are_known=are_known)
        try:
            executable = launcher.runtime.compile(self._built(scope, launcher.machine))
        except DTypeError as error:
            raise UnsupportedDTypeError(str(error)) from None
        return Member.of(executable, scope, symbols)

    def _writing(self, machine: Machine) -> Writing:
        return Writing(
            self.function, self.name, self.workgroup_size, readable=self.outputs.names,
            by_grid=self.runs_by_grid, is_counted=self.counting is not None,
            follows=self.follows, inner=self.inner,
            scope=VectorLaneScope if machine.kind == "cpu" else KernelScope,
            adds_floats=machine.adds_floats,
        )  # fmt: skip

    def source(
        self,
        device: DeviceLike,
        inputs: Sequence[TensorType | None],
        outputs: Sequence[TensorType],
        **attrs: Any,
    ) -> str:
        """Return the WGSL or LLVM IR of the kernel for dense tensors of these types.

        Raises DeviceError for a device without kernels.
        """
        backend = as_device(device).backend.root
        if not isinstance(backend, CubeBackend):
            raise DeviceError(
                f"source requires a device that makes kernels, got {device}; ask for 'cpu' or "
                "'wgpu'"
            )
        # Nothing is read or written: there are no buffers.
        nowhere: Any = None
        given = tuple(None if t is None else CubeTensor.dense(nowhere, t) for t in inputs)
        made = tuple(CubeTensor.dense(nowhere, t) for t in outputs)
        call = Call(nowhere, self.parameters, given, made, attrs)
        grid = self.workgroups(backend.launcher, call, self.workgroup_size[0])
        names = numbers_among(attrs, self.static)
        problem = Problem(None, (), tuple(number_at(attrs, n) for n in names), names)
        writing = self._writing(backend.launcher.machine)
        scope, _ = writing.written(call, grid, problem, are_known=True)
        return backend.runtime.source(self._built(scope, backend.launcher.machine))

    def _built(self, scope: KernelScope, machine: Machine) -> Kernel:
        code = getattr(self.function, "__code__", None)
        location = f"{code.co_filename}:{code.co_firstlineno}" if code else user_location()
        return scope.built(machine.rounds, location)

    def _require_static(self, call: Call) -> None:
        if unknown := sorted(self.static - call.attrs.keys()):
            raise KernelError(
                f"kernel '{self.name}' requires static= to name attributes of {call.op.name}, got "
                f"{', '.join(unknown)}; it has {', '.join(call.attrs) or 'none'}"
            )
