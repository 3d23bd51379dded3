"""Kernels that another process wrote: found by a digest of what they are of, and not written again.

To write a kernel takes Python milliseconds, to find it a tenth of one.  What is found is what would
be written: the digest covers the problem and what is fused by content, the device, the settings
that kernels depend on, and (`pyrite.runtime.kernel_cache`) the sources, the processor and LLVM.
What has no digest, as an application's ops, is written in each process.

Besides the kernel an entry has what was asked of its sizes (`pyrite.symbol`): for which others it
serves, and what it gets of them.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Hashable
from contextlib import suppress
from dataclasses import fields, replace
from typing import Any, Final, Generic, NamedTuple, TypeVar

from pyrite.config import Config, config
from pyrite.content import NoContentError, content_of
from pyrite.content.digest import digest_of, versions_of_libraries
from pyrite.errors import KernelError, PyriteError
from pyrite.kernel import Kernel
from pyrite.kernel.encoding import decoded, encoded
from pyrite.kernel.fact import facts_of
from pyrite.kernel.machine import Machine
from pyrite.runtime.kernel_cache import KernelCache
from pyrite.symbol import Argument, Symbols
from pyrite.types import dtype

T = TypeVar("T")

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


class Kept(Generic[T]):
    """Things that are made of keys for a device, on disk; without a cache each is made.

    What ``is_small`` is put there with others.  ``counts`` has how many were ``found``, ``made``,
    and ``refused`` as their key has no digest.
    """

    def __init__(
        self, cache: KernelCache | None, device: Hashable, encode: Callable[[T], bytes],
        decode: Callable[[bytes], T | None], is_same: Callable[[T, T], bool], *,
        is_small: bool = False,
    ) -> None:  # fmt: skip
        self._cache = cache
        self._device = device
        self._encode, self._decode, self._is_same = encode, decode, is_same
        self._is_small = is_small
        self._is_checked = config.kept_kernels == "check"
        self.counts: Counter[str] = Counter()

    def found(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return what a key has: as another process made it, or else as is made now.

        Raises KernelError where it is to be compared and differs.
        """
        cache = self._cache
        digest = None if cache is None else self._digest(key)
        if cache is None or digest is None:
            return make()
        kept = cache.get(digest)
        found = None if kept is None else self._decode(kept)
        if found is not None and not self._is_checked:
            self.counts["found"] += 1
            return found
        self.counts["made"] += 1
        made = make()
        if found is None:
            encode = self._encode
            put = cache.put_with_others if self._is_small else cache.put_later
            put(digest, lambda: encode(made))
        elif not self._is_same(found, made):
            raise KernelError(
                f"config.kept_kernels requires what is on disk to be what is made, got {found!r} "
                f"where {made!r} is right; clear the cache (pyrite cache --clear), and tell "
                "Pyrite's authors"
            )
        return made

    def _digest(self, key: Hashable) -> str | None:
        settings = tuple([getattr(config, name) for name in _RELEVANT])
        of = (key, self._device, content_of(settings), versions_of_libraries())
        with suppress(NoContentError):
            return digest_of(of)
        self.counts["refused"] += 1
        return None


def kept_kernels(cache: KernelCache | None, machine: Machine) -> Kept[Written]:
    """Return the kernels on disk for a device."""
    return Kept(cache, content_of(machine), _encoded, _decoded, _is_same)


def _encoded(written: Written) -> bytes:
    """Return what is kept: a line of JSON, and the kernel's body."""
    head, body = encoded(written.kernel)
    return json.dumps((head, _asked(written.symbols))).encode() + b"\n" + body


def _asked(symbols: Symbols) -> tuple[Any, ...]:
    """Return what is kept of symbols: how many there are, what was asked, what a launch gets."""
    arguments = tuple([(a.position, a.text, a.dtype.name) for a in symbols.arguments])
    return symbols.count, tuple(symbols.guards.items()), arguments


def _decoded(kept: bytes) -> Written | None:
    """Return what was kept; None for what is none of that, for all its checksum."""
    line, _, body = kept.partition(b"\n")
    try:
        head, (count, guards, arguments) = json.loads(line)
        kernel = decoded(head, body)
        symbols = Symbols()
        symbols.count, symbols.guards = count, dict(guards)
        symbols.arguments = [Argument(at, text, dtype(name)) for at, text, name in arguments]
    except (ValueError, TypeError, KeyError, PyriteError):
        return None
    return Written(kernel, symbols)


def _is_same(found: Written, made: Written) -> bool:
    """Whether what was found is what was written, its body and its facts too."""
    # A copy, which has its body's own digest.
    again, facts = replace(found.kernel), facts_of(made.kernel)
    return (
        again.digest == found.kernel.digest == made.kernel.digest
        and {name: found.kernel.facts.get(name) for name in facts} == facts
        and _asked(found.symbols) == _asked(made.symbols)
    )
