"""Objects from the text of modules, by several threads at once.

llvmlite has a lock around each call of LLVM, so one thread compiles at a time.  LLVM itself asks
for no more than a context and a machine that no other thread uses meanwhile, and each thread has
its own here.  Python's lock is let go of while LLVM works.
"""

from __future__ import annotations

import ctypes
import threading
from functools import cache
from typing import Any, Final

from llvmlite import binding

from pyrite.errors import KernelError
from pyrite.kernel.target.llvm import LLVMTarget

_POINTER: Final = ctypes.c_void_p
_MESSAGE: Final = ctypes.POINTER(ctypes.c_char_p)
#: The functions of llvmlite's library that are called here, by their last names: what they return
#: and get.
_FUNCTIONS: Final[dict[str, tuple[Any, tuple[Any, ...]]]] = {
    "ContextCreate": (_POINTER, ()),
    "ContextDispose": (None, (_POINTER,)),
    "ParseAssembly": (_POINTER, (_POINTER, ctypes.c_char_p, _MESSAGE)),
    "DisposeModule": (None, (_POINTER,)),
    "TargetMachineEmitToMemory": (_POINTER, (_POINTER, _POINTER, ctypes.c_int, _MESSAGE)),
    "GetBufferStart": (_POINTER, (_POINTER,)),
    "GetBufferSize": (ctypes.c_size_t, (_POINTER,)),
    "DisposeMemoryBuffer": (None, (_POINTER,)),
    "DisposeString": (None, (ctypes.POINTER(ctypes.c_char),)),
}
#: Those that take long.  The others keep Python's lock: another thread, at work in Python, would
#: hold it for milliseconds.
_LONG: Final = frozenset(("ParseAssembly", "TargetMachineEmitToMemory"))


class ObjectMaker:
    """Makes objects for one target."""

    def __init__(self, target: LLVMTarget) -> None:
        self._target = target
        self._machines = threading.local()

    def make(self, text: str) -> bytes:
        """Return the object of a module.  Raises KernelError with LLVM's message."""
        call = _library()
        message = ctypes.c_char_p()
        context, module, blob = call["ContextCreate"](), None, None
        try:
            module = call["ParseAssembly"](context, text.encode(), ctypes.byref(message))
            # LLVM verifies a module there: it does not return a broken one.
            if not module or message.value:
                raise KernelError(f"llvm requires a valid module, got {_taken(message)}\n{text}")
            blob = call["TargetMachineEmitToMemory"](
                self.machine(), module, 1, ctypes.byref(message)
            )
            if not blob:
                raise KernelError(f"llvm requires a module of its target, got {_taken(message)}")
            return ctypes.string_at(call["GetBufferStart"](blob), call["GetBufferSize"](blob))
        finally:
            if blob:
                call["DisposeMemoryBuffer"](blob)
            if module:
                call["DisposeModule"](module)
            call["ContextDispose"](context)

    def machine(self) -> Any:
        """Return this thread's machine of the target."""
        found = getattr(self._machines, "machine", None)
        if found is None:
            target = self._target
            # 2, not 1: three times the compile time would be saved by 0, and 1 saves nothing.
            found = self._machines.machine = binding.Target.from_triple(
                target.triple
            ).create_target_machine(
                cpu=target.cpu, features=target.features, opt=2, reloc="pic", codemodel="small",
                jit=True,
            )  # fmt: skip
        return found


@cache
def _library() -> dict[str, Any]:
    """Return the functions of llvmlite's library, by name."""
    # Loaded once more, so that the types of the arguments are ours alone.
    name = binding.ffi.lib._name
    loaded = {True: ctypes.CDLL(name), False: ctypes.PyDLL(name)}
    found: dict[str, Any] = {}
    for last, (result, arguments) in _FUNCTIONS.items():
        function = getattr(loaded[last in _LONG], f"LLVMPY_{last}")
        function.restype, function.argtypes = result, arguments
        found[last] = function
    return found


def _taken(message: ctypes.c_char_p) -> str:
    """Return a message of LLVM's, and let go of its memory."""
    text = (message.value or b"nothing").decode(errors="replace")
    if message.value:
        _library()["DisposeString"](ctypes.cast(message, ctypes.POINTER(ctypes.c_char)))
        message.value = None
    return text
