"""One run of a kernel, told to who wants to know: each is then waited for, to be timed alone."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:  # a backend without kernels has listeners too, and need not know what a kernel is
    from pyrite.kernel import Kernel
    from pyrite.runtime.protocol import BundledLaunch, Runtime


class Description(NamedTuple):
    """What a launch is for: ops, the lines at which they were called, and who takes its results.

    ``taken_by`` are the kernels that read what it wrote, and `HELD`: why it wrote anything.
    """

    ops: tuple[str, ...]
    lines: tuple[str, ...]
    taken_by: tuple[str, ...] = ()


#: In the place of a kernel that takes a result: whoever has a handle of it.
HELD = "held"


class Launched(NamedTuple):
    """A kernel that ran: of which ops, called at which lines of the user's, and how long.

    ``start`` is of the host's clock.  So are ``seconds``, from the launch until the device was
    done, unless it ``has_device_time``: then they are of the device's, without the launch.
    ``nbytes`` is the memory that it was given, read or written.
    """

    device: str
    kernel: Kernel
    ops: tuple[str, ...]
    lines: tuple[str, ...]
    start: float
    seconds: float
    nbytes: int
    taken_by: tuple[str, ...] = ()
    has_device_time: bool = False
    #: About how many operations on floats it made.
    operations: float = 0.0
    #: What ran it, which knows the source, and how fast it can be.
    runtime: Runtime | None = None


#: Who is told; while there is somebody, kernels run one by one.
listeners: list[Callable[[Launched], None]] = []

#: From the number of a launch to what it is for.
Describe = Callable[[int], Description]


def told(
    runtime: Runtime, steps: Sequence[BundledLaunch], describe: Describe
) -> Callable[[Sequence[Any]], None]:
    """Return what makes launches one by one, as a bundle makes them at once, and tells of each."""
    # Imported here for its weight: while nobody listens nothing is counted.
    from pyrite.backend.explanation.operations import operations_of

    def launch(operands: Sequence[Any]) -> None:
        for n, step in enumerate(steps):
            bound = step.bound(operands)
            runtime.synchronize()
            start = perf_counter()
            device_seconds = runtime.timed_launch(step.executable, bound, step.grid)
            seconds = perf_counter() - start
            nbytes = sum({id(b): b.nbytes for b in bound if hasattr(b, "nbytes")}.values())
            what = describe(n)
            event = Launched(
                runtime.name, step.executable.kernel, what.ops, what.lines, start,
                seconds if device_seconds is None else device_seconds, nbytes, what.taken_by,
                device_seconds is not None,
                operations_of(step.executable.kernel, bound, step.grid), runtime,
            )  # fmt: skip
            for listener in list(listeners):
                listener(event)

    return launch


def takers(steps: Sequence[BundledLaunch], results: Collection[int], n: int) -> tuple[str, ...]:
    """Return which kernels read what a launch writes, by name, and `HELD` for a result.

    An operand is memory that another launch may write anew: from then on it is another value.
    """
    found: dict[str, None] = {}
    for operand in _touched(steps[n], written=True):
        for later in steps[n + 1 :]:
            if operand in _touched(later, written=False):
                found[later.executable.kernel.name] = None
            if operand in _touched(later, written=True):
                break
        else:
            if operand in results:
                found[HELD] = None
    return tuple(found)


def _touched(step: BundledLaunch, *, written: bool) -> set[int]:
    """Return the operands that a launch writes, or reads."""
    apart = "read" if written else "write"
    parameters = step.executable.kernel.parameters
    return {
        binding for binding, p in zip(step.bindings, parameters, strict=True)
        if isinstance(binding, int) and p.kind == "buffer" and p.attr[2] != apart
    }  # fmt: skip
