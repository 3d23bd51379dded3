"""Kernels of applications, as what lowers their ops on `CubeBackend`.

An op that was declared with ``kernels`` is lowered by the first of them that the device can run: of
the language of its runtime, and with all that it needs, as subgroups.  Two forms are in
`pyrite.extension` (Python, every runtime) and `pyrite.wgpu` (WGSL).
"""

from __future__ import annotations

import inspect
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar
from weakref import WeakKeyDictionary

from pyrite.backend.cube.launcher import Given, Launcher
from pyrite.backend.cube.registry import Input
from pyrite.backend.cube.skeleton.copy import as_tensor
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.errors import KernelError, UnsupportedKernelError
from pyrite.op import Attributes, Op, located
from pyrite.op.launch_number import may_read
from pyrite.runtime.protocol import Runtime
from pyrite.types import Array, Number, TensorType

#: So many compiled forms of one kernel are kept for each device.
FORMS = 256

#: From the types of inputs and outputs, and attributes by keyword, to the counts of workgroups.
Grid = Callable[..., tuple[int, ...]]

F = TypeVar("F")


@dataclass(frozen=True, slots=True)
class Call:
    """One call of an op: its inputs, those left out are None, its new outputs, its attributes.

    ``names`` has one for each input and output.
    """

    op: Op
    names: tuple[str, ...]
    inputs: tuple[CubeTensor | None, ...]
    outputs: tuple[CubeTensor, ...]
    attrs: Attributes

    @property
    def tensors(self) -> tuple[CubeTensor | None, ...]:
        """Inputs, then outputs."""
        return (*self.inputs, *self.outputs)

    @property
    def types(self) -> tuple[TensorType | None, ...]:
        """Their types."""
        return tuple(None if t is None else t.type for t in self.tensors)


class CustomKernel(ABC, Generic[F]):
    """A kernel of an application, in as many compiled forms ``F`` as its calls need.

    ``workgroup_size`` has up to three axes; ``grid`` gives the workgroups of a call, where it is
    not one invocation for each element of the first output.
    """

    def __init__(self, name: str, workgroup_size: tuple[int, ...], grid: Grid | None) -> None:
        if grid is not None and not callable(grid):
            raise located(_no_function(name, grid))
        self.name = name
        self.workgroup_size = workgroup_size
        self.grid = grid
        #: Attributes whose numbers are part of the kernel, and not given at launch.
        self.static: frozenset[str] = frozenset()
        #: The vjp of an op that it makes, where that is derived.
        self.derivative: Callable[..., Any] | None = None
        self._forms: WeakKeyDictionary[Launcher, dict[Hashable, F | _Refused]] = WeakKeyDictionary()
        #: Why it was refused where nothing is compiled, by the names of devices.
        self._refused: dict[str, str] = {}
        self._lock = threading.Lock()

    @abstractmethod
    def runs_on(self, runtime: Runtime) -> bool:
        """Whether it can be compiled for a runtime."""

    @abstractmethod
    def launch(self, launcher: Launcher, call: Call) -> None:
        """Run it: the outputs have elements, and unspecified values."""

    def lower(
        self,
        launcher: Launcher,
        op: Op,
        inputs: Sequence[Input],
        attrs: Attributes,
        out: Any,
        *,
        targets: Sequence[CubeTensor] | None = None,
    ) -> Sequence[CubeTensor]:
        """Return outputs, after a launch that writes them unless all of them are empty.

        They are new, or the ``targets`` that are given.
        """
        sources = tuple(None if i is None else as_tensor(launcher, i) for i in inputs)
        names = self.names_of(op, len(out))
        if targets is None:
            targets = tuple(launcher.empty(type) for type in out)
        self.begin(launcher, names, sources, targets)
        if any(t.type.size for t in targets):
            self.launch(launcher, Call(op, names, sources, tuple(targets), attrs))
        return targets

    def begin(
        self,
        launcher: Launcher,
        names: Sequence[str],
        sources: Sequence[CubeTensor | None],
        targets: Sequence[CubeTensor],
    ) -> None:
        """Append what gives outputs the values that they hold before: none."""

    def state(self, inputs: Sequence[Input]) -> Hashable | None:
        """Return what its launches depend on beside a call; None where they are made each time."""
        return None

    def results(
        self, op: Op, arrays: Sequence[Array | None], attrs: Attributes, out: Sequence[TensorType]
    ) -> Sequence[Array] | None:
        """Return what it makes of arrays, run by Python; None if it is not in Python."""
        return None

    def refusals(self) -> dict[str, str]:
        """Return why devices cannot run it, by their names: what comes after it was taken there."""
        with self._lock:
            return self._refused | {
                launcher.runtime.name: found.why
                for launcher, forms in self._forms.items()
                for found in forms.values()
                if isinstance(found, _Refused)
            }

    def refuse(self, device: str, why: str) -> None:
        """Note why a device that compiles nothing cannot run it."""
        with self._lock:
            self._refused[device] = why

    @abstractmethod
    def names_of(self, op: Op, outputs: int) -> tuple[str, ...]:
        """Return what the inputs and outputs of an op are called in the kernel."""

    def form(self, launcher: Launcher, key: Hashable, make: Callable[[], F]) -> F:
        """Return a compiled form, made when it is first asked for.

        Raises UnsupportedKernelError, each time, where the device lacks what it needs.
        """
        with self._lock:
            forms = self._forms.setdefault(launcher.base, {})
            found = forms.get(key)
        if found is None:
            found = _made(make)
            with self._lock:
                forms[key] = found
                if len(forms) > FORMS:
                    del forms[next(iter(forms))]
        if isinstance(found, _Refused):
            raise found.kind(found.why)
        return found

    def workgroups(self, launcher: Launcher, call: Call, invocations: int) -> tuple[int, ...]:
        """Return the counts of workgroups of a call; ``invocations`` has those of a workgroup."""
        if self.grid is None:
            return launcher.machine.grid(-(-call.outputs[0].type.size // invocations))
        return self.counts(self.grid, call.names, call.types, call.attrs)

    def counts(
        self,
        grid: Grid,
        names: Sequence[str],
        types: Sequence[TensorType | None],
        attrs: Attributes,
    ) -> tuple[int, ...]:
        """Return what a grid function says.  Raises KernelError for what is no grid."""
        counts = self._counted(grid, names, types, attrs)
        is_sequence = isinstance(counts, Sequence) and not isinstance(counts, str)
        if (
            not is_sequence
            or not 1 <= len(counts) <= 3
            or not all(isinstance(n, int) and n >= 1 for n in counts)
        ):
            fix = f"; return ({counts},)" if isinstance(counts, int) and counts >= 1 else ""
            raise KernelError(
                f"kernel '{self.name}' requires a grid of one to three counts of workgroups, each "
                f"an int of 1 or more, got {counts!r}{fix}"
            )
        return tuple(counts)

    def if_same_grid(
        self, given: Given, call: Call, counts: tuple[int, ...], numbers: Sequence[str]
    ) -> Given:
        """Return what gives a launch its numbers at other calls, if these have the same grid.

        ``numbers`` are the attributes in which they may differ.
        """
        grid, names, types = self.grid, call.names, call.types
        if grid is None or not any(may_read(grid, name) for name in numbers):
            return given

        def given_there(attrs: Attributes) -> Sequence[Number] | None:
            is_same = self.counts(grid, names, types, attrs) == counts
            return given(attrs) if is_same else None

        return given_there

    def _counted(
        self,
        grid: Grid,
        names: Sequence[str],
        types: Sequence[TensorType | None],
        attrs: Attributes,
    ) -> tuple[int, ...]:
        """Return what the grid function says, if it takes what it is given."""
        try:
            return grid(*types, **attrs)
        except TypeError as error:
            if error.__traceback__ is None or error.__traceback__.tb_next is not None:
                raise
            given = ", ".join([*names, *["*"][: len(attrs)], *attrs])
            raise KernelError(
                f"kernel '{self.name}' requires a grid function of the types and attributes, got "
                f"one that does not take them: {error}; write grid=lambda {given}: ..."
            ) from None


@dataclass(frozen=True, slots=True)
class _Refused:
    """Raised where a device cannot run a form: it says why."""

    kind: type[UnsupportedKernelError]
    why: str


def _made(make: Callable[[], F]) -> F | _Refused:
    try:
        return make()
    except UnsupportedKernelError as error:
        return _Refused(type(error), str(error))


def first_of(
    kernels: Sequence[CustomKernel[Any]], runtime: Runtime
) -> Callable[..., Sequence[CubeTensor]] | None:
    """Return the lowering by the first of an op's kernels that a device can run.

    It raises UnsupportedKernelError, the last one's, where it can run none of them.
    """
    able = [kernel.lower for kernel in kernels if kernel.runs_on(runtime)]
    if len(able) < 2:
        return able[0] if able else None

    def lower(*call: Any, **into: Any) -> Sequence[CubeTensor]:
        for attempt in able[:-1]:
            try:
                return attempt(*call, **into)
            except UnsupportedKernelError:
                continue
        return able[-1](*call, **into)

    return lower


def _no_function(kernel: str, grid: Any) -> KernelError:
    counts = tuple(grid) if isinstance(grid, Sequence) else (grid,)
    return KernelError(
        f"kernel '{kernel}' requires a function as grid, from types and attributes to counts of "
        f"workgroups, got {grid!r}; write grid=lambda *types, **attrs: {counts!r}"
    )


def sizes_of(workgroup_size: int | Sequence[int]) -> tuple[int, ...]:
    """Return the sizes of a workgroup.  Raises KernelError unless there are one to three."""
    sizes = tuple(workgroup_size) if isinstance(workgroup_size, Sequence) else (workgroup_size,)
    if not 1 <= len(sizes) <= 3 or not all(isinstance(s, int) and s >= 1 for s in sizes):
        raise KernelError(f"a kernel requires one to three sizes of a workgroup, got {sizes}")
    return sizes


def positional_names(function: Callable[..., Any]) -> tuple[str, ...]:
    """Return the names of a function's positional parameters."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = inspect.signature(function).parameters.values()
    return tuple(p.name for p in parameters if p.kind in kinds)


def keywords(function: Callable[..., Any]) -> dict[str, bool] | None:
    """Return a function's keyword parameters and whether they must be given; None if any may be."""
    parameters = inspect.signature(function).parameters.values()
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return None
    return {p.name: p.default is p.empty for p in parameters if p.kind is p.KEYWORD_ONLY}
