"""What machine code does of a tape: calls that are noted as calls of their plan were before.

It calls the Python that does the same for all that is not as in most calls, so that nothing but the
time depends on it: see `tape.ll`.

Invariant: nothing here names an op.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from pyrite.autodiff.mode import paused
from pyrite.autodiff.node import Applied, Node, Noting, Variable, order_of_nodes
from pyrite.backend.protocol import Backend
from pyrite.op import Plan, TensorBase
from pyrite.tensor.tensor import Tensor

_new = object.__new__


#: What the code knows, in the order of %Tape; behind it comes the Python that does the same.
_HELD: tuple[object, ...] = (
    None, True, (), list, 0, Variable, Applied, Tensor, paused, order_of_nodes, "none", "execute",
)  # fmt: skip


def _of_decorator(cls: type[Any]) -> list[tuple[type, str, object]]:
    return [(cls, name, _new(cls)) for name in ("inner", "checkpointing")]


#: The slots behind those of the decorator.
_SLOTS: list[tuple[type, str, object]] = [
    *[(Plan, name, None) for name in ("is_kept", "tapes")],
    *[(Variable, name, None) for name in ("value", "node", "index")],
    *[(TensorBase, name, _new(Tensor)) for name in ("_handle", "_type", "_backend")],
    *[(Node, name, None) for name in ("active", "order", "outs", "parents")],
    *[(Applied, name, None)
      for name in ("op", "plan", "tracked", "has_numbers", "run_inputs", "saved")],
    *[(Noting, name, None)
      for name in ("result", "is_float", "outs", "tracked", "is_active", "has_numbers",
                   "takes_output", "values", "blank", "floats")],
    (Plan, "out", None),
]  # fmt: skip


def execute_natively(cls: type[Any], inner: Backend) -> Callable[..., Any] | None:
    """Put machine code in the place of a decorator's `execute`; return what was there before.

    It is of whichever backend has some first, and knows none.  None where this one has not.
    """
    slow: Callable[..., Any] = cls.execute
    made = inner.machine_code("tape", (*_HELD, slow), [*_of_decorator(cls), *_SLOTS])
    if made is None:
        return None
    # Such a one is bound as a method, which a function of CPython's is not.
    bind = ctypes.pythonapi["PyInstanceMethod_New"]
    bind.restype, bind.argtypes = ctypes.py_object, [ctypes.py_object]
    cls.execute = bind(made)
    return slow
