"""What skeletons have in common, and how one of them becomes a launch.

A skeleton makes the kernels of one form of problem, whatever op has it.  Its **problem** is a
frozen value that says all that a kernel depends on: sizes, layouts, the functions that are applied
on the way.  A **config** says how the work is cut up, which changes speed and not meaning; its
extents are numbers of the launch as the problem's are.  What is **fused** stands around the work in
the same kernel: a prologue on elements as they are read, a body
inside, an epilogue on results before they are written, one value for each of several outputs.

The key of a kernel is the content of these three, so no lowering spells one: whatever `build` can
read is in the key.  What of them is an extent (`pyrite.kernel.extent`) is not: `build` gets symbols
there, and the kernel the numbers when it is launched.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeVar

from pyrite.backend.cube.launcher import Launcher
from pyrite.backend.cube.operand import Layout
from pyrite.content import ContentKey, content_of
from pyrite.kernel import Kernel
from pyrite.kernel.machine import Machine
from pyrite.kernel.template.implicit_gemm import OperandLayout
from pyrite.kernel.template.operand import OperandMap
from pyrite.runtime.protocol import Buffer
from pyrite.types import DType, Number

P = TypeVar("P", bound=Hashable)
C = TypeVar("C", bound=Hashable)
P_contra = TypeVar("P_contra", bound=Hashable, contravariant=True)


@dataclass(frozen=True, slots=True)
class Stage:
    """A function of each element that is put onto a kernel: ``rule(k, element, *sources)``.

    ``k`` is the algebra that records a kernel.  A source is a tensor's layout by the coordinates of
    the element, 0 along those on which it does not depend (of products a map of matrices), or the
    dtype of a number.  The rule gets it in the dtype in which is computed with it.
    """

    rule: Callable[..., Any]
    sources: tuple[Layout | OperandLayout | OperandMap | DType, ...] = ()


@dataclass(frozen=True, slots=True)
class Body:
    """What a lowering has a skeleton do inside of a kernel, which is called ``name``.

    ``key`` is all that ``of`` depends on besides the problem: that is a function, or a fold, which
    is made anew for each call.  Bodies of one key share kernels, whatever they are called.
    """

    name: str = field(compare=False)
    key: Hashable
    of: Any = field(compare=False)

    def __post_init__(self) -> None:
        # By its content as a whole: sizes in it are built in, and no extents of the problem.
        object.__setattr__(self, "key", ContentKey(content_of(self.key)))


@dataclass(frozen=True, slots=True)
class Fused:
    """What stands in the kernel around the work of a skeleton; nothing by default.

    There is a prologue, or None, for each input.  The epilogue's rule gives values for all
    ``outputs``, or where none are said one for the problem's own.  Parameters of the kernel come in
    this order: inputs, each followed by its prologue's sources; the epilogue's sources; outputs.
    """

    prologues: tuple[Stage | None, ...] = ()
    body: Body | None = None
    epilogue: Stage | None = None
    outputs: tuple[Layout | OperandLayout | OperandMap, ...] = ()


NOTHING: Final = Fused()


class Skeleton(Protocol[P_contra, C]):
    """A family of kernels for problems of one form."""

    @property
    def name(self) -> str:
        """What tells its kernels from those of other skeletons."""
        ...

    def candidates(self, problem: P_contra, machine: Machine) -> Sequence[C]:
        """Return the configs that are right for a problem on a device; a test runs them all."""
        ...

    def select(self, problem: P_contra, machine: Machine) -> C:
        """Return the candidate that seems best."""
        ...

    def workgroups(self, problem: P_contra, config: C) -> int:
        """Return how many workgroups run the kernel."""
        ...

    def build(self, problem: P_contra, config: C, fused: Fused, grid: int) -> Kernel:
        """Return the kernel for a grid of so many axes.

        A skeleton that cannot take what is fused says so before, to whoever plans.
        """
        ...


def launch(
    launcher: Launcher,
    skeleton: Skeleton[P, C],
    problem: P,
    bindings: Sequence[Buffer | Number],
    *,
    config: C | None = None,
    fused: Fused = NOTHING,
    fault: str | None = None,
    knows_first: bool = False,
    writes_once: bool = False,
) -> None:
    """Run the kernel of a problem, by the config given or the one that is selected.

    ``fault``, ``knows_first`` and ``writes_once`` are as in `Launcher.launch_for`.
    """
    chosen = skeleton.select(problem, launcher.machine) if config is None else config
    launcher.launch_for(
        (problem, chosen, fused), skeleton.name, _build_of(skeleton), bindings,
        skeleton.workgroups(problem, chosen), fault, knows_first=knows_first,
        writes_once=writes_once,
    )  # fmt: skip


def foresee(
    launcher: Launcher, skeleton: Skeleton[P, C], problem: P, config: C, fused: Fused = NOTHING
) -> None:
    """Have the kernel of a problem compiled, if it is not."""
    grid = launcher.machine.grid(skeleton.workgroups(problem, config))
    launcher.member((problem, config, fused), skeleton.name, _build_of(skeleton), len(grid))


def _build_of(skeleton: Skeleton[Any, Any]) -> Callable[[Any, int], Kernel]:
    return lambda of, grid: skeleton.build(of[0], of[1], of[2], grid)
