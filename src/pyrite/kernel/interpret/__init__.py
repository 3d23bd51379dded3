"""What a kernel means, in NumPy: the judge of every target.

All invocations of many workgroups run in lockstep, one array element each; control flow is a mask
of the invocations that are active.  Since lockstep would hide a missing barrier, memory remembers
who wrote and who last read each element, and what two invocations touch without a barrier between
is reported; so are accesses outside a memory, false claims of alignment, integer division by zero,
and barriers that not all invocations of a workgroup reach.  Memory that was never written holds NaN
or a pattern, never a convenient zero.

- `memory`: the elements of a memory, and who touched them;
- `batch`: some workgroups at once, and what is known of their values;
- `arithmetic`, `access`, `control`, `subgroup`: what each kind of node does to a batch;
- `interpreter`: all of these together, over a grid.
"""

from pyrite.kernel.interpret.interpreter import interpret as interpret

__all__ = ["interpret"]
