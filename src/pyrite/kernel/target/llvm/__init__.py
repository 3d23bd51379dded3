"""A kernel as LLVM IR with explicit vectors.

The vectors are the kernel's own, so the text is compiled without LLVM's optimiser (its vectorisers
take two thirds of a compile and find nothing): what the passes made is what runs.  Nothing here
needs LLVM; `pyrite.runtime.cpu` compiles the text.

A kernel becomes one function, ``void kernel(ptr slots, i64 begin, i64 end)``, that runs the
workgroups begin to end - 1 of the grid, counted with axis 0 fastest.  ``slots`` are 8 bytes each:
the three sizes of the grid, then the parameters in order, a buffer as its address and an argument
as its bits in the low bytes.  A workgroup has one invocation here: the pass `split_barriers` makes
loops of the others; a subgroup is that one invocation.

Values: float16 and bfloat16 are kept as i16, so that they move bit for bit; bool is i1 in registers
and i8 in memory.  Memory is accessed with the alignment of one element whatever ``is_aligned``
says: a misaligned vector costs nothing on these processors if it stays in a cache line.

Float arithmetic carries no fast-math flag and no integer one wraps "never".  Where the IR says
*unspecified* LLVM says *poison*, which spreads; ``freeze`` makes it a value.

- `spelling`: types, constants and opcodes, by tables;
- `assembly`: the text while it is written, line by line;
- `conversion`, `half`: casts, and those that a processor lacks;
- `access`: loads, stores, atomics; `control`: loops and branches;
- `pipeline`: the passes that come before;
- `printer`: the module, and what is left: `to_llvm`.
"""

from pyrite.kernel.target.llvm.pipeline import lowered as lowered
from pyrite.kernel.target.llvm.printer import GRID_SLOTS as GRID_SLOTS
from pyrite.kernel.target.llvm.printer import SYMBOL as SYMBOL
from pyrite.kernel.target.llvm.printer import to_llvm as to_llvm
from pyrite.kernel.target.llvm.processor import LLVMTarget as LLVMTarget

__all__ = ["GRID_SLOTS", "SYMBOL", "LLVMTarget", "lowered", "to_llvm"]
