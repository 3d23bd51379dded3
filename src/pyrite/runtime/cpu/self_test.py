"""Whether LLVM makes right code for a processor: one kernel that runs before any other.

A fault in LLVM shows on processors that none of Pyrite's authors may have: LLVM 22 overwrote what
lies beside an element of 16 bits, on AVX-512 alone.  So each pair of a processor and an LLVM is
tried where it is met first, and the disk cache remembers what passed.
"""

from __future__ import annotations

import ctypes
import warnings
from collections.abc import Collection, Iterator, Sequence
from typing import Final

import numpy as np
from llvmlite import binding

from pyrite.errors import DeviceError
from pyrite.kernel.builder import KernelBuilder, Memory, Value
from pyrite.kernel.ir import Kernel, vector
from pyrite.kernel.target.llvm import GRID_SLOTS, SYMBOL, LLVMTarget, to_llvm
from pyrite.kernel.verify import verify
from pyrite.runtime.cache import DiskCache
from pyrite.runtime.cpu.level import levels, targets
from pyrite.runtime.cpu.module import Compiler
from pyrite.types import Array, DType, bfloat16, bool_, float16, float32, int8, int16, int32, int64

#: What a masked store narrows, and to what, and how many at once; a masked load widens it again.
#: Few, because a processor without masks compiles each for 2 ms.
_NARROWED: Final = (
    (float32, bfloat16, 16), (float32, float16, 8), (int32, int16, 8), (int32, int8, 16),
    (int64, int32, 8),
)  # fmt: skip
#: Elements of a row: behind those that an access may touch are some that it may not.
_PITCH: Final = 20
#: The lanes of constant masks; those of a mask that a number makes at run time, and the number.
_CONSTANT: Final = ((0,), (5,), (0, 1, 2))
_COUNT: Final = 3
_MASKS: Final = (*_CONSTANT, tuple(range(_COUNT)))
#: What a load gives where its mask is false.
_UNTOUCHED: Final = 1

_PASSED: Final = b"passed"
_ENTRY: Final = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
#: What is wrong with each pair that this process has met.
_known: dict[tuple[str, ...], str | None] = {}


def compiler_for(target: LLVMTarget | None, cache: DiskCache) -> Compiler:
    """Return a compiler for a target, by default this processor, whose code passes the test.

    Where the code for this processor does not, that for the highest of its levels that does, with a
    warning.  Raises DeviceError if a given target, or every level, fails.
    """
    failures: list[str] = []
    for candidate in targets() if target is None else [target]:
        compiler = Compiler(candidate, cache)
        failure = failure_of(compiler)
        if failure is None:
            if failures:
                _warn(failures[0], candidate)
            return compiler
        failures.append(f"{candidate.cpu}: {failure}")
    raise DeviceError(
        f"cpu requires that code by LLVM {_version()} passes Pyrite's self-test, got for "
        f"{'; for '.join(failures)}; {_advice(target)}"
    )


def _advice(target: LLVMTarget | None) -> str:
    others = [level.name for level in levels() if target and level.cpu != target.cpu]
    lower = f"set PYRITE_CPU_LEVEL to one of {others}, " if others else ""
    return f"{lower}install another version of llvmlite, or choose another device"


def _warn(failure: str, instead: LLVMTarget) -> None:
    warnings.warn(
        f"code by LLVM {_version()} fails Pyrite's self-test for {failure}; the device cpu is "
        f"compiled for {instead.cpu}, as PYRITE_CPU_LEVEL can say without this warning",
        RuntimeWarning,
        stacklevel=2,
    )


def _version() -> str:
    return ".".join(map(str, binding.llvm_version_info))


def failure_of(compiler: Compiler) -> str | None:
    """Return what the code for a compiler's target does wrong; None if nothing that was tried.

    It is tried once in a process, and once ever where the cache can be written.
    """
    key = compiler.key("self-test")
    if key not in _known:
        has_passed = compiler.cache.get(*key) == _PASSED
        _known[key] = failure = None if has_passed else _try(compiler)
        if failure is None and not has_passed:
            compiler.cache.put(_PASSED, *key)
    return _known[key]


def _try(compiler: Compiler) -> str | None:
    """Run the kernel; return the first access that is wrong."""
    code = compiler.load(compiler.compile(to_llvm(_kernel(), compiler.target)), SYMBOL)
    before = [_memory(dtype) for wide, narrow, _ in _NARROWED for dtype in (wide, narrow)]
    after = [x.copy() for x in before]
    slots = np.array([1] * GRID_SLOTS + [x.ctypes.data for x in after] + [_COUNT], np.int64)
    _ENTRY(code.addresses[SYMBOL])(slots.ctypes.data, 0, 1)
    return next(_faults(before, after), None)


# ---- what runs ----


def _kernel() -> Kernel:
    b = KernelBuilder("self_test")
    memories = [
        [b.buffer(f"{dtype.name}_{i}", dtype, "read_write") for dtype in (wide, narrow)]
        for i, (wide, narrow, _) in enumerate(_NARROWED)
    ]
    n = b.scalar("n", int32)
    for (wide, narrow), (_, _, width) in zip(memories, _NARROWED, strict=True):
        lanes = b.const(tuple(range(width)), vector(int32, width))
        masks = [b.const(_mask(chosen, width), vector(bool_, width)) for chosen in _CONSTANT]
        _narrow_and_widen(wide, narrow, [*masks, lanes < n])
    return verify(b.build())


def _narrow_and_widen(wide: Memory, narrow: Memory, masks: list[Value]) -> None:
    """Narrow a row of ``wide`` for each mask, and widen a row of ``narrow`` that is left alone."""
    b = wide.builder
    for row, mask in enumerate(masks):
        value = wide.load(row * _PITCH, width=mask.width)
        narrow.store(row * _PITCH, b.cast(value, narrow.dtype), mask=mask)
    for row, mask in enumerate(masks, start=len(_MASKS)):
        value = narrow.load(row * _PITCH, width=mask.width, mask=mask, other=_UNTOUCHED)
        wide.store(row * _PITCH, b.cast(value, wide.dtype))


def _mask(chosen: Collection[int], width: int) -> tuple[bool, ...]:
    return tuple(lane in chosen for lane in range(width))


# ---- what should come ----


def _memory(dtype: DType) -> Array:
    """Return rows of numbers from 2 on, which every dtype holds."""
    return (2 + np.arange(2 * len(_MASKS) * _PITCH) % 97).astype(dtype.numpy).reshape(-1, _PITCH)


def _faults(before: list[Array], after: list[Array]) -> Iterator[str]:
    """Yield what each access that is wrong has made."""
    for (*pair, width), old, new in zip(_NARROWED, _pairs(before), _pairs(after), strict=True):
        for row, chosen in enumerate(_MASKS):
            mask = np.array(_mask(chosen, _PITCH))
            (wide, narrow), load = old, row + len(_MASKS)
            stored = np.where(mask, wide[row].astype(narrow.dtype), narrow[row])
            yield from _difference("store", pair, chosen, new[1][row], stored)
            loaded = np.where(mask, narrow[load], narrow.dtype.type(_UNTOUCHED)).astype(wide.dtype)
            loaded[width:] = wide[load][width:]
            yield from _difference("load", pair, chosen, new[0][load], loaded)


def _pairs(arrays: list[Array]) -> list[tuple[Array, Array]]:
    return list(zip(arrays[::2], arrays[1::2], strict=True))


def _difference(
    access: str, pair: Sequence[DType], chosen: Collection[int], got: Array, want: Array
) -> Iterator[str]:
    if (got != want).any():
        wide, narrow = (dtype.name for dtype in pair)
        yield (
            f"a {access} of {narrow} as {wide} under a mask of the lanes {list(chosen)}: "
            f"{got.tolist()} where {want.tolist()} is right"
        )
