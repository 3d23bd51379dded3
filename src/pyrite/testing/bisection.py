"""Which op of a network goes wrong on a device: each is run on two devices and compared.

Both get the same inputs, those of the trusted device, so an op is blamed for its own error and not
for one that came to it, nor for what rounding of its inputs would have done as well.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import gt
from typing import Any

import numpy as np

from pyrite.autodiff import Gradients
from pyrite.backend.device import Device, DeviceLike, device
from pyrite.backend.protocol import Backend
from pyrite.errors import ArgumentError
from pyrite.nn.trail import module_path
from pyrite.op import Attributes, Constant, Handle, Op, Plan, apply, public, user_location
from pyrite.tensor.creation import tensor
from pyrite.tensor.stream import replaying_draws
from pyrite.tensor.tensor import Tensor
from pyrite.tensor.tree import tree_leaves, tree_map
from pyrite.types import Array, DType, TensorType

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

    ``output_error`` is that of the whole computation, gradients too, each device going on from its
    own results: the greatest of all results, each relative to its greatest element, or to a
    hundredth of the greatest of all where it is smaller, as gradients that are 0 but for rounding.
    It is infinite where the wrong results led to an error.
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
    suspect, trusted = device(a).backend.root, device(b).backend.root
    if suspect == trusted:
        raise ArgumentError(
            f"bisect requires two devices, got {suspect.name} twice; judge it by b='numpy'"
        )
    both = _Lockstep(suspect, trusted, tolerance)
    with replaying_draws() as redrawn:
        _results(model, inputs, both)
    with redrawn():
        want = _results(model, inputs, trusted)
    try:
        with redrawn():
            error = _output_error(_results(model, inputs, suspect), want)
    except Exception:
        # What goes on from wrong results, an index say, may end in any way.
        if not both.divergences:
            raise
        error = math.inf
    return Bisection(suspect.name, trusted.name, both.ops, tuple(both.divergences), error)


class _Pair:
    """A handle of `_Lockstep`: a tensor of the trusted device, and its copy on the suspect."""

    def __init__(self, trusted: Tensor, suspect: Device) -> None:
        self.trusted = trusted
        self._suspect = suspect

    @cached_property
    def copy(self) -> Tensor:
        """The values on the suspected device, moved there when an op first needs them."""
        return self.trusted.to(self._suspect)


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
        handles = [i.copy._handle if isinstance(i, _Pair) else i for i in inputs]
        return self.suspect.keeps(op, handles)

    def _runs_whole(self, op: Op, inputs: Sequence[Handle], plan: Plan) -> bool:
        """Whether the suspect has kernels for a composite, of its own or of its body."""
        handles = [i.copy._handle if isinstance(i, _Pair) else i for i in inputs]
        return self.suspect.execute(op, handles, Plan(plan.attrs, plan.out)) is not None

    def execute(self, op: Op, inputs: Sequence[Handle], plan: Plan) -> Sequence[Handle] | None:
        """Execute one op on both, from the trusted inputs; the results are the trusted ones."""
        if op.body is not None and not self._runs_whole(op, inputs, plan):
            return None
        mine = [i.trusted if isinstance(i, _Pair) else i for i in inputs]
        theirs = [i.copy if isinstance(i, _Pair) else i for i in inputs]

        def run_on(backend: Backend, operands: Sequence[Any]) -> tuple[Tensor, ...]:
            result = apply(op, operands, Plan(plan.attrs, plan.out), Tensor, backend)
            return result if isinstance(result, tuple) else (result,)

        want = run_on(self.trusted, mine)
        errors = _errors(run_on(self.suspect, theirs), want)
        allowed = [self._tolerance(w.dtype) for w in want]
        if any(map(gt, errors, allowed)) and not op.is_elementwise:
            # A sum near 0 has lost the digits that its terms had: nobody can give them back.
            lost = _errors(run_on(self.trusted, [self._nudged(i) for i in mine]), want)
            allowed = [
                most + more if most else 0.0 for most, more in zip(allowed, lost, strict=True)
            ]
        if any(map(gt, errors, allowed)):
            self._note(op, max(errors), mine, plan.attrs)
        self.ops += 1
        return [self._paired(w) for w in want]

    def _tolerance(self, kind: DType) -> float:
        """Return what a result may be off by; integers and bools by nothing."""
        if not kind.is_float:
            return 0.0
        return TOLERANCE[kind.name] if self.tolerance is None else self.tolerance

    def _nudged(self, value: Any) -> Any:
        """Return a tensor of floats with each off by up to the tolerance, all else as it is."""
        if not isinstance(value, Tensor) or not value.dtype.is_float:
            return value
        array = value.numpy()
        off = np.random.default_rng(0).uniform(-1, 1, array.shape) * self._tolerance(value.dtype)
        return tensor((array * (1 + off)).astype(array.dtype), device=Device(self.trusted))

    def _note(self, op: Op, error: float, inputs: Sequence[Any], attrs: Attributes) -> None:
        given = tuple(_described(i) for i in inputs)
        found = Divergence(op.name, error, module_path(), user_location(), given, attrs)
        self.divergences.append(found)

    def _paired(self, trusted: Tensor) -> _Pair:
        return _Pair(trusted, Device(self.suspect))

    def upload(self, array: Array) -> Handle:
        """Return a handle of a copy of the array."""
        return self._paired(tensor(array, device=Device(self.trusted)))

    def download(self, handle: Handle) -> Array:
        """Return the trusted values."""
        return self.trusted.download(handle.trusted._handle)

    def type_of(self, handle: Handle) -> TensorType:
        """Return the type of a handle."""
        return self.trusted.type_of(handle.trusted._handle)

    def supports(self, type: TensorType) -> bool:
        """Whether tensors of this dtype can live on both."""
        return self.suspect.supports(type) and self.trusted.supports(type)


def _results(model: Callable[..., Any], inputs: Any, backend: Backend) -> list[Tensor]:
    """Run the whole computation on a device and return every tensor of its result."""
    where = Device(backend)
    moved_model, moved = tree_map(lambda tensor: tensor.to(where), (model, inputs))
    return _tensors(moved_model(*moved) if isinstance(moved, tuple) else moved_model(moved))


def _tensors(result: Any) -> list[Tensor]:
    """Return the tensors of a result, those of gradients too, which are no tree."""
    if isinstance(result, (tuple, list)):
        return [tensor for part in result for tensor in _tensors(part)]
    return list(result) if isinstance(result, Gradients) else tree_leaves(result)


def _output_error(got: Sequence[Tensor], want: Sequence[Tensor]) -> float:
    """Return the greatest error of all results, see `Bisection.output_error`."""
    least = 0.01 * max((_greatest(w.numpy()) for w in want), default=0.0)
    return max((_error(*pair, least) for pair in _arrays(got, want)), default=0.0)


def _errors(got: Sequence[Tensor], want: Sequence[Tensor]) -> list[float]:
    """Return the error of each result of an op."""
    return [_error(*pair) for pair in _arrays(got, want)]


def _arrays(got: Sequence[Tensor], want: Sequence[Tensor]) -> Iterator[tuple[Array, Array]]:
    return ((g.numpy(), w.numpy()) for g, w in zip(got, want, strict=True))


def _error(got: Array, want: Array, least: float = 0.0) -> float:
    """Return the greatest difference, relative to the greatest element that is wanted."""
    if got.shape != want.shape or got.dtype != want.dtype:
        return math.inf
    x, y = got.astype(np.float64), want.astype(np.float64)
    with np.errstate(invalid="ignore"):
        difference = np.where((x == y) | (np.isnan(x) & np.isnan(y)), 0.0, np.abs(x - y))
    error = float(difference.max(initial=0.0)) / (max(_greatest(y), least) or 1.0)
    return error if error == error else math.inf


def _greatest(array: Array) -> float:
    """Return the greatest finite magnitude; 0 when there is none."""
    wide = array.astype(np.float64)
    return float(np.abs(wide[np.isfinite(wide)]).max(initial=0.0))


def _described(value: Any) -> TensorType | float | None:
    return value.value if isinstance(value, Constant) else getattr(value, "_type", None)
