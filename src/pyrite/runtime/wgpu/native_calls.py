"""The C calls of many launches by one: a loop of machine code over a table.

From Python each of the three or four calls of a launch costs 0.7 µs more than in C, half of what
wgpu-native itself takes for it.  Without LLVM, which some platforms have no package of, they are
made one by one.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import numpy as np

from pyrite.runtime.wgpu.native import Pointer, ffi, lib

#: A launch: pipeline, bind group, numbers and their bytes, workgroups.
ROW = np.dtype(
    [
        ("pipeline", np.uint64), ("group", np.uint64), ("numbers", np.uint64),
        ("nbytes", np.uint64), ("grid", np.uint32, 3), ("unused", np.uint32),
    ]
)  # fmt: skip

#: The functions of wgpu-native that the loop calls, in its order.
_FUNCTIONS = ("SetPipeline", "SetBindGroup", "SetImmediates", "DispatchWorkgroups")

_LOOP = """
%Row = type { ptr, ptr, ptr, i64, i32, i32, i32, i32 }

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
  %last = phi ptr [ null, %entry ], [ %pipeline, %launch ]
  %at.pipeline = getelementptr %Row, ptr %rows, i64 %n, i32 0
  %pipeline = load ptr, ptr %at.pipeline
  %at.group = getelementptr %Row, ptr %rows, i64 %n, i32 1
  %group = load ptr, ptr %at.group
  %is_set = icmp eq ptr %pipeline, %last
  br i1 %is_set, label %bind, label %pipe
pipe:
  call void %set_pipeline(ptr %pass, ptr %pipeline)
  br label %bind
bind:
  call void %set_group(ptr %pass, i32 0, ptr %group, i64 0, ptr null)
  %at.nbytes = getelementptr %Row, ptr %rows, i64 %n, i32 3
  %nbytes = load i64, ptr %at.nbytes
  %has_none = icmp eq i64 %nbytes, 0
  br i1 %has_none, label %launch, label %number
number:
  %at.numbers = getelementptr %Row, ptr %rows, i64 %n, i32 2
  %numbers = load ptr, ptr %at.numbers
  call void %set_numbers(ptr %pass, i32 0, ptr %numbers, i64 %nbytes)
  br label %launch
launch:
  %at.x = getelementptr %Row, ptr %rows, i64 %n, i32 4
  %x = load i32, ptr %at.x
  %at.y = getelementptr %Row, ptr %rows, i64 %n, i32 5
  %y = load i32, ptr %at.y
  %at.z = getelementptr %Row, ptr %rows, i64 %n, i32 6
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


@cache
def loop() -> Loop | None:
    """Return the loop; None without LLVM."""
    try:
        from llvmlite import binding  # here, for it takes 60 ms
    except ImportError:
        return None
    return Loop(binding)
