"""The exceptions that Pyrite raises.

Every message reads ``{op} requires {condition}, got {actual}; {fix}``, in the user's terms, and
each class also derives from the built-in that a reader would expect to catch.

    PyriteError
    ├── ShapeError (ValueError)        shapes that do not fit: x @ y with (5, 3) and (4, 3)
    ├── AxisError (ShapeError, IndexError)  an axis outside -rank <= axis < rank
    ├── ZeroRankError (ShapeError, TypeError)  len and iter of a tensor without axes
    ├── DTypeError (TypeError)         dtypes that do not fit, or that a device lacks
    ├── ArgumentError (ValueError)     any other argument out of its range: dropout(p=1.5)
    ├── IndexRangeError (IndexError)   an index outside its axis
    ├── DeviceError (RuntimeError)     a device that is unknown, missing or lost
    │   └── OutOfMemoryError           one without room for what was asked
    │       └── MemoryBudgetError      a program that cannot keep to pyrite.memory_budget()
    ├── SyncError (RuntimeError)       a read-back inside pyrite.no_sync()
    ├── GradientError (RuntimeError)   no gradient: untracked, stale, or no derivative rule
    ├── CompileError (RuntimeError)    a function that cannot be replayed: it reads a value
    ├── ModuleError (TypeError)        a module changed after __init__, or declared wrongly
    ├── KernelError (RuntimeError)     a kernel that does not compile or breaks a rule of the IR
    │   └── UnsupportedKernelError     a kernel that is right, and that this device cannot run
    │       └── UnsupportedDTypeError  that, for its dtypes; a DTypeError too
    ├── DataError (ValueError)         bad data files, and errors in loader workers
    ├── RecordError (ValueError)       bad checkpoints and weight files; keys that do not match
    ├── ModelImportError (ValueError)  a model file that is bad, or has what is not supported
    ├── ModelExportError (ValueError)  a model that a file format cannot hold
    ├── ModelRunError (ValueError)     a node of a model file that cannot be run with its operands
    └── TrainError (RuntimeError)      a training run that cannot start, continue or be resumed
"""

from __future__ import annotations


class PyriteError(Exception):
    """The root: ``except PyriteError`` catches all that Pyrite raises on purpose.

    ``location`` is the user's ``file:line`` at which the failing op was called, and
    ``module_path`` the layer in whose forward pass that was, when they are known.
    """

    location: str | None = None
    module_path: str | None = None


class ShapeError(PyriteError, ValueError):
    """Shapes do not fit.  ``ones(5, 3) @ ones(4, 3)``; transpose one: ``x @ y.mT``."""


class AxisError(ShapeError, IndexError):
    """An axis is outside the rank.  ``ones(2, 3).sum(axis=2)``; axes count from 0 or from -1."""


class ZeroRankError(ShapeError, TypeError):
    """A tensor without axes has no length and no elements one by one; use ``x.item()``."""


class DTypeError(PyriteError, TypeError):
    """Dtypes do not fit.  ``exp`` of bools; cast with ``x.astype(pyrite.float32)``."""


class ArgumentError(PyriteError, ValueError):
    """An argument is out of its range.  ``dropout(p=1.5)``; the message states the range."""


class ArgumentTypeError(ArgumentError, TypeError):
    """An argument is of a kind that nothing can be made of.  ``x.pad("all")``."""


class IndexRangeError(PyriteError, IndexError):
    """An index is outside its axis.  ``x[5]`` of five rows; indices run from -n to n - 1."""


class DeviceError(PyriteError, RuntimeError):
    """A device is unknown, missing or lost, or two meet in one op; move one: ``y.to(d)``."""


class OutOfMemoryError(DeviceError):
    """A device has no room for a tensor; the message names the largest there, and their lines."""


class MemoryBudgetError(OutOfMemoryError):
    """A program needs more than ``pyrite.memory_budget`` allows; the message says how much more.

    ``needed`` is the least budget that was found for it and what is held now, in bytes.
    """

    needed: int = 0


class SyncError(PyriteError, RuntimeError):
    """A value was read inside ``pyrite.no_sync()``; read it after the block, or await it."""


class GradientError(PyriteError, RuntimeError):
    """No gradient can be given.  ``grads[w]`` for a ``w`` that the loss does not depend on."""


class CompileError(PyriteError, RuntimeError):
    """A function cannot be replayed: ``if loss.item() > 1`` reads a value; return it instead."""


class ModuleError(PyriteError, TypeError):
    """A module was changed after ``__init__``.  Modules are values: use ``map`` or ``replace``."""


class KernelError(PyriteError, RuntimeError):
    """A kernel does not compile or breaks a rule of the IR."""


class UnsupportedKernelError(KernelError):
    """A device lacks what a kernel needs, as subgroups; ``kernels=[it, another]`` has another."""


class UnsupportedDTypeError(DTypeError, UnsupportedKernelError):
    """A device lacks a dtype of a kernel; cast what it meets, or use another device."""


class DataError(PyriteError, ValueError):
    """A data file is bad, or a loader's worker failed; the message names the file or the item."""


class RecordError(PyriteError, ValueError):
    """A checkpoint or weight file is damaged or foreign, or its keys do not match the model."""


class ModelExportError(PyriteError, ValueError):
    """A model does what a file format cannot hold: ``if x.sum() > 0``; write ``x.where(...)``."""


class TrainError(PyriteError, RuntimeError):
    """A training run cannot start, continue or be resumed."""


class ModelImportError(PyriteError, ValueError):
    """A model file is damaged, or has what cannot be run here: a string op, a float8 dtype.

    ``problems`` are the single findings, all that the file has; the message lists them.
    """

    def __init__(self, message: str, problems: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.problems = problems


class ModelRunError(PyriteError, ValueError):
    """A node of a model file cannot be run with the operands that it got; the message names it."""
