"""Functions that no target has, or not with the meaning of `pyrite.algebra`, over kernel values.

Each is written once, in the opcodes of the IR, for float32 and float64, scalars and vectors, and
branches nowhere on data, except for loops in the remainder of floats and the power of integers, and
for vectors in which an angle is large.  "Within n ulp" is the greatest error found on dense grids
by the interpreter, which fuses multiply-add in float32 (tests/kernel/polyfill): what LLVM gives on
a machine with fma.

As WGSL all float32 ones are within 4 ulp, sin, cos and tan or within 1e-7, though a driver need not
fuse and may reassociate.  Measured on lavapipe, which does not fuse: exp 1.1, sin 2.0, cos 1.9,
tan 3.1, log 0.8, erfinv 3.1, atanh 3.0 ulp, all others less than 3; on an NVIDIA H200: exp 0.9,
tan 3.1, erfinv 3.0, atanh 3.0 ulp, sin and cos within 1e-7, all others less than 3.  Numbers less
than the least normal one may be zero, and so may the sign of zero be lost.
"""

from pyrite.kernel.polyfill.division import cast as cast
from pyrite.kernel.polyfill.division import floor_divide as floor_divide
from pyrite.kernel.polyfill.division import maximum as maximum
from pyrite.kernel.polyfill.division import minimum as minimum
from pyrite.kernel.polyfill.division import remainder as remainder
from pyrite.kernel.polyfill.division import shift_left as shift_left
from pyrite.kernel.polyfill.division import shift_right as shift_right
from pyrite.kernel.polyfill.division import sign as sign
from pyrite.kernel.polyfill.division import truncated_remainder as truncated_remainder
from pyrite.kernel.polyfill.exponential import cosh as cosh
from pyrite.kernel.polyfill.exponential import exp as exp
from pyrite.kernel.polyfill.exponential import exp2 as exp2
from pyrite.kernel.polyfill.exponential import exp_of_difference as exp_of_difference
from pyrite.kernel.polyfill.exponential import expm1 as expm1
from pyrite.kernel.polyfill.exponential import sinh as sinh
from pyrite.kernel.polyfill.exponential import tanh as tanh
from pyrite.kernel.polyfill.floats import copysign as copysign
from pyrite.kernel.polyfill.floats import isinf as isinf
from pyrite.kernel.polyfill.floats import isnan as isnan
from pyrite.kernel.polyfill.floats import nextafter as nextafter
from pyrite.kernel.polyfill.floats import signbit as signbit
from pyrite.kernel.polyfill.logarithm import acosh as acosh
from pyrite.kernel.polyfill.logarithm import asinh as asinh
from pyrite.kernel.polyfill.logarithm import atanh as atanh
from pyrite.kernel.polyfill.logarithm import log as log
from pyrite.kernel.polyfill.logarithm import log1p as log1p
from pyrite.kernel.polyfill.logarithm import log2 as log2
from pyrite.kernel.polyfill.logarithm import log10 as log10
from pyrite.kernel.polyfill.power import hypot as hypot
from pyrite.kernel.polyfill.power import pow as pow
from pyrite.kernel.polyfill.special import digamma as digamma
from pyrite.kernel.polyfill.special import erf as erf
from pyrite.kernel.polyfill.special import erfinv as erfinv
from pyrite.kernel.polyfill.special import lgamma as lgamma
from pyrite.kernel.polyfill.special import ndtr as ndtr
from pyrite.kernel.polyfill.special import trigamma as trigamma
from pyrite.kernel.polyfill.trigonometry import acos as acos
from pyrite.kernel.polyfill.trigonometry import asin as asin
from pyrite.kernel.polyfill.trigonometry import atan as atan
from pyrite.kernel.polyfill.trigonometry import atan2 as atan2
from pyrite.kernel.polyfill.trigonometry import cos as cos
from pyrite.kernel.polyfill.trigonometry import sin as sin
from pyrite.kernel.polyfill.trigonometry import tan as tan

__all__ = [
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "cast",
    "copysign",
    "cos",
    "cosh",
    "digamma",
    "erf",
    "erfinv",
    "exp",
    "exp2",
    "exp_of_difference",
    "expm1",
    "floor_divide",
    "hypot",
    "isinf",
    "isnan",
    "lgamma",
    "log",
    "log1p",
    "log2",
    "log10",
    "maximum",
    "minimum",
    "ndtr",
    "nextafter",
    "pow",
    "remainder",
    "shift_left",
    "shift_right",
    "sign",
    "signbit",
    "sin",
    "sinh",
    "tan",
    "tanh",
    "trigamma",
    "truncated_remainder",
]  # fmt: skip
