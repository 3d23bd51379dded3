"""The sizes that the CPU runtime leaves open: how work is cut, and when stores pass the caches."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CpuConfig:
    """How launches run; the defaults were measured on two cores of a server with AVX-512.

    More chunks let a thread that is held up, or comes late, be helped: a sum of two tensors of 1 Mi
    elements takes 98 µs with a ``share`` of 100 µs, 86 with one of 20.
    """

    #: Nanoseconds of a chunk that is worth handing to another thread, which takes 1 µs.
    worthwhile: float = 10_000.0
    #: Nanoseconds of a chunk of a long launch.
    share: float = 20_000.0
    #: The most chunks for each thread.
    most_shares: int = 16
    #: Nanoseconds of the launches that are handed over while more are recorded: see `Stream`.
    together: float = 150_000.0
    #: Bytes of an output that is stored past the caches: it would not stay in them.
    streamed: int = 16 << 20
    #: Pauses before a thread without work goes to sleep.  One takes 20 to 45 ns on x86.
    patience: int = 1000
