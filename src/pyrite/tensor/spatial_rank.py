"""Spellings by the number of spatial axes: ``x.max_pool2d`` is `max_pool` of (N, C, H, W).

They are made of the methods whose spellings they are, so there is one signature and one body for
three names, and type checkers see it under each.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import FunctionType
from typing import Any, ParamSpec, TypeVar, cast

from pyrite.errors import ShapeError
from pyrite.op import public

P = ParamSpec("P")
R = TypeVar("R")

#: What docstrings call so many axes, and the sizes of x and of the kernel.
COUNTS = {1: "one axis", 2: "two axes", 3: "three axes"}
SIZES = {1: "W", 2: "H, W", 3: "D, H, W"}
KERNELS = {1: "kw", 2: "kh, kw", 3: "kd, kh, kw"}


def of_rank(rank: int, method: Callable[P, R]) -> Callable[P, R]:
    """Return a method of a pool as one of x with so many spatial axes, (N, C, *sizes), alone."""
    name = method.__name__.replace("pool", f"pool{rank}d")

    @functools.wraps(method, assigned=("__module__", "__annotations__"), updated=())
    def spelled(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        if self.ndim != rank + 2:
            raise ShapeError(f"{name} requires x of {rank + 2} axes, got {self.shape}")
        return method(self, *args, **kwargs)

    sizes, counts = SIZES[rank], ", ".join(f"{size}'" for size in SIZES[rank].split(", "))
    spelled.__name__ = name
    spelled.__qualname__ = method.__qualname__.replace(method.__name__, name)
    spelled.__doc__ = (
        f"Return `{method.__name__}` over {COUNTS[rank]}: (N, C, {sizes}) -> (N, C, {counts})."
    )
    return cast(Callable[P, R], public(spelled))


def named_by_rank(name: str, rank: int, function: Callable[P, R]) -> Callable[P, R]:
    """Return a copy of a function with its own name, and what its docstring says of the axes.

    ``{axes}``, ``{x}``, ``{out}`` and ``{kernel}`` stand there for the count and the sizes.
    """
    assert isinstance(function, FunctionType)
    code, closure = function.__code__, function.__closure__
    copied = FunctionType(code, function.__globals__, name, function.__defaults__, closure)
    copied.__kwdefaults__ = function.__kwdefaults__
    copied.__annotations__ = function.__annotations__
    copied.__module__ = function.__module__
    copied.__qualname__ = name
    if function.__doc__ is not None:
        out = ", ".join(f"{size}'" for size in SIZES[rank].split(", "))
        copied.__doc__ = function.__doc__.format(
            axes=COUNTS[rank], x=SIZES[rank], out=out, kernel=KERNELS[rank]
        )
    return cast(Callable[P, R], copied)
