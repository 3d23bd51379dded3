"""Tensors from an application's textures and back, copied on the device.

A tensor has the texels of a texture as they are stored: of ``rgba8unorm`` uint8, where 255 means
1.0, and of an ``-srgb`` format the encoded bytes.  Rows of a texture are rows of the tensor.
"""

from __future__ import annotations

import re
from typing import Any

import wgpu

from pyrite.backend.cube.tensor import CubeTensor
from pyrite.backend.cube.values import require_dtype
from pyrite.backend.device import Device
from pyrite.errors import ArgumentError, DeviceError, DTypeError, ShapeError
from pyrite.op import instead, public
from pyrite.runtime.wgpu.texture import ROW, TexturePart
from pyrite.tensor.tensor import Tensor
from pyrite.types import DType, Shape, TensorType, dtype
from pyrite.wgpu.device import device_of
from pyrite.wgpu.memory import buffer_of, runtime_of

_CHANNELS = {"r": 1, "rg": 2, "rgba": 4, "bgra": 4}
_KINDS = {"unorm": "uint", "snorm": "int", "uint": "uint", "sint": "int", "float": "float"}
_FORMAT = re.compile(r"(r|rg|rgba|bgra)(8|16|32)(unorm|snorm|uint|sint|float)(-srgb)?")


@public
def from_texture(texture: Any, *, mip_level: int = 0, layer: int | None = 0) -> Tensor:
    """Return the texels of a ``wgpu.GPUTexture``: (H, W, C), of all layers (L, H, W, C).

    ``layer`` is one layer of an array, or one depth of a 3d texture; None takes all.  The dtype is
    that in which the format stores: uint8 of ``r8unorm``, ``rgba8unorm`` and ``rgba8unorm-srgb``,
    float16 of ``rgba16float``, float32 of ``r32float``, and so on; C is 1, 2 or 4.  What the
    application submitted before is seen, nothing waits, and nothing goes through the host.

    Raises DeviceError for a texture of a device that Pyrite does not know, without the usage flag
    COPY_SRC, or of several samples, DTypeError for a format of other texels (depth, compressed),
    ArgumentError for a level or layer that it lacks.
    """
    where, part, type = _part("from_texture", texture, mip_level, layer, wgpu.TextureUsage.COPY_SRC)
    runtime: Any = runtime_of(where, "from_texture")
    require_dtype(runtime, "from_texture", type.dtype)
    memory = runtime.read_texture(part)
    row = part.pitch // type.dtype.itemsize
    channels = type.shape[-1]
    strides = (row * part.height, row, channels, 1)[-len(type.shape) :]
    return Tensor(where.backend.adopt(CubeTensor(memory, type, strides)), type, where.backend)


@public
def copy_to_texture(x: Tensor, texture: Any, *, mip_level: int = 0, layer: int | None = 0) -> None:
    """Copy a tensor to a ``wgpu.GPUTexture``: what `from_texture` gives of it from then on is x.

    In the order of the program: passes that the application submits next see it.  Nothing waits.

    Raises what `from_texture` raises, of the usage flag COPY_DST, and ShapeError or DTypeError for
    a tensor that is not what the texture holds.
    """
    if not isinstance(x, Tensor):
        raise DTypeError(f"copy_to_texture requires a tensor of a wgpu device, {instead(x)}")
    where, part, type = _part(
        "copy_to_texture", texture, mip_level, layer, wgpu.TextureUsage.COPY_DST
    )
    _require_texels(x, type, texture.format)
    runtime: Any = runtime_of(where, "copy_to_texture")
    if runtime_of(x.device, "copy_to_texture") is not runtime:
        raise DeviceError(
            f"copy_to_texture requires a tensor of the texture's device {where}, got one of "
            f"{x.device}; move it: x.to(device)"
        )
    if not x.size:
        return
    width = part.width * type.shape[-1]
    rows = x.detach().reshape((part.layers * part.height, width))
    missing = part.pitch // type.dtype.itemsize - width
    if missing:
        rows = rows.pad(((0, 0), (0, missing)))
    held = buffer_of(rows, alignment=ROW)
    runtime.write_texture(held.memory(), part)


def texels(format: str) -> tuple[int, DType] | None:
    """Return the channels of a format and the dtype of one; None for what is no numbers in rows.

    >>> texels("rgba8unorm-srgb"), texels("depth24plus")
    ((4, pyrite.uint8), None)
    """
    found = _FORMAT.fullmatch(format)
    if found is None:
        return None
    channels, bits, kind, _ = found.groups()
    return _CHANNELS[channels], dtype(_KINDS[kind] + bits)


def _part(
    asked: str, texture: Any, mip_level: int, layer: int | None, flag: int
) -> tuple[Device, TexturePart, TensorType]:
    """Return the device of a texture, the part of it that is asked for, and its type."""
    where = _known(asked, texture, flag)
    found = texels(texture.format)
    if found is None:
        raise DTypeError(
            f"{asked} requires a format of one, two or four numbers a texel, as rgba8unorm or "
            f"r32float, got {texture.format}; render or blit it to such a one"
        )
    _require_level(asked, texture, mip_level, layer)
    channels, element = found
    width, height = (max(1, n >> mip_level) for n in texture.size[:2])
    # The depth of a 3d texture shrinks with the level, layers of an array do not.
    depth = _layers(texture, mip_level)
    first, layers = (0, depth) if layer is None else (layer, 1)
    shape: Shape = (height, width, channels)
    pitch = -(-width * channels * element.itemsize // ROW) * ROW
    part = TexturePart(texture, mip_level, first, layers, height, width, pitch)
    return where, part, TensorType(shape if layer is not None else (depth, *shape), element)


def _layers(texture: Any, mip_level: int) -> int:
    depth = int(texture.size[2])
    return max(1, depth >> mip_level) if texture.dimension == "3d" else depth


def _known(asked: str, texture: Any, flag: int) -> Device:
    if not isinstance(texture, wgpu.GPUTexture):
        raise DeviceError(f"{asked} requires a wgpu.GPUTexture, got {type(texture).__name__}")
    if not texture.usage & flag:
        name = "COPY_SRC" if flag == wgpu.TextureUsage.COPY_SRC else "COPY_DST"
        raise DeviceError(
            f"{asked} requires the usage flag {name}, got a texture without; add "
            f"wgpu.TextureUsage.{name} in create_texture(usage=...)"
        )
    if texture.sample_count != 1:
        raise DeviceError(
            f"{asked} requires a texture of one sample, got {texture.sample_count}; resolve it in "
            "a render pass"
        )
    found = device_of(texture._device)
    if found is None:
        raise DeviceError(
            f"{asked} requires a texture of a device that Pyrite knows, got one of another; call "
            "init_device(your device) first and keep what it returns"
        )
    return found


def _require_level(asked: str, texture: Any, mip_level: int, layer: int | None) -> None:
    if not isinstance(mip_level, int) or not 0 <= mip_level < texture.mip_level_count:
        raise ArgumentError(
            f"{asked} requires 0 <= mip_level < {texture.mip_level_count}, got {mip_level!r}"
        )
    depth = _layers(texture, mip_level)
    if layer is not None and (not isinstance(layer, int) or not 0 <= layer < depth):
        raise ArgumentError(
            f"{asked} requires 0 <= layer < {depth}, or None for all, got {layer!r}"
        )


def _require_texels(x: Tensor, type: TensorType, format: str) -> None:
    if x.shape != type.shape:
        raise ShapeError(
            f"copy_to_texture requires the shape {type.shape} of this {format} texture, got "
            f"{x.shape}"
        )
    if x.dtype != type.dtype:
        scaled = "(x.clip(0.0, 1.0) * 255.0).round().astype('uint8')"
        is_bytes = "8unorm" in format and x.dtype.name.startswith(("float", "bfloat"))
        fix = scaled if is_bytes else f"x.astype('{type.dtype.name}')"
        raise DTypeError(
            f"copy_to_texture requires {type.dtype.name} for a texture of {format}, got "
            f"{x.dtype.name}; write {fix}"
        )
