"""A model of ONNX as a `Module`: its weights under paths made of their names, and its graph."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Self

import numpy as np

from pyrite.backend import Device
from pyrite.errors import ArgumentError, DTypeError, ShapeError
from pyrite.nn.module import Module
from pyrite.onnx.graph import Graph, ValueType
from pyrite.onnx.memory import HostMemory
from pyrite.onnx.message import shown
from pyrite.onnx.naming import identifier
from pyrite.onnx.program import Context, Program, narrowed, run_whole
from pyrite.tensor.creation import asarray
from pyrite.tensor.frozen import FrozenDict
from pyrite.tensor.tensor import Tensor
from pyrite.tensor.tree import tree_paths


class Weights(Module):
    """Weights whose names begin alike."""

    def __init__(self, children: Mapping[str, Any]) -> None:
        self.children = children

    def tree_children(self) -> dict[str, Any]:
        """Return them by the next part of their names."""
        return dict(self.children)

    def tree_rebuild(self, children: Mapping[str, Any]) -> Self:
        """Return a copy with others under these names."""
        return super().tree_rebuild({"children": FrozenDict({**self.children, **children})})

    def extra_repr(self) -> str:
        """Return nothing: it is its weights."""
        return ""


class OnnxModule(Weights):
    """A model of ONNX that runs, trains and is saved as any module.

    It is called with its inputs by order or by name, and returns its output, or a named tuple of
    its outputs.
    """

    def __init__(
        self,
        program: Program,
        children: Mapping[str, Any],
        *,
        paths: Mapping[str, str],
        arrays: Mapping[str, Any],
        static: frozenset[str],
        device: Device,
        narrow_int64: bool,
    ) -> None:
        super().__init__(children)
        self._program = program
        #: By key: paths of weights, and arrays of the host.
        self._paths = dict(paths)
        self._arrays = dict(arrays)
        #: Inputs that steer the graph, and stay on the host.
        self._static = static
        self._device = device
        self._narrow = narrow_int64
        self._output_type = _output_type(program.graph.outputs)
        #: Weights by key, and their devices, once they are looked for.
        self._by_key: tuple[Mapping[str, Any], Sequence[Device]] | None = None
        self._memory = HostMemory(program.graph, self._arrays.values())

    def extra_repr(self) -> str:
        """Return the name of the graph and its inputs, with their types."""
        graph = self._program.graph
        inputs = (f"{shown(name)}: {graph.types.get(name, ValueType())}" for name in graph.inputs)
        return ", ".join(inputs)

    @property
    def graph(self) -> Graph:
        """The graph that it runs."""
        return self._program.graph

    @property
    def inputs(self) -> Mapping[str, ValueType]:
        """What it is called with: element type, and shape with names for sizes that vary."""
        graph = self._program.graph
        return {name: graph.types.get(name, ValueType()) for name in graph.inputs}

    @property
    def outputs(self) -> Mapping[str, ValueType]:
        """What it returns."""
        graph = self._program.graph
        return {name: graph.types.get(name, ValueType()) for name in graph.outputs}

    @property
    def steering(self) -> frozenset[str]:
        """The inputs that steer it: sizes, axes and counts, which stay on the host."""
        return self._static

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the graph: inputs by order or by name; one output, or a named tuple of several."""
        given = self._bound(args, kwargs)
        weights, devices = self._by_key or self._found()
        inputs_on = [value.device for value in given.values() if isinstance(value, Tensor)]
        place = _place([*devices, *inputs_on]) or self._device
        context = Context(place, weights, self._narrow, self._memory)
        sizes: dict[str, int] = {}
        inputs = [self._input(name, value, context, sizes) for name, value in given.items()]
        found = run_whole(self._program, inputs, context)
        made = [_sequence(value, context) for value in found]
        return made[0] if self._output_type is None else self._output_type(*made)

    def _found(self) -> tuple[Mapping[str, Any], Sequence[Device]]:
        """Return the weights by key and the devices that they lie on, which stay as they are."""
        leaves = dict(tree_paths(self))
        weights = {**self._arrays, **{key: leaves[path] for key, path in self._paths.items()}}
        found = MappingProxyType(weights), tuple(dict.fromkeys(t.device for t in leaves.values()))
        self.__dict__["_by_key"] = found
        return found

    def tree_rebuild(self, children: Mapping[str, Any]) -> Self:
        """Return a copy with others under these names."""
        made = super().tree_rebuild(children)
        made.__dict__["_by_key"] = None
        return made

    def _bound(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the inputs by name, in the order of the graph."""
        names = list(self.inputs)
        by_identifier = {identifier(name): name for name in names}
        if len(args) > len(names):
            raise ArgumentError(f"the model requires {len(names)} inputs, got {len(args)}")
        given = dict(zip(names, args, strict=False))
        for key, value in kwargs.items():
            name = key if key in names else by_identifier.get(key)
            if name is None or name in given:
                what = "twice" if name else "which it has not"
                raise ArgumentError(
                    f"the model requires inputs {', '.join(names)}, got {key!r}, {what}"
                )
            given[name] = value
        missing = [n for n in names if n not in given and self.inputs[n].kind != "optional"]
        if missing:
            raise ArgumentError(
                f"the model requires inputs {', '.join(names)}, got no {missing[0]}"
            )
        return {name: given.get(name) for name in names}

    def _input(self, name: str, value: Any, context: Context, sizes: dict[str, int]) -> Any:
        of = self.inputs[name]
        if value is None or of.kind != "tensor":
            return _sequence(value, context)
        carrier = of.element.carrier if of.element else None
        if name in self._static and not isinstance(value, Tensor):
            array = np.asarray(value, carrier.numpy if carrier else None)
            _require_fit(name, of, array.shape, array.dtype.name, sizes)
            return array
        if not isinstance(value, Tensor):
            array = np.asarray(value)
            if carrier is not None and not isinstance(value, np.ndarray | np.generic):
                array = array.astype(carrier.numpy)
            value = asarray(narrowed(array) if context.narrow else array, device=context.device)
        wanted = context.dtype(carrier) if carrier else value.dtype
        if value.dtype is not wanted:
            raise DTypeError(
                f"input {name!r} requires {wanted.name}, got {value.dtype.name}; cast it: "
                f"{identifier(name)}.astype(pyrite.{wanted.name})"
            )
        _require_fit(name, of, value.shape, value.dtype.name, sizes)
        return value


def _output_type(names: Sequence[str]) -> Any:
    if len(names) == 1:
        return None
    fields: list[str] = []
    for name in names:
        field = identifier(name).lstrip("_") or "value"
        field = f"output_{field}" if field[0].isdigit() else field
        while field in fields:
            field += "_"
        fields.append(field)
    return namedtuple("Outputs", fields)


def _place(devices: Sequence[Device]) -> Device | None:
    """Return the first device that is tracked, else the first."""
    return next((d for d in devices if d.level), devices[0] if devices else None)


def _sequence(value: Any, context: Context) -> Any:
    if isinstance(value, list | tuple):
        return [_sequence(item, context) for item in value]
    return context.tensor(value)


def _require_fit(
    name: str, of: ValueType, shape: Sequence[int], dtype: str, sizes: dict[str, int]
) -> None:
    if of.shape is None:
        return
    fits = len(of.shape) == len(shape) and all(
        _fits(wanted, size, sizes) for wanted, size in zip(of.shape, shape, strict=True)
    )
    if not fits:
        raise ShapeError(f"input {name!r} requires {of}, got {dtype}{list(shape)}")


def _fits(wanted: int | str | None, size: int, sizes: dict[str, int]) -> bool:
    if isinstance(wanted, str):
        return sizes.setdefault(wanted, size) == size
    return wanted is None or wanted == size
