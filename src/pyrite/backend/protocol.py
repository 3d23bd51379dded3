"""What a backend is: five methods, and defaults for the rest.

A backend executes ops by their records; it has no method per op.  The five are `execute`, the one
door through which every op comes, `upload`, `download`, `type_of` and `synchronize`.  What some
backends have beyond them has defaults in five protocols: `Sharing` (memory that others see),
`Waiting` (ops that return before they are computed), `Compiling` (many ops as one program),
`Accounting` (how much memory is in use) and `Levels` (decorators such as Autodiff).

``Fusion(backend)`` and ``Autodiff(backend)`` are backends too, and override ``execute``.
Invariant: handles are immutable to everyone but the backend that made them.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, TypeVar

from pyrite.backend.accounting import Accounting
from pyrite.backend.compiling import Compiling
from pyrite.backend.levels import Levels
from pyrite.backend.passage import Passage
from pyrite.backend.sharing import Sharing
from pyrite.backend.waiting import Waiting
from pyrite.op import OPS, Handle, Op, Plan, TensorBase, different_devices
from pyrite.op.columns import ColumnCalls
from pyrite.types import DTYPES, Array, DType, TensorType

F = TypeVar("F", bound=Callable[..., Any])


class Backend(Sharing, Waiting, Compiling, Accounting, Levels):
    """Where ops run.  Two backends are equal when they are the same device at the same level.

    A backend that does an op natively, better than by its rules, says so by name:

        class Mine(NumPy):
            @implements("softmax")
            def softmax(self, x, *, axis): ...

    The method gets what ``execute`` gets, handles, Constants or Nones, and attributes by keyword;
    it returns a handle, or a tuple of handles for an op with several outputs.
    """

    #: Name of the device, as users write it: ``"numpy"``.
    name: str
    #: The backend that a decorator decorates.
    inner: Backend | None = None
    #: Ops that may run in NumPy here, and for which inputs, as in "floats".  No other op may.
    falls_back: ClassVar[Mapping[str, str]] = {}
    #: Dtypes that tensors may have here.
    dtypes: ClassVar[frozenset[DType]] = frozenset(DTYPES)
    #: What computes here, as `pyrite devices` shows it: a processor, a GPU's name.
    details: str = ""
    #: Whether it is a GPU that the processors imitate: right, and slow.
    is_software: bool = False

    _implementations: ClassVar[dict[str, str]] = {}

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        # Implementations may come from several bases: a backend may be made of families.
        cls._implementations = {
            op: name
            for base in reversed(cls.__mro__)
            for name, member in vars(base).items()
            for op in getattr(member, "_implements", ())
        }

    @property
    def root(self) -> Backend:
        """The undecorated backend at the end of the chain."""
        return self.inner.root if self.inner is not None else self

    @classmethod
    def has(cls, op: Op) -> bool:
        """Whether it has something of its own for an op: an implementation, or its scalar rule."""
        return op.name in cls._implementations or op.scalar is not None

    def keeps(self, op: Op, inputs: Sequence[Handle]) -> bool:
        """Whether a composite is run whole here, or expanded into its body."""
        return op.name in self._implementations

    def machine_code(
        self, source: str, held: Sequence[object], slots: Sequence[tuple[type, str, object]],
        name: str = "execute",
    ) -> Callable[..., Any] | None:  # fmt: skip
        """Return a function of machine code that does in less time what one of Python does.

        ``source`` and ``name`` say which; it knows the objects that are ``held``, and by their
        places the slots of classes (with an object whose slot is empty, where none can be made of
        nothing).  Mostly None: then who asks does it in Python.
        """
        return None

    def direct_launch(
        self, op: Op, inputs: Sequence[Handle], plan: Plan
    ) -> Callable[..., None] | None:
        """Return what a call of dense tensors is, for other backends of the host; mostly None.

        It takes the addresses of tensors and of the result, and the numbers, and is done when it
        returns.
        """
        return None

    @abstractmethod
    def execute(self, op: Op, inputs: Sequence[Handle], plan: Plan) -> Sequence[Handle] | None:
        """Execute one op as it was planned on handles, Constants and Nones.

        Return the results, of the types in ``plan.out`` where these are known, or None where a
        composite is to be expanded.  A backend that makes the same of all calls of a plan may keep
        that in ``plan.runners``.
        """

    def execute_many(
        self, op: Op, calls: Sequence[tuple[Sequence[Handle], Plan]]
    ) -> Sequence[Sequence[Handle] | None]:
        """Execute one op on each of several lists of inputs: one after the other, or joined."""
        return [self.execute(op, inputs, plan) for inputs, plan in calls]

    def execute_columns(
        self, calls: ColumnCalls, inputs: Sequence[Any]
    ) -> Sequence[Sequence[Handle]] | None:
        """Execute calls of an op on columns of handles, and Constants; return columns of results.

        None where one is to be expanded.
        """
        made = self.execute_many(calls.op, calls.rows(inputs))
        return None if None in made else [*zip(*made, strict=True)]

    def execute_passage(self, passage: Passage, inputs: Sequence[Handle]) -> Sequence[Handle]:
        """Make calls that are asked for together, on these inputs; return the results."""
        return passage.run(self, inputs)

    @abstractmethod
    def upload(self, array: Array) -> Handle:
        """Return a handle of a copy of the array."""

    @abstractmethod
    def download(self, handle: Handle) -> Array:
        """Return the values as a read-only array, waiting until they are there."""

    @abstractmethod
    def type_of(self, handle: Handle) -> TensorType:
        """Return the type of a handle."""

    def synchronize(self) -> None:
        """Wait until all work that was submitted is done: by default there is none."""

    def supports(self, type: TensorType) -> bool:
        """Whether tensors of this dtype can live here."""
        return type.dtype in self.dtypes

    def lift(self, tensor: TensorBase) -> Handle:
        """Return the handle of a tensor of a backend further down this chain, as a constant."""
        if tensor._backend == self:
            return tensor._handle
        different_devices(self, tensor._backend)

    def __repr__(self) -> str:
        inner = f"({self.inner!r})" if self.inner is not None else "()"
        return f"{type(self).__name__}{inner}"


def implements(*names: str) -> Callable[[F], F]:
    """Mark a method as the native implementation of the ops of these names."""

    def mark(method: F) -> F:
        method._implements = names  # type: ignore[attr-defined]
        return method

    return mark


def unknown_implementations(backend: type[Backend]) -> list[str]:
    """Return the names that a backend implements and that are no op; a test expects none."""
    return sorted(set(backend._implementations) - set(OPS))
