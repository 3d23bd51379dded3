"""Copies of tensors and numbers: dense ones, converted ones, and such that fill their buffer."""

from __future__ import annotations

from pyrite.backend.cube.launcher import Launcher
from pyrite.backend.cube.skeleton.elementwise import map_elements
from pyrite.backend.cube.skeleton.turned import copy_turned
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.op import Constant
from pyrite.types import Shape, TensorType


def copy(launcher: Launcher, source: CubeTensor, target: CubeTensor) -> None:
    """Write a tensor to the elements of another, which may be a strided view."""
    if source.shape != target.shape or not copy_turned(launcher, source, target):
        map_elements(launcher, "copy", "", lambda _, x: x, [source], target)


def contiguous(launcher: Launcher, tensor: CubeTensor, *, always: bool = False) -> CubeTensor:
    """Return the tensor in row-major order without gaps: itself if it is, unless ``always``."""
    if tensor.is_contiguous and not always:
        return tensor
    target = launcher.empty(tensor.type)
    copy(launcher, tensor, target)
    return target


def flattened(launcher: Launcher, x: CubeTensor, shape: Shape) -> CubeTensor:
    """Return a tensor as another shape, copied if it must be."""
    view = x.reshaped(shape) or contiguous(launcher, x).reshaped(shape)
    assert view is not None, "a dense tensor takes any shape"
    return view


def filling(launcher: Launcher, tensor: CubeTensor) -> CubeTensor:
    """Return the tensor in row-major order, with a buffer, or a view of one, that it fills."""
    whole = contiguous(launcher, tensor)
    if whole.buffer.nbytes == whole.type.nbytes:
        return whole
    begin = whole.offset * whole.dtype.itemsize
    if begin % launcher.runtime.alignment == 0:
        return CubeTensor.dense(whole.buffer.view(begin, whole.type.nbytes), whole.type)
    return contiguous(launcher, whole, always=True)


def dense(launcher: Launcher, value: CubeTensor | Constant, type: TensorType) -> CubeTensor:
    """Return a new dense tensor of a type that holds a value, converted and stretched to it."""
    target = launcher.empty(type)
    copy_into(launcher, value, target)
    return target


def copy_into(launcher: Launcher, value: CubeTensor | Constant, target: CubeTensor) -> None:
    """Write a value to a target, converted and stretched to it."""
    given = value.dtype if isinstance(value, CubeTensor) else value.type.dtype
    to = target.dtype.compute
    map_elements(
        launcher, "copy", f"{given.name} to {to.name}",
        lambda k, x: k.cast(x, to), [value], target,
    )  # fmt: skip


def zeros(launcher: Launcher, type: TensorType) -> CubeTensor:
    """Return a new dense tensor of zeros."""
    return dense(launcher, Constant(0, TensorType((), type.dtype)), type)


def as_tensor(launcher: Launcher, value: CubeTensor | Constant) -> CubeTensor:
    """Return a tensor, or a number as a zero-d tensor."""
    return value if isinstance(value, CubeTensor) else dense(launcher, value, value.type)
