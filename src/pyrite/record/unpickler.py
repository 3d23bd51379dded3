"""Reads pickles as data: plain values and the few names that a caller allows, nothing else.

A pickle is a program, and Python's own machine runs it: any function can be called, a memo index of
2**31 allocates gigabytes, a deep tuple used as a key overflows the C stack.  Restricting
``find_class`` of that machine stops only the first.  This one decodes with ``pickletools`` and
knows just the opcodes that containers, text, numbers and allowed calls need.  Invariants: no name
is imported or looked up outside ``allowed``; dict keys are text or integers; work and memory are
linear in the size of the pickle.
"""

from __future__ import annotations

import pickletools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any

from pyrite.errors import RecordError
from pyrite.record.safetensors import brief

#: A tensor takes about 35: so many are those of a hundred thousand tensors, and a few seconds.
MAX_OPCODES = 1 << 22
#: What lists and dicts hold in all: the optimiser's state of 250,000 tensors, or half a second.
MAX_ITEMS = 1_000_000


@dataclass(frozen=True)
class Constructor:
    """An allowed global that a pickle may call; ``name`` is what the pickle calls it."""

    name: str
    call: Callable[..., Any]


def unpickle(
    data: bytes,
    *,
    allowed: Mapping[str, object],
    persistent: Callable[[object], object],
    owner: str,
) -> object:
    r"""Return the value that ``data`` describes, without running any code of its choice.

    allowed: global name (``"module.name"``) -> a Constructor, or a value to put in its place.
    persistent: what stands for a persistent id.
    owner: what the bytes are, for errors.

    Raises RecordError for any other global, by name, and for a malformed pickle.

    >>> unpickle(b"\x80\x02}X\x01\x00\x00\x00aK\x05s.", allowed={}, persistent=repr, owner="x")
    {'a': 5}
    """
    machine = _Machine(allowed, persistent, owner)
    position: int | None = 0
    step, steps = machine.step, count(1)
    try:
        for opcode, argument, position in pickletools.genops(data):  # noqa: B007 (for the error)
            if next(steps) > MAX_OPCODES:
                raise RecordError(f"{owner} requires at most {MAX_OPCODES} steps, got more")
            if opcode.name == "STOP":
                return machine.result()
            step(opcode.name, argument)
    except RecordError:
        raise
    except _MALFORMED as error:
        raise RecordError(
            f"{owner} requires a well-formed pickle, got {error!s:.100} near byte {position}; "
            "it is damaged, copy it again"
        ) from error
    raise RecordError(f"{owner} requires a pickle that ends with STOP, got {len(data)} bytes")


#: What a step raises on nonsense.  The warning is pickletools' about escapes in a damaged name,
#: which is an exception only where the user made warnings so.
_MALFORMED = (ValueError, IndexError, KeyError, TypeError, OverflowError, DeprecationWarning)


class _Machine:
    """A stack, the marks on it, and a memo."""

    def __init__(
        self,
        allowed: Mapping[str, object],
        persistent: Callable[[object], object],
        owner: str,
    ) -> None:
        self.allowed = allowed
        self.persistent = persistent
        self.owner = owner
        self.stack: list[Any] = []
        self.marks: list[int] = []
        self.memo: dict[int, Any] = {}
        self._held = 0

    def step(self, opcode: str, argument: Any) -> None:
        if opcode in _LITERALS:
            self.stack.append(argument)
        elif opcode in _ACTIONS:
            _ACTIONS[opcode](self, argument)
        elif opcode not in _IGNORED:
            raise RecordError(
                f"{self.owner} requires a pickle of plain containers and tensors, got the opcode "
                f"{opcode}; save model.state_dict() instead of the model"
            )

    def result(self) -> object:
        if len(self.stack) != 1 or self.marks:
            raise ValueError(f"{len(self.stack)} values at the end")
        return self.stack[0]

    def pop_to_mark(self) -> list[Any]:
        start = self.marks.pop()
        items = self.stack[start:]
        del self.stack[start:]
        return items

    def pop(self, count: int) -> list[Any]:
        if count > len(self.stack) - (self.marks[-1] if self.marks else 0):
            raise IndexError("an empty stack")
        items = self.stack[len(self.stack) - count :]
        del self.stack[len(self.stack) - count :]
        return items

    def top(self, kind: type) -> Any:
        if not isinstance(self.stack[-1], kind):
            raise TypeError(f"{type(self.stack[-1]).__name__} for {kind.__name__}")
        return self.stack[-1]

    def append(self, items: list[Any]) -> None:
        self._hold(len(items))
        self.top(list).extend(items)

    def _hold(self, count: int) -> None:
        """Count what is put into containers."""
        self._held += count
        if self._held > MAX_ITEMS:
            raise RecordError(f"{self.owner} requires at most {MAX_ITEMS} values, got more")

    def set_items(self, flat: list[Any]) -> None:
        if len(flat) % 2:
            raise ValueError("a key without a value")
        self._hold(len(flat) // 2)
        target = self.top(dict)
        for key, value in zip(flat[::2], flat[1::2], strict=True):
            # Hashing nested tuples recurses in C, and state dicts have no other keys.
            if not isinstance(key, str) and not (isinstance(key, int) and key.bit_length() < 64):
                raise TypeError(f"a key {brief(key)}")
            target[key] = value

    def memoize(self, index: int) -> None:
        self.memo[index] = self.stack[-1]

    def find_global(self, name: str) -> None:
        if name not in self.allowed:
            raise RecordError(
                f"{self.owner} requires plain containers and tensors, got the global "
                f"{brief(name)}, which was not imported; re-save it in PyTorch as "
                "torch.save(model.state_dict(), path)"
            )
        self.stack.append(self.allowed[name])

    def stack_global(self) -> None:
        module, name = self.pop(2)
        if not isinstance(module, str) or not isinstance(name, str):
            raise TypeError("a global whose name is not text")
        self.find_global(f"{module}.{name}")

    def reduce(self) -> None:
        function, arguments = self.pop(2)
        if not isinstance(function, Constructor) or not isinstance(arguments, tuple):
            raise TypeError(f"a call of a {type(function).__name__}")
        try:
            self.stack.append(function.call(*arguments))
        except RecordError as error:  # constructors know the tensor, we know the file
            raise RecordError(f"{self.owner}: {error}") from error

    def build(self) -> None:
        """Drop attributes set on a dict: ``_metadata``, the layer versions of a state dict."""
        self.pop(1)
        self.top(dict)


_LITERALS = frozenset(
    "BININT BININT1 BININT2 LONG1 LONG4 BINFLOAT BINUNICODE SHORT_BINUNICODE BINUNICODE8 "
    "BINSTRING SHORT_BINSTRING BINBYTES SHORT_BINBYTES BINBYTES8".split()
)
_IGNORED = frozenset({"PROTO", "FRAME"})
_ACTIONS: Mapping[str, Callable[[_Machine, Any], None]] = {
    "NONE": lambda m, _: m.stack.append(None),
    "NEWTRUE": lambda m, _: m.stack.append(True),
    "NEWFALSE": lambda m, _: m.stack.append(False),
    "EMPTY_DICT": lambda m, _: m.stack.append({}),
    "EMPTY_LIST": lambda m, _: m.stack.append([]),
    "EMPTY_TUPLE": lambda m, _: m.stack.append(()),
    "MARK": lambda m, _: m.marks.append(len(m.stack)),
    "TUPLE": lambda m, _: m.stack.append(tuple(m.pop_to_mark())),
    "TUPLE1": lambda m, _: m.stack.append(tuple(m.pop(1))),
    "TUPLE2": lambda m, _: m.stack.append(tuple(m.pop(2))),
    "TUPLE3": lambda m, _: m.stack.append(tuple(m.pop(3))),
    "APPEND": lambda m, _: m.append(m.pop(1)),
    "APPENDS": lambda m, _: m.append(m.pop_to_mark()),
    "SETITEM": lambda m, _: m.set_items(m.pop(2)),
    "SETITEMS": lambda m, _: m.set_items(m.pop_to_mark()),
    "BINPUT": lambda m, index: m.memoize(index),
    "LONG_BINPUT": lambda m, index: m.memoize(index),
    "MEMOIZE": lambda m, _: m.memoize(len(m.memo)),
    "BINGET": lambda m, index: m.stack.append(m.memo[index]),
    "LONG_BINGET": lambda m, index: m.stack.append(m.memo[index]),
    "GLOBAL": lambda m, name: m.find_global(name.replace(" ", ".", 1)),
    "STACK_GLOBAL": lambda m, _: m.stack_global(),
    "REDUCE": lambda m, _: m.reduce(),
    "BUILD": lambda m, _: m.build(),
    "BINPERSID": lambda m, _: m.stack.append(m.persistent(m.pop(1)[0])),
}
