"""Classes of sizes: configs of convolutions are chosen for a class, so that few kernels serve all.

A config says what is built into a kernel, and estimates of time differ a little from size to size.
So they are made for the greatest sizes of a class, once; what is left to each size is how many rows
and images go together, which kernels get when they are launched.
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from pyrite.cached import cached
from pyrite.kernel.template.implicit_gemm import Windows
from pyrite.sized import computed, is_size
from pyrite.symbol import require_known

#: Images of which more make no other choice: each of many threads has some.
_MANY = 64
#: The greatest batch of each class.
BATCHES = (1, 2, 4, 8, 16, 32, _MANY)


def quarter(n: int) -> int:
    """Return the least of 1, 2, 3, and 4, 5, 6, 7 times powers of two, that is not less than n.

    Common sizes of images are among them.

    >>> [quarter(n) for n in (3, 9, 28, 50, 224, 230)]
    [3, 10, 28, 56, 224, 256]
    """
    if is_size(n):
        return computed(quarter, n)
    unit = 1 << max(n.bit_length() - 3, 0)
    return -(-n // unit) * unit


def power(n: int) -> int:
    """Return the least power of two that is not less than n.

    >>> [power(n) for n in (1, 2, 3, 64, 65)]
    [1, 2, 4, 64, 128]
    """
    return computed(power, n) if is_size(n) else 1 << (n - 1).bit_length()


def half(n: int) -> int:
    """Return the least of 1, and 2 and 3 times powers of two, that is not less than n.

    >>> [half(n) for n in (1, 3, 5, 24, 25)]
    [1, 3, 6, 24, 32]
    """
    if is_size(n):
        return computed(half, n)
    unit = 1 << max(n.bit_length() - 2, 0)
    return -(-n // unit) * unit


def odd_half(n: int) -> int:
    """Return the same as an odd number: one more where that is even; an eighth more of 64 or more.

    >>> [odd_half(n) for n in (1, 3, 5, 24, 25, 60)]
    [1, 3, 7, 25, 33, 73]
    """
    if is_size(n):
        return computed(odd_half, n)
    found = half(n)
    # Lines of 32 or 64 bytes: beside a multiple of 4096 a load would wait for a store that it has
    # nothing to do with, and channels would meet in the same sets of a cache.
    return (found + found // 8 if found >= 64 else found) | 1


def least(x: int, y: int) -> int:
    """Return the lesser of two sizes; which of them that is makes no class."""
    return computed(min, x, y, low=0)


def most_images(batch: int) -> int:
    """Return the greatest batch of a class."""
    return min(power(batch), _MANY)


@cached(4096)
def class_of(w: Windows) -> Windows:
    """Return the greatest windows of a class."""
    sizes = tuple(quarter(n) for n in w.sizes)
    axes = zip(w.counts, sizes, w.sizes, w.stride, strict=True)
    counts = tuple(count + -(-(most - n) // s) for count, most, n, s in axes)
    found = replace(w, batch=most_images(w.batch), sizes=sizes, counts=counts)
    # There are few: what is made of one is made once for all sizes that it has.
    return Windows(*[_known(getattr(found, field.name)) for field in fields(found)])


def _known(value: Any) -> Any:
    if type(value) is tuple:
        return tuple([require_known(n) for n in value])
    return require_known(value)
