"""Objects, put into the memory of this process, where their functions can be called.

A process that makes kernels without end keeps to three bounds.

- *Mappings*, of which Linux gives a process 65,530.  What is constant in an object has the access
  of its code, and neighbours of one access are one mapping: 2,000 kernels make 16, not 3,900.
- *Memory*: LLVM keeps 9 KB of a library that was unloaded, until the JIT that it was of is gone.
  So a JIT gets a few libraries, and then there is a new one.
- *Room*: LLVM ends the process where the system refuses it memory or a mapping.  So it is asked
  before, and its refusal is an error.
"""

from __future__ import annotations

import struct
from typing import Any, Final

from llvmlite import binding

from pyrite.errors import KernelError
from pyrite.runtime.cpu.room import require_room_for_code
from pyrite.runtime.interruption import Uninterrupted

#: Libraries of one JIT.  It takes 0.6 ms to make one, and 0.2 ms to link a library.
LIBRARIES: Final = 64

#: Bytes that LLVM may take to link an object, and more for each byte of it.
_LINKING: Final = 1 << 22
_LINKING_A_BYTE: Final = 16


class Code:
    """Functions in memory, loaded as long as this is held."""

    __slots__ = ("_jit", "_tracker", "addresses")

    def __init__(self, jit: Any, tracker: Any, addresses: dict[str, int]) -> None:
        # The one is unloaded from the other.
        self._jit, self._tracker = jit, tracker
        self.addresses = addresses


class Linker:
    """Loads objects for one target.  One thread at a time."""

    def __init__(self, machine: Any) -> None:
        self._machine = machine
        self._jit: Any = None
        #: Libraries that were linked so far.
        self._count = 0

    def load(self, blob: bytes, *symbols: str) -> Code:
        """Load an object and return where its symbols are.

        Raises KernelError if it is no object, or needs a function that this process lacks, and
        OutOfMemoryError where the system has no room.
        """
        require_room_for_code(_LINKING + _LINKING_A_BYTE * len(blob))
        library = binding.JITLibraryBuilder().add_object_img(blob).add_current_process()
        for name in symbols:
            library.export_symbol(name)
        if self._count % LIBRARIES == 0:
            self._begin()
        self._count += 1
        try:
            tracker = library.link(self._jit, f"pyrite{self._count}")
        except RuntimeError as error:
            raise KernelError(f"llvm requires a complete object, got {error}") from None
        return Code(self._jit, tracker, {name: tracker[name] for name in symbols})

    def _begin(self) -> None:
        """Have a new JIT.  The code of the one before holds that."""
        with Uninterrupted():  # nobody may hold it: in its finaliser a Ctrl-C would be lost
            self._jit = binding.create_lljit_compiler(self._machine, use_jit_link=_HAS_JIT_LINK)


#: LLVM's newer linker, where it is complete; the older one elsewhere.
_HAS_JIT_LINK = binding.get_process_triple().startswith(
    ("x86_64-unknown-linux", "aarch64", "arm64")
)

#: What an object file of 64 bits begins with, the lower byte of a word first.
_ELF: Final = b"\x7fELF\x02\x01"
#: Where its head says at which byte the table of sections begins; the size and number of its rows.
_TABLE: Final = struct.Struct("<40xQ10xHH")
#: The flags of a row, behind a name and a kind.
_FLAGS: Final = struct.Struct("<8xQ")
_WRITE, _ALLOC, _EXECINSTR = 1, 2, 4


def in_one_segment(blob: bytes) -> bytes:
    """Return an object whose constants have the access of its code; only ELF is changed.

    Source: System V Application Binary Interface, chapters "ELF Header" and "Sections".
    """
    if not blob.startswith(_ELF):
        return blob
    changed = bytearray(blob)
    table, size, count = _TABLE.unpack_from(blob)
    for row in range(table, table + count * size, size):
        (flags,) = _FLAGS.unpack_from(blob, row)
        if flags & (_ALLOC | _WRITE) == _ALLOC:
            struct.pack_into("<Q", changed, row + 8, flags | _EXECINSTR)
    return bytes(changed)
