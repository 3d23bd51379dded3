"""What an op is, and the one door through which every op reaches a backend.

An op is declared once, as a method under its rules, and everything else reads the record:

    @primitive(scalar=lambda k, x: k.exp(x), vjp=lambda g, out, _: (g * out,))
    def exp(self, /) -> Self:
        '''e ** x, elementwise.  Shapes: (...) -> (...).'''
        ...

Parameters before ``/`` are the inputs (tensors, numbers, or None where the annotation says so),
those after it the attributes.
Rules:

``scalar(k, *values, **attrs)``   meaning of an elementwise op, against an algebra (`algebra.py`);
                                  it may read where its element lies, see `coordinates`
``rule``                          meaning of any other primitive, by its class; see `rule`
``reference(*arrays, **attrs)``   the same in NumPy: the judge of the rule, or all there is
``infer(*types, **attrs)``        type, or tuple of types, of the result; the home of shape errors
``canonical(*types, **attrs)``    attributes in their one form (axes positive, shapes complete)
``vjp``                           cotangents of the inputs, in tensor operators; see `Derivative`
a body                            what a composite is made of
``kernels``                       an application's own kernels, for the backends that know them

Invariant: nothing in this package names an op, except that inputs meet in one dtype by ``astype``.
"""

from pyrite.op.binding import apply as apply
from pyrite.op.binding import bind as bind
from pyrite.op.binding import different_devices as different_devices
from pyrite.op.binding import many as many
from pyrite.op.binding import restrictions as restrictions
from pyrite.op.declaration import CustomOp as CustomOp
from pyrite.op.declaration import composite as composite
from pyrite.op.declaration import custom_op as custom_op
from pyrite.op.declaration import prepares as prepares
from pyrite.op.declaration import primitive as primitive
from pyrite.op.example import Sample as Sample
from pyrite.op.example import Spec as Spec
from pyrite.op.example import bools as bools
from pyrite.op.example import distinct as distinct
from pyrite.op.example import integers as integers
from pyrite.op.example import sample as sample
from pyrite.op.foreign import instead as instead
from pyrite.op.host_scalar import HostScalar as HostScalar
from pyrite.op.host_scalar import is_host_scalar as is_host_scalar
from pyrite.op.host_scalar import value_of as value_of
from pyrite.op.key import attributes_key as attributes_key
from pyrite.op.key import body_key as body_key
from pyrite.op.key import rules_key as rules_key
from pyrite.op.location import Site as Site
from pyrite.op.location import located as located
from pyrite.op.location import public as public
from pyrite.op.location import raised_at as raised_at
from pyrite.op.location import tell_lines as tell_lines
from pyrite.op.location import user_frame as user_frame
from pyrite.op.location import user_location as user_location
from pyrite.op.location import user_site as user_site
from pyrite.op.plan import infers_bodies as infers_bodies
from pyrite.op.plan import types_of_results as types_of_results
from pyrite.op.record import OPS as OPS
from pyrite.op.record import Attributes as Attributes
from pyrite.op.record import Constant as Constant
from pyrite.op.record import Derivative as Derivative
from pyrite.op.record import Executor as Executor
from pyrite.op.record import Handle as Handle
from pyrite.op.record import Needs as Needs
from pyrite.op.record import Op as Op
from pyrite.op.record import Plan as Plan
from pyrite.op.record import Runner as Runner
from pyrite.op.record import TensorBase as TensorBase
from pyrite.op.record import Want as Want
from pyrite.op.record import require_derivative as require_derivative
from pyrite.op.record import require_reference as require_reference
from pyrite.op.rule import Fold as Fold
from pyrite.op.rule import Recurrence as Recurrence
from pyrite.op.rule import Rule as Rule
from pyrite.op.rule import Scan as Scan
from pyrite.op.symbol import SymbolicFloat as SymbolicFloat
from pyrite.op.symbol import SymbolicInteger as SymbolicInteger
from pyrite.op.symbol import SymbolicNumber as SymbolicNumber
from pyrite.op.symbol import UntraceableError as UntraceableError

__all__ = [
    "OPS",
    "Attributes",
    "Constant",
    "CustomOp",
    "Derivative",
    "Executor",
    "Fold",
    "Handle",
    "HostScalar",
    "Needs",
    "Op",
    "Plan",
    "Recurrence",
    "Rule",
    "Runner",
    "Sample",
    "Scan",
    "Site",
    "Spec",
    "SymbolicFloat",
    "SymbolicInteger",
    "SymbolicNumber",
    "TensorBase",
    "UntraceableError",
    "Want",
    "apply",
    "attributes_key",
    "bind",
    "body_key",
    "bools",
    "composite",
    "custom_op",
    "different_devices",
    "distinct",
    "infers_bodies",
    "instead",
    "integers",
    "is_host_scalar",
    "located",
    "many",
    "prepares",
    "primitive",
    "public",
    "raised_at",
    "require_derivative",
    "require_reference",
    "restrictions",
    "rules_key",
    "sample",
    "tell_lines",
    "types_of_results",
    "user_frame",
    "user_location",
    "user_site",
    "value_of",
]
