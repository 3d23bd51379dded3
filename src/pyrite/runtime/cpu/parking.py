"""How a thread sleeps until a word changes, in LLVM IR for each system.

``park(word, expected)`` sleeps while the 32 bits at ``word`` are ``expected``, and may return
early; ``unpark(word, count)`` wakes up to so many, or more; ``pause()`` is what a loop does that
waits for another processor.
"""

from __future__ import annotations

from pyrite.errors import DeviceError

_FUTEX = """
declare i64 @syscall(i64, ...)

define internal void @park(ptr %word, i32 %expected) {{
  call i64 (i64, ...) @syscall(i64 {number}, ptr %word, i32 128, i32 %expected, ptr null)
  ret void
}}

define internal void @unpark(ptr %word, i32 %count) {{
  call i64 (i64, ...) @syscall(i64 {number}, ptr %word, i32 129, i32 %count)
  ret void
}}
"""

# 0x01000001: compare and wait, no errno; with 0x100 a wake is for all.
_ULOCK = """
declare i32 @__ulock_wait(i32, ptr, i64, i32)
declare i32 @__ulock_wake(i32, ptr, i64)

define internal void @park(ptr %word, i32 %expected) {
  %wide = zext i32 %expected to i64
  call i32 @__ulock_wait(i32 16777217, ptr %word, i64 %wide, i32 0)
  ret void
}

define internal void @unpark(ptr %word, i32 %count) {
  call i32 @__ulock_wake(i32 16777473, ptr %word, i64 0)
  ret void
}
"""

_WAIT_ON_ADDRESS = """
declare i32 @WaitOnAddress(ptr, ptr, i64, i32)
declare void @WakeByAddressAll(ptr)

define internal void @park(ptr %word, i32 %expected) {
  %copy = alloca i32, align 4
  store i32 %expected, ptr %copy, align 4
  call i32 @WaitOnAddress(ptr %word, ptr %copy, i64 4, i32 -1)
  ret void
}

define internal void @unpark(ptr %word, i32 %count) {
  call void @WakeByAddressAll(ptr %word)
  ret void
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
        return _ULOCK + pause
    if "windows" in triple:
        return _WAIT_ON_ADDRESS + pause
    raise DeviceError(f"cpu requires Linux, macOS or Windows, got {triple}; use numpy")
