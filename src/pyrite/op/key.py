"""Keys of what is made for a call: its attributes, and all that its rules read.

The rules of Pyrite's ops depend on nothing but their arguments.  Those of an application may read
its globals, and belong to the key with what these hold.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from pyrite.content import NoContentError, content_of
from pyrite.errors import ArgumentError
from pyrite.op.record import Attributes, Op

#: What an attribute, or what a rule reads, may be.
_FIX = (
    "give numbers, strings, dtypes, enums, arrays, or tuples, lists, dataclasses and functions of "
    "such"
)


def attributes_key(op: Op, attrs: Attributes) -> Hashable:
    """Return a key of attributes by content.  Raises ArgumentError for one that has none."""
    return tuple([(name, _content(op, name, attrs[name])) for name in sorted(attrs)])


def _content(op: Op, name: str, value: Any) -> Hashable:
    try:
        return content_of(value)
    except NoContentError as error:
        raise without_content(op, name, error) from None


def without_content(op: Op, name: str, error: NoContentError) -> ArgumentError:
    """Return the error of an attribute that has no content."""
    return ArgumentError(f"{op.name} requires attributes with content, got {name}={error}; {_FIX}")


def rules_key(op: Op) -> Hashable:
    """Return a key of what an application's rules are and read, None for an op of Pyrite.

    Raises ArgumentError where rules read what has no content.  A body may: then it is no part of
    the key, and is run at each call.
    """
    if op.reads is None and op.body_reads is None:
        return None
    try:
        own = None if op.reads is None else op.reads.key()
    except NoContentError as error:
        raise ArgumentError(
            f"{op.name} requires rules that read values with content, got {error}; {_FIX}"
        ) from None
    return own if op.body_reads is None else (own, body_key(op))


def body_key(op: Op) -> Hashable | None:
    """Return a key of what an application's body reads, None where that has no content."""
    assert op.body_reads is not None, "an application's op with a body"
    try:
        return op.body_reads.key()
    except NoContentError:
        return None
