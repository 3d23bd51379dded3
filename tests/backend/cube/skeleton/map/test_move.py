"""Moves on a device: boxes are copies, all other maps one kernel, right for every config."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyrite.backend.cube import CubeBackend
from pyrite.backend.cube.skeleton.along import AlongConfig
from pyrite.backend.cube.skeleton.map.boxes import Box, box_of, cover
from pyrite.backend.cube.skeleton.map.masked import move_masked
from pyrite.backend.cube.skeleton.map.reader import widest
from pyrite.backend.device import Device
from pyrite.op.index import Bound, IndexMap, coordinates, identity, reshaped, sliced
from pyrite.tensor.creation import tensor
from pyrite.types import TensorType, float32

P, Q = coordinates(2)
ROWS, COLUMNS = 5, 37
SHAPE = (ROWS, COLUMNS)
#: Maps of one result, each with the shape of what it reads.
MAPS: dict[str, list[IndexMap]] = {
    "band": [identity(SHAPE).masked(Bound(Q - P, 0, 9))],
    "shifted": [
        IndexMap(
            SHAPE,
            SHAPE,
            (P - 1, Q + 2),
            (Bound(P - 1, 0), Bound(Q + 2, None, COLUMNS)),
        )
    ],
    "turned": [IndexMap(SHAPE, (COLUMNS, ROWS), (Q, P), (Bound(P + Q, 3, 30),))],
    "backwards": [
        IndexMap(SHAPE, SHAPE, (P, COLUMNS - 1 - Q), (Bound(COLUMNS - 1 - Q + P, 4, 20),))
    ],
    "diagonal": [IndexMap(SHAPE, (COLUMNS, COLUMNS), (Q, Q), (Bound(P - Q, None, 1),))],
    "one for a row": [IndexMap(SHAPE, (ROWS,), (P,), (Bound(3 * Q - P, 5, 60),))],
    "every third": [IndexMap(SHAPE, (ROWS, 13), (P, Q // 3), (Bound(Q % 3, 0, 1),))],
    "pieces": [
        IndexMap(SHAPE, SHAPE, (P, Q), (Bound(P - Q, 0),)),
        IndexMap(SHAPE, (COLUMNS,), (Q,), (Bound(P + Q, 20),)),
        IndexMap(SHAPE, (), (), (Bound(P, 0, 3),)),
    ],
    "never": [identity(SHAPE).masked(Bound(P, 9, 10))],
}
CONFIGS = [AlongConfig(1, width, row) for width in (1, 4, 16) for row in (True, False)]


def moved(maps: list[IndexMap], arrays: list[Any], fill: float) -> Any:
    """What maps say in NumPy."""
    found = np.full(maps[0].shape, fill, np.float32)
    grid = np.indices(maps[0].shape)
    for index, x in reversed(list(zip(maps, arrays, strict=True))):
        where = np.broadcast_to(np.asarray(index.valid(grid)), index.shape)
        places = tuple(np.broadcast_to(p, index.shape)[where] for p in index.at(grid))
        found[where] = x[places] if places else x
    return found


@pytest.mark.parametrize("fill", [0, 7.5])
@pytest.mark.parametrize("setting", CONFIGS, ids=str)
@pytest.mark.parametrize("name", MAPS)
def test_every_config_moves_elements_to_their_places(
    interpreter: Device, name: str, setting: AlongConfig, fill: float
) -> None:
    maps = [index.simplified for index in MAPS[name]]
    if setting.width > widest(maps, 1):
        pytest.skip("the map divides places along a row")
    backend = interpreter.backend
    assert isinstance(backend, CubeBackend)
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=index.source).astype(np.float32) for index in maps]
    sources = [tensor(a, device=interpreter)._handle for a in arrays]
    target = backend.launcher.empty(TensorType(SHAPE, float32))
    move_masked(backend.launcher, tuple(maps), sources, fill, target, setting)

    np.testing.assert_array_equal(backend.download(target), moved(maps, arrays, fill))


def test_bounds_that_part_axes_are_boxes() -> None:
    whole = IndexMap((4, 9), (4, 9), (P, Q), (Bound(Q - 2, 0, 5), Bound((Q + 1) % 3, 0, 1)))
    assert box_of(whole) == Box((0, 2), (4, 2), (1, 3))
    assert box_of(identity((4, 9)).masked(Bound(P, 4, 5))) == Box((0, 0), (0, 9), (1, 1))
    assert box_of(identity((4, 9)).masked(Bound(P - Q, 0))) is None
    assert box_of(identity((4, 9)).masked(Bound(Q % 3, 1))) is None


def test_a_box_reads_what_the_map_says() -> None:
    index = IndexMap((7,), (3,), ((P - 1) // 2,), (Bound((P - 1) % 2, 0, 1), Bound(P, 1, 7)))
    box = box_of(index)
    assert box == Box((1,), (3,), (2,))
    assert box.read(index) == identity((3,))


def test_boxes_that_follow_each_other_cover_an_axis() -> None:
    left, right = Box((0, 0), (3, 2), (1, 1)), Box((0, 2), (3, 3), (1, 1))
    assert cover([left, right], (3, 5))
    assert not cover([left], (3, 5))
    assert not cover([Box((0, 0), (2, 2), (1, 1)), right], (3, 5))


def lines_cover(*lines: tuple[int, int, int], size: int) -> bool:
    return cover([Box((first,), (count,), (step,)) for first, count, step in lines], (size,))


def test_boxes_cover_an_axis_in_any_order_and_where_they_overlap() -> None:
    assert lines_cover((4, 5, 1), (0, 6, 1), (1, 2, 1), size=9)
    assert not lines_cover((4, 5, 1), (0, 3, 1), size=9), "a hole between"
    assert not lines_cover((1, 8, 1), (4, 0, 1), size=9), "a hole before"
    assert not lines_cover((0, 8, 1), (2, 3, 1), size=9), "a hole behind"
    assert lines_cover((0, 1, 7), (1, 8, 1), size=9), "one place has no step"


def test_boxes_with_steps_cover_an_axis_together() -> None:
    assert lines_cover((0, 5, 2), (1, 4, 2), size=9)
    assert not lines_cover((0, 5, 2), (1, 3, 2), size=9)
    assert not lines_cover((0, 3, 2), (0, 2, 1), size=5)


def test_views_of_what_no_strides_say_are_copied_in_row_major_order(interpreter: Device) -> None:
    x = np.arange(24, dtype=np.float32).reshape(4, 6)
    got = tensor(x, device=interpreter).mT.reshape(4, 6)
    np.testing.assert_array_equal(got.numpy(), x.T.reshape(4, 6))


def test_a_reshape_of_every_second_element_keeps_its_memory(interpreter: Device) -> None:
    x = tensor(np.arange(24, dtype=np.float32), device=interpreter)[::2]
    y = x.reshape(3, 4)
    assert y._handle.buffer is x._handle.buffer
    assert y._handle.strides == (8, 2)
    index = reshaped((12,), (3, 4)).compose(sliced((24,), (0,), (12,), (2,)))
    assert index.compose(identity((24,))).strides((1,)) == ((8, 2), 0)
