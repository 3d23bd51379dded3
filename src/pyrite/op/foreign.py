"""What is given in the place of a tensor: how an error calls it, and how it becomes one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

_ARRAYS = {
    ("numpy", "ndarray"): "a NumPy array",
    ("torch", "Tensor"): "a torch.Tensor",
    ("torch", "Parameter"): "a torch.nn.Parameter",
}


def is_foreign(value: Any) -> bool:
    """Whether it holds numbers, as a list or an array of another library does."""
    if isinstance(value, list | tuple):
        return True
    return _library(value) != "pyrite" and hasattr(value, "__dlpack__")


def instead(value: Any) -> str:
    """Return the end of an error that got no tensor: what it got, and how that becomes one.

    >>> instead([1.0, 2.0]), instead(None)
    ('got list; convert it: pyrite.tensor(...)', 'got NoneType')
    """
    name = type(value).__name__
    got = f"got {_ARRAYS.get((_library(value), name), name)}"
    return f"{got}; convert it: pyrite.tensor(...)" if is_foreign(value) else got


def met_among(args: Sequence[Any], fault: Any) -> Any:
    """Return the argument of another library that a function took for a tensor, or None.

    ``fault`` is the object on which it missed an attribute: the argument, or a part of it.
    """
    for value in args:
        if is_foreign(value) and _library(value) == _library(fault):
            if _library(value) != "builtins" or type(value) is type(fault):
                return value
    return None


def _library(value: Any) -> str:
    return type(value).__module__.partition(".")[0]
