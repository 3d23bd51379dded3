"""One run of a kernel, told to who wants to know: each is then waited for, to be timed alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:  # a backend without kernels has listeners too, and need not know what a kernel is
    from pyrite.kernel import Kernel
    from pyrite.runtime.protocol import BundledLaunch, Runtime


class Launched(NamedTuple):
    """A kernel that ran: of which ops, called at which lines of the user's, and how long.

    ``start`` and ``seconds`` are of the host's clock, from the launch until the device was done;
    ``nbytes`` is the memory that it was given, read or written.
    """

    device: str
    kernel: Kernel
    ops: tuple[str, ...]
    lines: tuple[str, ...]
    start: float
    seconds: float
    nbytes: int


#: Who is told; while there is somebody, kernels run one by one.
listeners: list[Callable[[Launched], None]] = []

#: From the number of a launch to its ops and lines.
Describe = Callable[[int], tuple[tuple[str, ...], tuple[str, ...]]]


def told(
    runtime: Runtime, steps: Sequence[BundledLaunch], describe: Describe
) -> Callable[[Sequence[Any]], None]:
    """Return what makes launches one by one, as a bundle makes them at once, and tells of each."""

    def launch(operands: Sequence[Any]) -> None:
        for n, step in enumerate(steps):
            bound = step.bound(operands)
            runtime.synchronize()
            start = perf_counter()
            runtime.launch(step.executable, bound, step.grid)
            runtime.synchronize()
            seconds = perf_counter() - start
            nbytes = sum({id(b): b.nbytes for b in bound if hasattr(b, "nbytes")}.values())
            kernel = step.executable.kernel
            event = Launched(runtime.name, kernel, *describe(n), start, seconds, nbytes)
            for listener in list(listeners):
                listener(event)

    return launch
