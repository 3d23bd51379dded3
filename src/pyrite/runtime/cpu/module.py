"""From the text of a module to the address of a function, by way of an object on disk.

LLVM's optimiser is not run on kernels: their text already says what is meant (see
`pyrite.kernel.target.llvm`).  It is on text that a person wrote, of many small functions.
Code that was compiled once on this kind of processor, by any process, is only loaded: 0.1 ms.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, Final

from llvmlite import binding

from pyrite.errors import KernelError
from pyrite.kernel.target.llvm import LLVMTarget
from pyrite.runtime.cache import DiskCache, loaded, source_version
from pyrite.runtime.cpu.linker import Code, Linker, in_one_segment
from pyrite.runtime.cpu.objects import ObjectMaker
from pyrite.runtime.cpu.room import require_room_for_code
from pyrite.runtime.interruption import Uninterrupted

#: The packages whose files make code what it is: those that `pyrite.runtime.cpu` imports.
SOURCES = (
    "pyrite.kernel",
    "pyrite.kernel.bounds",
    "pyrite.kernel.builder",
    "pyrite.kernel.passes",
    "pyrite.kernel.polyfill",
    "pyrite.kernel.target",
    "pyrite.kernel.target.llvm",
    "pyrite.runtime.cpu",
)

#: Bytes that LLVM may take for a module, and more for each byte of its text.  A text of 79 KB
#: took 0.8 MB, what is not a kernel (its first pages, another arena of malloc) more.
_COMPILING: Final = 1 << 24
_COMPILING_A_BYTE: Final = 64


class _Gone(weakref.ref[Any]):
    """What is left of a thing that had code, when nobody holds it any more."""

    __slots__ = ("codes",)

    codes: Iterable[object]


class Retired:
    """Code that nobody will launch again, held until the launches before are done.

    ``now`` is the submission to which the next launch belongs, ``done`` the last that is finished.
    The last reference may be dropped anywhere, and Python loses a Ctrl-C that comes in a finaliser:
    so none of them is Python, and llvmlite's, which are, run where it waits.
    """

    def __init__(self, now: Callable[[], int], done: Callable[[], int]) -> None:
        self._now = now
        self._done = done
        #: References to what has code, which have to be held to be told of its end.
        self._watched: set[_Gone] = set()
        #: Those that were told: by `deque.append` itself, which is atomic, and not Python.
        self._gone: deque[_Gone] = deque()
        self._held: deque[tuple[int, Iterable[object]]] = deque()

    def watch(self, owner: object, codes: Iterable[object]) -> None:
        """Hold code as long as its owner, and until every launch before its end is done."""
        gone = _Gone(owner, self._gone.append)
        gone.codes = codes
        self._watched.add(gone)

    def unload(self) -> None:
        """Let go of the code that no launch is in any more."""
        done = self._done()
        with Uninterrupted():
            while self._gone:
                gone = self._gone.popleft()
                self._watched.discard(gone)
                self._held.append((self._now(), gone.codes))
                del gone  # it would outlive the block
            while self._held and self._held[0][0] <= done:
                self._held.popleft()

    def __len__(self) -> int:
        return len(self._gone) + len(self._held)


class Compiler:
    """Compiles text for one target, and loads objects into this process."""

    def __init__(self, target: LLVMTarget, cache: DiskCache) -> None:
        binding.initialize_native_target()
        binding.initialize_native_asmprinter()
        self.target = target
        self.cache = cache
        self._lock = threading.Lock()
        self._objects = ObjectMaker(target)
        self._machine = self._objects.machine()
        self._linker = Linker(self._machine)
        #: What machine code of objects was loaded already: see native_call.py.
        self.natives: dict[tuple[str, int, int, str], Code] = {}

    def key(self, *what: str) -> tuple[str, ...]:
        """Return what an object depends on: its source, the processor, and who made it."""
        version = ".".join(map(str, binding.llvm_version_info))
        return (*what, repr(self.target), version, source_version(*SOURCES))

    def compile(self, text: str) -> bytes:
        """Return the object of a module; several threads may make some at once.

        Raises KernelError with LLVM's message, and OutOfMemoryError where the system has no room.
        """
        require_room_for_code(_COMPILING + _COMPILING_A_BYTE * len(text))
        return in_one_segment(self._objects.make(text))

    def cached(self, key: tuple[str, ...], make: Callable[[], bytes], *symbols: str) -> Code:
        """Return the object on disk under a key, loaded; make it where there is none that loads."""
        return loaded(self.cache, key, make, lambda blob: self.load(blob, *symbols), KernelError)

    def found(self, key: tuple[str, ...], *symbols: str) -> Code | None:
        """Return the object on disk under a key, loaded; None where there is none that loads."""
        blob = self.cache.get(*key)
        if blob is not None:
            with suppress(KernelError):
                return self.load(blob, *symbols)
        return None

    def optimised(self, text: str) -> str:
        """Return the text of a module as LLVM's optimiser makes it, its small functions inlined."""
        with self._lock:
            module = binding.parse_assembly(text)
            options = binding.create_pipeline_tuning_options(speed_level=2)
            passes = binding.create_pass_builder(self._machine, options)
            passes.getModulePassManager().run(module, passes)
            return str(module)

    def assembly(self, text: str) -> str:
        """Return the machine's assembly of a module, to look at."""
        with self._lock:
            return str(self._machine.emit_assembly(binding.parse_assembly(text)))

    def load(self, blob: bytes, *symbols: str) -> Code:
        """Load an object and return where its symbols are: see `Linker.load`."""
        with self._lock:
            return self._linker.load(blob, *symbols)
