"""What the families of native implementations share: the decorator, and the test of indices.

An implementation gets tensors in the dtype in which they are computed (float16 and bfloat16 as
float32, wide unsigned integers in their carriers), numbers as zero-d tensors, and attributes by
keyword.  It may return float32 for the narrow floats: `Torch.run` rounds once.  What else it wants,
it says to `native`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeVar

import torch

from pyrite.backend.protocol import Backend, implements
from pyrite.backend.torch.dtype import Carrier
from pyrite.backend.torch.fault import Faults
from pyrite.backend.torch.precision import Kind, note_products, switch_of
from pyrite.errors import IndexRangeError

F = TypeVar("F", bound=Callable[..., Any])
R = TypeVar("R")

#: What an implementation gets for a Constant: a zero-d tensor, the number, or all inputs untouched.
#: With "columns" it gets many calls at once: for each input a list of tensors, None or a number. It
#: returns a tuple of lists.
Given = Literal["tensors", "numbers", "untouched", "columns"]

#: Where PyTorch's own kernel takes float16 and bfloat16, computes in float32 and rounds once.
Narrow = Literal["nowhere", "cuda", "everywhere"]


@dataclass(frozen=True, slots=True)
class Demand:
    """How an implementation wants its inputs."""

    narrow: Narrow = "nowhere"
    carrier: Carrier = "value"
    given: Given = "tensors"
    when: Callable[..., bool] | None = None
    #: Whether it is told by ``is_for_derivative`` that nobody else reads its residuals: then these
    #: are what its own derivative wants, of any shape.
    has_own_residuals: bool = False


def native(
    *names: str,
    narrow: Narrow = "nowhere",
    carrier: Carrier = "value",
    given: Given = "tensors",
    when: Callable[..., bool] | None = None,
    has_own_residuals: bool = False,
) -> Callable[[F], F]:
    """Mark a method as the native implementation of ops, as `implements` does.

    ``narrow`` says where it takes float16 and bfloat16 as they are; ``carrier`` how wide unsigned
    integers come; ``given`` what it gets for numbers; ``when`` which inputs it is for:
    of others the op runs by its rule or body; ``has_own_residuals`` see `Demand`.
    """

    def mark(method: F) -> F:
        method._demand = Demand(  # type: ignore[attr-defined]
            narrow, carrier, given, when, has_own_residuals
        )
        return implements(*names)(method)

    return mark


def remembered(x: torch.Tensor, what: Hashable, find: Callable[[], R]) -> R:
    """Return what was found out about a handle before, as by a forward op for its backward one.

    It still holds, for nobody writes to a handle; it goes with the handle, and a tensor that an
    application got is another one.
    """
    known: dict[Hashable, Any] = x.__dict__.setdefault("_remembered", {})
    found = known.get(what)
    if found is None:
        found = known[what] = find()
    return found  # type: ignore[no-any-return]


class Native(Backend):
    """A device of PyTorch, as the families of implementations see it."""

    device: torch.device
    faults: Faults
    _zeros: dict[torch.dtype, torch.Tensor]

    #: What each implementation demands, by the name of its method.
    _demands: ClassVar[dict[str, Demand]] = {}

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls._demands = {
            name: getattr(getattr(cls, name), "_demand", Demand())
            for name in cls._implementations.values()
        }

    @property
    def is_host(self) -> bool:
        """Whether it computes at once, in host memory."""
        return self.device.type == "cpu"

    def note_products(self, x: torch.Tensor, kind: Kind = "matmul") -> None:
        """Warn, once, where PyTorch's switches make products of x coarser than was asked for."""
        note_products(self._kind_of_device, x, kind)

    @functools.cached_property
    def product_switch(self) -> Callable[[], str]:
        """Return what reads PyTorch's switch for products."""
        return switch_of(self._kind_of_device, "matmul")

    @functools.cached_property
    def _kind_of_device(self) -> str:
        # To ask a torch.device takes 0.2 µs.
        return self.device.type

    def zero(self, dtype: torch.dtype) -> torch.Tensor:
        """Return the zero of which all zeros are views: they take no memory, and are known."""
        found = self._zeros.get(dtype)
        if found is None:
            found = self._zeros.setdefault(dtype, torch.zeros((), dtype=dtype, device=self.device))
        return found

    def is_zero(self, x: torch.Tensor) -> bool:
        """Whether it is known, without a look at its values, to be all zeros."""
        found = self._zeros.get(x.dtype)
        return found is not None and x.data_ptr() == found.data_ptr()

    def inside(
        self, op: str, indices: torch.Tensor, size: int, axis: int, *, negative: bool = True
    ) -> torch.Tensor:
        """Return indices as 0 <= index < size, int64.

        Raises IndexRangeError for one outside: at once on the host, at the next read elsewhere.
        """
        lowest = -size if negative else 0
        where = f"on axis {axis}" if negative else "the number of classes"
        condition = f"{op} requires {lowest} <= index < {size} {where}"
        if not self.is_host:
            known, outside = self._moved(indices, size, lowest)
            self.faults.note(outside, f"{condition}, got one outside")
            return known
        whole = indices.to(torch.int64)
        if whole.numel() == 0:
            return whole
        least, greatest = (int(bound) for bound in torch.aminmax(whole))
        if least < lowest or greatest >= size:
            outside = (whole < lowest) | (whole >= size)
            raise IndexRangeError(f"{condition}, got index {int(whole[outside][0])}")
        return torch.where(whole < 0, whole + size, whole) if least < 0 else whole

    def again(
        self, op: str, indices: torch.Tensor, size: int, axis: int, *, negative: bool = True
    ) -> torch.Tensor:
        """Return what `inside` returns, for indices that a forward op has looked at already."""
        if self.is_host:
            return self.inside(op, indices, size, axis, negative=negative)
        return self._moved(indices, size, -size if negative else 0)[0]

    def _moved(
        self, indices: torch.Tensor, size: int, lowest: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return indices moved inside, int64, and whether one was outside: a bool on the device."""

        def find() -> tuple[torch.Tensor, torch.Tensor]:
            whole = indices.to(torch.int64)
            known = torch.clamp(whole, lowest, max(size - 1, lowest))
            outside = (known != whole).any()
            return torch.where(known < 0, known + size, known) if lowest else known, outside

        return remembered(indices, ("inside", size, lowest), find)
