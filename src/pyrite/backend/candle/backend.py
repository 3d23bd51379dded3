"""The Candle backend: what Candle's Python binding can do in Candle, the rest loudly in NumPy.

An op runs by its native implementation, by its scalar rule on `CandleAlgebra`, or by its body.
What Candle has nothing for falls back to NumPy: `LACKING` names those ops, and no other may.
Dtypes are pinned: float16 and bfloat16 are computed in float32 and rounded once per op; int32 and
bool are carried in wider ones and keep their range.

A handle is a `CandleTensor`.  Everything is done at once, on the host.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any, ClassVar

from pyrite.backend.candle.contraction import Contraction
from pyrite.backend.candle.convolution import Convolution
from pyrite.backend.candle.elementwise import Elementwise
from pyrite.backend.candle.gather import Gather
from pyrite.backend.candle.lacking import LACKING
from pyrite.backend.candle.memory import require_memory
from pyrite.backend.candle.movement import Movement
from pyrite.backend.candle.native import ALGEBRA
from pyrite.backend.candle.order import Order
from pyrite.backend.candle.pooling import Pooling
from pyrite.backend.candle.reduction import Reduction
from pyrite.backend.candle.scan import Scan
from pyrite.backend.candle.tensor import (
    CARRIERS,
    CandleTensor,
    Lacking,
    downloaded,
    number,
    uploaded,
    zeros,
)
from pyrite.backend.fallback import note_fallback
from pyrite.backend.numpy import NumPy
from pyrite.errors import DTypeError
from pyrite.op import Attributes, Constant, Op, Plan, require_reference
from pyrite.types import DTYPES, Array, DType, TensorType, dtype

REFERENCE = NumPy()


class Candle(
    Movement,
    Reduction,
    Order,
    Scan,
    Gather,
    Pooling,
    Contraction,
    Convolution,
    Elementwise,
):
    """Hugging Face's Candle as a backend, on the host."""

    name = "candle"

    falls_back: ClassVar[Mapping[str, str]] = LACKING
    dtypes: ClassVar[frozenset[DType]] = frozenset(CARRIERS)

    def __init__(self) -> None:
        lacking = ", ".join(d.name for d in DTYPES if d not in CARRIERS)
        self.details = f"candle-nn {version('candle-nn')} on the processors; no {lacking}"

    def execute(self, op: Op, inputs: Sequence[Any], plan: Plan) -> Sequence[CandleTensor] | None:
        """Execute one op by its native implementation, its scalar rule or the reference."""
        if op.body is not None and not self.keeps(op, inputs):
            return None
        attrs, out = plan.attrs, plan.out
        for type in out or ():
            _require_supported(op.name, type.dtype)
        require_memory(op.name, out or ())
        if out and all(type.size == 0 for type in out):
            return [zeros(type.shape, type.dtype) for type in out]
        try:
            results = self._natively(op, inputs, attrs, out)
        except Lacking:
            return self._by_reference(op, inputs, attrs, out)
        if out is None:
            return results
        return [_rounded(r, t) for r, t in zip(results, out, strict=True)]

    def _natively(
        self,
        op: Op,
        inputs: Sequence[Any],
        attrs: Attributes,
        out: tuple[TensorType, ...] | None,
    ) -> Sequence[CandleTensor]:
        """Execute an op in Candle.  Raises Lacking where that is not possible."""
        method = self._implementations.get(op.name)
        if method is not None:
            given = self._given[method]
            taken = inputs if given == "untouched" else [
                _operand(i, in_compute=given == "computed") for i in inputs
            ]  # fmt: skip
            result = getattr(self, method)(*taken, **attrs)
            return result if isinstance(result, tuple) else (result,)
        if op.scalar is None or op.coordinates:
            raise Lacking(op.name)
        assert out is not None
        result = op.scalar(ALGEBRA, *(_operand(i, in_compute=True) for i in inputs), **attrs)
        return (result.broadcast_to(out[0].shape),)

    def _by_reference(
        self,
        op: Op,
        inputs: Sequence[Any],
        attrs: Attributes,
        out: tuple[TensorType, ...] | None,
    ) -> Sequence[CandleTensor]:
        """Execute an op in NumPy: counted and named."""
        require_reference(op, self.name)
        note_fallback(self.name, op.name)
        arrays = [self.download(i) if isinstance(i, CandleTensor) else i for i in inputs]
        return [self.upload(a) for a in REFERENCE.results(op, arrays, attrs, out)]

    # ---- values ----

    def upload(self, array: Array) -> CandleTensor:
        """Return a copy of the array.  Raises DTypeError for a dtype that Candle cannot hold."""
        found = dtype(array.dtype)
        _require_supported("upload", found)
        if array.size == 0:
            return zeros(array.shape, found)
        return uploaded(array, found)

    def download(self, handle: CandleTensor) -> Array:
        """Return a copy of the values, read-only."""
        array = downloaded(handle)
        array.flags.writeable = False
        return array

    def type_of(self, handle: CandleTensor) -> TensorType:
        """Return shape and dtype of the tensor."""
        return TensorType(handle.shape, handle.dtype)

    def primitive(self, handle: CandleTensor) -> Any:
        """Return the candle.Tensor; int32 is carried in its i64, and bool in u8."""
        return handle.data


def _operand(value: Any, *, in_compute: bool) -> Any:
    """Return an input as implementations and rules take it."""
    if isinstance(value, Constant):
        own = value.type.dtype
        _require_supported("a number", own)
        return number(value.value, own.compute if in_compute else own)
    if isinstance(value, CandleTensor) and in_compute:
        return value.store(value.dtype.compute)
    return value


def _rounded(x: CandleTensor, type: TensorType) -> CandleTensor:
    """Return a result in the dtype that was inferred, from the one in which it was computed."""
    if x.dtype is not type.dtype:
        is_rounding = type.dtype.compute is x.dtype
        assert is_rounding, f"an op inferred {type} and computed {x.dtype}"
        x = x.store(type.dtype)
    assert x.shape == type.shape, f"an op inferred {type} and computed {x.shape}"
    return x


def _require_supported(op: str, wanted: DType) -> None:
    if wanted not in CARRIERS:
        has = ", ".join(d.name for d in CARRIERS)
        raise DTypeError(
            f"{op} requires a dtype that candle has, one of {has}, got {wanted.name}; "
            "cast it with astype, or use another device"
        )
