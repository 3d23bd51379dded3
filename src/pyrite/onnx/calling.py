"""Ops of ONNX as functions: what a model has and Pyrite has no op for, called by name.

A generated model calls them where nothing else says the same (`pyrite.onnx.to_python`).  They are
the converters that an imported model runs, with the same choice between device and host.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import zip_longest
from types import MappingProxyType
from typing import Any

import numpy as np

from pyrite.backend import device as as_device
from pyrite.backend.device import DeviceLike
from pyrite.errors import ArgumentError
from pyrite.onnx import ops as ops  # the converters file themselves
from pyrite.onnx.converter import Converter, Kind, converter
from pyrite.onnx.element import BY_NAME
from pyrite.onnx.graph import Node, ValueType, Weight
from pyrite.onnx.program import Context, Step, outputs_of
from pyrite.tensor.tensor import Tensor


def operator(
    op: str, version: int, *, domain: str = "", outputs: int = 1, elements: Sequence[str] = ()
) -> Callable[..., Any]:
    """Return an op of ONNX, as of a version of its domain, as a function.

    Operands are positional, None where one is left out, and attributes are keywords by their names.
    What steers the op (shapes, axes, pads) is an array of the host or a list; an op whose operands
    are all arrays of the host gives such arrays.  ``device`` says where an op without tensors runs.

    outputs: how many are asked for; with several the function returns a tuple.  elements: the
    element types of operands in ONNX, for those of 2 and 4 bits, which are carried in wider dtypes.

    Raises ArgumentError for an op that `load` does not support.

    >>> import pyrite, pyrite.onnx
    >>> space_to_depth = pyrite.onnx.operator("SpaceToDepth", 13)
    >>> space_to_depth(pyrite.ones((1, 3, 4, 4)), blocksize=2).shape
    (1, 12, 2, 2)
    """
    found = converter(domain, op, version)
    if found is None:
        name = f"{domain}.{op}" if domain else op
        raise ArgumentError(
            f"operator requires an op that is supported, got {name} (opset {version}); "
            "docs/onnx.md lists them"
        )
    names = tuple(f"output{i}" for i in range(outputs))

    def call(*operands: Any, device: DeviceLike = None, **attributes: Any) -> Any:
        inputs = tuple("" if x is None else f"input{i}" for i, x in enumerate(operands))
        given = {name: _attribute(name, value) for name, value in attributes.items()}
        types = tuple(_type(x, name) for x, name in zip_longest(operands, elements, fillvalue=""))
        node = Node(op, domain, version, "", inputs, names, MappingProxyType(given), types)
        made = _run(node, found, operands, device)
        return made[0] if outputs == 1 else tuple(made[:outputs])

    call.__name__ = call.__qualname__ = op
    call.__doc__ = found.function.__doc__
    return call


def _type(value: Any, name: str) -> ValueType:
    """Return the type of an operand in ONNX: as it is named, or as its dtype says."""
    if not name and isinstance(value, Tensor | np.ndarray):
        kind = value.dtype.name
        name = _ELEMENTS.get(kind, kind)
    return ValueType(BY_NAME.get(name))


def _run(node: Node, found: Converter, operands: Sequence[Any], device: DeviceLike) -> list[Any]:
    tensors = [x for x in operands if isinstance(x, Tensor)]
    places = [x.device for x in tensors if x.device.level] or [x.device for x in tensors]
    context = Context(places[0] if places and device is None else as_device(device), {})
    kinds = tuple(found.kind(i) for i in range(len(operands)))
    values = [_operand(x, kind) for x, kind in zip(operands, kinds, strict=True)]
    scope = {name: x for name, x in zip(node.inputs, values, strict=True) if name}
    return list(outputs_of(Step(node, found, node.attributes, kinds, ()), scope, context))


def _operand(value: Any, kind: Kind | None) -> Any:
    """Return a number or a list of numbers as an array, but where a list is a sequence."""
    if isinstance(value, int | float) or (kind == "host" and isinstance(value, list | tuple)):
        return np.asarray(value)
    return value


def _attribute(name: str, value: Any) -> Any:
    """Return an array as the weight that a file has for an attribute."""
    if not isinstance(value, np.ndarray):
        return value
    element = BY_NAME[_ELEMENTS.get(value.dtype.name, value.dtype.name)]
    return Weight(name, element, value.shape, lambda: value, False)


#: What ONNX calls the dtypes that it has other names for.
_ELEMENTS = {"float32": "float", "float64": "double"}
