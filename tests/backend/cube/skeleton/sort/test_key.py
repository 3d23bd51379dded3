"""Keys are in the order of the elements: for every 16-bit float, and the bounds of each dtype."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyrite.backend.cube import CubeBackend
from pyrite.backend.cube.skeleton.elementwise import map_elements
from pyrite.backend.cube.skeleton.sort.key import Key
from pyrite.backend.device import Device
from pyrite.tensor.creation import tensor
from pyrite.types import DTYPES, TensorType, bfloat16, bool_, float16, float32, int8


def keys_of(device: Device, array: Any, key: Key) -> Any:
    backend = device.backend
    assert isinstance(backend, CubeBackend)
    x = tensor(array, device=device)._handle
    found = backend.launcher.empty(TensorType(array.shape, key.dtype))
    map_elements(backend.launcher, "key", repr(key), lambda k, v: key.of(k.builder, v), [x], found)
    return backend.download(found)


@pytest.mark.parametrize("dtype", [float16, bfloat16], ids=lambda d: d.name)
def test_all_floats_of_16_bits_have_keys_in_their_order(interpreter: Device, dtype: Any) -> None:
    array = np.arange(1 << 16, dtype=np.uint16).view(dtype.numpy)
    keys = keys_of(interpreter, array, Key(dtype, False))
    with np.errstate(invalid="ignore"):
        values = array.astype(np.float64)
    is_nan = np.isnan(values)
    order = np.argsort(values[~is_nan])
    rising = np.diff(values[~is_nan][order]) > 0

    np.testing.assert_array_equal(np.diff(keys[~is_nan][order].astype(np.int64)) > 0, rising)
    assert set(keys[is_nan]) == {Key(dtype, False).highest}
    assert keys[~is_nan].max() < keys[is_nan].min()


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: d.name)
def test_a_key_has_no_more_bits_than_it_says(interpreter: Device, dtype: Any) -> None:
    bounds = [0, 1] if dtype.is_bool else [0, 1, dtype.lowest, dtype.highest]
    array = np.array([*bounds, *([np.nan] if dtype.is_float else [])], dtype.numpy)
    up, down = (keys_of(interpreter, array, Key(dtype, d)) for d in (False, True))

    assert int(up.max()) <= Key(dtype, False).highest
    np.testing.assert_array_equal(up ^ np.asarray(Key(dtype, False).highest, up.dtype), down)


def test_narrow_elements_have_narrow_keys() -> None:
    bits = [Key(d, False).bits for d in (bool_, int8, bfloat16, float16, float32)]

    assert bits == [1, 8, 16, 19, 32]
    assert Key(float32, False, limit=1000).bits == 10
