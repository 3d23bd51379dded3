"""What tensors of PyTorch and NumPy have under another name, or not at all: what to write instead.

``x.view(4)`` is an AttributeError that says: use x.reshape(shape).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from inspect import getattr_static, signature
from typing import Any, NoReturn, TypeVar

C = TypeVar("C", bound=type)

#: By the name that a tensor lacks; the tests run what stands first in each.
INSTEAD = {
    "absolute": "x.abs()",
    "adjoint": "x.mT",
    "arccos": "x.acos()",
    "arccosh": "x.acosh()",
    "arcsin": "x.asin()",
    "arcsinh": "x.asinh()",
    "arctan": "x.atan()",
    "arctan2": "x.atan2(y)",
    "arctanh": "x.atanh()",
    "bernoulli": "pyrite.bernoulli(x)",
    "bfloat16": "x.astype(pyrite.bfloat16)",
    "bool": "x.astype(pyrite.bool)",
    "byte": "x.astype(pyrite.uint8)",
    "conj": "pyrite.conj(x)",
    "contiguous": "x itself, which is in the order that it needs",
    "copy": "x itself, which never changes",
    "cpu": "x.to('cpu'), or x.numpy() for an array",
    "cuda": "x.to('wgpu'), or x.to('torch:cuda')",
    "data": "x.detach()",
    "diag_embed": "x.diag()",
    "diagflat": "x.flatten().diag()",
    "dim": "x.ndim",
    "double": "x.astype(pyrite.float64)",
    "dsplit": "x.unflatten(1, (1, 2)).tensor_split(2, 2)",
    "element_size": "x.dtype.itemsize",
    "eq": "x == y",
    "expand_as": "x.expand(y.shape)",
    "fill": "pyrite.full_like(x, value)",
    "fill_": "pyrite.full_like(x, value)",
    "fix": "x.trunc()",
    "float": "x.astype(pyrite.float32)",
    "float_power": "x.astype(pyrite.float64) ** y",
    "ge": "x >= y",
    "ger": "x[0].outer(y[0])",
    "get_device": "x.device",
    "grad": "grads[x], of the gradients that pyrite.value_and_grad returns",
    "gt": "x > y",
    "half": "x.astype(pyrite.float16)",
    "histc": "pyrite.histogram(x, 10).counts",
    "histogram": "pyrite.histogram(x)",
    "hsplit": "x.tensor_split(2, 1)",
    "imag": "pyrite.imag(x)",
    "index_copy": "x.select_assign(0, i, y)",
    "index_fill": "x.select_assign(0, i, value)",
    "index_put": "x.at[0].set(y[0])",
    "int": "x.astype(pyrite.int32)",
    "is_contiguous": "x itself, which is in the order that it needs",
    "is_cpu": "x.device",
    "is_cuda": "x.device",
    "is_floating_point": "x.dtype.is_float",
    "is_leaf": "x.is_tracked",
    "is_same_size": "x.shape == y.shape",
    "isneginf": "x == -pyrite.inf",
    "isposinf": "x == pyrite.inf",
    "isreal": "pyrite.full(x.shape, True, device=x.device)",
    "itemsize": "x.dtype.itemsize",
    "ldexp": "x * 2.0**y",
    "le": "x <= y",
    "logaddexp2": "(2.0**x + 2.0**y).log2()",
    "long": "x.astype(pyrite.int64)",
    "lt": "x < y",
    "masked_fill": "pyrite.where(mask, value, x)",
    "masked_fill_": "pyrite.where(mask, value, x)",
    "masked_scatter": "x.at[mask].set(y.flatten()[: mask.sum().item()])",
    "msort": "x.sort(0)",
    "multinomial": "pyrite.multinomial(x, 1)",
    "nbytes": "x.size * x.dtype.itemsize",
    "ndimension": "x.ndim",
    "ne": "x != y",
    "nelement": "x.size",
    "new_empty": "pyrite.empty(shape, dtype=x.dtype, device=x.device)",
    "new_full": "pyrite.full(shape, value, dtype=x.dtype, device=x.device)",
    "new_ones": "pyrite.ones(shape, dtype=x.dtype, device=x.device)",
    "new_tensor": "pyrite.tensor([1, 2], dtype=x.dtype, device=x.device)",
    "new_zeros": "pyrite.zeros(shape, dtype=x.dtype, device=x.device)",
    "norm": "x.vector_norm()",
    "normal_": "pyrite.normal_like(x)",
    "numel": "x.size",
    "ravel": "x.flatten()",
    "real": "pyrite.real(x)",
    "register_hook": "grads[x], of what pyrite.value_and_grad returns",
    "repeat_interleave": "x.repeat(n, axis)",
    "requires_grad": "x.is_tracked",
    "requires_grad_": "pyrite.value_and_grad, or x.require_grad() on pyrite.autodiff(device)",
    "reshape_as": "x.reshape(y.shape)",
    "retain_grad": "grads[x], of what pyrite.value_and_grad returns",
    "scatter_reduce": "x.scatter(0, x.argsort(0), y, reduction='add')",
    "select": "x[0]",
    "sgn": "x.sign()",
    "short": "x.astype(pyrite.int16)",
    "split_with_sizes": "x.split([1, 1])",
    "stride": "x.shape, for layouts are not told",
    "sum_to_size": "x.sum(0, keepdims=True)",
    "swapdims": "x.swap_axes(0, 1)",
    "t": "x.T",
    "take_along_dim": "x.take_along_axis(x.argsort(1), axis=1)",
    "true_divide": "x / y",
    "type": "x.astype(dtype)",
    "type_as": "x.astype(y.dtype)",
    "unbind": "x.unstack()",
    "uniform_": "pyrite.uniform_like(x)",
    "vdot": "x.flatten().dot(y.flatten())",
    "view": "x.reshape(shape)",
    "view_as": "x.reshape(y.shape)",
    "vsplit": "x.tensor_split(2)",
    "zero_": "pyrite.zeros_like(x)",
}


class Elsewhere:
    """A name that tensors have elsewhere and not here: who reads it is told what to write.

    It is found where a method would be.  ``__getattr__``, which is asked for names that are not
    there, would make every field that is read six times as slow.
    """

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, x: object, owner: type) -> NoReturn:
        name = self._name
        use = INSTEAD.get(name) or _in_place(name, owner)
        raise AttributeError(f"{owner.__name__!r} object has no attribute {name!r}; use {use}")


def answer(owner: C) -> C:
    """Put an `Elsewhere` for each name that tensors have elsewhere and a class has not."""
    here = [n for n in dir(owner) if not n.startswith("_")]
    changing = [f"{n}_" for n in here if not n.endswith("_") and callable(getattr(owner, n))]
    for name in (*INSTEAD, *changing):
        if not hasattr(owner, name):
            setattr(owner, name, Elsewhere(name))
    return owner


def names_of(x: object, listed: Iterable[str]) -> list[str]:
    """Return those of an object's names that it has."""
    return [n for n in listed if not isinstance(getattr_static(x, n, None), Elsewhere)]


class NamesHere(type):
    """The class of a class whose ``dir`` does not list what is `Elsewhere`."""

    def __dir__(cls) -> list[str]:
        return names_of(cls, super().__dir__())


def _in_place(name: str, owner: type) -> str:
    """``add_`` changes a tensor there; here ``add`` makes another."""
    plain = name.removesuffix("_")
    arguments = ", ".join(required(getattr(owner, plain))[1:])
    return f"x = x.{plain}({arguments}), since a tensor never changes"


def required(function: Callable[..., Any]) -> list[str]:
    """Return the names of the arguments that a function cannot be called without.

    >>> required(lambda x, other, eps=0.0: x)
    ['x', 'other']
    """
    parameters = signature(function).parameters.values()
    return [p.name for p in parameters if p.default is p.empty]
