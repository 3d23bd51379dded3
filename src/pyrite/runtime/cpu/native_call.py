"""Functions of CPython's that make calls of ops by machine code: `call.ll` and others here.

From Python a launch of one op takes 1.7 µs between the look-up and the result, from machine code
0.3.  So CPython's C API is called as an extension would, but from LLVM IR, which needs no compiler
where Pyrite is installed.

What is not of the API are the places of slots in an object.  They are not assumed, but found: an
object with a value in a slot is looked through for the address of that value.  Where that fails, on
other Pythons than CPython, and on one without its lock, there is no such function.
"""

from __future__ import annotations

import ctypes
import struct
import sys
import sysconfig
from collections.abc import Callable, Sequence
from importlib.resources import files
from importlib.resources.abc import Traversable
from types import MemberDescriptorType
from typing import Any, Final

from pyrite.columns import owner_of
from pyrite.runtime.cpu.linker import Code
from pyrite.runtime.cpu.module import Compiler

#: The functions of the C API that all call, in their order; and those of some alone.
_FUNCTIONS: Final = (
    "Py_IncRef", "Py_DecRef", "PyBytes_AsString", "PyList_Size", "PyList_GetItem", "PyTuple_New",
    "PyTuple_SetItem", "PyObject_GetAttr", "PyDict_GetItemWithError", "PyObject_Size",
    "PyList_New", "PyObject_Vectorcall", "PyType_GenericAlloc", "PyErr_Clear",
    "PyBytes_FromStringAndSize", "PyLong_AsLongLong", "PyList_Append", "PyFloat_AsDouble",
    "PyList_SetItem", "PyErr_Occurred",
)  # fmt: skip
_MORE: Final[dict[str, tuple[str, ...]]] = {
    "binding": (
        "PySequence_GetItem", "PyTuple_GetItem", "PyTuple_GetSlice", "PyDict_Next",
        "PySequence_Concat", "PyLong_FromLongLong",
    ),
    "handing_on": ("PyContextVar_Get",),
    "columns": ("PyTuple_GetItem", "PyLong_FromLongLong"),
    "holding": ("PyLong_FromLongLong",),
    "lending": ("PyTuple_GetItem",),
    "making": ("PyTuple_GetItem",),
    "nodes": (
        "PyTuple_GetItem", "PyLong_FromLongLong", "PyDict_Copy", "PyDict_SetItem",
        "PyObject_GenericSetAttr",
    ),
    "recording": (
        "PyTuple_GetItem", "PyDict_SetItem", "PyLong_FromLongLong", "PyLong_FromVoidPtr",
        "Py_NewRef", "PyList_AsTuple",
    ),
    "tape": (
        "PyTuple_GetItem", "PyLong_FromLongLong", "PySequence_GetItem", "PyIter_Next",
        "PyContextVar_Get",
    ),
}  # fmt: skip
#: What stands behind a source, with its table.
_BEHIND: Final[dict[str, tuple[str, ...]]] = {
    "binding": ("rows", "sorting", "subscript"), "call": ("numbers",),
    "operands": ("commands", "numbers"), "recording": ("recorded_results", "passage"),
    "tape": ("noted_node", "noted_results"),
}  # fmt: skip
#: The most inputs of a call; and values: addresses of tensors, of buffers that are lent, numbers.
MOST_INPUTS: Final = 8
MOST_VALUES: Final = 24

#: A class, a slot of it, and an object whose slot is empty, if one cannot be made of nothing.
Slot = tuple[type, str, object]
#: Which word of the table of `call.ll` says where an object has its class.
CLASS_FIELD: Final = 42

#: What stands behind calls on a device: first what all have in common.
_CALLS: Final = {
    "call": ("calls", "numbers"),
    "../wgpu/call": ("calls", "numbers", "../wgpu/storages", "../wgpu/launches"),
}

_FASTCALL: Final = 0x80
_WORD: Final = struct.Struct("@q")
_new = object.__new__


class _Method(ctypes.Structure):
    """CPython's PyMethodDef."""

    _fields_ = (
        ("name", ctypes.c_char_p), ("function", ctypes.c_void_p), ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )  # fmt: skip


def is_possible() -> bool:
    """Whether objects of this Python may be read where they lie, by whom holds its lock."""
    return (
        sys.implementation.name == "cpython"
        and not sysconfig.get_config_var("Py_GIL_DISABLED")
        and ctypes.sizeof(ctypes.c_void_p) == _WORD.size
        and all(hasattr(ctypes.pythonapi, name) for name in (*_FUNCTIONS, *sum(_MORE.values(), ())))
    )


def functions(source: str = "call") -> bytes:
    """Return the addresses of the functions of the C API that a source calls."""
    return b"".join(map(c_function, (*_FUNCTIONS, *_MORE.get(source, ()))))


def c_function(name: str) -> bytes:
    """Return the address of a function of the C API."""
    return word(ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value)


def word(value: Any) -> bytes:
    """Return 8 bytes of a whole number or a float."""
    return struct.pack("@d", value) if isinstance(value, float) else _WORD.pack(value)


def address(object: object) -> bytes:
    """Return the address of an object, which somebody has to hold."""
    return _WORD.pack(id(object))


def place_of_class(object: object) -> int | None:
    """Return at which byte of an object its class is."""
    return _place(object, type(object))


def place_of_slot(cls: type, name: str, example: object = None) -> int | None:
    """Return at which byte of its objects a class has a slot; None where that cannot be told.

    ``example`` is an object of the class whose slot is empty, if one cannot be made of nothing, or
    has an object there that is nowhere else in it.
    """
    slot = vars(cls).get(name)
    if not isinstance(slot, MemberDescriptorType):
        return None
    if (value := getattr(example, name, None)) is not None:
        return _place(example, value)
    found = set[int | None]()
    for _ in range(2):
        holder = _new(cls) if example is None else example
        value = _new(object)
        slot.__set__(holder, value)
        found.add(_place(holder, value))
        slot.__delete__(holder)
    return found.pop() if len(found) == 1 else None


def places_of(slots: Sequence[Slot]) -> list[int] | None:
    """Return at which bytes objects have their class and these slots; None if that is not known."""
    if not is_possible():
        return None
    places = [place_of_class(object()), *[place_of_slot(*slot) for slot in slots]]
    known = [place for place in places if place is not None]
    return known if len(known) == len(places) else None


def begins_with_count() -> bool:
    """Whether the first 32 bits of an object count the references to it."""
    held = [_new(object)]
    count = ctypes.c_uint32.from_address(id(held[0]))
    found = [count.value]
    for _ in range(3):
        held.append(held[0])
        found.append(count.value)
    return found == [1, 2, 3, 4]


def _place(holder: object, value: object) -> int | None:
    """Return at which byte of an object the address of another one is, if at one alone."""
    size = type(holder).__basicsize__
    memory = (ctypes.c_int64 * (size // _WORD.size)).from_address(id(holder))
    found = [n for n, word in enumerate(memory) if word == id(value)]
    return found[0] * _WORD.size if len(found) == 1 else None


def machine_code(
    compiler: Compiler, source: str, held: Sequence[object], slots: Sequence[Slot],
    name: str = "execute",
) -> Callable[..., Any] | None:  # fmt: skip
    """Return a function of a source; None where that cannot be.

    Its table has the functions of the C API, the objects that are ``held``, and where objects have
    their class and these slots.
    """
    places = places_of(slots)
    if places is None:
        return None
    first = functions(source)
    fields = b"".join([first, *map(address, held), *map(word, places)])
    class_field = len(first) // _WORD.size + len(held)
    return native_function(compiler, source, fields, held, class_field, name)


def maker_of(
    compiler: Compiler, cls: type, names: Sequence[str]
) -> Callable[..., list[Any]] | None:
    """Return what makes many objects of a class with these slots; see `Maker`."""
    slots: list[Slot] = [(owner_of(cls, name), name, _new(cls)) for name in names]
    return machine_code(compiler, "making", (tuple, list, cls), slots)


def column_code(
    compiler: Compiler, name: str, slow: Callable[..., Any], cls: type, slot: str
) -> Callable[..., Any] | None:
    """Return what does one thing with many objects of a class; see `pyrite.columns`."""
    if name.startswith("held"):
        if not begins_with_count():
            return None
        return machine_code(compiler, "holding", (list, bytes, None, slow), (), name)
    if name == "nodes":
        return machine_code(compiler, "nodes", (None, _new, "__dict__"), (), name)
    slots: list[Slot] = [(owner_of(cls, slot), slot, _new(cls))]
    return machine_code(compiler, "columns", (tuple, list, None, slow, cls), slots, name)


def native_function(
    compiler: Compiler, source: str, fields: bytes, held: Sequence[object], class_field: int,
    name: str = "execute",
) -> Callable[..., Any] | None:  # fmt: skip
    """Return a function of a source, with the bytes of its table; it holds the given objects.

    ``class_field`` is the word of the table that says where an object has its class.  None where
    the bytes of an object are not where those of another one are.
    """
    begins = {_bytes_of(x) - id(x) for x in (fields, b"", bytes(1), bytes(1000))}
    if len(begins) != 1:
        return None
    code = _load(compiler, source, begins.pop(), class_field, name)
    method = _Method(name.encode(), code.addresses[name], _FASTCALL, None)
    new = ctypes.pythonapi["PyCFunction_NewEx"]  # ours alone, unlike the attribute of that name
    new.restype = ctypes.py_object
    new.argtypes = [ctypes.c_void_p, ctypes.py_object, ctypes.py_object]
    # What is held stands where CPython has the name of a module: as long as the function is there.
    made: Callable[..., Any] = new(ctypes.addressof(method), fields, (code, method, *held))
    return made


def _bytes_of(given: bytes) -> int:
    found = ctypes.cast(ctypes.c_char_p(given), ctypes.c_void_p).value
    assert found is not None
    return found


def _text(here: Traversable, name: str) -> str:
    """Return the text of a source, which may stand in a folder beside this one."""
    return here.joinpath(*f"{name}.ll".split("/")).read_text()


def _load(compiler: Compiler, source: str, begin: int, class_field: int, name: str) -> Code:
    known = compiler.natives.get((source, begin, class_field, name))
    if known is not None:
        return known
    here = files(__package__)
    behind = (*_BEHIND.get(source, ()), *_CALLS.get(source, ()))
    texts = [*dict.fromkeys(("objects", source, *behind))]
    # The sources of this package are part of every key.
    elsewhere = [_text(here, name) for name in texts if name.startswith("../")]
    key = compiler.key(source, str(begin), *elsewhere)

    def make() -> bytes:
        text = "".join([_text(here, name) for name in texts])
        text = text.replace("BYTES_BEGIN", str(begin))
        text = text.replace("CLASS_FIELD", str(class_field))
        text = f'target triple = "{compiler.target.triple}"\n{text}'
        # Half a microsecond of an op that is tracked.
        return compiler.compile(compiler.optimised(text))

    # Columns of many classes have the same code, with tables of their own.
    found = compiler.natives[source, begin, class_field, name] = compiler.cached(key, make, name)
    return found
