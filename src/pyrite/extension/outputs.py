"""What the outputs of a kernel hold before it runs: nothing of meaning, a number, or an input."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from pyrite.backend.cube.launcher import Launcher
from pyrite.backend.cube.skeleton.copy import copy_into
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.errors import KernelError
from pyrite.op import Constant
from pyrite.types import Array, Number, TensorType
from pyrite.types import dtype as as_dtype

Types = Sequence[TensorType | None]


class Outputs:
    """Beginnings of outputs by name: ``fill`` has numbers, ``inout`` the names of inputs."""

    def __init__(
        self, kernel: str, inout: Mapping[str, str] | None, fill: Mapping[str, Number] | None
    ) -> None:
        self._kernel = kernel
        #: From names of outputs to those of inputs.
        self.inputs = dict(inout or {})
        self._numbers = dict(fill or {})
        if both := sorted(self.inputs.keys() & self._numbers.keys()):
            raise KernelError(
                f"kernel '{kernel}' requires an output in inout= or in fill=, got {both[0]!r} in "
                "both; leave one out"
            )

    @property
    def names(self) -> set[str]:
        """The names of outputs that hold something before."""
        return {*self.inputs, *self._numbers}

    def on_device(
        self,
        launcher: Launcher,
        names: Sequence[str],
        sources: Sequence[CubeTensor | None],
        targets: Sequence[CubeTensor],
    ) -> None:
        """Write what outputs hold, given the names of inputs and outputs, and the inputs."""
        inputs = [None if s is None else s.type for s in sources]
        self._require(names, inputs, [t.type for t in targets])
        given = dict(zip(names, sources, strict=False))
        for name, target in zip(names[len(sources) :], targets, strict=True):
            source = given[self.inputs[name]] if name in self.inputs else None
            if source is not None:
                copy_into(launcher, source, target)
            elif name in self._numbers:
                type = TensorType((), target.dtype)
                copy_into(launcher, Constant(self._numbers[name], type), target)

    def in_numpy(
        self, names: Sequence[str], arrays: Sequence[Array | None], out: Sequence[TensorType]
    ) -> list[Array]:
        """Return new outputs as arrays of the dtypes in which they are computed."""
        self._require(names, [None if a is None else type_of(a) for a in arrays], out)
        given = dict(zip(names, arrays, strict=False))
        made = []
        for name, type in zip(names[len(arrays) :], out, strict=True):
            value = given[self.inputs[name]] if name in self.inputs else None
            start = self._numbers.get(name, 0) if value is None else value
            made.append(np.full(type.shape, start, type.dtype.compute.numpy))
        return made

    def _require(self, names: Sequence[str], given: Types, out: Sequence[TensorType]) -> None:
        """Raise KernelError for names of none, and for an input of another type."""
        inputs = dict(zip(names, given, strict=False))
        outputs = dict(zip(names[len(given) :], out, strict=True))
        if unknown := sorted(self.names - outputs.keys()):
            raise KernelError(
                f"kernel '{self._kernel}' requires inout= and fill= to name its outputs "
                f"({', '.join(outputs)}), got {unknown[0]!r}"
            )
        for name, source in self.inputs.items():
            found = inputs.get(source)
            if found is None or found.shape != outputs[name].shape:
                raise KernelError(
                    f"kernel '{self._kernel}' requires inout={{{name!r}: ...}} to name an input of "
                    f"shape {outputs[name].shape}, got {source!r} of {found and found.shape}"
                )


def type_of(array: Array) -> TensorType:
    """Return shape and dtype of an array."""
    return TensorType(array.shape, as_dtype(array.dtype))
