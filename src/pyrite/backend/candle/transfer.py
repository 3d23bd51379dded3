"""Values in and out of Candle, bit for bit: as the bytes of a safetensors file in memory.

Candle's own constructor takes nested lists, which is slow and rounds float64 to float32, and there
is no buffer to share; its reader of files is exact.  The file has no name on any disk (memfd_create
of Linux, the only system that candle-nn has wheels for).
"""

from __future__ import annotations

import json
import os
from typing import Any

import candle
import numpy as np
from candle import utils

from pyrite.types import (
    Array,
    DType,
    Shape,
    bfloat16,
    float16,
    float32,
    float64,
    int64,
    uint8,
    uint32,
)

#: Dtypes that Candle has itself, by their names in a safetensors file.
NATIVE: dict[DType, str] = {
    uint8: "U8", uint32: "U32", int64: "I64",
    float16: "F16", bfloat16: "BF16", float32: "F32", float64: "F64",
}  # fmt: skip

#: Candle's names of its dtypes, for conversions.
CANDLE: dict[DType, Any] = {
    uint8: candle.u8, uint32: candle.u32, int64: candle.i64,
    float16: candle.f16, bfloat16: candle.bf16, float32: candle.f32, float64: candle.f64,
}  # fmt: skip

#: The length of the header stands in so many bytes before it.
_PREFIX = 8


def sent(array: Array, dtype: DType) -> Any:
    """Return a candle.Tensor of the array's values, which are of one of Candle's own dtypes."""
    entry = {"dtype": NATIVE[dtype], "shape": array.shape, "data_offsets": [0, array.nbytes]}
    header = json.dumps({"x": entry}).encode()
    descriptor = os.memfd_create("pyrite")
    try:
        with open(descriptor, "wb", closefd=False) as file:
            file.write(len(header).to_bytes(_PREFIX, "little") + header)
            file.write(array.tobytes())
        found = utils.load_safetensors(_path(descriptor))["x"]
    finally:
        os.close(descriptor)
    # The reader makes a zero-d tensor one-d.
    return found if array.ndim else found.reshape(())


def received(tensor: Any, dtype: DType, shape: Shape) -> Array:
    """Return the values of a candle.Tensor, which are of one of Candle's own dtypes."""
    descriptor = os.memfd_create("pyrite")
    try:
        utils.save_safetensors(_path(descriptor), {"x": tensor})
        with open(descriptor, "rb", closefd=False) as file:
            header = int.from_bytes(file.read(_PREFIX), "little")
            file.seek(_PREFIX + header)
            array: Array = np.frombuffer(file.read(), dtype.numpy)
    finally:
        os.close(descriptor)
    return array.reshape(shape)


def _path(descriptor: int) -> str:
    return f"/proc/self/fd/{descriptor}"
