"""A kernel as WGSL: one compute shader, for every GPU.

Valid under WebGPU's default limits and without features unless the kernel asks for more; what it
may ask for is told by ``features``, in WebGPU's words and wgpu-native's: the standard's
``subgroups`` must be enabled in the text, wgpu-native's ``subgroup`` must not.

The kernel has been legalised: int32, uint32, float32 and bool in registers, the first three in
memory; float16, float64 and 64-bit integers only with their features.  Indices are trusted: the
text has no test of bounds.

How it is spelled
    Every node becomes a ``let``; a vector of 8 or 16 becomes two or four of ``vec4``.  A memory all
    of whose accesses are aligned vectors, or scalar loads, is an array of ``vec2`` or ``vec4``, so
    that a vector is one instruction.  Carried values are variables.  A loop with ``unroll`` is
    written out, its counter a number in each copy.
    WGSL has no literal of infinity or NaN, and refuses constant expressions that overflow or make
    one: the bits go through a function, and of two literals the first becomes a ``let``.

Bindings
    Buffers are bindings 0, 1, … of group 0 in the order of parameters.  Arguments are one struct:
    immediates where the device has them, else a uniform buffer, the next binding; a bool travels
    as u32, a float16 as f32.

Files
    `spelling` has the words, `place` says where a vector lies, `text` writes lines; `access`,
    `control` and `subgroup` print what their names say, and `printer` the head and the rest;
    `pipeline` has the passes that come before.
"""

from pyrite.kernel.target.wgsl.pipeline import lowered as lowered
from pyrite.kernel.target.wgsl.printer import to_wgsl as to_wgsl

__all__ = ["lowered", "to_wgsl"]
