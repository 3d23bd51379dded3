"""What depends on the place of a workgroup alone."""

from __future__ import annotations

from pyrite.kernel.builder import KernelBuilder
from pyrite.kernel.ir import Node, scalar
from pyrite.kernel.workgroup_place import is_counted
from pyrite.types import int32


def size(low: int) -> Node:
    """Return an argument that is no less than a number."""
    return Node("argument", scalar(int32), (), (0, "n", low))


def test_quotients_of_a_place_by_sizes_are_counted() -> None:
    b = KernelBuilder("places")
    place, kernel = b.workgroup_id(0).node, b.build()
    row = Node("alu", scalar(int32), (place, size(2)), "div")
    assert is_counted(kernel, place, size(1))
    assert is_counted(kernel, row, size(3))
    assert not is_counted(kernel, place, size(0))
    assert not is_counted(kernel, size(1), size(1))
    assert not is_counted(kernel, Node("alu", scalar(int32), (place, size(2)), "rem"), size(2))


def test_places_of_several_axes_or_invocations_are_divided() -> None:
    for b in (KernelBuilder("grid", grid=2), KernelBuilder("group", workgroup_size=64)):
        place = b.workgroup_id(0).node
        assert not is_counted(b.build(), place, size(1))
