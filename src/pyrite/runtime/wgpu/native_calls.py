"""The C calls of many launches by one: a loop of machine code over a table.

From Python each of the three or four calls of a launch costs 0.7 µs more than in C, half of what
wgpu-native itself takes for it.  Without LLVM, which some platforms have no package of, they are
made one by one.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence
from functools import cache
from typing import Any, Final

import numpy as np

from pyrite.runtime.wgpu.native import Pointer, ffi, lib

#: A launch: pipeline, bind group, where its numbers are, workgroups, and the bytes of the numbers.
#: Where no place is given these follow, to the next multiple of 8 bytes.
ROW = np.dtype(
    [
        ("pipeline", np.uint64), ("group", np.uint64), ("numbers", np.uint64),
        ("grid", np.uint32, 3), ("nbytes", np.uint32),
    ]
)  # fmt: skip
#: The same as letters of struct.
HEAD: Final = "3Q4I"

#: So many launches are made one by one before the loop is compiled: short programs need none.
LAUNCHES_BEFORE: Final = 512

#: The functions of wgpu-native that the loop calls, in its order.
_FUNCTIONS = ("SetPipeline", "SetBindGroup", "SetImmediates", "DispatchWorkgroups")

_LOOP = """
%Row = type { ptr, ptr, ptr, i32, i32, i32, i32 }

define void @encode(ptr %pass, ptr %rows, i64 %count, ptr %functions) {
entry:
  %set_pipeline = load ptr, ptr %functions
  %at.1 = getelementptr ptr, ptr %functions, i64 1
  %set_group = load ptr, ptr %at.1
  %at.2 = getelementptr ptr, ptr %functions, i64 2
  %set_numbers = load ptr, ptr %at.2
  %at.3 = getelementptr ptr, ptr %functions, i64 3
  %dispatch = load ptr, ptr %at.3
  %is_empty = icmp eq i64 %count, 0
  br i1 %is_empty, label %done, label %row
row:
  %n = phi i64 [ 0, %entry ], [ %next, %launch ]
  %this = phi ptr [ %rows, %entry ], [ %end, %launch ]
  %last = phi ptr [ null, %entry ], [ %pipeline, %launch ]
  %pipeline = load ptr, ptr %this
  %at.group = getelementptr %Row, ptr %this, i64 0, i32 1
  %group = load ptr, ptr %at.group
  %is_set = icmp eq ptr %pipeline, %last
  br i1 %is_set, label %bind, label %pipe
pipe:
  call void %set_pipeline(ptr %pass, ptr %pipeline)
  br label %bind
bind:
  call void %set_group(ptr %pass, i32 0, ptr %group, i64 0, ptr null)
  %at.nbytes = getelementptr %Row, ptr %this, i64 0, i32 6
  %short = load i32, ptr %at.nbytes
  %nbytes = zext i32 %short to i64
  %behind = getelementptr %Row, ptr %this, i64 1
  %has_none = icmp eq i64 %nbytes, 0
  br i1 %has_none, label %launch, label %number
number:
  %at.numbers = getelementptr %Row, ptr %this, i64 0, i32 2
  %elsewhere = load ptr, ptr %at.numbers
  %are_behind = icmp eq ptr %elsewhere, null
  %numbers = select i1 %are_behind, ptr %behind, ptr %elsewhere
  call void %set_numbers(ptr %pass, i32 0, ptr %numbers, i64 %nbytes)
  %more = add i64 %nbytes, 7
  %whole = and i64 %more, -8
  %skipped = select i1 %are_behind, i64 %whole, i64 0
  %after = getelementptr i8, ptr %behind, i64 %skipped
  br label %launch
launch:
  %end = phi ptr [ %behind, %bind ], [ %after, %number ]
  %at.x = getelementptr %Row, ptr %this, i64 0, i32 3
  %x = load i32, ptr %at.x
  %at.y = getelementptr %Row, ptr %this, i64 0, i32 4
  %y = load i32, ptr %at.y
  %at.z = getelementptr %Row, ptr %this, i64 0, i32 5
  %z = load i32, ptr %at.z
  call void %dispatch(ptr %pass, i32 %x, i32 %y, i32 %z)
  %next = add i64 %n, 1
  %is_last = icmp eq i64 %next, %count
  br i1 %is_last, label %done, label %row
done:
  ret void
}
"""


def address_of(pointer: Pointer) -> int:
    """Return the address of an object of wgpu-native, or of data for it."""
    return int(ffi.cast("uintptr_t", pointer))


class Loop:
    """The loop, compiled for this processor."""

    def __init__(self, binding: Any) -> None:
        binding.initialize_native_target()
        binding.initialize_native_asmprinter()
        machine = binding.Target.from_default_triple().create_target_machine(jit=True)
        builder = binding.JITLibraryBuilder().add_ir(_LOOP).export_symbol("encode")
        # Held, for the code is unloaded with them.
        self._jit = binding.create_lljit_compiler(machine)
        self._library = builder.link(self._jit, "encode")
        signature = ctypes.CFUNCTYPE(
            None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p
        )
        self._encode = signature(self._library["encode"])
        calls = [getattr(lib, f"wgpuComputePassEncoder{name}") for name in _FUNCTIONS]
        self._functions = (ctypes.c_void_p * len(calls))(*[address_of(call) for call in calls])

    def run(self, compute_pass: Pointer, rows: Any) -> None:
        """Make the launches of a table in a compute pass."""
        self._encode(address_of(compute_pass), rows.ctypes.data, len(rows), self._functions)

    def run_each(self, compute_pass: Pointer, rows: Sequence[bytes]) -> None:
        """Make launches in a compute pass, each a row and its numbers."""
        data = b"".join(rows)
        self._encode(address_of(compute_pass), data, len(rows), self._functions)


@cache
def loop() -> Loop | None:
    """Return the loop; None without LLVM."""
    try:
        from llvmlite import binding  # here, for it takes 60 ms
    except ImportError:
        return None
    return Loop(binding)


class LoopLater:
    """The loop for who makes many launches, compiled by another thread: nobody waits for it."""

    def __init__(self) -> None:
        self._launches = 0
        self._thread: threading.Thread | None = None
        self._loop: Loop | None = None

    def after(self, launches: int) -> Loop | None:
        """Return it, if it is there; so many more launches are made."""
        if self._loop is None and self._thread is None:
            self._launches += launches
            if self._launches >= LAUNCHES_BEFORE:
                self._thread = threading.Thread(target=self._make, name="pyrite-wgpu-loop")
                self._thread.start()
        return self._loop

    def join(self) -> None:
        """Wait until it is there, if it was asked for."""
        if self._thread is not None:
            self._thread.join()

    def _make(self) -> None:
        self._loop = loop()


#: That of the process.
later: Final = LoopLater()
