"""What a backend is: five methods, and a few more for decorators.

A backend executes ops by their records; it has no method per op.  ``Fusion(backend)`` and
``Autodiff(backend)`` are backends too, and override ``run``.  Invariant: handles are immutable to
everyone but the backend that made them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, TypeVar

from pyrite.errors import DeviceError, GradientError
from pyrite.op import OPS, Attributes, Handle, Op, Plan, TensorBase, different_devices
from pyrite.synchronization import awaited
from pyrite.types import DTYPES, Array, DType, TensorType

F = TypeVar("F", bound=Callable[..., Any])


class Backend(ABC):
    """Where ops run.  Two backends are equal when they are the same device at the same level.

    A backend that does an op natively, better than by its rules, says so by name:

        class Mine(NumPy):
            @implements("softmax")
            def softmax(self, x, *, axis): ...

    The method gets what ``run`` gets: handles, Constants or Nones, and attributes by keyword; it
    returns a handle, or a tuple of handles for an op with several outputs.
    """

    #: Name of the device, as users write it: ``"numpy"``.
    name: str
    #: The backend that a decorator decorates.
    inner: Backend | None = None
    #: How many Autodiff decorators stand in the chain.
    level: int = 0
    #: Ops that may run in NumPy here, and for which inputs, as in "floats".  No other op may.
    falls_back: ClassVar[Mapping[str, str]] = {}
    #: Dtypes that tensors may have here.
    dtypes: ClassVar[frozenset[DType]] = frozenset(DTYPES)
    #: What computes here, as `pyrite devices` shows it: a processor, a GPU's name.
    details: str = ""
    #: Whether it takes NumPy's memory without a copy, and gives it its own.
    shares_with_numpy: ClassVar[bool] = False
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
        return op.name in cls._implementations or op.is_elementwise

    def keeps(self, op: Op, inputs: Sequence[Handle]) -> bool:
        """Whether a composite is run whole here, or expanded into its body."""
        return op.name in self._implementations

    def execute(self, op: Op, inputs: Sequence[Handle], plan: Plan) -> Sequence[Handle] | None:
        """Execute one op as it was planned; None where a composite is to be expanded.

        A backend that makes the same of all calls of a plan may keep that in ``plan.runners``.
        """
        if op.body is not None and not self.keeps(op, inputs):
            return None
        return self.run(op, inputs, plan.attrs, plan.out)

    def execute_many(
        self, op: Op, calls: Sequence[tuple[Sequence[Handle], Plan]]
    ) -> Sequence[Sequence[Handle] | None]:
        """Execute one op on each of several lists of inputs: one after the other, or joined."""
        return [self.execute(op, inputs, plan) for inputs, plan in calls]

    @abstractmethod
    def run(
        self,
        op: Op,
        inputs: Sequence[Handle],
        attrs: Attributes,
        out: tuple[TensorType, ...] | None,
    ) -> Sequence[Handle]:
        """Execute one op on handles, Constants and Nones.

        ``out`` holds the types of the results, or None when they depend on values.
        """

    @abstractmethod
    def upload(self, array: Array) -> Handle:
        """Return a handle of a copy of the array."""

    def adopt(self, array: Any) -> Handle | None:
        """Return a handle that shares the array's memory, or None where that is not possible."""
        return None

    def export(self, handle: Handle) -> Any:
        """Return a torch.Tensor with the memory of a handle of `primitive`, or None without one."""
        return None

    @abstractmethod
    def download(self, handle: Handle) -> Array:
        """Return the values as a read-only array, waiting until they are there."""

    def host_view(self, handle: Handle) -> Array:
        """Return the memory itself as a read-only array, when it is computed; else a copy."""
        return self.download(handle)

    def download_all(self, handles: Sequence[Handle]) -> list[Array]:
        """Return the values of several handles; where the device is far, by one wait."""
        return [self.download(handle) for handle in handles]

    async def download_all_async(self, handles: Sequence[Handle]) -> list[Array]:
        """Return what `download_all` returns, while the event loop runs on."""
        return await awaited(lambda: self.download_all(handles))

    @abstractmethod
    def type_of(self, handle: Handle) -> TensorType:
        """Return the type of a handle."""

    def synchronize(self) -> None:
        """Wait until all work that was submitted is done."""

    async def synchronize_async(self) -> None:
        """Wait until all work that was submitted is done, while the event loop runs on."""
        await awaited(self.synchronize)

    def is_ready(self, handle: Handle) -> bool:
        """Return whether a read of a handle would not wait for the device; never waits itself."""
        return True

    def wait(self, handle: Handle) -> None:
        """Wait until the values of a handle are computed; what is wrong with them reads say."""

    def primitive(self, handle: Handle) -> Any:
        """Return what lies under all decorators: the array or buffer itself."""
        return handle

    def renew(self, handle: Handle) -> Handle:
        """Return a handle of the application's memory as it is after the application wrote to it.

        The handle before, and what shares its memory, is not to be used any more.
        """
        raise DeviceError(
            "invalidate requires a tensor of pyrite.wgpu.from_buffer, on its own device, got one "
            f"of {self.name}"
        )

    def supports(self, type: TensorType) -> bool:
        """Whether tensors of this dtype can live here."""
        return type.dtype in self.dtypes

    def lift(self, tensor: TensorBase) -> Handle:
        """Return the handle of a tensor of a backend further down this chain, as a constant."""
        if tensor._backend == self:
            return tensor._handle
        different_devices(self, tensor._backend)

    # What Autodiff adds.  On other backends nothing is tracked.

    def track(self, handle: Handle, key: Any = None) -> Handle:
        """Return a new leaf; ``key`` is the parameter under whose id its gradient is filed."""
        raise GradientError(
            f"require_grad requires an autodiff device, got {self.name}; "
            f"use pyrite.autodiff({self.name!r}) or pyrite.value_and_grad"
        )

    def is_tracked(self, handle: Handle) -> bool:
        """Whether gradients flow to this handle."""
        return False

    def detach(self, handle: Handle) -> Handle:
        """Return the same values, cut off the graph, sharing memory."""
        return handle

    def gradients(self, handle: Handle) -> Any:
        """Return the gradients of a scalar with respect to every leaf that it depends on."""
        raise GradientError(
            f"backward requires an autodiff device, got {self.name}; "
            f"use pyrite.autodiff({self.name!r}) or pyrite.value_and_grad"
        )

    def inner_tensor(self, handle: Handle) -> TensorBase | None:
        """Return the tensor one level down, or None where there is no decorator."""
        return None

    def emit(self, handle: Handle, states: tuple[Any, ...], renewal: Callable[..., Any]) -> Handle:
        """Return the handle with a renewal of states attached; by default there is no place."""
        return handle

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
