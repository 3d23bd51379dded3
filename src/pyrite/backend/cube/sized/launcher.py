"""A launcher for a lowering whose sizes are symbols: it finds kernels, and builds none."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeVar

from pyrite.backend.cube.family import FamiliesInPlaces, Member
from pyrite.backend.cube.launcher import Foresee, Launcher, Steps
from pyrite.backend.cube.noted_launch import NotedLaunch
from pyrite.backend.cube.recording_launcher import RecordingLauncher
from pyrite.kernel import Kernel
from pyrite.kernel.builder.number import exact
from pyrite.kernel.extent import all_extents, pattern_in_places, with_all_extents
from pyrite.op import Constant
from pyrite.recent import KERNELS
from pyrite.sized import asked, is_size
from pyrite.symbol import numbers_of
from pyrite.types import DType, TensorType

P = TypeVar("P", bound=Hashable)


class Unsized(Exception):
    """A lowering wants what no symbol tells."""


@dataclass(frozen=True, slots=True)
class SizedArgument:
    """A number of a kernel that is made of extents."""

    value: Any
    dtype: DType


@dataclass(frozen=True, slots=True)
class SizedNumber:
    """A number of a body that is made of sizes."""

    value: Any
    type: TensorType
    dtype: DType


@dataclass(frozen=True, slots=True)
class SteppedNumber:
    """A number that is ``step`` more at each launch of several."""

    first: Any
    step: int


@dataclass(frozen=True, slots=True)
class VaryingKernel:
    """A kernel of which the config varies: it is looked up at each size."""

    families: FamiliesInPlaces
    #: Numbers of its config, and its extents.
    varied: tuple[Any, ...]
    extents: tuple[Any, ...]

    def member(
        self, launcher: Launcher, varied: tuple[Any, ...], extents: tuple[Any, ...]
    ) -> Member | None:
        """Return the kernel for such numbers, if it is there."""
        return launcher.known_member_of(self.families.of(varied), extents)


@lru_cache(KERNELS)
def _being(wanted: tuple[int, ...]) -> Callable[..., bool]:
    """Return the question whether sizes are these, which is one function for all who ask it."""
    return lambda *sizes: sizes == wanted


class SizedLauncher(RecordingLauncher):
    """A launcher that notes what a lowering asks for at sizes that are symbols."""

    foresees = False

    def __init__(self, launcher: Launcher, inputs: Sequence[Any]) -> None:
        super().__init__(launcher, inputs)
        self.comes_first = False
        #: How often launches are made, of those that are made for each of some steps.
        self.counts: dict[int, Any] = {}

    def number(self, constant: Constant, dtype: DType) -> Any:
        """Return a number, or what will be one."""
        if is_size(constant.value):
            return SizedNumber(constant.value, constant.type, dtype)
        return super().number(constant, dtype)

    def executable(self, key: Hashable, build: Callable[[int], Kernel], axes: int) -> Any:
        """Return the kernel of a key, which is compiled."""
        found = self._launcher.known_executable(key, axes)
        if found is None:
            raise Unsized("a kernel that is not there")
        return found

    def launch_for(
        self, problem: Hashable, key: Hashable, build: Callable[[Any, int], Kernel],
        bindings: Sequence[Any], workgroups: int, fault: str | None = None, *,
        knows_first: bool = False, writes_once: bool = False,
    ) -> None:  # fmt: skip
        """Note a launch of the kernel that serves a problem, if there is one."""
        given = self._with_fault(bindings, fault)
        self._note(problem, key, given, workgroups, writes_once=writes_once)

    def launch_steps(
        self, problem: Hashable, key: Hashable, build: Callable[[Any, int], Kernel],
        bindings: Sequence[Any], workgroups: int, steps: Steps,
    ) -> None:  # fmt: skip
        """Note one launch that stands for those of all steps."""
        at = SteppedNumber(steps.first, steps.step)
        other = SteppedNumber(steps.first + steps.apart, steps.step)
        self.counts[len(self._launches)] = steps.count
        self._note(problem, key, [*bindings, at, other], workgroups)

    def _note(
        self, problem: Hashable, key: Hashable, bindings: Sequence[Any], workgroups: int, *,
        writes_once: bool = False,
    ) -> None:  # fmt: skip
        grid = self.machine.grid(workgroups)
        pattern, varied, extents = pattern_in_places(problem)
        # Numbers that are stepped go by their places, which a kernel's own would move.
        if varied and not any(type(b) is SteppedNumber for b in bindings):
            kernel = VaryingKernel(FamiliesInPlaces(pattern, key, len(grid)), varied, extents)
            if kernel.member(self._launcher, numbers_of(varied), numbers_of(extents)) is None:
                raise Unsized("a kernel that is not there")
            self._launches.append(NotedLaunch(kernel, bindings, grid, writes_once=writes_once))
            return
        member, extents = self._launcher.known_member(problem, key, len(grid))
        if member is None:
            raise Unsized("a kernel that is not there")
        all = [*bindings]
        for position, value, dtype in member.numbers(extents):
            all.insert(
                position,
                SizedArgument(value, dtype) if is_size(value) else exact(value, dtype),
            )
        self._launches.append(NotedLaunch(member.executable, all, grid, writes_once=writes_once))

    def compile_ahead(self, key: Hashable, job: Callable[[Launcher], Any]) -> None:
        """Leave it to the calls."""

    def compile_other_class(self, foreseen: Callable[[], tuple[Hashable, Foresee]]) -> None:
        """Leave it to the calls."""

    def keep_sizes(self, *sizes: int) -> None:
        """Leave it to the calls."""

    def builds_in(self, sizes: tuple[int, ...], problem: Hashable) -> bool:
        """Return False, as all sizes share the recording."""
        self.is_general = True
        return False

    def is_first(self, problem: Hashable) -> bool:
        """Whether the extents are those with which a pattern came first."""
        like, extents = all_extents(problem)
        # One question: element by element, each prefix that agrees would be a class.
        return asked(_being(self._first_of(like)), *extents)

    def is_like_first(self, problem: Hashable) -> bool:
        """Whether the extents are those with which a pattern came first."""
        return self.is_first(problem)

    def first_of(self, problem: P) -> P:
        """Return the problem with the extents with which its pattern came first."""
        like, _ = all_extents(problem)
        found: P = with_all_extents(problem, iter(self._first_of(like)))
        return found

    def _first_of(self, like: Hashable) -> tuple[int, ...]:
        found = self._launcher.known_first_extents(like)
        if found is None:
            raise Unsized("a problem whose like has not come")
        return found
