"""The memory of bundles: what lives within a run is there for all of them, results are new.

Runs are whole in the queue and in order, so the buffers that only one run needs serve whichever
comes next.  A result gets the storage that it had in a run before, if that is free: a program that
repeats itself binds the same few sets of buffers.
"""

from __future__ import annotations

import weakref
from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from typing import Any, Final

from pyrite.runtime.wgpu.device_loss import Life
from pyrite.runtime.wgpu.memory import (
    CONTENTS,
    KEYS,
    LEASES,
    PARTS,
    Buffer,
    Contents,
    Lease,
    Storage,
)
from pyrite.runtime.wgpu.pool import Again, Pool
from pyrite.runtime.wgpu.prepared_launch import Key

#: Bundles of fewer buffers have new ones in each run, as ops that are called in many places.
LEAST_BUFFERS: Final = 8
#: Sets of buffers of which a bundle keeps the keys of parts.
MOST_BASES: Final = 8
#: Storages that a result goes back to.  Two take turns where results are the next inputs.
MOST_PLACES: Final = 3


class Scratch:
    """Storages of one device for what lives within a run.  Its caller holds the lock."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._leases: defaultdict[int, list[Lease]] = defaultdict(list)
        self._users: weakref.WeakSet[WgpuBundleMemory] = weakref.WeakSet()
        pool.spared = self.drop

    def buffers(self, user: WgpuBundleMemory, sizes: Sequence[int]) -> list[Buffer]:
        """Return a buffer of each size, no two of one storage, until `drop` calls them back."""
        self._users.add(user)
        taken: defaultdict[int, int] = defaultdict(int)
        found: list[Buffer] = []
        for nbytes in sizes:
            capacity = self._pool.capacity(nbytes)
            leases, n = self._leases[capacity], taken[capacity]
            taken[capacity] += 1
            if n == len(leases):
                leases.append(self._pool.allocate(capacity).lease)
            found.append(Buffer(leases[n], 0, nbytes))
        return found

    def missing(self, sizes: Sequence[int]) -> int:
        """Return the bytes of the storages that `buffers` would ask the pool for."""
        wanted = Counter(map(self._pool.capacity, sizes))
        return sum(
            capacity * max(0, count - len(self._leases.get(capacity, ())))
            for capacity, count in wanted.items()
        )

    def drop(self) -> None:
        """Give the storages back to the pool."""
        for user in list(self._users):
            user.inner = None
        self._users.clear()
        self._leases.clear()


class WgpuBundleMemory:
    """What one bundle writes to: buffers of ``sizes``, of which ``inner`` live within a run."""

    __slots__ = (
        "__weakref__",
        "_classes",
        "_inner_contents",
        "_inner_sizes",
        "_keys",
        "_life",
        "_new",
        "_pool",
        "_scratch",
        "_sizes",
        "inner",
    )

    def __init__(
        self, life: Life, pool: Pool, scratch: Scratch, sizes: Sequence[int], inner: Collection[int]
    ) -> None:
        self._life, self._pool, self._scratch = life, pool, scratch
        self._sizes = tuple(sizes)
        self._classes = [(pool.capacity(nbytes), nbytes) for nbytes in sizes]
        self._inner_sizes = {n: sizes[n] for n in sorted(inner)}
        self._new: list[Again] = [
            (n, nbytes, []) for n, nbytes in enumerate(sizes) if n not in self._inner_sizes
        ]
        #: The buffers that live within a run, with nothing in the places of the others.
        self.inner: list[Buffer | None] | None = None
        self._inner_contents: list[Contents] = []
        #: The keys of parts, by those of the buffers that they are parts of.
        self._keys: dict[tuple[Key, ...], list[Key]] = {}

    @property
    def sizes(self) -> tuple[int, ...]:
        """The bytes of its buffers, where each run has new ones; else none."""
        return self._sizes if len(self._sizes) < LEAST_BUFFERS else ()

    def buffers(self, *, are_new: bool = False) -> list[Buffer]:
        """Return a buffer of each size; those of `inner` are valid for launches of one bundle.

        Where launches are made one by one another run may come between: ``are_new`` is for these.
        """
        pool = self._pool
        with self._life.lock:
            if are_new or len(self._sizes) < LEAST_BUFFERS:
                return pool.allocate_all(self._classes)
            self._life.check()
            inner = self.inner
            if inner is None or any([contents.error for contents in self._inner_contents]):
                inner = self._kept()
            found: list[Buffer] = [*inner]  # type: ignore[list-item]
            if Storage.is_any_lent:  # whether they can be used is asked of each
                pool.allocate_again_by_python(self._new, found, MOST_PLACES)
            else:
                pool.allocate_again(self._new, found, MOST_PLACES)
            return found

    def parts(
        self, buffers: Sequence[Any], which: Sequence[int], offsets: Sequence[int],
        sizes: Sequence[int],
    ) -> list[Any]:  # fmt: skip
        """Return parts of buffers; see `pyrite.runtime.protocol.BundleMemory`."""
        bases = tuple(KEYS.read(buffers))
        keys = self._keys.get(bases)
        if keys is None:
            keys = [
                buffers[n].view(at, size).key
                for n, at, size in zip(which, offsets, sizes, strict=True)
            ]
            if len(self._keys) >= MOST_BASES:
                self._keys.clear()
            self._keys[bases] = keys
        held = [buffers[n] for n in which]
        starts = [key[1] for key in keys]
        return PARTS.many(len(held), LEASES.read(held), CONTENTS.read(held), starts, sizes, keys)

    def needed(self, *, are_new: bool = False) -> int:
        """Return the bytes that `buffers` takes of the pool beside what is kept for bundles."""
        pool = self._pool
        with self._life.lock:
            if are_new or len(self._sizes) < LEAST_BUFFERS:
                return sum(map(pool.capacity, self._sizes))
            new = sum(pool.capacity(nbytes) for _, nbytes, _ in self._new)
            return new + self._scratch.missing([*self._inner_sizes.values()])

    def _kept(self) -> list[Buffer | None]:
        if self.inner is not None:
            self._scratch.drop()  # what a command failed to write is not to be trusted
        buffers = self._scratch.buffers(self, [*self._inner_sizes.values()])
        kept = dict(zip(self._inner_sizes, buffers, strict=True))
        self.inner = [kept.get(n) for n in range(len(self._sizes))]
        self._inner_contents = [buffer.contents for buffer in buffers]
        return self.inner
