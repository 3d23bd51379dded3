"""What a model is given and returns, by name: tensors in arguments, tuples, dicts and caches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from fnmatch import fnmatchcase
from inspect import Parameter, signature
from typing import Any

from pyrite.errors import ArgumentError
from pyrite.nn import Module
from pyrite.tensor.tensor import Tensor

#: From an axis to the symbol of its size.
Axes = Mapping[int, str]


@dataclass(frozen=True, slots=True)
class Arguments:
    """The arguments of forward by name, and whether they are given in order or by name."""

    values: dict[str, Any]
    in_order: bool

    def call(self, model: Module) -> Any:
        """Return what a model returns for them."""
        if self.in_order:
            return model(*self.values.values())
        return model(**self.values)


def arguments_of(model: Module, example: Any) -> Arguments:
    """Return the example as arguments of forward.

    example: a tensor, a tuple or list of arguments in order, or a dict of them by name.
    """
    if type(example) is dict:
        found = Arguments(dict(example), in_order=False)
    else:
        values = example if type(example) in (tuple, list) else (example,)
        names = _names(model, len(values))
        found = Arguments(dict(zip(names, values, strict=True)), in_order=True)
    if not any(True for _ in named_tensors(found.values, "")):
        raise ArgumentError("export requires an example with tensors, got none")
    return found


def _names(model: Module, count: int) -> list[str]:
    """Return the names of the first arguments of forward."""
    found: list[str] = []
    for parameter in signature(model.forward).parameters.values():
        if parameter.kind is Parameter.VAR_POSITIONAL:
            found += [f"{parameter.name}_{i}" for i in range(count - len(found))]
        elif parameter.kind in (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD):
            found.append(parameter.name)
    if count > len(found):
        raise ArgumentError(
            f"export requires an example of at most {len(found)} arguments of forward in order "
            f"({', '.join(found)}), got {count}; give others by name, in a dict"
        )
    return found[:count]


def named_tensors(value: Any, name: str) -> Iterator[tuple[str, Tensor]]:
    """Give the tensors in a value with their names: ``cache.key``, ``states.0``."""
    if isinstance(value, Tensor):
        yield name, value
        return
    for key, child in _children(value):
        yield from named_tensors(child, f"{name}.{key}" if name else str(key))


def _children(value: Any) -> Sequence[tuple[Any, Any]]:
    if isinstance(value, Mapping):
        return list(value.items())
    if hasattr(value, "_fields"):
        return list(zip(value._fields, value, strict=True))
    if isinstance(value, list | tuple):
        return list(enumerate(value))
    if is_dataclass(value) and not isinstance(value, type):
        return [(f.name, getattr(value, f.name)) for f in fields(value)]
    return ()


def named_results(value: Any) -> list[tuple[str, Tensor]]:
    """Return what a model returned: ``output``, or several with their names or numbers."""
    if isinstance(value, Tensor):
        return [("output", value)]
    named = isinstance(value, Mapping) or hasattr(value, "_fields")
    return list(named_tensors(value, "" if named else "output"))


def dynamic_axes(
    tensors: Mapping[str, Tensor], dynamic: Mapping[str, Axes]
) -> dict[str, dict[int, str]]:
    """Return the symbols of each input's axes.  Names in ``dynamic`` may be patterns: "cache.*"."""
    found: dict[str, dict[int, str]] = {name: {} for name in tensors}
    for pattern, axes in dynamic.items():
        matching = [name for name in tensors if fnmatchcase(name, pattern)]
        if not matching:
            raise ArgumentError(
                f"export requires names of inputs in dynamic, got {pattern!r}; they are "
                f"{', '.join(tensors)}"
            )
        for name in matching:
            found[name] |= _axes_of(name, tensors[name], axes)
    return found


def _axes_of(name: str, tensor: Tensor, axes: Axes) -> dict[int, str]:
    found = {}
    for axis, symbol in axes.items():
        if not -tensor.ndim <= axis < tensor.ndim:
            raise ArgumentError(
                f"export requires dynamic axes of {name} {tensor.shape}, got axis {axis}"
            )
        if not isinstance(symbol, str) or not symbol:
            raise ArgumentError(f"export requires a name for axis {axis} of {name}, got {symbol!r}")
        found[axis % tensor.ndim] = symbol
    return found


def sizes_of(
    tensors: Mapping[str, Tensor], dynamic: Mapping[str, Mapping[int, str]]
) -> dict[str, int]:
    """Return the size of each symbol in the example, which is the same wherever it stands."""
    sizes: dict[str, int] = {}
    for name, axes in dynamic.items():
        for axis, symbol in axes.items():
            size = tensors[name].shape[axis]
            if sizes.setdefault(symbol, size) != size:
                raise ArgumentError(
                    f"export requires one size of {symbol!r}, got {sizes[symbol]} and {size} "
                    f"({name}.shape[{axis}]); give these axes different names"
                )
            if size < 1:
                raise ArgumentError(
                    f"export requires an example with sizes >= 1 of dynamic axes, got {size} of "
                    f"{name}.shape[{axis}]"
                )
    return sizes
