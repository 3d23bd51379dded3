"""Layers: modules whose own weights meet what they are called with.

A float that is wider than the weights would make the whole computation wide, silently: one array of
NumPy's float64 is enough.  So a layer refuses it, at the line of the call.  A narrower one is exact
in the weights' dtype, in which the layer then computes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import reduce
from inspect import signature
from typing import Any

from pyrite.errors import DTypeError
from pyrite.nn.module import Module
from pyrite.tensor.parameter import Parameter, State
from pyrite.tensor.tensor import Tensor
from pyrite.types import DType, promote


class Layer(Module):
    """A module that takes floats as wide as its own weights, or narrower.

    Its weights are the parameters in its fields, or where there are none its states.  Layers in its
    fields see for themselves to what they are called with.

    Raises DTypeError for an input with floats that the weights' dtype does not hold.

    >>> import pyrite
    >>> from pyrite import nn
    >>> nn.Linear(3, 2)(pyrite.ones((5, 3), dtype="float16")).dtype
    pyrite.float32
    """

    def _require_inputs(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        if not kwargs and self._fits(args):
            return
        own = self._weights_dtype()
        if own is None:
            return
        for given in _floats((*args, *kwargs.values())):
            if promote("layer", own, given._type.dtype) is not own:
                raise self._too_wide(own, signature(self.forward).bind(*args, **kwargs).arguments)

    def _fits(self, args: tuple[Any, ...]) -> bool:
        """Whether all have the dtype of one of its weights: what is asked at each call."""
        fields = self.__dict__
        for name in self._tree_branches or ():
            weight = fields[name]
            if isinstance(weight, Parameter):
                own = weight._type.dtype
                for given in args:
                    if not isinstance(given, Tensor) or given._type.dtype is not own:
                        return False
                return True
        return False

    def _weights_dtype(self) -> DType | None:
        """Return the widest float dtype of its own weights; None where there are none."""
        names, fields = self.tree_branches()
        tensors = [fields[name] for name in names]
        for kind in (Parameter, State):
            found = [t._type.dtype for t in _floats(tensors) if isinstance(t, kind)]
            if found:
                return reduce(lambda x, y: promote("layer", x, y), found)
        return None

    def _too_wide(self, own: DType, arguments: Mapping[str, Any]) -> DTypeError:
        name, given = next(
            (name, t.dtype)
            for name, value in arguments.items()
            for t in _floats((value,))
            if promote("layer", own, t.dtype) is not own
        )
        wide = promote("layer", own, given)
        return DTypeError(
            f"{type(self).__name__} requires {name} of {own.name}, as its weights are, or narrower,"
            f" got {given.name}; write {name}.astype({own.name!r}) or model.astype({wide.name!r})"
        )


def _floats(values: Iterable[Any]) -> Iterator[Tensor]:
    """Give the float tensors among values, and in tuples among them: the states of an LSTM."""
    for value in values:
        if isinstance(value, Tensor):
            if value._type.dtype.is_float:
                yield value
        elif isinstance(value, tuple):
            yield from _floats(value)
