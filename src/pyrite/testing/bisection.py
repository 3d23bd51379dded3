"""Which op of a network goes wrong on a device: each is run on two devices and compared.

Both get the same inputs, those of the trusted device, so an op is blamed for its own error and not
for one that came to it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pyrite.backend.device import Device, DeviceLike, device
from pyrite.backend.protocol import Backend
from pyrite.errors import ArgumentError
from pyrite.nn.module import module_path
from pyrite.op import Attributes, Constant, Handle, Op, Plan, apply, public, user_location
from pyrite.tensor.tensor import Tensor
from pyrite.tensor.tree import tree_leaves, tree_map
from pyrite.types import Array, TensorType, dtype

#: By dtype, what the result of an op may differ by, relative to its greatest element.
TOLERANCE: Mapping[str, float] = {
    "float64": 1e-10, "float32": 1e-4, "float16": 2e-2, "bfloat16": 1e-1,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Divergence:
    """One op whose results differ too much between the devices.

    ``error`` is the greatest difference relative to the greatest element, infinite where one is NaN
    and the other is not.  ``module_path`` is None outside any module, as in a backward pass.
    """

    op: str
    error: float
    module_path: str | None
    location: str
    inputs: tuple[TensorType | float | None, ...]
    attributes: Mapping[str, Any]

    def __str__(self) -> str:
        inputs = ", ".join(map(str, self.inputs))
        return (
            f"{self.op}({inputs}) differs by {self.error:.2g}\n"
            f"  in {self.module_path or 'no module'}\n"
            f"  at {self.location}"
        )


@dataclass(frozen=True, slots=True)
class Bisection:
    """What `bisect` found: how many ops were compared, and which of them differ, in order.

    ``output_error`` is that of the whole computation, each device going on from its own results.
    """

    a: str
    b: str
    ops: int
    divergences: tuple[Divergence, ...]
    output_error: float

    @property
    def first(self) -> Divergence | None:
        """The first op that diverges; None when all agree."""
        return self.divergences[0] if self.divergences else None

    def __str__(self) -> str:
        head = (
            f"{self.ops} ops compared on {self.a} and {self.b}, {len(self.divergences)} diverge; "
            f"the outputs differ by {self.output_error:.2g}"
        )
        return head if self.first is None else f"{head}\nthe first: {self.first}"


@public
def bisect(
    model: Callable[..., Any],
    inputs: Any,
    *,
    a: DeviceLike,
    b: DeviceLike = "numpy",
    tolerance: float | None = None,
) -> Bisection:
    """Return which ops of a computation go wrong on device ``a``, judged by ``b``.

    ``model`` is a module or any function; ``inputs`` is its argument, or a tuple of them, which may
    hold modules: with ``bisect(pyrite.value_and_grad(loss), (model, x), ...)`` the backward pass is
    judged too.  ``tolerance`` is relative to the greatest element of each result, and by default
    that of the dtype; integers must be equal.

    Raises ArgumentError if both devices are one, and DeviceError for a device that does not work.

    >>> import pyrite
    >>> from pyrite import nn
    >>> net = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 2))
    >>> print(pyrite.bisect(net, pyrite.ones((3, 4)), a="cpu").first)
    None
    """
    suspect, trusted = device(a).backend, device(b).backend
    if suspect == trusted:
        raise ArgumentError(
            f"bisect requires two devices, got {suspect.name} twice; judge it by b='numpy'"
        )
    both = _Lockstep(suspect, trusted, tolerance)
    _results(model, inputs, both)
    alone = (_results(model, inputs, backend) for backend in (suspect, trusted))
    error = max((_error(x, y) for x, y in zip(*alone, strict=True)), default=0.0)
    return Bisection(suspect.name, trusted.name, both.ops, tuple(both.divergences), error)


class _Lockstep(Backend):
    """The trusted backend, which has each op done by the suspect too and compares."""

    def __init__(self, suspect: Backend, trusted: Backend, tolerance: float | None) -> None:
        self.name = f"{trusted.name} beside {suspect.name}"
        self.suspect, self.trusted = suspect, trusted
        self.tolerance = tolerance
        self.ops = 0
        self.divergences: list[Divergence] = []

    def keeps(self, op: Op, inputs: Sequence[Handle]) -> bool:
        """Whether the suspect has a kernel for all of it: then it is judged as a whole."""
        return self.suspect.keeps(op, inputs)

    def run(
        self,
        op: Op,
        inputs: Sequence[Handle],
        attrs: Attributes,
        out: tuple[TensorType, ...] | None,
    ) -> Sequence[Handle]:
        """Execute one op on both, from the trusted inputs; the results are the trusted ones."""
        mine = [self._seen(handle) for handle in inputs]
        theirs = [i.to(Device(self.suspect)) if isinstance(i, Tensor) else i for i in mine]
        want = _applied(op, mine, attrs, out, self.trusted)
        got = _applied(op, theirs, attrs, out, self.suspect)
        self.ops += 1
        pairs = [(g.numpy(), w.numpy()) for g, w in zip(got, want, strict=True)]
        if any(_error(g, w) > self._allowed(w) for g, w in pairs):
            self._note(op, max(_error(g, w) for g, w in pairs), mine, attrs)
        return [tensor._handle for tensor in want]

    def _seen(self, handle: Handle) -> Any:
        """Return a handle as a tensor of the trusted backend; Constants and None as they are."""
        if handle is None or isinstance(handle, Constant):
            return handle
        return Tensor._wrap(handle, self.trusted.type_of(handle), self.trusted)

    def _allowed(self, want: Array) -> float:
        kind = dtype(want.dtype)
        if not kind.is_float:
            return 0.0
        return TOLERANCE[kind.name] if self.tolerance is None else self.tolerance

    def _note(self, op: Op, error: float, inputs: Sequence[Any], attrs: Attributes) -> None:
        given = tuple(_described(i) for i in inputs)
        found = Divergence(op.name, error, module_path(), user_location(), given, attrs)
        self.divergences.append(found)

    def upload(self, array: Array) -> Handle:
        """Return a trusted handle of a copy of the array."""
        return self.trusted.upload(array)

    def download(self, handle: Handle) -> Array:
        """Return the trusted values."""
        return self.trusted.download(handle)

    def type_of(self, handle: Handle) -> TensorType:
        """Return the type of a handle."""
        return self.trusted.type_of(handle)

    def supports(self, type: TensorType) -> bool:
        """Whether tensors of this dtype can live on both."""
        return self.suspect.supports(type) and self.trusted.supports(type)


def _applied(
    op: Op,
    inputs: Sequence[Any],
    attrs: Attributes,
    out: tuple[TensorType, ...] | None,
    backend: Backend,
) -> tuple[Tensor, ...]:
    """Execute an op on one of the two, whole where it can, else by its body."""
    result = apply(op, inputs, Plan(attrs, out), Tensor, backend)
    return result if isinstance(result, tuple) else (result,)


def _results(model: Callable[..., Any], inputs: Any, backend: Backend) -> list[Array]:
    """Run the whole computation on a device and return every tensor of its result."""
    where = Device(backend)
    moved_model, moved = tree_map(lambda tensor: tensor.to(where), (model, inputs))
    result = moved_model(*moved) if isinstance(moved, tuple) else moved_model(moved)
    return [tensor.numpy() for tensor in tree_leaves(result)]


def _error(got: Array, want: Array) -> float:
    """Return the greatest difference, relative to the greatest finite element that is wanted."""
    if got.shape != want.shape or got.dtype != want.dtype:
        return float("inf")
    x, y = got.astype(np.float64), want.astype(np.float64)
    with np.errstate(invalid="ignore"):
        difference = np.where((x == y) | (np.isnan(x) & np.isnan(y)), 0.0, np.abs(x - y))
    greatest = np.abs(y[np.isfinite(y)]).max(initial=0.0)
    error = float(difference.max(initial=0.0)) / (greatest or 1.0)
    return error if error == error else float("inf")


def _described(value: Any) -> TensorType | float | None:
    return value.value if isinstance(value, Constant) else getattr(value, "_type", None)
