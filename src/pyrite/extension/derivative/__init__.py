"""Derivatives of kernels in Python: ``@kernel(differentiable=True)``.

The kernel is recorded once more, on outputs that read their cotangents, and its recording is walked
back in the same kernel (reverse mode): what it read gets an addition to its gradient.  Those are
made by atomics, so that sums of floats are not to the last bit, unless each element is read only by
the invocation of its own coordinates.

It has to be made of reads of inputs, writes and atomic additions to outputs, arithmetic, k.math,
branches and loops.  What else it does is an error of its line, when the derivative is wanted.
"""

from pyrite.extension.derivative.kernel import vjp_of as vjp_of

__all__ = ["vjp_of"]
