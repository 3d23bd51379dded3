"""How a thread sleeps until a word changes, in LLVM IR for each system.

``park(word, expected, mask)`` sleeps while the 32 bits at ``word`` are ``expected``, and may
return early.  ``unpark(word, count, mask)`` wakes up to so many whose masks share a bit with this
one, or more.  ``pause()`` is what a loop does that waits for another processor.  ``this_cpu()`` is
the number of the processor that runs the thread, or -1 where the system does not tell.
"""

from __future__ import annotations

from pyrite.errors import DeviceError

# 137 and 138: wait and wake with a mask, within this process.
_FUTEX = """
declare i64 @syscall(i64, ...)

define internal void @park(ptr %word, i32 %expected, i32 %mask) {{
  call i64 (i64, ...) @syscall(i64 {number}, ptr %word, i32 137, i32 %expected, ptr null,
                               ptr null, i32 %mask)
  ret void
}}

define internal void @unpark(ptr %word, i32 %count, i32 %mask) {{
  call i64 (i64, ...) @syscall(i64 {number}, ptr %word, i32 138, i32 %count, ptr null,
                               ptr null, i32 %mask)
  ret void
}}

declare i32 @sched_getcpu()

define internal i32 @this_cpu() {{
  %cpu = call i32 @sched_getcpu()
  ret i32 %cpu
}}
"""

# 0x01000001: compare and wait, no errno; with 0x100 a wake is for all.
_ULOCK = """
declare i32 @__ulock_wait(i32, ptr, i64, i32)
declare i32 @__ulock_wake(i32, ptr, i64)

define internal void @park(ptr %word, i32 %expected, i32 %mask) {
  %wide = zext i32 %expected to i64
  call i32 @__ulock_wait(i32 16777217, ptr %word, i64 %wide, i32 0)
  ret void
}

define internal void @unpark(ptr %word, i32 %count, i32 %mask) {
  call i32 @__ulock_wake(i32 16777473, ptr %word, i64 0)
  ret void
}
"""

_WAIT_ON_ADDRESS = """
declare i32 @WaitOnAddress(ptr, ptr, i64, i32)
declare void @WakeByAddressAll(ptr)

define internal void @park(ptr %word, i32 %expected, i32 %mask) {
  %copy = alloca i32, align 4
  store i32 %expected, ptr %copy, align 4
  call i32 @WaitOnAddress(ptr %word, ptr %copy, i64 4, i32 -1)
  ret void
}

define internal void @unpark(ptr %word, i32 %count, i32 %mask) {
  call void @WakeByAddressAll(ptr %word)
  ret void
}
"""

_NO_CPU = """
define internal i32 @this_cpu() {
  ret i32 -1
}
"""

_PAUSE_X86 = """
declare void @llvm.x86.sse2.pause()

define internal void @pause() {
  call void @llvm.x86.sse2.pause()
  ret void
}
"""

# isb waits about as long as x86's pause; yield does not wait at all.
_PAUSE_ARM = """
define internal void @pause() {
  call void asm sideeffect "isb", ""()
  ret void
}
"""

#: The number of Linux's system call futex.
_FUTEX_NUMBER = {"x86_64": 202, "aarch64": 98}


def parking(triple: str) -> str:
    """Return the three functions for the machine and system of a triple.

    Raises DeviceError for those that Pyrite does not know.
    """
    machine = "aarch64" if triple.startswith(("aarch64", "arm64")) else triple.partition("-")[0]
    if machine not in _FUTEX_NUMBER:
        raise DeviceError(f"cpu requires an x86_64 or aarch64 processor, got {triple}; use numpy")
    pause = _PAUSE_X86 if machine == "x86_64" else _PAUSE_ARM
    if "linux" in triple:
        return _FUTEX.format(number=_FUTEX_NUMBER[machine]) + pause
    if "darwin" in triple or "macos" in triple:
        return _ULOCK + _NO_CPU + pause
    if "windows" in triple:
        return _WAIT_ON_ADDRESS + _NO_CPU + pause
    raise DeviceError(f"cpu requires Linux, macOS or Windows, got {triple}; use numpy")
