"""The configuration of a model or a run: a dataclass that is saved as JSON and loaded again.

    @dataclass(frozen=True)
    class Net:
        width: int
        dropout: float = 0.1
        activation: Literal["relu", "gelu"] = "relu"

    save_config("net.json", Net(width=64))
    config = load_config("net.json", Net)

Fields are bool, int, float, str, None, Literal, Enum (by value), other dataclasses, lists, tuples
and dicts by text of these, and unions with at most one dataclass.

Invariant: what is loaded is what was saved, of the same types, or it is an error that names the
field; no value is converted but an int for a float.
"""

from __future__ import annotations

import dataclasses
import enum
import json
import math
import types
import typing
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

from pyrite.errors import DTypeError, RecordError
from pyrite.opening import PathLike, open_file, reader
from pyrite.record.atomic import atomic_write

C = TypeVar("C")


class _Misfit(Exception):
    """A value that is not of a field's type: which field, and why."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{reason} for {path or 'the whole'}")


def save_config(path: PathLike, config: Any) -> None:
    """Write a dataclass as JSON, in the place of what was there.

    Raises DTypeError if it is no dataclass, or a field holds what its type or JSON does not allow;
    OSError if it cannot be written.
    """
    if not dataclasses.is_dataclass(config) or isinstance(config, type):
        raise DTypeError(f"save_config requires a dataclass, got {type(config).__name__}")
    try:
        tree = _encoded(config, "")
        if _decoded(tree, type(config), "") != config:
            raise _Misfit("", "a value that would not be loaded as it is")
    except _Misfit as misfit:
        name = type(config).__name__
        raise DTypeError(f"save_config requires a {name} that JSON holds, got {misfit}") from None
    with atomic_write(path) as file:
        file.write((json.dumps(tree, indent=2, allow_nan=False) + "\n").encode())


@reader("config", RecordError)
def load_config(path: PathLike, kind: type[C]) -> C:
    """Return the dataclass of a kind that a JSON file holds; fields with a default may be absent.

    Raises RecordError, naming file and field, if it cannot be read, lacks a field, has one more, or
    a value of another type; DTypeError if kind is no dataclass.

    >>> import tempfile, dataclasses
    >>> @dataclasses.dataclass
    ... class Net:
    ...     width: int
    ...     rates: tuple[float, ...] = (0.1,)
    >>> path = tempfile.mkdtemp() + "/net.json"
    >>> save_config(path, Net(64, (0.5, 0.25)))
    >>> load_config(path, Net)
    Net(width=64, rates=(0.5, 0.25))
    """
    if not (isinstance(kind, type) and dataclasses.is_dataclass(kind)):
        raise DTypeError(f"load_config requires a dataclass, got {kind!r}")
    try:
        with open_file(path) as file:
            tree = json.loads(file.read().decode("utf-8-sig"))
    except OSError as error:
        raise RecordError(
            f"config requires a readable file, got {path}: {error.strerror}"
        ) from error
    except (ValueError, RecursionError) as error:
        raise RecordError(f"config requires JSON, got {error} in {path}") from error
    try:
        return typing.cast(C, _decoded(tree, kind, ""))
    except _Misfit as misfit:
        raise RecordError(f"config requires a {kind.__name__}, got {misfit} in {path}") from None


def _encoded(value: Any, path: str) -> Any:
    """Return a value as JSON holds it."""
    if isinstance(value, enum.Enum):
        return _encoded(value.value, path)
    if value is None or type(value) in (bool, int, str):
        return value
    if type(value) is float:
        if not math.isfinite(value):
            raise _Misfit(path, f"{value}, which JSON lacks,")
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value) if field.init]
        return {name: _encoded(getattr(value, name), _join(path, name)) for name in names}
    if isinstance(value, list | tuple):
        return [_encoded(element, f"{path}[{i}]") for i, element in enumerate(value)]
    if isinstance(value, dict) and all(type(key) is str for key in value):
        return {key: _encoded(element, _join(path, key)) for key, element in value.items()}
    raise _Misfit(path, f"a {type(value).__name__}")


def _decoded(tree: Any, kind: Any, path: str) -> Any:
    """Return the value of type kind that JSON's tree stands for."""
    if get_origin(kind) is typing.Annotated:
        kind = get_args(kind)[0]
    if get_origin(kind) in (Union, types.UnionType):
        return _one_of(tree, get_args(kind), path)
    if get_origin(kind) is Literal:
        if not any(tree == choice and type(tree) is type(choice) for choice in get_args(kind)):
            raise _Misfit(path, f"{tree!r} in the place of one of {get_args(kind)}")
        return tree
    if get_origin(kind) in (list, tuple, dict) or kind in (list, tuple, dict):
        return _container(tree, kind, path)
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        return _dataclass(tree, kind, path)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        try:
            return kind(tree)
        except ValueError:
            choices = [member.value for member in kind]
            raise _Misfit(path, f"{tree!r} in the place of one of {choices}") from None
    return _scalar(tree, kind, path)


def _scalar(tree: Any, kind: Any, path: str) -> Any:
    if kind is Any:
        return tree
    if kind in (None, type(None)) and tree is None:
        return None
    if kind is float and type(tree) is int:
        return float(tree)
    if kind in (bool, int, float, str) and type(tree) is kind:
        return tree
    raise _Misfit(path, f"{tree!r:.80} in the place of a {getattr(kind, '__name__', kind)}")


def _container(tree: Any, kind: Any, path: str) -> Any:
    origin, arguments = get_origin(kind) or kind, get_args(kind)
    if origin is dict:
        if not isinstance(tree, dict):
            raise _Misfit(path, f"{tree!r:.80} in the place of a dict")
        value = arguments[1] if arguments else Any
        return {key: _decoded(part, value, _join(path, key)) for key, part in tree.items()}
    if not isinstance(tree, list):
        raise _Misfit(path, f"{tree!r:.80} in the place of a {origin.__name__}")
    if origin is tuple and arguments and arguments[-1] is not Ellipsis:
        if len(arguments) != len(tree):
            raise _Misfit(path, f"{len(tree)} elements in the place of {len(arguments)}")
        kinds = list(arguments)
    else:
        kinds = [arguments[0] if arguments else Any] * len(tree)
    pairs = enumerate(zip(tree, kinds, strict=True))
    return origin(_decoded(part, one, f"{path}[{i}]") for i, (part, one) in pairs)


def _one_of(tree: Any, kinds: tuple[Any, ...], path: str) -> Any:
    if tree is None and type(None) in kinds:
        return None
    failed: list[_Misfit] = []
    # What a kind takes as it is goes before what it converts: 1 of `float | int` is an int.
    for kind in sorted(kinds, key=lambda kind: kind is not type(tree)):
        try:
            return _decoded(tree, kind, path)
        except _Misfit as misfit:
            failed.append(misfit)
    others = [kind for kind in kinds if kind is not type(None)]
    if len(others) == 1:
        raise failed[-1] if kinds[-1] is others[0] else failed[0]
    raise _Misfit(path, f"{tree!r:.80} in the place of one of {others}")


def _dataclass(tree: Any, kind: type, path: str) -> Any:
    if not isinstance(tree, dict):
        raise _Misfit(path, f"{tree!r:.80} in the place of a {kind.__name__}")
    hints = typing.get_type_hints(kind, include_extras=True)
    fields = {field.name: field for field in dataclasses.fields(kind) if field.init}
    if unknown := sorted(tree.keys() - fields.keys()):
        raise _Misfit(path, f"fields {unknown} besides {list(fields)}")
    values = {name: _decoded(part, hints[name], _join(path, name)) for name, part in tree.items()}
    absent = [
        name
        for name, field in fields.items()
        if name not in tree
        and field.default is dataclasses.MISSING
        and field.default_factory is dataclasses.MISSING
    ]
    if absent:
        raise _Misfit(path, f"no values of fields {absent}")
    try:
        return kind(**values)
    except (TypeError, ValueError) as error:  # what its __post_init__ refuses
        raise _Misfit(path, f"{type(error).__name__}: {error}") from error


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
