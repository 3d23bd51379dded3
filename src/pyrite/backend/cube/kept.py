"""Kernels that another process wrote: found by a digest of what they are of, and not written again.

To write a kernel takes Python milliseconds, to find it a tenth of one.  What is found is what would
be written: the digest covers the problem and what is fused by content, the device, the settings
that kernels depend on, and (`pyrite.runtime.kernel_cache`) Pyrite's sources, the processor and LLVM.
What has no digest, as an application's ops, is written in each process.

Besides the kernel an entry has what was asked of its sizes (`pyrite.symbol`): for which others it
serves, and what it gets of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable
from contextlib import suppress
from dataclasses import fields
from typing import Any, Final, NamedTuple

from pyrite.config import Config, config
from pyrite.content import NoContentError, content_of, digest_of, versions_of_libraries
from pyrite.errors import KernelError
from pyrite.kernel import Kernel
from pyrite.kernel.encoding import EncodedParts, decoded, encoded
from pyrite.kernel.machine import Machine
from pyrite.runtime.kernel_cache import KernelCache
from pyrite.symbol import Symbols

#: Settings on which no kernel depends.
_IRRELEVANT: Final = frozenset(
    (
        "device", "full_traceback", "cache", "cache_megabytes", "kept_kernels", "ahead",
        "fusion_after", "fusion_check", "reproductions", "image_pixels",
    )
)  # fmt: skip
_RELEVANT: Final = tuple(f.name for f in fields(Config) if f.name not in _IRRELEVANT)


class Written(NamedTuple):
    """A kernel that was written, and the symbols of the sizes that it serves."""

    kernel: Kernel
    symbols: Symbols


class KeptKernels:
    """The kernels of a device on disk; without a cache each is written.

    ``counts`` has how many were ``found``, ``written``, and of these ``refused`` as what they are
    of has no digest.
    """

    def __init__(self, cache: KernelCache | None, machine: Machine) -> None:
        self._cache = cache
        self._device = content_of(machine)
        self._is_checked = config.kept_kernels == "check"
        self.counts: Counter[str] = Counter()

    def written(self, key: Hashable, write: Callable[[], Written]) -> Written:
        """Return the kernel of a key: as another process wrote it, or else as ``write`` does.

        Raises KernelError where it is to be compared and differs.
        """
        cache = self._cache
        digest = None if cache is None else self._digest(key)
        if cache is None or digest is None:
            return write()
        kept = cache.get(digest)
        found = None if kept is None else _decoded(kept)
        if found is not None and not self._is_checked:
            self.counts["found"] += 1
            return found
        self.counts["written"] += 1
        made = write()
        if found is None:
            cache.put_later(digest, lambda: _encoded(made))
        elif _encoded(found)[1:] != _encoded(made)[1:]:
            raise KernelError(
                f"{made.kernel} requires the kernel on disk to be what is written, got another; "
                "clear the cache (pyrite cache --clear), and tell Pyrite's authors"
            )
        return made

    def _digest(self, key: Hashable) -> str | None:
        settings = tuple([getattr(config, name) for name in _RELEVANT])
        of = (key, self._device, content_of(settings), versions_of_libraries())
        with suppress(NoContentError):
            return digest_of(of)
        self.counts["refused"] += 1
        return None


def _encoded(written: Written) -> tuple[Any, ...]:
    """Return what is kept: first what is no part of its meaning, then all else."""
    kernel, symbols = written
    head = encoded(kernel)
    asked = (symbols.count, tuple(symbols.guards.items()), tuple(symbols.arguments))
    return tuple(head), kernel.digest, head.facts, asked


def _decoded(kept: tuple[Any, ...]) -> Written:
    head, _, _, (count, guards, arguments) = kept
    symbols = Symbols()
    symbols.count, symbols.guards, symbols.arguments = count, dict(guards), [*arguments]
    return Written(decoded(EncodedParts(*head)), symbols)
