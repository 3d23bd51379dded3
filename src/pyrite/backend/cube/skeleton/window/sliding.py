"""Maps that are windows sliding over trailing axes: those have kernels of their own."""

from __future__ import annotations

from dataclasses import dataclass

from pyrite.backend.cube.skeleton.window.axis import Sliding
from pyrite.op.index import Bound, Form, IndexMap, coordinate


@dataclass(frozen=True, slots=True)
class Slide:
    """Windows over the trailing axes of a source: of a map its axes of windows and of taps."""

    axes: tuple[Sliding, ...]
    windows: tuple[int, ...]
    taps: tuple[int, ...]
    #: How many axes come before those over which windows slide.
    lead: int


def slide_of(index: IndexMap, taps: int | None = None) -> Slide | None:
    """Return the windows that a map is, None where it is none: each axis strides and dilates.

    Its last ``taps`` axes are those of taps; unless that is said, the smaller ones are.
    """
    lead = 0
    while lead < len(index.places) and index.places[lead] == coordinate(lead):
        lead += 1
    found: list[tuple[Sliding, int, int]] = []
    for place, size in zip(index.places[lead:], index.source[lead:], strict=True):
        axis = _sliding(place, size, index, taps)
        if axis is None:
            return None
        found.append(axis)
    used = [n for _, window, tap in found for n in (window, tap)]
    is_all = sorted((*range(lead), *used)) == list(range(len(index.shape)))
    if not found or not is_all or index.shape[:lead] != index.source[:lead]:
        return None
    if not all(_is_edge(bound, index) for bound in index.bounds):
        return None
    axes, windows, numbers = zip(*found, strict=True)
    return Slide(axes, windows, numbers, lead)


def _sliding(
    place: Form, size: int, index: IndexMap, taps: int | None
) -> tuple[Sliding, int, int] | None:
    """Return the windows of an axis, and the axes of the map that number them and their taps."""
    terms = [(factor, axis) for factor, axis in place.terms if isinstance(axis, int)]
    if len(terms) != 2 or not place.is_affine or min(factor for factor, _ in terms) < 1:
        return None
    ordered = sorted(terms, key=lambda t: (index.shape[t[1]], t[0]))
    if taps is not None:
        ordered = sorted(terms, key=lambda t: -t[1])
        if not ordered[0][1] >= len(index.shape) - taps > ordered[1][1]:
            return None
    (dilation, tap), (stride, window) = ordered
    count, kernel = index.shape[window], index.shape[tap]
    return Sliding(size, count, kernel, stride, -place.offset, dilation), window, tap


def _is_edge(bound: Bound, index: IndexMap) -> bool:
    """Whether a bound says that a place is in the source."""
    return any(
        bound.form == place and bound.low in (None, 0) and bound.high in (None, size)
        for place, size in zip(index.places, index.source, strict=True)
    )
