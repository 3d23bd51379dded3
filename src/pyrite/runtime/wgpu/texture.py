"""Textures of an application: copies between one and a buffer, row by row.

WebGPU wants rows that begin at multiples of 256 bytes in the buffer, and gives a texture no other
way into a kernel of buffers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyrite.runtime.wgpu.command import Encoder, Result
from pyrite.runtime.wgpu.memory import Buffer, Contents, Storage
from pyrite.runtime.wgpu.native import NativeError, captured, ffi, lib

#: Rows in the buffer begin at multiples of so many bytes.
ROW = 256


@dataclass(frozen=True, slots=True)
class TexturePart:
    """Whole layers of one mip level of a ``wgpu.GPUTexture``; ``pitch`` is the bytes of a row."""

    texture: Any
    mip_level: int
    first: int
    layers: int
    height: int
    width: int
    pitch: int

    @property
    def nbytes(self) -> int:
        """How long its rows are in a buffer."""
        return self.layers * self.height * self.pitch


class TextureCopy:
    """A copy of a part of a texture to a buffer, or back."""

    __slots__ = ("_buffer", "_contents", "_is_to_texture", "_part", "name", "touched")

    count = 1

    def __init__(self, part: TexturePart, buffer: Buffer, *, is_to_texture: bool) -> None:
        self.name = "copy_to_texture" if is_to_texture else "from_texture"
        self._part, self._buffer, self._is_to_texture = part, buffer, is_to_texture
        self._contents = Contents(Storage(part.texture, part.nbytes, is_external=True))
        self.touched = [buffer.contents, self._contents]

    def written(self) -> Sequence[Result]:
        """Return what it writes."""
        return [self._contents if self._is_to_texture else self._buffer.contents]

    def encode(self, encoder: Encoder) -> None:
        """Append it to the encoder."""
        encoder.end_pass()
        part, memory = self._part, self._buffer
        rows = {"bytesPerRow": part.pitch, "rowsPerImage": part.height, "offset": memory.offset}
        buffer = ffi.new(
            "WGPUTexelCopyBufferInfo *", {"layout": rows, "buffer": memory.storage.raw}
        )
        place = {"mipLevel": part.mip_level, "origin": {"x": 0, "y": 0, "z": part.first}}
        texture = ffi.new(
            "WGPUTexelCopyTextureInfo *", {**place, "texture": part.texture._internal, "aspect": 1}
        )
        extent = (part.width, part.height, part.layers)
        size = ffi.new("WGPUExtent3D *", extent)
        if self._is_to_texture:
            lib.wgpuCommandEncoderCopyBufferToTexture(encoder.raw, buffer, texture, size)
        else:
            lib.wgpuCommandEncoderCopyTextureToBuffer(encoder.raw, texture, buffer, size)


def is_destroyed(texture: Any) -> bool:
    """Whether a texture was destroyed, which wgpu-py does not tell: a view of it is an error."""
    try:
        with captured():
            view = lib.wgpuTextureCreateView(texture._internal, ffi.NULL)
    except NativeError:
        return True
    lib.wgpuTextureViewRelease(view)
    return False
