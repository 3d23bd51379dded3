"""How tensors are shown: the values, summarised, with shape, dtype and device.

>>> import pyrite
>>> pyrite.tensor([[1.0, 2.5], [0.25, -3.0]])
tensor([[ 1.  ,  2.5 ],
        [ 0.25, -3.  ]], shape=(2, 2), dtype=float32, device='numpy')
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pyrite.errors import ArgumentError, ShapeError
from pyrite.types import Array

PREFIX = "tensor("


@dataclass(frozen=True, slots=True)
class PrintOptions:
    """How many digits and elements are shown."""

    #: Digits after the point, at most.
    precision: int = 4
    #: With more elements than this, only those at the edges are shown.
    threshold: int = 1000
    #: How many elements are shown at each edge of an axis.
    edge_items: int = 3

    def __post_init__(self) -> None:
        for name in ("precision", "threshold", "edge_items"):
            value = getattr(self, name)
            if not isinstance(value, int) or value < 0:
                raise ArgumentError(f"print options require {name} >= 0, got {value!r}")


_default = PrintOptions()
_options: ContextVar[PrintOptions | None] = ContextVar("pyrite_print_options", default=None)


def get_print_options() -> PrintOptions:
    """Return the options that hold here."""
    return _options.get() or _default


def set_print_options(**changes: int) -> None:
    """Change how all tensors are shown: ``precision``, ``threshold``, ``edge_items``."""
    global _default
    _default = _changed(_default, changes)


@contextmanager
def print_options(**changes: int) -> Iterator[PrintOptions]:
    """Change how tensors are shown in the block.

    >>> import pyrite
    >>> with print_options(precision=1):
    ...     print(pyrite.tensor(0.123))
    tensor(0.1, shape=(), dtype=float32, device='numpy')
    """
    options = _changed(get_print_options(), changes)
    token = _options.set(options)
    try:
        yield options
    finally:
        _options.reset(token)


def _changed(options: PrintOptions, changes: dict[str, int]) -> PrintOptions:
    if unknown := set(changes) - {"precision", "threshold", "edge_items"}:
        raise ArgumentError(
            f"print options require precision, threshold or edge_items, got {sorted(unknown)[0]!r}"
        )
    return replace(options, **changes)


def shown(array: Array, dtype: str, device: str) -> str:
    """Return what ``repr`` of a tensor with these values says."""
    values = values_text(array, prefix=PREFIX)
    return f"{PREFIX}{values}, shape={array.shape}, dtype={dtype}, device={device!r})"


def values_text(array: Array, *, prefix: str = "", spec: str = "") -> str:
    """Return the values as text, each by a format specification if one is given."""
    options = get_print_options()
    formatter: Any = {"all": lambda value: format(value.item(), spec)} if spec else None
    return np.array2string(
        _printable(array),
        precision=options.precision,
        threshold=options.threshold,
        edgeitems=options.edge_items,
        separator=", ",
        prefix=prefix,
        formatter=formatter,
    )


def _printable(array: Array) -> Array:
    """Return the array in a dtype that NumPy knows how to print: not bfloat16."""
    return array.astype(np.float32) if array.dtype.kind == "V" else array


def check_closeness(actual: ArrayLike, expected: ArrayLike) -> str:
    """Return a report: for each tolerance, how many elements of actual are as close to expected.

    An element is close when ``|actual - expected| <= eps * max(1, |expected|)``; two NaNs are
    close, and two infinities of one sign.  Raises ShapeError when the shapes differ.

    >>> print(check_closeness([1.0, 2.0], [1.0, 2.00001]))
    eps 1e-01  100.0 %  pass
    eps 1e-02  100.0 %  pass
    eps 1e-03  100.0 %  pass
    eps 1e-04  100.0 %  pass
    eps 1e-05  100.0 %  pass
    eps 1e-06   50.0 %  fail
    eps 1e-07   50.0 %  fail
    eps 1e-08   50.0 %  fail
    """
    x, y = np.asarray(actual, dtype=np.float64), np.asarray(expected, dtype=np.float64)
    if x.shape != y.shape:
        raise ShapeError(f"check_closeness requires equal shapes, got {x.shape} and {y.shape}")
    same = (x == y) | (np.isnan(x) & np.isnan(y))
    with np.errstate(invalid="ignore"):
        error = np.where(same, 0.0, np.abs(x - y) / np.maximum(1, np.abs(y)))
    lines = []
    for exponent in range(1, 9):
        share = float(np.mean(error <= 10.0**-exponent)) if error.size else 1.0
        lines.append(f"eps 1e-{exponent:02}  {share:5.1%}  {_verdict(share)}".replace("%", " %"))
    return "\n".join(lines)


def _verdict(share: float) -> str:
    """Say pass when all are close, warn when nearly all are, as Burn's report does."""
    return "pass" if share == 1 else "warn" if share >= 0.95 else "fail"
