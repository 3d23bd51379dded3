"""The Autodiff decorator: reverse mode over the op table.

``execute`` runs an op one level down and, where an input is tracked, notes a node; ``gradients``
walks the nodes backwards and applies each op's derivative to tensors of the inner backend, so
gradients are ops like any others: they fuse, and ``Autodiff(Autodiff(b))`` gives second order.

Invariant: nothing here names an op.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from typing import Any, ClassVar, Literal

from pyrite.autodiff.gradients import Emission, Gradients
from pyrite.autodiff.mode import emission_sink, is_recording, paused
from pyrite.autodiff.node import (
    Applied,
    Leaf,
    Node,
    Noting,
    Parents,
    Passing,
    Variable,
    type_of,
)
from pyrite.autodiff.replay import gradients
from pyrite.backend.device import Device, DeviceLike, device
from pyrite.backend.protocol import Backend
from pyrite.errors import GradientError
from pyrite.op import Handle, Op, Plan, TensorBase, apply, different_devices, types_of_results
from pyrite.tensor.parameter import Renewal, State
from pyrite.tensor.tensor import Tensor
from pyrite.types import Array, TensorType

Strategy = Literal["none", "balanced"]

_new = object.__new__

#: Backends that were asked for machine code that notes calls.
_asked: set[type[Backend]] = set()


class Autodiff(Backend):
    """A backend that gives another one gradients.

    ``checkpointing="balanced"`` keeps only the results of expensive ops for the backward pass and
    recomputes elementwise ops and views from them (Chen et al. 2016, arXiv:1604.06174, with the cut
    points chosen by op class instead of by layer).
    """

    # Machine code finds them there.
    __slots__ = ("checkpointing", "inner", "level")

    name = "autodiff"
    inner: Backend
    #: The `execute` below, where machine code has its place.
    by_python: ClassVar[Callable[..., Any] | None] = None

    def __init__(self, inner: Backend, *, checkpointing: Strategy = "none") -> None:
        self.inner = inner
        self.checkpointing = checkpointing
        self.level = inner.level + 1
        _execute_natively(inner)

    def keeps(self, op: Op, inputs: Sequence[Handle]) -> bool:
        """Keep a composite that has a derivative, or that nothing tracked enters."""
        return op.derivative is not None or not _is_reached(inputs)

    def execute(self, op: Op, inputs: Sequence[Handle], plan: Plan) -> Sequence[Variable] | None:
        """Execute one op on the inner backend and note it where an input is tracked."""
        # Written for speed: this is run for every op.
        handles: list[Handle] = []
        parents: list[tuple[int, Node, int]] = []
        active: list[int] = []
        position = 0
        for i in inputs:
            if i.__class__ is Variable:
                handles.append(i.value._handle)
                node = i.node
                if node is not None:
                    parents.append((position, node, i.index))
                    if node.active:
                        active.append(position)
            else:
                handles.append(i)
            position += 1
        if (
            parents and plan.is_kept and self.checkpointing == "none"
            and self.level not in paused.get()
        ):  # fmt: skip
            # A plan says what is to be noted of its calls, so mostly that was found out before.
            leaves = tuple(active)
            noting = plan.tapes.get(leaves)
            if noting is None:
                noting = plan.tapes[leaves] = Noting(op, plan, inputs, leaves)
            if noting.result is not None:
                inner = self.inner
                results = inner.execute(op, handles, plan)
                if results is None:
                    (value,) = self._expanded(op, inputs, plan)
                else:
                    # As by ``Tensor(...)``, in half the time.
                    value = _new(Tensor)
                    value._handle = results[0]
                    value._type = noting.result
                    value._backend = inner
                return (noting.noted(op, plan, inputs, value, parents),)
        return self._executed(op, inputs, plan, handles, tuple(parents))

    def _executed(
        self, op: Op, inputs: Sequence[Handle], plan: Plan, handles: Sequence[Handle],
        parents: Parents,
    ) -> Sequence[Variable] | None:  # fmt: skip
        """Do what `execute` does, whatever is to be noted; ``handles`` are those of the values."""
        if op.derivative is None and op.body is not None and parents:
            return None
        inner = self.inner
        is_noted = bool(parents) and is_recording(self.level)
        outs = plan.out
        # A tape below would be asked for gradients of residuals, which have none.
        if op.residuals is not None and is_noted and inner.level == 0:
            plan = _with_residuals(op, inputs, plan)
        results = inner.execute(op, handles, plan)
        outputs: Sequence[Tensor]
        if results is None:
            outputs = self._expanded(op, inputs, plan)
        elif plan.out is not None and len(plan.out) == 1:
            outputs = (Tensor._wrap(results[0], plan.out[0], inner),)
        else:
            types = plan.out or [inner.type_of(r) for r in results]
            outputs = [Tensor._wrap(r, t, inner) for r, t in zip(results, types, strict=True)]
        if not is_noted:
            return [Variable(o) for o in outputs]
        recompute = self.checkpointing == "balanced" and op.is_cheap
        node = Applied(op, plan, inputs, outputs, parents, outs, recompute=recompute)
        if len(outputs) == 1:
            return (Variable(outputs[0], node if node.outs[0].dtype.kind == "float" else None),)
        return [
            Variable(o, node if type.dtype.kind == "float" else None, index)
            for index, (o, type) in enumerate(zip(outputs, node.outs, strict=False))
        ]

    def execute_into(
        self, op: Op, inputs: Sequence[Handle], plan: Plan, targets: Sequence[Handle]
    ) -> Sequence[Variable]:
        """Execute one op into memory of the application.  Raises GradientError for what is tracked.

        A tape keeps the values of results, and these are written again.
        """
        if _is_reached((*inputs, *targets)):
            raise GradientError(
                f"out requires inputs without gradients, got a tracked one for {op.name}; take "
                "what it returns, or detach() the inputs"
            )
        lowered = [i.value._handle if i.__class__ is Variable else i for i in inputs]
        given = [t.value._handle for t in targets]
        made = self.inner.execute_into(op, lowered, plan, given)
        return [Variable(Tensor(m, self.inner.type_of(m), self.inner)) for m in made]

    def _expanded(self, op: Op, inputs: Sequence[Handle], plan: Plan) -> Sequence[Tensor]:
        """Return the results of an op that the inner backend does not keep."""
        values = [i.value if i.__class__ is Variable else i for i in inputs]
        made = apply(op, values, plan, Tensor, self.inner)
        return made if isinstance(made, tuple) else (made,)

    # ---- values ----

    def upload(self, array: Array) -> Variable:
        """Return an untracked variable with a copy of the array."""
        handle = self.inner.upload(array)
        return Variable(Tensor(handle, self.inner.type_of(handle), self.inner))

    def adopt(self, array: Array) -> Variable | None:
        """Return an untracked variable that shares the array's memory, where that is possible."""
        handle = self.inner.adopt(array)
        if handle is None:
            return None
        return Variable(Tensor(handle, self.inner.type_of(handle), self.inner))

    def download(self, handle: Variable) -> Array:
        """Return the values as a read-only array."""
        return self.inner.download(handle.value._handle)

    def download_all(self, handles: Sequence[Variable]) -> list[Array]:
        """Return the values of several, by one read of the inner backend."""
        return self.inner.download_all([handle.value._handle for handle in handles])

    def host_view(self, handle: Variable) -> Array:
        """Return the memory itself as a read-only array, where the inner backend can."""
        return self.inner.host_view(handle.value._handle)

    async def download_all_async(self, handles: Sequence[Variable]) -> list[Array]:
        """Return what `download_all` returns, while the event loop runs on."""
        return await self.inner.download_all_async([handle.value._handle for handle in handles])

    def type_of(self, handle: Variable) -> TensorType:
        """Return the type of the value."""
        return handle.value._type

    def machine_code(
        self, source: str, held: Sequence[object], slots: Sequence[tuple[type, str, object]],
        name: str = "execute",
    ) -> Callable[..., Any] | None:  # fmt: skip
        """Whatever the inner backend has."""
        return self.inner.machine_code(source, held, slots, name)

    def primitive(self, handle: Variable) -> Any:
        """Return what lies under all decorators."""
        return self.inner.primitive(handle.value._handle)

    def supports(self, type: TensorType) -> bool:
        """Whatever the inner backend supports."""
        return self.inner.supports(type)

    def synchronize(self) -> None:
        """Wait until all submitted work is done."""
        self.inner.synchronize()

    async def synchronize_async(self) -> None:
        """Wait until all submitted work is done, while the event loop runs on."""
        await self.inner.synchronize_async()

    def lift(self, tensor: TensorBase) -> Variable:
        """Return a handle of this level for a tensor of it, or of a lower one as a constant."""
        if tensor._backend is self.inner:
            return Variable(Tensor._wrap(tensor._handle, tensor._type, self.inner))
        if tensor._backend == self:
            own: Variable = tensor._handle
            return own
        if tensor._backend.level >= self.level:
            different_devices(self, tensor._backend)
        handle = self.inner.lift(tensor)
        return Variable(Tensor(handle, tensor._type, self.inner))

    # ---- gradients ----

    def track(self, handle: Variable, key: Any = None) -> Variable:
        """Return a new leaf with the same value."""
        if not handle.value.dtype.is_float:
            name = handle.value.dtype.name
            raise GradientError(
                f"require_grad requires a float dtype, got {name}; cast it with astype"
            )
        return Variable(handle.value, Leaf(handle.value._type, key))

    def leaf(self, tensor: Tensor, key: Any) -> Variable:
        """Return what `track` returns for a tensor one level down."""
        if tensor._backend is not self.inner:
            return self.track(self.lift(tensor), key)
        value = Tensor._wrap(tensor._handle, tensor._type, self.inner)
        return Variable(value, Leaf(tensor._type, key))

    def is_tracked(self, handle: Variable) -> bool:
        """Whether gradients flow to this variable."""
        return handle.node is not None and handle.node.active

    def detach(self, handle: Variable) -> Variable:
        """Return a variable with the same value and no node."""
        return Variable(handle.value)

    def inner_tensor(self, handle: Variable) -> Tensor:
        """Return the value, a tensor of the inner backend."""
        return handle.value

    def emit(self, handle: Variable, states: tuple[State, ...], renewal: Renewal) -> Variable:
        """Return the handle with a renewal of states riding on its graph."""
        emission = Emission(states, lambda *old: tuple(self._lowered(v) for v in renewal(*old)))
        if (sink := emission_sink(self.level)) is not None:
            sink.append(emission)
            return handle
        if not is_recording(self.level):
            return handle
        return Variable(handle.value, Passing(handle, (emission,)))

    def _lowered(self, value: Tensor) -> Tensor:
        inner: Tensor = value._handle.value if value._backend == self else value
        return inner.detach()

    def gradients(self, handle: Variable) -> Gradients:
        """Walk back from a scalar and return what was found."""
        if handle.node is None:
            raise GradientError(
                "backward requires a loss that depends on a tracked tensor, got none; call "
                "require_grad() on a leaf, or use parameters of an autodiff device"
            )
        return gradients(handle)

    def gradients_of(self, handle: Variable, leaves: Container[Node]) -> Gradients:
        """Do the same, and raise GradientError if any other leaf of this level is reached.

        The gradients live one level down, so they would not depend on such a leaf: a derivative of
        them would be silently wrong.
        """
        return gradients(handle, leaves)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Autodiff) and self.inner == other.inner

    def __hash__(self) -> int:
        return hash((Autodiff, self.inner))


def autodiff(where: DeviceLike = None, *, checkpointing: Strategy = "none") -> Device:
    """Return the same device one autodiff level up: ops on its tensors can be differentiated.

    >>> import pyrite
    >>> x = pyrite.tensor(3.0, device=pyrite.autodiff("numpy")).require_grad()
    >>> (x * x).backward()[x].item()
    6.0
    """
    return Device(Autodiff(device(where).backend, checkpointing=checkpointing))


def _execute_natively(inner: Backend) -> None:
    """Have machine code note calls, once there is a backend that has some."""
    kind = type(inner.root)
    if kind not in _asked and Autodiff.by_python is None:
        _asked.add(kind)
        from pyrite.autodiff.native import execute_natively  # for who computes gradients

        Autodiff.by_python = execute_natively(Autodiff, inner)


def _with_residuals(op: Op, inputs: Sequence[Handle], plan: Plan) -> Plan:
    """Return the plan of the same calls of an op with its residuals."""
    found = plan.with_residuals
    if found is None:
        attrs = {**plan.attrs, **(op.residuals or {})}
        types = types_of_results(op, [type_of(i) for i in inputs], attrs)
        found = Plan(attrs, types, is_kept=plan.is_kept, is_for_derivative=True)
        plan.with_residuals = found
    return found


def _is_reached(inputs: Sequence[Handle]) -> bool:
    """Whether there is a node among what was given to an op."""
    for i in inputs:
        if i.__class__ is Variable and i.node is not None:
            return True
    return False
