"""The facts of a device by which kernels are chosen: one record, which its runtime reports.

Whoever chooses a config reads it here, so that no fact of a device stands in two places and nobody
guesses one from a name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

#: The sizes of workgroups that every WebGPU device can run, and that are worth trying.
_WORKGROUP_SIZES: Final = (256, 128, 64, 32)
#: Launches that one kernel may make at most.
MOST_JOINED: Final = 16


@dataclass(frozen=True, slots=True)
class Machine:
    """Facts of a device.  On a CPU a workgroup is one invocation, which has a thread to itself."""

    kind: Literal["cpu", "gpu"]
    #: 32-bit elements that one invocation handles well at once.
    vector: int
    #: Sizes of workgroups that may be chosen.
    workgroup_sizes: tuple[int, ...]
    #: The limit on one axis of a grid.
    most_workgroups: int
    #: Vector registers of a CPU.
    registers: int = 16
    #: Threads of a CPU.
    threads: int = 2
    #: The limit on the invocations of a workgroup.
    invocations: int = 256
    #: Bytes of memory that a workgroup may share.
    shared_bytes: int = 1 << 14
    #: Bytes of private memory that an invocation of a CPU surely has: part of its thread's stack.
    private_bytes: int = 1 << 17
    #: Elements that the nearer caches of a CPU hold.
    cached: int = 1 << 20
    #: Workgroups that a GPU runs at once, which WebGPU does not tell: two on each of an H200's 132
    #: processors.  Of 32 to 1056, measured for twelve products, it has the best geometric mean: 128
    #: is 15 % slower, by 10 % faster at long sums, and little more than half as fast at thin
    #: products.
    workgroups: int = 264
    #: Invocations that occupy a GPU: on an H200 fewer leave its memory idle
    #: (benchmarks/gpu_bandwidth.py).
    busy: int = 1 << 18
    #: Tensors that a kernel may read and write: what every WebGPU device binds; on a processor more
    #: take a compiler longer than they save.
    buffers: int = 8
    #: Bytes of numbers that travel with a launch; more are read from memory, and take longer.
    argument_bytes: int = 1 << 12
    #: Launches that one kernel may make, each on workgroups of its own.  One where an invocation
    #: spends time on branches that it does not take, as on a GPU that is a program (llvmpipe).
    most_joined: int = MOST_JOINED
    #: Rounds of loops after which each loop of an invocation ends, whatever its condition: Mesa's
    #: llvmpipe does so and tells nobody.
    rounds: int | None = None

    #: Whether floats of a buffer are added at once, and not by exchanges.
    adds_floats: bool = False
    #: Bytes of a tensor that a kernel has as one buffer: what every WebGPU device binds.
    bound_bytes: int = 1 << 27

    @classmethod
    def cpu(cls, vector_bytes: int = 32, registers: int = 16, threads: int = 2) -> Machine:
        """Return a processor with registers of so many bytes."""
        return cls(
            "cpu", vector_bytes // 4, (1,), 2**31 - 1, registers, threads, buffers=96,
            adds_floats=True,
        )  # fmt: skip

    @classmethod
    def gpu(
        cls,
        shared_bytes: int = 1 << 14,
        invocations: int = 256,
        workgroups: int = 264,
        *,
        most_workgroups: int = 65535,
        buffers: int = 8,
        rounds: int | None = None,
        argument_bytes: int = 1 << 12,
        most_joined: int = MOST_JOINED,
        adds_floats: bool = False,
        bound_bytes: int = 1 << 27,
    ) -> Machine:
        """Return a GPU with WebGPU's default limits unless stated; its vectors have 16 bytes."""
        return cls(
            "gpu", 4, _WORKGROUP_SIZES, most_workgroups,
            invocations=invocations, shared_bytes=shared_bytes, workgroups=workgroups,
            buffers=buffers, rounds=rounds, argument_bytes=argument_bytes, most_joined=most_joined,
            adds_floats=adds_floats, bound_bytes=bound_bytes,
        )  # fmt: skip

    @property
    def vector_bytes(self) -> int:
        """Bytes of a vector."""
        return self.vector * 4

    @property
    def products(self) -> int:
        """Vectors that a CPU multiplies in a cycle, and reads: two, but of 64 bytes one.

        So it is on Zen 4, and on Intel's processors for one socket; those for servers multiply two.
        """
        return 1 if self.vector_bytes >= 64 else 2

    def grid(self, workgroups: int) -> tuple[int, ...]:
        """Return the sizes of a grid that holds at least so many workgroups: one axis, or two.

        >>> Machine.gpu().grid(65536)
        (32768, 2)
        """
        if workgroups <= self.most_workgroups:
            return (workgroups,)
        rows = -(-workgroups // self.most_workgroups)
        return (-(-workgroups // rows), rows)
