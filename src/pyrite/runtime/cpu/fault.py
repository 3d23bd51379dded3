"""What is said when a kernel touches memory that it may not, and the process ends.

Python cannot say it: the instruction is not done, and would fault again.  So a handler in native
code, `fault.ll`, writes what stands ready in a table.  It is there in the guarded mode only, and
on Linux, whose signals it knows; elsewhere Python's `faulthandler` says where Python was.
"""

from __future__ import annotations

import ctypes
import faulthandler
import signal
import struct
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.resources import files
from io import UnsupportedOperation
from typing import Any, Final

import numpy as np

from pyrite.runtime.cpu.linker import Code
from pyrite.runtime.cpu.module import Compiler

#: A text, and the addresses for which it is written: from one on, below another.
Place = tuple[tuple[int, int], str]

_SA_SIGINFO: Final = 4
#: struct sigaction of Linux, 64 bits: handler, mask of 1024 signals, flags, what glibc fills in.
_ACTION: Final = struct.Struct("@q128xiP")


class FaultReport:
    """The handler of this process, and what it would say."""

    def __init__(self, compiler: Compiler) -> None:
        _enable_faulthandler()
        self._code: Code | None = None
        self._words = np.zeros(3, np.int64)
        if sys.platform == "linux":
            self._code = _load(compiler)
            self._show(self._words)
            _install(self._code)

    @contextmanager
    def launching(self, text: str, places: Sequence[Place]) -> Iterator[None]:
        """While the block runs a fault is reported as this text, and those of its places."""
        if self._code is None:
            yield
            return
        texts = [text.encode(), *(said.encode() for _, said in places)]
        whole = np.frombuffer(b"".join(texts), np.uint8)
        at = whole.ctypes.data
        words = [at, len(texts[0]), len(places)]
        for ((low, high), _), before, said in zip(places, texts, texts[1:], strict=False):
            at += len(before)
            words += (low, high, at, len(said))
        table = np.array(words, np.int64)
        self._show(table)
        try:
            yield
        finally:
            self._show(self._words)
            del whole, table

    def _show(self, table: Any) -> None:
        assert self._code is not None
        at = ctypes.c_int64.from_address(self._code.addresses["table"])
        at.value = table.ctypes.data


def _enable_faulthandler() -> None:
    """Before ours, so that ours is first."""
    if not faulthandler.is_enabled():
        # Where stderr is no file, as in a notebook.
        with suppress(UnsupportedOperation, AttributeError, ValueError, RuntimeError):
            faulthandler.enable()


def _install(code: Code) -> None:
    libc = ctypes.CDLL(None)
    action = ctypes.create_string_buffer(256)
    _ACTION.pack_into(action, 0, code.addresses["on_fault"], _SA_SIGINFO, 0)
    previous = ctypes.c_void_p(code.addresses["previous"])
    libc.sigaction(int(signal.SIGSEGV), action, previous)


def _load(compiler: Compiler) -> Code:
    text = files(__package__).joinpath("fault.ll").read_text()
    blob = compiler.compile(f'target triple = "{compiler.target.triple}"\n{text}')
    return compiler.load(blob, "on_fault", "table", "previous")
