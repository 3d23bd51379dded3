"""What the printer needs to know of a processor."""

from __future__ import annotations

from dataclasses import dataclass

from pyrite.types import DType


@dataclass(frozen=True, slots=True)
class LLVMTarget:
    """A processor as LLVM names it, and what of it the printer needs to know."""

    triple: str
    cpu: str = ""
    #: ``"+avx2,+fma"``: what the processor has beyond ``cpu``, or lacks.
    features: str = ""
    #: Bytes of a vector register.
    vector_bytes: int = 16
    #: Whether fma is an instruction; else it is a product and a sum, each rounded.
    has_fma: bool = False
    #: Whether float16 is converted by an instruction; else by integer arithmetic.
    has_float16: bool = False
    #: Whether floats are multiplied by powers of two by an instruction, scalef of AVX-512.
    has_scale: bool = False
    #: Whether it is as fast where the product is subnormal or 0: an Intel Xeon takes some 20 times
    #: as long, so that exp of masked scores took 7 times.
    has_scale_of_tiny: bool = False
    #: The address space of each memory that is not in space 0: buffer, shared, private.
    spaces: tuple[tuple[str, int], ...] = ()

    @property
    def scales(self) -> tuple[str, ...]:
        """Return the opcodes that multiply by powers of two by an instruction."""
        if self.has_scale_of_tiny:
            return "ldexp", "ldexp_normal"
        return ("ldexp_normal",) if self.has_scale else ()

    def lanes(self, dtype: DType) -> int:
        """Return how many elements fill a vector register, as a width of the IR.

        >>> from pyrite.types import float32
        >>> LLVMTarget("x86_64-unknown-linux-gnu", vector_bytes=32).lanes(float32)
        8
        """
        return min(self.vector_bytes // dtype.itemsize, 16)

    def pointer(self, space: str) -> str:
        """Return the type of a pointer into a memory."""
        number = dict(self.spaces).get(space, 0)
        return f"ptr addrspace({number})" if number else "ptr"
