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
from typing import Any, Final, NamedTuple

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

; Waits for jobs, and encodes each into a command buffer: see encoding_thread.py.
define void @work(ptr %shared) {
entry:
  %at.asked = getelementptr ptr, ptr %shared, i64 0
  %asked = load ptr, ptr %at.asked
  %at.answered = getelementptr ptr, ptr %shared, i64 1
  %answered = load ptr, ptr %at.answered
  %at.wait = getelementptr ptr, ptr %shared, i64 2
  %wait = load ptr, ptr %at.wait
  %at.post = getelementptr ptr, ptr %shared, i64 3
  %post = load ptr, ptr %at.post
  %at.create = getelementptr ptr, ptr %shared, i64 4
  %create = load ptr, ptr %at.create
  %at.begin = getelementptr ptr, ptr %shared, i64 5
  %begin = load ptr, ptr %at.begin
  %at.end = getelementptr ptr, ptr %shared, i64 6
  %end = load ptr, ptr %at.end
  %at.release = getelementptr ptr, ptr %shared, i64 7
  %release = load ptr, ptr %at.release
  %at.finish = getelementptr ptr, ptr %shared, i64 8
  %finish = load ptr, ptr %at.finish
  %at.drop = getelementptr ptr, ptr %shared, i64 9
  %drop = load ptr, ptr %at.drop
  %at.functions = getelementptr ptr, ptr %shared, i64 10
  %functions = load ptr, ptr %at.functions
  %at.form.1 = getelementptr ptr, ptr %shared, i64 11
  %encoder.form = load ptr, ptr %at.form.1
  %at.form.2 = getelementptr ptr, ptr %shared, i64 12
  %pass.form = load ptr, ptr %at.form.2
  %at.form.3 = getelementptr ptr, ptr %shared, i64 13
  %commands.form = load ptr, ptr %at.form.3
  %at.device = getelementptr ptr, ptr %shared, i64 14
  %device = load ptr, ptr %at.device
  %at.tables = getelementptr ptr, ptr %shared, i64 15
  %at.count = getelementptr i64, ptr %shared, i64 16
  %at.ended = getelementptr i64, ptr %shared, i64 17
  %at.done = getelementptr i64, ptr %shared, i64 18
  %at.commands = getelementptr ptr, ptr %shared, i64 19
  br label %idle
idle:
  %failed = call i32 %wait(ptr %asked)
  %is_interrupted = icmp ne i32 %failed, 0
  br i1 %is_interrupted, label %idle, label %look
look:
  %done = load atomic i64, ptr %at.done acquire, align 8
  %has_none = icmp ne i64 %done, 0
  br i1 %has_none, label %rest, label %job
rest:
  %ended = load volatile i64, ptr %at.ended
  %is_ended = icmp ne i64 %ended, 0
  br i1 %is_ended, label %over, label %idle
job:
  %tables = load volatile ptr, ptr %at.tables
  %count = load volatile i64, ptr %at.count
  %encoder = call ptr %create(ptr %device, ptr %encoder.form)
  %pass = call ptr %begin(ptr %encoder, ptr %pass.form)
  %is_empty = icmp eq i64 %count, 0
  br i1 %is_empty, label %close, label %table
table:
  %n = phi i64 [ 0, %job ], [ %next, %table ]
  %twice = mul i64 %n, 2
  %at.rows = getelementptr i64, ptr %tables, i64 %twice
  %rows = load ptr, ptr %at.rows
  %at.length = getelementptr i64, ptr %at.rows, i64 1
  %length = load i64, ptr %at.length
  call void @encode(ptr %pass, ptr %rows, i64 %length, ptr %functions)
  %next = add i64 %n, 1
  %is_last = icmp eq i64 %next, %count
  br i1 %is_last, label %close, label %table
close:
  call void %end(ptr %pass)
  call void %release(ptr %pass)
  %commands = call ptr %finish(ptr %encoder, ptr %commands.form)
  call void %drop(ptr %encoder)
  store volatile ptr %commands, ptr %at.commands
  store atomic i64 1, ptr %at.done release, align 8
  %posted = call i32 %post(ptr %answered)
  br label %idle
over:
  ret void
}
"""


class Table(NamedTuple):
    """Rows of so many launches, as an array of `ROW` or as bytes, whose numbers are behind them."""

    data: Any
    launches: int

    @property
    def address(self) -> int:
        """Where they lie."""
        return address_of(ffi.from_buffer(self.data))


def address_of(pointer: Pointer) -> int:
    """Return the address of an object of wgpu-native, or of data for it."""
    return int(ffi.cast("uintptr_t", pointer))


class Loop:
    """The loop, compiled for this processor."""

    def __init__(self, binding: Any) -> None:
        binding.initialize_native_target()
        binding.initialize_native_asmprinter()
        machine = binding.Target.from_default_triple().create_target_machine(jit=True)
        builder = binding.JITLibraryBuilder().add_ir(_LOOP)
        builder.export_symbol("encode").export_symbol("work")
        # Held, for the code is unloaded with them.
        self._jit = binding.create_lljit_compiler(machine)
        self._library = builder.link(self._jit, "encode")
        signature = ctypes.CFUNCTYPE(
            None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p
        )
        self._encode = signature(self._library["encode"])
        self._work = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self._library["work"])
        calls = [getattr(lib, f"wgpuComputePassEncoder{name}") for name in _FUNCTIONS]
        #: The addresses of what it calls.
        self.functions = (ctypes.c_void_p * len(calls))(*[address_of(call) for call in calls])

    def run(self, compute_pass: Pointer, rows: Any) -> None:
        """Make the launches of a table in a compute pass."""
        self._encode(address_of(compute_pass), rows.ctypes.data, len(rows), self.functions)

    def run_each(self, compute_pass: Pointer, rows: Sequence[bytes]) -> None:
        """Make launches in a compute pass, each a row and its numbers."""
        data = b"".join(rows)
        self._encode(address_of(compute_pass), data, len(rows), self.functions)

    def work(self, shared: Any) -> None:
        """Encode jobs until the end, without the GIL; see encoding_thread.py."""
        self._work(shared.ctypes.data)


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
