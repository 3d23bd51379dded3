"""Contractions that are convolutions: the windows in which one operand is read.

Axes of one element are in no form, and factors of what has one value are of no matter: so other
strides may be told than a layer has, by which the same elements meet.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyrite.kernel.template.implicit_gemm import Windows
from pyrite.op.index import Form
from pyrite.op.rule import Products
from pyrite.types import Shape


class _NoConvolutionError(Exception):
    """What is summed stands elsewhere."""


def windows_of_products(products: Products, stride: Any = None) -> Windows | None:
    """Return the windows of a convolution x (N, C, *S), weight (O, C/groups, *K), (N, O, *S').

    None for a contraction that is none.  ``stride`` is taken for axes with a single window, whose
    elements tell none: so that a layer shares its kernels with images of one window.

    >>> from pyrite.tensor.product_rules import CONVOLUTION
    >>> how = dict(stride=(2,), padding=((1, 0),), dilation=(1,), groups=2)
    >>> windows_of_products(CONVOLUTION.products((3, 4, 9), (6, 2, 3), **how))
    Windows(batch=3, groups=2, channels=2, outputs=3, sizes=(9,), kernel_size=(3,), counts=(4,), \
stride=(2,), padding=(1,), dilation=(1,))
    """
    x, weight, out = products.x, products.y, products.out
    if not 3 <= len(x.source) == len(weight.source) == len(out.source):
        return None
    try:
        windows = _Parser(out.shape).windows(products)
    except _NoConvolutionError:
        return None
    return _with_stride(windows, stride)


def _with_stride(w: Windows, stride: Any) -> Windows:
    """Return windows with a stride where there is one window, if it is one that they may have."""
    if not isinstance(stride, tuple) or len(stride) != len(w.counts):
        return w
    if not all(isinstance(s, int) and s > 0 for s in stride):
        return w
    own = zip(w.counts, w.stride, stride, strict=True)
    return replace(w, stride=tuple([told if n == 1 else found for n, found, told in own]))


@dataclass(frozen=True, slots=True)
class _Parser:
    """Reads forms of the coordinates of points of a shape."""

    points: Shape

    def windows(self, products: Products) -> Windows:
        x, weight, out = products.x, products.y, products.out
        if weight.bounds or out.bounds:
            raise _NoConvolutionError
        image, output, *windows = out.places
        kernel, channel, *taps = weight.places
        if kernel != output or x.places[0] != image:
            raise _NoConvolutionError
        group = self.shared(output, x.places[1])
        groups = 1 if group is None else self.points[group]
        outputs, channels = out.source[1] // groups, weight.source[1]
        axes = [
            group, self.number(image, x.source[0]), self.number(channel, channels),
            self.number(_without(output, group, outputs), outputs),
            *map(self.number, windows, out.source[2:]), *map(self.number, taps, weight.source[2:]),
        ]  # fmt: skip
        own = [a for a in axes if a is not None]
        if len(own) != len(set(own)) or set(own) != {a for a, n in enumerate(self.points) if n > 1}:
            raise _NoConvolutionError
        self.require(x.places[1], _sum((channels, group), (1, axes[2])))
        rank = len(windows)
        steps = [
            self.steps(place, window, tap)
            for place, window, tap in zip(
                x.places[2:], axes[4 : 4 + rank], axes[4 + rank :], strict=True
            )
        ]
        self.require_bounds(products, x.places[2:])
        stride, dilation, before = zip(*steps, strict=True)
        return Windows(
            x.source[0], groups, channels, outputs, x.source[2:], weight.source[2:], out.source[2:],
            stride, before, dilation,
        )  # fmt: skip

    def terms(self, form: Form) -> dict[int, int]:
        """Return the factors of coordinates that have more than one value."""
        found: dict[int, int] = {}
        for factor, axis in form.terms:
            if not isinstance(axis, int):
                raise _NoConvolutionError
            if self.points[axis] > 1:
                found[axis] = factor
        return found

    def number(self, form: Form, size: int) -> int | None:
        """Return the axis whose coordinate a form is, of a size; None where that is 1."""
        found = list(self.terms(form).items())
        if form.offset or len(found) > 1 or size != (self.points[found[0][0]] if found else 1):
            raise _NoConvolutionError
        if found and found[0][1] != 1:
            raise _NoConvolutionError
        return found[0][0] if found else None

    def shared(self, output: Form, channel: Form) -> int | None:
        """Return the axis that numbers groups, of which both outputs and channels are."""
        found = self.terms(output).keys() & self.terms(channel).keys()
        if len(found) > 1:
            raise _NoConvolutionError
        return next(iter(found), None)

    def require(self, form: Form, terms: dict[int, int]) -> None:
        if form.offset or self.terms(form) != terms:
            raise _NoConvolutionError

    def steps(self, place: Form, window: int | None, tap: int | None) -> tuple[int, int, int]:
        """Return stride, dilation and padding on an axis."""
        terms = self.terms(place)
        stride = 1 if window is None else terms.pop(window, 0)
        dilation = 1 if tap is None else terms.pop(tap, 0)
        if terms or stride < 1 or not dilation:
            raise _NoConvolutionError
        return stride, dilation, -place.offset

    def require_bounds(self, products: Products, places: Sequence[Form]) -> None:
        """Require that terms are left out where a window is out of x, and nowhere else."""
        sizes = dict(zip(places, products.x.source[2:], strict=True))
        for bound in products.x.bounds:
            size = sizes.get(bound.form)
            if size is None or bound.low not in (None, 0) or bound.high not in (None, size):
                raise _NoConvolutionError


def _sum(*terms: tuple[int, int | None]) -> dict[int, int]:
    return {axis: factor for factor, axis in terms if axis is not None}


def _without(form: Form, axis: int | None, factor: int) -> Form:
    """Return a form without a coordinate, which it has by a factor."""
    if axis is None:
        return form
    if form.factor(axis) != factor:
        raise _NoConvolutionError
    return Form(form.offset, tuple(term for term in form.terms if term[1] != axis))
