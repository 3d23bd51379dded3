"""The way of a call from a method to its backend, by machine code: see `binding.ll`.

It does what `call` does, and calls that for all that is not as in most calls, so that nothing but
the time depends on it.
"""

from __future__ import annotations

from typing import Any, Final

from pyrite.op import Constant, Op, Plan, TensorBase, restrictions
from pyrite.op.arguments import KnownArguments
from pyrite.op.binding import call, call_as_given, callers, expanded, makers, written
from pyrite.op.calls import KnownCalls, call_known, known_callers
from pyrite.op.columns import faster
from pyrite.runtime.cpu.module import Compiler
from pyrite.runtime.cpu.native_call import Slot, machine_code, maker_of
from pyrite.types import DType, TensorType

_new: Final = object.__new__


def bind_natively(compiler: Compiler) -> bool:
    """Have methods bind by machine code; return whether they do."""
    if callers[0] is not call:
        return True
    cls, others = TensorBase.concrete, TensorBase.held
    if cls is None or len(others) != 2:
        return False
    held: tuple[Any, ...] = (
        None, tuple, float, int, cls, *others, type(None), Constant, restrictions, "execute", call,
        expanded, bool, str, DType, call_as_given, slice, ..., call_known,
    )  # fmt: skip
    made = machine_code(compiler, "binding", held, _slots(cls))
    if made is None:
        return False
    given = machine_code(compiler, "binding", held, _slots(cls), "call_as_given")
    of_subscripts = machine_code(compiler, "binding", held, _slots(cls), "call_known")
    rows = machine_code(compiler, "binding", held, _slots(cls), "rows")
    many = maker_of(compiler, cls, ("_handle", "_type", "_backend"))
    if rows is not None and many is not None:
        faster[:], makers[:] = [rows], [many]
    if given is not None:
        written[:] = [given]
    if of_subscripts is not None:
        known_callers[:] = [of_subscripts]
    callers[:] = [made] * len(callers)
    return True


def _slots(cls: type) -> list[Slot]:
    """Return the slots of objects in the order of %Binding."""
    tensor: object = _new(cls)
    keyed, ends = _new(TensorType), slice(object(), object(), object())
    return [
        *[(TensorBase, name, tensor) for name in ("_handle", "_type", "_backend")],
        (next(c for c in TensorType.__mro__ if "key" in vars(c)), "key", keyed),
        (Op, "plans", None),
        *[(Plan, name, None) for name in ("result", "takes", "numbers")],
        *[(Constant, name, None) for name in ("value", "type")],
        *[(KnownArguments, name, None) for name in ("op", "arity", "known", "of_type")],
        (Plan, "results", None),
        (TensorType, "shape", keyed),
        (KnownCalls, "known", None),
        *[(slice, name, ends) for name in ("start", "stop", "step")],
    ]
