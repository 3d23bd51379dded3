"""Digests of keys that are the same in every process: what is kept on disk is found by them.

A key of `content_of` holds code and classes, which other processes have at other addresses.  Here
code is written with its constants, a class of a library by its name, one of our records by its
fields.  What has no such form is refused, as is a class of an application: what is made for it is
kept nowhere.  Libraries are taken as fixed: whoever looks for a digest has their versions besides.
"""

from __future__ import annotations

import dataclasses
import struct
import sys
import types
from collections.abc import Callable, Hashable, Mapping
from typing import Any, Final

import numpy as np

from pyrite.content.names import LIBRARIES, is_of_library
from pyrite.content.reader import ContentKey, NoContentError, content_of
from pyrite.types import DType

#: Bytes of a digest: as many as of an object of Git.
_SIZE: Final = 20


def digest_of(key: Hashable) -> str:
    """Return the digest of a key that `content_of` gave.  Raises NoContentError if it has none.

    >>> from pyrite.types import float32
    >>> digest_of((1, "x", float32)) == digest_of((1, "x", float32))
    True
    >>> digest_of(content_of((1, True))) == digest_of(content_of((1, 1)))
    False
    """
    return _digest(key).hex()


def versions_of_libraries() -> tuple[str, ...]:
    """Return the version of Python and of each library that may stand in a key, if it is loaded."""
    loaded = ((name, sys.modules.get(name)) for name in sorted(LIBRARIES))
    found = [f"{name} {getattr(module, '__version__', '')}" for name, module in loaded if module]
    return (sys.version, *found)


def _digest(key: Hashable) -> bytes:
    # Late, as in `pyrite.content.reader`: it takes a part of what `import pyrite` does.
    from hashlib import blake2b

    parts: list[bytes] = []
    _write(key, parts)
    return blake2b(b"".join(parts), digest_size=_SIZE).digest()


def _write(value: Any, parts: list[bytes]) -> None:
    """Append bytes that no other value has, and that none begins with."""
    kind = value.__class__
    if kind is int:
        parts.append(b"i%d;" % value)
    elif kind is tuple:
        parts.append(b"(%d;" % len(value))
        for x in value:
            _write(x, parts)
    elif value is None:
        parts.append(b"n")
    elif kind is DType:
        parts.append(b"d%s;" % value.name.encode())
    else:
        writer = _WRITERS.get(kind)
        if writer is not None:
            writer(value, parts)
        elif isinstance(value, type):
            _text(b"t", _class_name(value), parts)
        else:
            _object(value, kind, parts)


def _text(sign: bytes, text: str, parts: list[bytes]) -> None:
    _bytes(sign, text.encode("utf-8", "surrogatepass"), parts)


def _bytes(sign: bytes, data: bytes, parts: list[bytes]) -> None:
    parts += (b"%s%d;" % (sign, len(data)), data)


def _class_name(kind: type) -> str:
    """Return the name of a class.  Raises NoContentError for one that another may have, too."""
    if not is_of_library(kind.__module__) or "<locals>" in kind.__qualname__:
        raise NoContentError(f"{kind!r}, which other processes may know as something else")
    return f"{kind.__module__}.{kind.__qualname__}"


def _object(value: Any, kind: type, parts: list[bytes]) -> None:
    """Write an object that is equal to itself alone, by what it says or by its fields."""
    is_ours = kind.__module__.partition(".")[0] == "pyrite"
    if is_ours and hasattr(kind, "written_content"):
        content = value.written_content()
    elif is_ours and _is_record(kind):
        content = tuple([getattr(value, f.name) for f in dataclasses.fields(kind)])
    else:
        raise NoContentError(f"a {kind.__name__}, which is known in this process alone")
    _text(b"o", _class_name(kind), parts)
    _write(content_of(content), parts)


def _is_record(kind: type) -> bool:
    made = kind.__dict__.get("__dataclass_params__")
    return made is not None and made.frozen


def _code(code: types.CodeType, parts: list[bytes]) -> None:
    """Write all that code is: its lines too, which messages name."""
    _text(b"c", code.co_filename, parts)
    _text(b"s", code.co_qualname, parts)
    for data in (code.co_code, code.co_linetable, code.co_exceptiontable):
        _bytes(b"y", data, parts)
    _write(
        (
            code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags,
            code.co_firstlineno, code.co_names, code.co_varnames, code.co_freevars,
            code.co_cellvars, tuple([_constant(x) for x in code.co_consts]),
        ),
        parts,
    )  # fmt: skip


def _constant(value: Any) -> Hashable:
    """Return a constant of code as a key; code in it stays, with all of its constants."""
    return value if isinstance(value, types.CodeType) else content_of(value)


def _set(value: frozenset[Any], parts: list[bytes]) -> None:
    parts += (b"{%d;" % len(value), *sorted(map(_digest, value)))


def _key(value: ContentKey, parts: list[bytes]) -> None:
    if value.digest is None:
        value.digest = _digest(value.key)
    parts += (b"k", value.digest)


def _dtype(value: np.dtype[Any], parts: list[bytes]) -> None:
    if value.fields is not None or value.hasobject:
        raise NoContentError(f"{value!r}, which has fields")
    _text(b"p", f"{value.str} {value.name}", parts)


def _ufunc(value: np.ufunc, parts: list[bytes]) -> None:
    if getattr(np, value.__name__, None) is not value:
        raise NoContentError(f"{value!r}, which is none of NumPy's own")
    _text(b"u", value.__name__, parts)


def _builtin(value: Any, parts: list[bytes]) -> None:
    module = value.__module__ or ""
    if not is_of_library(module):
        raise NoContentError(f"{value!r}, which other processes may know as something else")
    _text(b"m", f"{module}.{value.__qualname__}", parts)


def _member(value: Any, parts: list[bytes]) -> None:
    _text(b"a", f"{_class_name(value.__objclass__)}.{value.__name__}", parts)


_WRITERS: Final[Mapping[type, Callable[[Any, list[bytes]], None]]] = {
    bool: lambda value, parts: parts.append(b"b1" if value else b"b0"),
    float: lambda value, parts: parts.append(b"f" + struct.pack("<d", value)),
    str: lambda value, parts: _text(b"s", value, parts),
    bytes: lambda value, parts: _bytes(b"y", value, parts),
    frozenset: _set,
    ContentKey: _key,
    types.CodeType: _code,
    types.BuiltinFunctionType: _builtin,
    types.MethodDescriptorType: _member,
    types.WrapperDescriptorType: _member,
    types.GetSetDescriptorType: _member,
    types.MemberDescriptorType: _member,
    types.EllipsisType: lambda value, parts: parts.append(b"e"),
    np.ufunc: _ufunc,
    **{kind: _dtype for kind in set(map(type, map(np.dtype, "?bhilqBHILQefd")))},
}
