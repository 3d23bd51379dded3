"""Keys of values by content: two values have one key only if nothing tells them apart.

``repr`` and ``==`` are none: NumPy shortens the one, and 1, 1.0 and True are equal, as 0.0 and
-0.0 are.  An array's key is a digest of its bytes, a function's its code and all that it reads
(globals, cells, defaults, what its helpers read), an object's its class and its fields.  Identity
is no content: two objects of one class with the same fields are one value.

A key holds no array and no object of an application, but classes and code.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import struct
import types
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, Final

import numpy as np

from pyrite.content.names import Path, is_of_library, names_of
from pyrite.types import DType

#: Longer strings are in a key by their digest.
_LONG: Final = 256

#: What stands for a name that is not there.
MISSING: Final = object()

#: What the decorator of a dataclass makes, from what is in a key already.
_MADE: Final = frozenset(
    ("__init__", "__repr__", "__eq__", "__hash__", "__setattr__", "__delattr__", "__replace__")
)
#: What every class has: nothing that a value means.
_BOOKKEEPING: Final = frozenset(
    (
        "__module__", "__dict__", "__weakref__", "__doc__", "__qualname__", "__annotations__",
        "__dataclass_fields__", "__dataclass_params__", "__match_args__", "__slots__",
        "__orig_bases__", "__parameters__", "__annotate__", "__annotate_func__",
        "__annotations_cache__", "__firstlineno__", "__static_attributes__", "__abstractmethods__",
        "_abc_impl",
    )
)  # fmt: skip

#: What is fixed, and equal to itself only.
_FIXED: Final = (
    types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType,
    types.MethodWrapperType, types.GetSetDescriptorType, types.MemberDescriptorType,
    types.ClassMethodDescriptorType, types.EllipsisType, types.NotImplementedType, np.dtype,
    np.ufunc, types.CodeType,
)  # fmt: skip


class NoContentError(TypeError):
    """A value has no content: nothing tells it from another of its kind, or it changes unseen."""


class ContentKey:
    """A key that is content already: `content_of` gives it back, and its hash is made once.

    >>> content_of((ContentKey((1, 2)),)) == content_of((ContentKey((1, 2)),))
    True
    """

    __slots__ = ("_hash", "digest", "key")

    def __init__(self, key: Hashable) -> None:
        self.key = key
        self._hash = hash(key)
        #: Its digest, once that was asked for: see `pyrite.content.digest`.
        self.digest: bytes | None = None

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return type(other) is ContentKey and self._hash == other._hash and self.key == other.key

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return f"ContentKey({self.key!r})"


def content_of(value: Any) -> Hashable:
    """Return a key of a value by its content.  Raises NoContentError where there is none.

    >>> content_of((1, True)) == content_of((1, 1)), content_of(0.0) == content_of(-0.0)
    (False, False)
    >>> content_of(np.zeros(3)) == content_of(np.zeros(3))
    True
    """
    kind = value.__class__
    return value if kind in _PLAIN else Reader().of(value)


class Reader:
    """Reads the content of values, and notes what it looked at.

    ``reads`` are names in namespaces, ``cells`` those of closures, ``functions`` their code and
    defaults, each with what was there.  If the same things are there again the content is the same,
    unless it is not ``is_watched``: an array was in it, say, whose elements may change.  A value is
    ``is_lasting`` if it can never change.
    """

    def __init__(self) -> None:
        self.reads: list[tuple[Mapping[str, Any], str, Any]] = []
        self.cells: list[tuple[types.CellType, Any]] = []
        self.functions: list[tuple[types.FunctionType, Any, Any, Any]] = []
        self.is_watched = True
        self.is_lasting = True
        #: The number of what is being read, the key of what was, and the value, to keep its id.
        self._open: dict[int, int] = {}
        self._done: dict[int, tuple[Any, Hashable]] = {}

    def of(self, value: Any) -> Hashable:
        """Return a key of a value.  Raises NoContentError where it has no content."""
        kind = value.__class__
        if kind in _PLAIN:
            return value  # type: ignore[no-any-return]
        exact = _EXACT.get(kind)
        if exact is not None:
            return exact(value)
        if kind is tuple:
            return self._tuple(value)
        return self._once(value, lambda: self._composed(value, kind))

    def _once(self, value: Any, read: Callable[[], Hashable]) -> Hashable:
        """Return the key of a value that may hold itself, or be met more than once."""
        number = id(value)
        if number in self._done:
            return self._done[number][1]
        if number in self._open:
            return ("again", self._open[number])
        self._open[number] = len(self._open)
        try:
            key = read()
        except RecursionError:
            raise NoContentError(f"{_named(value)}, which is nested too deeply") from None
        del self._open[number]
        self._done[number] = (value, key)
        return key

    def _tuple(self, value: tuple[Any, ...]) -> Hashable:
        """Return the key of a tuple, which holds itself only through what `_once` looks at."""
        done = self._done.get(id(value))
        if done is not None:
            return done[1]
        try:
            key = (tuple, *[x if x.__class__ in _PLAIN else self.of(x) for x in value])
        except RecursionError:
            raise NoContentError(f"{_named(value)}, which is nested too deeply") from None
        self._done[id(value)] = (value, key)
        return key

    def _composed(self, value: Any, kind: type) -> Hashable:
        if isinstance(value, enum.Enum):
            return (kind, value.name)
        if kind is frozenset:
            return self._collection(value, kind)
        if kind in (list, dict, set, bytearray):
            return self._changing(self._collection(value, kind))
        if isinstance(value, np.generic):
            return (kind, value.dtype, value.tobytes())
        if kind in (np.ndarray, np.memmap):
            return self._changing(self._array(value))
        if isinstance(value, type):
            return self._class(value)
        if isinstance(value, types.ModuleType):
            return self._module(value, [()])
        return self._callable(value, kind) or self._object(value, kind)

    def _changing(self, key: Hashable) -> Hashable:
        self.is_watched = self.is_lasting = False
        return key

    # ---- collections ----

    def _collection(self, value: Any, kind: type) -> Hashable:
        if kind is bytearray:
            return (kind, _bytes(bytes(value)))
        if kind is dict:
            return (kind, *[(self.of(k), self.of(v)) for k, v in list(value.items())])
        keys = [self.of(item) for item in list(value)]
        return (kind, frozenset(keys)) if kind in (set, frozenset) else (kind, *keys)

    def _array(self, value: Any) -> Hashable:
        if value.dtype.hasobject:
            return (np.ndarray, value.dtype, value.shape, self.of(value.ravel().tolist()))
        flat = np.ascontiguousarray(value).reshape(-1)
        data = flat.view(np.uint8) if flat.size else b""
        return (np.ndarray, value.dtype, value.shape, _digest(data))

    # ---- what has code ----

    def _callable(self, value: Any, kind: type) -> Hashable | None:
        if kind is types.FunctionType:
            return self._function(value)
        if kind is types.MethodType:
            return (kind, self.of(value.__func__), self.of(value.__self__))
        if kind is types.BuiltinFunctionType:
            owner = value.__self__
            is_free = owner is None or isinstance(owner, types.ModuleType)
            return value if is_free else (kind, value.__name__, self.of(owner))
        if isinstance(value, _FIXED):
            return value
        if isinstance(value, property):
            return (kind, self.of((value.fget, value.fset, value.fdel)))
        if isinstance(value, staticmethod | classmethod):
            return (kind, self.of(value.__func__))
        if isinstance(value, functools.cached_property):
            return (kind, self.of(value.func))
        if isinstance(value, functools._lru_cache_wrapper):
            return (kind, self.of(value.__wrapped__))
        return None

    def _function(self, value: types.FunctionType) -> Hashable:
        """Return the key of a function: its code, its defaults, and what it reads outside."""
        self.is_lasting = False
        code, namespace = value.__code__, value.__globals__
        self.functions.append((value, code, value.__defaults__, value.__kwdefaults__))
        names = names_of(code)
        read: Hashable = ()
        if not is_of_library(namespace.get("__name__")):
            read = (self._globals(namespace, names.globals), self._imports(names.imports))
        return (
            code, self.of(value.__defaults__), self._keyword_defaults(value.__kwdefaults__),
            self._closure(value, names.cells), read,
        )  # fmt: skip

    def _keyword_defaults(self, defaults: dict[str, Any] | None) -> Hashable:
        given = defaults or {}
        self.reads += [(given, name, value) for name, value in given.items()]
        return tuple([(name, self.of(value)) for name, value in given.items()])

    def _closure(self, function: types.FunctionType, paths: Iterable[Path]) -> Hashable:
        keys: list[Hashable] = []
        for name, cell in zip(
            function.__code__.co_freevars, function.__closure__ or (), strict=True
        ):
            value = _held(cell)
            self.cells.append((cell, value))
            keys.append(self._read(value, [p[1:] for p in paths if p[0] == name]))
        return tuple(keys)

    def _globals(self, namespace: dict[str, Any], paths: Iterable[Path]) -> Hashable:
        chains: dict[str, list[Path]] = {}
        for name, *rest in paths:
            chains.setdefault(name, []).append(tuple(rest))
        return tuple([(name, self._global(namespace, name, rest)) for name, rest in chains.items()])

    def _global(self, namespace: dict[str, Any], name: str, chains: list[Path]) -> Hashable:
        value = namespace.get(name, MISSING)
        self.reads.append((namespace, name, value))
        if value is MISSING:
            inherited = namespace.get("__builtins__", {})
            holder = inherited if isinstance(inherited, dict) else vars(inherited)
            value = holder.get(name, MISSING)
            self.reads.append((holder, name, value))
        try:
            return self._read(value, chains)
        except NoContentError as error:
            raise NoContentError(f"global {name}, {error}") from None

    def _imports(self, names: Iterable[str]) -> Hashable:
        for name in names:
            if not is_of_library(name):
                raise NoContentError(
                    f"module {name}, which is imported inside a function; import it above"
                )
        return ()

    def _read(self, value: Any, chains: list[Path]) -> Hashable:
        """Return the key of what a name stands for, of a module what is read of it."""
        if isinstance(value, types.ModuleType):
            return self._module(value, chains)
        return "missing" if value is MISSING else (self.of(value),)

    def _module(self, module: types.ModuleType, chains: Iterable[Path]) -> Hashable:
        if is_of_library(module.__name__):
            return (types.ModuleType, module.__name__)
        keys: list[Hashable] = []
        for chain in chains:
            if not chain:
                raise NoContentError(
                    f"module {module.__name__} itself; read a value of it: {module.__name__}.name"
                )
            name, *rest = chain
            value = vars(module).get(name, MISSING)
            self.reads.append((vars(module), name, value))
            if value is MISSING and (value := getattr(module, name, MISSING)) is not MISSING:
                self.is_watched = False
            keys.append((name, self._read(value, [tuple(rest)])))
        return (types.ModuleType, module.__name__, *keys)

    # ---- classes and objects ----

    def _class(self, value: type) -> Hashable:
        if is_of_library(value.__module__):
            return value
        # Methods may be replaced, and names added: too many to watch.
        self.is_watched, was_lasting = False, self.is_lasting
        is_made = dataclasses.is_dataclass(value)
        members = [
            (name, self.of(member))
            for name, member in list(vars(value).items())
            if name not in _BOOKKEEPING and not (is_made and name in _MADE)
        ]
        key = (value, *members, *[self.of(base) for base in value.__bases__])
        # Whoever has the class has it as it is now.
        self.is_lasting = was_lasting
        return key

    def _object(self, value: Any, kind: type) -> Hashable:
        if hasattr(kind, "__dlpack__"):
            raise NoContentError(
                f"a {kind.__name__}, whose elements are on a device (make it an input)"
            )
        if kind is object:
            # It has nothing but its identity, and is made for that.
            return value  # type: ignore[no-any-return]
        if kind.__module__.partition(".")[0] == "pyrite":
            return self._own(value, kind)
        if dataclasses.is_dataclass(kind):
            if not kind.__dataclass_params__.frozen:  # type: ignore[attr-defined]
                self._changing(None)
            fields = {f.name: getattr(value, f.name, MISSING) for f in dataclasses.fields(kind)}
            return self._fields(kind, {**fields, **getattr(value, "__dict__", {})})
        return self._changing(self._reduced(value, kind))

    def _fields(self, kind: type, fields: Mapping[str, Any]) -> tuple[Hashable, ...]:
        return (self.of(kind), *[(name, self._read(v, [()])) for name, v in fields.items()])

    def _own(self, value: Any, kind: type) -> Hashable:
        """Return the key of an object of ours, which are values or compared by identity.

        For a value it is that of the fields: equal ones may hold 0.0 and -0.0.
        """
        if kind in _VALUES or _is_value(kind):
            return (kind, *[self.of(getattr(value, name)) for name in _VALUES[kind]])
        try:
            hash(value)
        except TypeError:
            raise NoContentError(f"a {kind.__name__}, which is no value") from None
        return value  # type: ignore[no-any-return]

    def _reduced(self, value: Any, kind: type) -> Hashable:
        """Return the key of an object by what it would be made of in another process."""
        try:
            reduced = value.__reduce_ex__(4)
        except Exception as error:
            raise NoContentError(f"{_named(value)}: {error}") from None
        if isinstance(reduced, str):
            if not is_of_library(kind.__module__):
                raise NoContentError(f"{_named(value)}, which is known by a name only")
            return (kind, reduced)
        made, arguments, *state = reduced
        parts = [self.of(made), self.of(arguments), self.of(state[0] if state else None)]
        parts += [self.of(None if items is None else list(items)) for items in state[1:3]]
        # Its class may leave out fields of what it says is its state.
        return (
            self.of(kind),
            *parts,
            *self._fields(kind, dict(getattr(value, "__dict__", {})))[1:],
        )


def _is_value(kind: type) -> bool:
    """Whether a class of ours is a dataclass that is compared by its fields; notes these."""
    made = kind.__dict__.get("__dataclass_params__")
    if made is None or not (made.frozen and made.eq):
        return False
    _VALUES[kind] = tuple(f.name for f in dataclasses.fields(kind) if f.compare)
    return True


#: The fields of classes of ours that are values.
_VALUES: Final[dict[type, tuple[str, ...]]] = {}


def _held(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return MISSING


# ---- plain values ----


def _float(value: float) -> Hashable:
    # Zeros have a sign, and NaN equals nothing, but has bits.
    return (float, value if value and value == value else struct.pack("<d", value))


def _complex(value: complex) -> Hashable:
    return (complex, struct.pack("<dd", value.real, value.imag))


def _str(value: str) -> Hashable:
    if len(value) <= _LONG:
        return value
    return (str, len(value), _digest(value.encode("utf-8", "surrogatepass")))


def _bytes(value: bytes) -> Hashable:
    return (bytes, value if len(value) <= _LONG else (len(value), _digest(value)))


def _digest(data: Any) -> bytes:
    # It brings OpenSSL: 3 ms, of the 100 that `import pyrite` takes beside NumPy.
    from hashlib import blake2b

    return blake2b(data, digest_size=20).digest()


def _named(value: Any) -> str:
    text = object.__repr__(value)
    return text if len(text) < 100 else f"{text[:100]}..."


#: Their values are keys as they are.
_PLAIN: Final = frozenset({int, type(None), DType, ContentKey})

_EXACT: Final[Mapping[type, Callable[[Any], Hashable]]] = {
    bool: lambda value: (bool, value),
    float: _float,
    complex: _complex,
    str: _str,
    bytes: _bytes,
    range: lambda value: (range, value.start, value.stop, value.step),
    slice: lambda value: (slice, *[content_of(v) for v in (value.start, value.stop, value.step)]),
}
