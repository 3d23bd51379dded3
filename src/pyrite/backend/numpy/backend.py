"""The reference: every op by its own rules, in NumPy.  Slow and plain, the judge of all others.

Dtypes are pinned: a result that is not of the inferred type is an error of ours, never converted.
float16 and bfloat16 are computed in float32 and rounded once per op.  Ops that add up many elements
are computed in float64: in float32 a long sum would be the least exact of all backends'.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from pyrite.backend.evaluation import coordinates_for, evaluate
from pyrite.backend.numpy.arrays import NumPyArrays
from pyrite.backend.protocol import Backend
from pyrite.errors import DeviceError, UnsupportedKernelError
from pyrite.op import Attributes, Constant, Op, Plan, require_reference
from pyrite.types import Array, DType, TensorType, dtype

ARRAYS = NumPyArrays()
ALGEBRA = ARRAYS.algebra


class NumPy(Backend):
    """The NumPy backend.  A handle is an ndarray."""

    name = "numpy"
    shares_with_numpy = True
    #: Whether rules of classes are used where there is a reference, for tests of the rules.
    prefers_rules: ClassVar[bool] = False

    @classmethod
    def has(cls, op: Op) -> bool:
        """Whether it has an implementation, or the op's own rule or reference."""
        is_whole = not op.is_composite or (cls.prefers_rules and op.rule is not None)
        return op.name in cls._implementations or is_whole

    def execute(self, op: Op, inputs: Sequence[Any], plan: Plan) -> Sequence[Array] | None:
        """Execute one op by its native implementation, its scalar rule or its reference."""
        if op.body is not None and not self.keeps(op, inputs):
            return None
        try:
            return self._executed(op, inputs, plan.attrs, plan.out)
        except (MemoryError, ValueError) as error:
            if isinstance(error, ValueError) and not any(map(_is_beyond_memory, plan.out or ())):
                raise
            made = ", ".join(map(str, plan.out or ()))
            raise DeviceError(
                f"{op.name} requires memory that there is on numpy, got {made}; split it"
            ) from None

    def results(
        self,
        op: Op,
        inputs: Sequence[Any],
        attrs: Attributes,
        out: tuple[TensorType, ...] | None,
    ) -> Sequence[Array]:
        """Return the results of an op that is no composite, for a backend that falls back here."""
        found = self.execute(op, inputs, Plan(attrs, out))
        assert found is not None, "a composite is expanded, and does not fall back"
        return found

    def _executed(
        self,
        op: Op,
        inputs: Sequence[Any],
        attrs: Attributes,
        out: tuple[TensorType, ...] | None,
    ) -> Sequence[Array]:
        if native := self._implementations.get(op.name):
            result = getattr(self, native)(*inputs, **attrs)
            return result if isinstance(result, tuple) else (result,)
        arrays = [_operand(i) for i in inputs]
        with np.errstate(all="ignore"):
            if op.scalar is not None and (self.prefers_rules or op.reference is None):
                assert out is not None
                return (_elementwise(op, arrays, attrs, out[0]),)
            if op.rule is not None and (self.prefers_rules or op.reference is None):
                assert out is not None
                results = evaluate(ARRAYS, op, arrays, attrs, out)
            elif (made := _of_kernels(op, arrays, attrs, out)) is not None:
                results = made
            else:
                results = _referred(op, arrays, attrs)
            types = out or (None,) * len(results)
            return [_pinned(op, r, t) for r, t in zip(results, types, strict=True)]

    def upload(self, array: Array) -> Array:
        """Return a copy of the array."""
        return np.array(array)

    def adopt(self, array: Array) -> Array:
        """Return the array itself."""
        return array

    def download(self, handle: Array) -> Array:
        """Return a read-only view."""
        view = handle.view()
        view.flags.writeable = False
        return view

    def type_of(self, handle: Array) -> TensorType:
        """Return shape and dtype of the array."""
        return TensorType(handle.shape, dtype(handle.dtype))


def _is_beyond_memory(type: TensorType) -> bool:
    return type.size * type.dtype.itemsize >= 1 << 56


def _operand(value: Any) -> Array | None:
    """Return an input as an array in the dtype in which it is computed."""
    if value is None:
        return None
    if isinstance(value, Constant):
        return value.numpy(value.type.dtype.compute)
    array: Array = value
    narrow = array.dtype.itemsize == 2 and dtype(array.dtype).is_float
    return array.astype(np.float32) if narrow else array


def _of_kernels(
    op: Op, arrays: Sequence[Array | None], attrs: Attributes, out: tuple[TensorType, ...] | None
) -> Sequence[Array] | None:
    """Return the results of the first of an op's kernels that Python runs, without a reference.

    Raises UnsupportedKernelError, the last one's, where Python can run none of them.
    """
    if op.reference is not None or out is None:
        return None
    refused = None
    for kernel in op.kernels:
        try:
            results: Sequence[Array] | None = kernel.results(op, arrays, attrs, out)
        except UnsupportedKernelError as error:
            refused = error
            continue
        if results is not None:
            return results
    if refused is not None:
        raise refused
    return None


def _referred(op: Op, arrays: Sequence[Array | None], attrs: Attributes) -> Sequence[Any]:
    """Return the results of an op's reference."""
    require_reference(op, NumPy.name)
    assert op.reference is not None
    if op.accumulates:
        arrays = [_widened(a) for a in arrays]
    result = op.reference(*arrays, **attrs)
    return result if isinstance(result, tuple) else (result,)


def _widened(array: Array | None) -> Array | None:
    """Return floats as float64."""
    return array if array is None or array.dtype.kind != "f" else array.astype(np.float64)


def _elementwise(op: Op, arrays: list[Array | None], attrs: Attributes, out: TensorType) -> Array:
    assert op.scalar is not None
    if op.coordinates:
        attrs = {**attrs, **coordinates_for(op, ARRAYS, out.shape, None)}
    result = np.asarray(op.scalar(ALGEBRA, *arrays, **attrs))
    if result.shape != out.shape:
        result = np.broadcast_to(result, out.shape)
    # Row-major whatever the inputs were: NumPy's sums depend on the layout, and a tensor read back
    # from a file, which is row-major, must give the same bits as the one that was saved.
    return np.ascontiguousarray(_pinned(op, result, out)).reshape(out.shape)


def _pinned(op: Op, result: Any, out: TensorType | None) -> Array:
    array = np.asarray(result)
    if out is None:
        return array
    assert array.shape == out.shape, f"{op} inferred {out}, its reference gave {array.shape}"
    if array.dtype != out.dtype.numpy:
        assert array.dtype in _computed(op, out.dtype), (
            f"{op} inferred {out}, its reference gave {array.dtype}"
        )
        array = array.astype(out.dtype.numpy)
    return array


def _computed(op: Op, dtype: DType) -> tuple[np.dtype[Any], ...]:
    """Return the dtypes in which results of a dtype are computed, before they are rounded."""
    by_rule = dtype.compute.numpy
    return (by_rule, np.dtype(np.float64)) if op.accumulates and dtype.is_float else (by_rule,)
