"""From a description of a kernel to its launch: compiled once per key, then only bound and run.

A lowering says what it wants by a key, and how to build the kernel if nobody has asked before; so
a second call of an op with the same types builds nothing.  What it is given is this launcher, or
one that only records: so it asks here for memory, and for the numbers of an op.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from pyrite.backend.compiling import BeginAgain, RunAgain
from pyrite.backend.cube.ahead import CompileAhead, Job
from pyrite.backend.cube.argument import number_of, with_arguments
from pyrite.backend.cube.family import Families, Member
from pyrite.backend.cube.fault import Faults
from pyrite.backend.cube.kept import Written, kept_kernels
from pyrite.backend.cube.kept_choice import keep_choices
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.backend.explanation import listeners
from pyrite.content import content_of
from pyrite.kernel import Kernel
from pyrite.kernel.extent import all_extents, with_all_extents, with_known
from pyrite.kernel.machine import Machine as Machine
from pyrite.op import Attributes, Constant
from pyrite.recent import KERNELS, Recent
from pyrite.runtime.kernel_cache import KernelCache
from pyrite.runtime.protocol import Buffer, Executable, Runtime
from pyrite.symbol import Symbols
from pyrite.types import DType, Number, Shape, TensorType

P = TypeVar("P", bound=Hashable)
#: What has a launcher compile a kernel that nobody needs yet.
Foresee = Callable[["Launcher"], None]

#: From the attributes of a call the numbers that a launch gets; None where it is another launch.
Given = Callable[[Attributes], "Sequence[Number] | None"]


class Resizing(NamedTuple):
    """The shapes that tensors have together at other sizes, and so attributes that are shapes."""

    shapes: Sequence[Shape]
    attributes: Mapping[Shape, Shape]


#: Gives resizings, one by one.
Resizings = Callable[[], Iterable[Resizing]]


@dataclass(frozen=True, slots=True)
class Steps:
    """Launches of one kernel, one after the other, that differ in their last two numbers.

    The one is ``first`` and then ``step`` more each time, the other ``apart`` more than that.

    >>> [*Steps(5, 3, -1, apart=1).pairs]
    [(5, 6), (4, 5), (3, 4)]
    """

    first: int
    count: int
    step: int
    apart: int = 0

    @property
    def pairs(self) -> Iterator[tuple[int, int]]:
        """The two numbers of each launch."""
        for n in range(self.count):
            at = self.first + n * self.step
            yield at, at + self.apart


class Launcher:
    """The compiled kernels of one runtime, and how they are launched."""

    #: Whether there is a reason to say what other calls may need.
    foresees = True

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self.machine = runtime.machine
        self.faults = Faults(runtime)
        self._executables: Recent[Hashable, Executable] = Recent(KERNELS)
        cache: KernelCache | None = getattr(runtime, "kernel_cache", None)
        keep_choices(cache)
        self.kept_kernels = kept_kernels(cache, self.machine)
        self._families = Families(self._compiled, self.kept_kernels)
        self._firsts: Recent[Hashable, tuple[int, ...]] = Recent(KERNELS)
        #: Problems, and sizes of them that kernels have built in.
        self._built_in: Recent[Hashable, bool] = Recent(KERNELS)
        #: How many kernels were built so far.
        self.built = 0
        #: How many of them a call waited for: no thread compiled them ahead.
        self.awaited = 0
        self._lock = threading.Lock()
        #: Held while a member of a family is compiled.
        self._compiling = threading.Lock()
        self.ahead = CompileAhead()
        #: What runs a program, or launches of it, again in less time: see native_run.py.
        self.run_again: Callable[..., RunAgain | None] = lambda *_: None
        self.begin_again: Callable[..., BeginAgain | None] = lambda *_: None
        self.launches_again: Callable[..., Any] = lambda *_: None

    @property
    def base(self) -> Launcher:
        """The launcher that has the kernels: itself."""
        return self

    @property
    def kernels(self) -> int:
        """How many keys have a kernel."""
        return len(self._executables) + self._families.members

    def empty(self, type: TensorType) -> CubeTensor:
        """Return a dense tensor of unspecified values."""
        return CubeTensor.dense(self.allocate(type.nbytes), type)

    def allocate(self, nbytes: int) -> Buffer:
        """Return a buffer of unspecified contents."""
        return self.runtime.allocate(nbytes)

    def number(self, constant: Constant, dtype: DType) -> Number:
        """Return a number of an op as the argument of a kernel, in a dtype."""
        return number_of(constant, dtype)

    def launch(
        self,
        key: Hashable,
        build: Callable[[int], Kernel],
        bindings: Sequence[Buffer | Number],
        workgroups: int,
        fault: str | None = None,
    ) -> None:
        """Run the kernel of that key on so many workgroups.

        ``build`` makes it the first time, for a grid of as many axes as it is given.  With a
        ``fault``, what reads of the results are to raise, its last parameters are an error word and
        the number to put there.
        """
        grid = self.machine.grid(workgroups)
        faults = () if fault is None else (fault,)
        self.run(self.executable(key, build, len(grid)), bindings, grid, faults)

    def launch_for(
        self,
        problem: Hashable,
        key: Hashable,
        build: Callable[[Any, int], Kernel],
        bindings: Sequence[Buffer | Number],
        workgroups: int,
        fault: str | None = None,
        *,
        knows_first: bool = False,
        writes_once: bool = False,
    ) -> None:
        """Run the kernel of a problem, as `launch` does; it serves problems of other extents too.

        ``build`` makes it of the problem, with symbols for its extents (`pyrite.kernel.extent`),
        and a number of axes; ``key`` has what it depends on besides.  With ``knows_first`` the
        extents that come first have a kernel of their own, where they are built in; the one for all
        others is compiled ahead.  ``writes_once`` says that no element is written twice: a program
        may have a result take the memory of an operand (`pyrite.backend.cube.in_place`).
        """
        grid = self.machine.grid(workgroups)
        member, extents = self.member(problem, key, build, len(grid), knows_first=knows_first)
        executable, launch = member.executable, self.runtime.launch
        if fault is None:
            launch(executable, member.bindings(bindings, extents), grid)
            return
        self.faults.launch(
            (fault,), [*bindings],
            lambda all: launch(executable, member.bindings(all, extents), grid),
        )  # fmt: skip

    def launch_steps(
        self, problem: Hashable, key: Hashable, build: Callable[[Any, int], Kernel],
        bindings: Sequence[Buffer | Number], workgroups: int, steps: Steps,
    ) -> None:  # fmt: skip
        """Run the kernel of a problem once for each of some steps, as `launch_for` does."""
        grid = self.machine.grid(workgroups)
        member, extents = self.member(problem, key, build, len(grid))
        for pair in steps.pairs:
            all = member.bindings([*bindings, *pair], extents)
            self.runtime.launch(member.executable, all, grid)

    def member(
        self, problem: Hashable, key: Hashable, build: Callable[[Any, int], Kernel], axes: int,
        *, knows_first: bool = False,
    ) -> tuple[Member, tuple[int, ...]]:  # fmt: skip
        """Return the compiled kernel that serves a problem, and the problem's extents."""
        if knows_first and self._comes_first((problem, key)):
            shared, make = key, build
            key, build = (shared, "first"), lambda of, axes: make(with_known(of), axes)

            def compile(launcher: Launcher) -> None:
                launcher.member(problem, shared, make, axes)

            self.compile_ahead((all_extents(problem)[0], shared, axes), compile)
        with self._lock:
            found, extents = self._families.found(problem, key, axes)
        return found or self._made(problem, key, build, axes), extents

    def known_member(
        self, problem: Hashable, key: Hashable, axes: int
    ) -> tuple[Member | None, tuple[int, ...]]:
        """Return the compiled kernel that serves a problem, if there is one, and its extents."""
        with self._lock:
            return self._families.found(problem, key, axes)

    def known_member_of(self, family: Hashable, extents: tuple[int, ...]) -> Member | None:
        """Return the compiled kernel of a family that serves a problem, if there is one."""
        with self._lock:
            return self._families.member(family, extents)

    def known_executable(self, key: Hashable, axes: int) -> Executable | None:
        """Return the compiled kernel of a key, if there is one."""
        return self._executables.get((content_of(key), axes))

    def _made(
        self, problem: Hashable, key: Hashable, build: Callable[[Any, int], Kernel], axes: int
    ) -> Member:
        """Return the member that serves a problem, made unless another thread just did."""
        families = self._families
        # Apart from the lock of the tables: a kernel that is known waits for no compiler.
        with self._compiling:
            with self._lock:
                found, _ = families.found(problem, key, axes)
            if found is None:
                found = families.made(problem, key, build, axes)
                with self._lock:
                    families.add(problem, key, axes, found)
        return found

    def compile_ahead(self, key: Hashable, job: Callable[[Launcher], Iterable[Job] | None]) -> None:
        """Have a job of that key compile kernels that nobody needs yet, in a pause, once."""
        self.ahead.submit(content_of(key), lambda: job(self))

    def compile_other_class(self, foreseen: Callable[[], tuple[Hashable, Foresee]]) -> None:
        """Have a kernel compiled ahead for sizes of another class than those of a launch.

        What is given returns a key, and what compiles it.
        """
        self.compile_ahead(*foreseen())

    def keep_sizes(self, *sizes: int) -> None:
        """Note sizes that kernels have built in as a model's own, with which no rehearsal differs.

        It is for those of a lowering that is recorded: see `pyrite.backend.cube.rehearsal`.
        """

    def keep_shape(self, x: CubeTensor) -> None:
        """Note an input that has one shape in all calls, as the words of a draw."""

    def note_resizings(self, tensors: Sequence[CubeTensor], resizings: Resizings) -> None:
        """Note what shapes some tensors may have together at other sizes, if they are inputs.

        It is for rehearsals, as `keep_sizes` is.
        """

    def is_first(self, problem: Hashable) -> bool:
        """Whether the extents of a problem are those with which its like came first.

        It is for kernels that are slower where their sizes are not built in: those of the first
        sizes are, as a model mostly has no others, and what comes later shares a kernel.  Raises
        LookupError as `first_of`.
        """
        self._require_first(problem)
        return self._comes_first(problem)

    def _comes_first(self, problem: Hashable) -> bool:
        return self._first_extents(problem) == all_extents(problem)[1]

    def is_like_first(self, problem: Hashable) -> bool:
        """Whether a problem is `first_of` it: as `is_first`, and in a rehearsal too.

        It is for what a kernel of the first sizes has no part of, as a batch.
        """
        return self.first_of(problem) == problem

    def builds_in(self, sizes: tuple[int, ...], problem: Hashable) -> bool:
        """Whether a kernel, faster so, has some sizes of a problem built in.

        Those of a call that comes first are, and those of calls that came back often
        (`pyrite.backend.cube.frequent`).
        """
        return True

    def note_built_in(self, key: Hashable) -> None:
        """Note that there is a kernel with sizes built in."""
        with self._lock:
            self._built_in.put(key, True)

    def is_built_in(self, key: Hashable) -> bool:
        """Whether there is a kernel with sizes built in."""
        with self._lock:
            return self._built_in.get(key) is not None

    def first_of(self, problem: P) -> P:
        """Return the problem with the extents with which its like came first, 0 and 1 included.

        Raises LookupError for the thread that compiles ahead where nothing like it has come, on a
        device where the order of sums depends on what comes first: that is for real calls.
        """
        self._require_first(problem)
        found: P = with_all_extents(problem, iter(self._first_extents(problem)))
        return found

    def _require_first(self, problem: Hashable) -> None:
        if self.runtime.is_host or not self.ahead.is_here:
            return
        if self.known_first_extents(all_extents(problem)[0]) is None:
            raise LookupError("a program ahead of what no call has come to")

    def _first_extents(self, problem: Hashable) -> tuple[int, ...]:
        like, extents = all_extents(problem)
        with self._lock:
            first = self._firsts.get(like)
            if first is None:
                self._firsts.put(like, extents)
        return extents if first is None else first

    def known_first_extents(self, like: Hashable) -> tuple[int, ...] | None:
        """Return the extents with which a pattern came first, None if it has not come."""
        with self._lock:
            return self._firsts.get(like)

    def known_first_of(self, problem: P) -> P | None:
        """Return what `first_of` does if there is one, and make this problem none."""
        first = self.known_first_extents(all_extents(problem)[0])
        return None if first is None else with_all_extents(problem, iter(first))

    def _compiled(self, kernel: Kernel) -> Executable:
        self.built += 1
        self.awaited += not self.ahead.is_here
        self.ahead.note()
        # Who times single launches wants them compiled; who compiles ahead does so in pauses.
        is_now = bool(listeners) or self.ahead.is_here
        runtime = self.runtime
        executable = runtime.compile(kernel) if is_now else runtime.compile_later(kernel)
        if self.ahead.is_here:
            # Nodes by the hundred thousand are what Python's collector walks again and again.
            executable.pack_kernel()
        self.ahead.note()
        return executable

    def run(
        self,
        executable: Executable,
        bindings: Sequence[Buffer | Number],
        grid: tuple[int, ...],
        faults: Sequence[str] = (),
        arguments: Sequence[tuple[int, Any]] = (),
        given: Given | None = None,
        counts: Buffer | None = None,
    ) -> None:
        """Run a compiled kernel, as `launch` does.

        With ``faults`` its last parameters are an error word and a number for each; ``arguments``
        are others, with their places among all.  ``given`` says which they are at other calls.
        With ``counts`` these three uint32 are its grid when its turn comes.
        """
        count = len(bindings)

        def launch(all: Sequence[Buffer | Number]) -> None:
            if counts is None:
                self.runtime.launch(executable, all, grid)
            else:
                self.runtime.launch_counted(executable, all, counts)

        if not faults:
            launch(with_arguments(bindings, arguments))
            return

        def run(given: list[Any]) -> None:
            # A word is given for each number, and bound once.
            one = [*given[: count + 1], *given[count + 1 :: 2]]
            launch(with_arguments(one, arguments))

        self.faults.launch(faults, [*bindings], run)

    def executable(self, key: Hashable, build: Callable[[int], Kernel], axes: int) -> Executable:
        """Return the kernel of a key, compiled, for a grid of so many axes."""
        # By content: 0.0 and -0.0, 1 and True are equal, and make other kernels.
        wanted = (content_of(key), axes)
        executable = self._executables.get(wanted)
        if executable is None:
            # Apart from the lock of the tables, as in `_made`.
            with self._compiling:
                executable = self._executables.get(wanted)
                if executable is None:
                    written = self.kept_kernels.found(
                        ("kernel", *wanted), lambda: Written(build(axes), Symbols())
                    )
                    executable = self._compiled(written.kernel)
                    self._executables.put(wanted, executable)
        return executable
