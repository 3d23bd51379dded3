"""Tensors in the memory that pygfx draws from; fastplotlib draws by pygfx.

    buffer, positions = pyrite.wgpu.gfx.buffer((count, 3))
    points = gfx.Points(gfx.Geometry(positions=buffer), gfx.PointsMaterial())
    ...
    advance(positions, velocity, out=(positions, velocity))   # drawn with the next frame

A texture has memory of its own kind, so what is drawn from one is copied there, on the device:

    texture, target = pyrite.wgpu.gfx.texture((height, width), "rgba8unorm")
    image = gfx.Image(gfx.Geometry(grid=texture), gfx.ImageBasicMaterial())
    pyrite.wgpu.copy_to_texture(pixels, target)

Needs the extra ``[gfx]``, of which one minor version is pinned: pygfx has no public way to memory
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
from pyrite.wgpu.texture import texels

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


@public
def texture(shape: Shape, format: str = "rgba8unorm") -> tuple[Any, Any]:
    """Return a ``pygfx.Texture`` of (H, W) texels and its ``wgpu.GPUTexture``.

    It is for `pyrite.wgpu.copy_to_texture`, at each frame or whenever there is a new picture, and
    `pyrite.wgpu.from_texture`.  Its texels are zeros.  pygfx takes colors for sRGB, unless the
    format says how they are stored; of one channel it makes grey, by the ``clim`` of a material.

    Raises ShapeError for a shape that is not two sizes of 1 or more, DTypeError for a format that
    `pyrite.wgpu.from_texture` does not know.
    """
    sizes = normalize_shape("texture", shape)
    if len(sizes) != 2 or 0 in sizes:
        raise ShapeError(f"texture requires a height and a width of 1 or more, got shape {sizes}")
    if texels(format) is None:
        raise DTypeError(
            f"texture requires a format of numbers, as rgba8unorm or r32float, got {format}"
        )
    usage = (
        wgpu.TextureUsage.TEXTURE_BINDING | wgpu.TextureUsage.COPY_SRC | wgpu.TextureUsage.COPY_DST
    )
    size = (sizes[1], sizes[0], 1)
    is_encoded = format.endswith("-srgb")
    device()
    memory = wgpu.get_default_device().create_texture(size=size, format=format, usage=usage)
    made = pygfx.Texture(
        dim=2, size=size, format=format, usage=usage,
        colorspace="tex-srgb" if is_encoded else "srgb",
    )  # fmt: skip
    made._wgpu_object = memory
    return made, memory
