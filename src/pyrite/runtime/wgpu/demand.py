"""What a kernel asks of a device: features and limits.

Where the device lacks one, the op's next kernel is tried: it is an `UnsupportedKernelError`, which
is told from a mistake before the driver says something of its own.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pyrite.errors import KernelError, UnsupportedKernelError
from pyrite.kernel.ir import Kernel, Node
from pyrite.runtime.wgpu.adapter import Device

#: Words of WGSL that only some devices know, what they are of, and the features that give them.
_OPTIONAL: tuple[tuple[str, str, frozenset[str]], ...] = (
    (r"\bsubgroup\w*", "subgroups", frozenset({"subgroup", "subgroups"})),
    (r"\bf16\b", "float16", frozenset({"shader-f16"})),
    (r"\bf64\b", "float64", frozenset({"shader-f64"})),
    (r"\b[iu]64\b", "64-bit integers", frozenset({"shader-int64"})),
    (r"\batomic\s*<\s*f32\b", "atomics of float32", frozenset({"shader-float32-atomic"})),
)
_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)


def check_kernel(kernel: Kernel, device: Device) -> None:
    """Raise UnsupportedKernelError if a legalised kernel needs more than the device grants.

    wgpu-native does not look at its memory, and a driver that gets too much may do anything.
    """
    limit = device.limits["max-compute-workgroup-storage-size"]
    allocs = [n for n in kernel.walk() if n.kind == "alloc" and n.attr[0] == "shared"]
    nbytes = sum((n.attr[1] * n.value_type.dtype.itemsize + 15) & ~15 for n in allocs)
    if nbytes > limit:
        raise UnsupportedKernelError(
            f"kernel '{kernel.name}' requires at most {limit:,} bytes of workgroup memory on "
            f"this device, got {nbytes:,}; use a smaller tile"
        )
    check_workgroup(kernel.name, kernel.workgroup_size, device)
    has_subgroups = {"subgroup", "subgroups"} & device.features
    if not has_subgroups and any(_is_of_subgroup(n) for n in kernel.walk()):
        raise UnsupportedKernelError(
            f"kernel '{kernel.name}' requires a device with subgroups, got one without; use "
            "workgroup memory"
        )


def check_workgroup(name: str, sizes: Sequence[int], device: Device) -> None:
    """Raise UnsupportedKernelError for a workgroup of more invocations than the device runs."""
    limit = device.limits["max-compute-invocations-per-workgroup"]
    if (count := math.prod(sizes)) > limit:
        raise UnsupportedKernelError(
            f"kernel '{name}' requires at most {limit} invocations in a workgroup on this "
            f"device, got {count}; use smaller workgroups"
        )
    limits = tuple(device.limits[f"max-compute-workgroup-size-{axis}"] for axis in "xyz")
    if any(n > most for n, most in zip(sizes, limits, strict=False)):
        raise UnsupportedKernelError(
            f"kernel '{name}' requires workgroups of at most {limits} on this device, got "
            f"{tuple(sizes)}; use smaller workgroups"
        )


def check_buffers(name: str, count: int, device: Device) -> None:
    """Raise UnsupportedKernelError for more buffers than the device binds at once."""
    limit = device.limits["max-storage-buffers-per-shader-stage"]
    if count > limit:
        raise UnsupportedKernelError(
            f"kernel '{name}' requires at most {limit} buffers on this device, got {count}; join "
            "inputs, or do it in several kernels"
        )


@contextmanager
def demands_named(name: str, source: str, device: Device) -> Iterator[None]:
    """Turn the error of WGSL that asks for a feature the device lacks into one that says so.

    The text decides, not the driver's words for it: such a kernel cannot run here, whatever else is
    wrong with it, and its mistakes are found where it can.
    """
    try:
        yield
    except UnsupportedKernelError:
        raise
    except KernelError as error:
        lacking = demanded(source, device)
        if not lacking:
            raise
        raise UnsupportedKernelError(
            f"kernel '{name}' requires a device with {', '.join(lacking)}, got one without; give "
            f"kernels=[it, another]\n{error}"
        ) from None


def demanded(source: str, device: Device) -> list[str]:
    """Return what WGSL asks for that the device lacks."""
    code = _COMMENT.sub("", source)
    return [
        name
        for words, name, features in _OPTIONAL
        if not features & device.features and re.search(words, code)
    ]


def _is_of_subgroup(node: Node) -> bool:
    named = node.attr[0] if node.kind == "builtin" else node.kind
    return named.startswith("subgroup")
