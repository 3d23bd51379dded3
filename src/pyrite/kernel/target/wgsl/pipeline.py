"""The passes that make a kernel what `to_wgsl` prints, in their order."""

from __future__ import annotations

from pyrite.kernel.ir import Kernel
from pyrite.kernel.passes import (
    WEBGPU,
    Capabilities,
    eliminate_common,
    eliminate_dead,
    expand_exp2,
    expand_ldexp,
    fold_constants,
    legalize,
    simplify_index,
)
from pyrite.types import float32


def lowered(kernel: Kernel, capabilities: Capabilities = WEBGPU) -> Kernel:
    """Return an equal kernel, simplified, in the dtypes of a device.

    What a device lacks is spelled out by many small operations, so that they are simplified again.
    Raises DTypeError for a dtype of 64 bits that the device lacks.
    """
    kernel = expand_ldexp(expand_exp2(kernel, kept=(float32,)))
    legal = legalize(_folded(simplify_index(kernel)), capabilities)
    return eliminate_dead(_folded(legal))


def _folded(kernel: Kernel) -> Kernel:
    return eliminate_common(fold_constants(kernel, keeps_fences=True))
