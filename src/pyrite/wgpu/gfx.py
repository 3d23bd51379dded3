"""Tensors in the memory that pygfx draws from; fastplotlib draws by pygfx.

    buffer, positions = pyrite.wgpu.gfx.buffer((count, 3))
    points = gfx.Points(gfx.Geometry(positions=buffer), gfx.PointsMaterial())
    ...
    advance(positions, velocity, out=(positions, velocity))   # drawn with the next frame

Needs the extra ``[gfx]``, of which one minor version is pinned: pygfx has no public way to a buffer
that exists, so the attribute is set that it keeps its own in (`tests/wgpu/test_gfx.py`).
"""

from __future__ import annotations

from typing import Any

import pygfx
import wgpu

from pyrite.backend.device import Device
from pyrite.errors import DTypeError, ShapeError
from pyrite.op import public
from pyrite.tensor.tensor import Tensor
from pyrite.types import DTypeLike, Shape, normalize_shape
from pyrite.types import dtype as as_dtype
from pyrite.wgpu.device import init_device
from pyrite.wgpu.memory import from_buffer

#: What pygfx calls elements.
_FORMATS = {
    "float32": "f4", "float16": "f2", "int32": "i4", "uint32": "u4", "int16": "i2", "uint16": "u2",
    "int8": "i1", "uint8": "u1",
}  # fmt: skip

_USAGE = (
    wgpu.BufferUsage.STORAGE
    | wgpu.BufferUsage.COPY_SRC
    | wgpu.BufferUsage.COPY_DST
    | wgpu.BufferUsage.VERTEX
    | wgpu.BufferUsage.INDEX
)


@public
def device() -> Device:
    """Return the device of tensors on the ``wgpu.GPUDevice`` of all renderers of pygfx.

    Its features are those that were asked for before the first renderer, by
    ``wgpu.preconfigure_default_device``; `pyrite.wgpu.FEATURES` are those that Pyrite can use.
    """
    return init_device(wgpu.get_default_device())


@public
def buffer(shape: Shape, dtype: DTypeLike = "float32") -> tuple[Any, Tensor]:
    """Return a ``pygfx.Buffer`` of shape[0] items and a tensor of that shape in the same memory.

    Both are zeros.  Each holds the memory.  What an op writes to the tensor by ``out=`` is drawn
    with the next frame; nothing is copied.  The buffer has no ``data`` on the host, so a camera
    cannot ask it for a bounding box.

    Raises ShapeError for a shape of no axes or more than two, or without elements, DTypeError for a
    dtype that pygfx has not.
    """
    sizes, element = normalize_shape("buffer", shape), as_dtype(dtype)
    if len(sizes) not in (1, 2) or 0 in sizes:
        raise ShapeError(f"buffer requires one or two axes with elements, got shape {sizes}")
    if element.name not in _FORMATS:
        raise DTypeError(f"buffer requires a dtype of {', '.join(_FORMATS)}, got {element.name}")
    nbytes = element.itemsize * sizes[0] * (sizes[1] if len(sizes) == 2 else 1)
    width = f"{sizes[1]}x" if len(sizes) == 2 and sizes[1] > 1 else ""
    where = device()
    made = pygfx.Buffer(
        nbytes=nbytes, nitems=sizes[0], format=width + _FORMATS[element.name], usage=_USAGE
    )
    memory = wgpu.get_default_device().create_buffer(size=-(-nbytes // 16) * 16, usage=_USAGE)
    made._wgpu_object = memory
    return made, from_buffer(memory, sizes, element, device=where)
