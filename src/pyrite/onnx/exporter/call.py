"""One op as it is written: what exporters are given, and what they write with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import TensorProto, defs, helper

from pyrite.errors import ModelExportError
from pyrite.onnx.exporter.formula import Formula, Monomial, formula_of
from pyrite.onnx.exporter.graph import Graph
from pyrite.onnx.exporter.size import Size, ValueType, Varying, is_static, values_of
from pyrite.types import Array, DType, Number, bool_, int64

#: "From here to the end" of a slice.
TO_END = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class Value:
    """A value of the graph: its name and dtype, and its shape where that is known."""

    name: str
    dtype: DType
    shape: tuple[Size, ...] = ()
    #: A number of Python's that does not vary.
    number: Number | None = None

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)


@dataclass(frozen=True, slots=True)
class Sizes:
    """What sizes follow from: at each trace those that can be measured, and where they lie."""

    #: How many of the traces formulas are found from; the others judge them.
    fitted: int
    #: The value and axis of each, and its sizes.
    axes: tuple[tuple[str, int, Varying], ...]

    def with_values(self, values: Sequence[Value | None]) -> Sizes:
        """Return also the sizes of some values."""
        known = {varying for _, _, varying in self.axes}
        more = []
        for value in values:
            for axis, size in enumerate(value.shape if value else ()):
                if isinstance(size, Varying) and size not in known:
                    known.add(size)
                    assert value is not None
                    more.append((value.name, axis, size))
        return Sizes(self.fitted, (*self.axes, *more))


@dataclass(frozen=True, slots=True)
class Call:
    """An op at one place of the model, and the graph that it is written into."""

    graph: Graph
    layer: str
    inputs: tuple[Value | None, ...]
    out: tuple[ValueType, ...]
    sizes: Sizes
    error: Callable[[str], ModelExportError]

    @property
    def opset(self) -> int:
        """The version of ONNX's ops that is written."""
        return self.graph.opset

    # ---- nodes ----

    def emit(
        self,
        op_type: str,
        *inputs: Value | None,
        dtype: DType | None = None,
        domain: str = "",
        **attrs: Any,
    ) -> Value:
        """Add a node with one output, of the first input's dtype unless given."""
        if dtype is None:
            assert inputs[0] is not None
            dtype = inputs[0].dtype
        return self.emit_many(op_type, inputs, (dtype,), domain=domain, **attrs)[0]

    def emit_many(
        self,
        op_type: str,
        inputs: Sequence[Value | None],
        dtypes: Sequence[DType],
        domain: str = "",
        **attrs: Any,
    ) -> tuple[Value, ...]:
        """Add a node with outputs of some dtypes.

        Raises ModelExportError for an attribute that varies.
        """
        for name, value in attrs.items():
            if isinstance(value, Varying | list | tuple):
                self.static(name, value if isinstance(value, list | tuple) else (value,))
        narrow = {x.dtype for x in inputs if x and x.dtype.compute is not x.dtype}
        if narrow and not domain and not self._takes(op_type, inputs):
            inputs = [x and self.cast(x, x.dtype.compute) for x in inputs]
            found = self.emit_many(op_type, inputs, [d.compute for d in dtypes], **attrs)
            return tuple(self.cast(x, d) for x, d in zip(found, dtypes, strict=True))
        names = self.graph.add(
            op_type,
            [x.name if x else "" for x in inputs],
            len(dtypes),
            layer=self.layer,
            domain=domain,
            attrs={k: v for k, v in attrs.items() if v is not None},
        )
        return tuple(Value(n, d) for n, d in zip(names, dtypes, strict=True))

    def _takes(self, op_type: str, inputs: Sequence[Value | None]) -> bool:
        """Whether ONNX has its op for the dtypes of some inputs: Celu and Einsum miss some."""
        formal = defs.get_schema(op_type, self.opset).inputs
        return all(
            x is None or onnx_type(x.dtype) in formal[min(i, len(formal) - 1)].types
            for i, x in enumerate(inputs)
        )

    def cast(self, x: Value, dtype: DType) -> Value:
        """Return a value in a dtype, itself where it has that."""
        if x.dtype is dtype:
            return x
        return self.emit("Cast", x, dtype=dtype, to=onnx_dtype(dtype))

    # ---- constants ----

    def array(self, array: Any, dtype: DType) -> Value:
        """Return a constant."""
        made: Array = np.asarray(array, dtype.numpy)
        return Value(self.graph.constant(made), dtype, made.shape)

    def number(self, number: Number, dtype: DType) -> Value:
        """Return a number as a constant without axes."""
        return self.array(number, dtype)

    def axes(self, axes: Sequence[int]) -> Value:
        """Return axes, or other integers that do not vary."""
        return self.array(list(axes), int64)

    # ---- sizes ----

    def static(self, name: str, sizes: Sequence[Size]) -> tuple[int, ...]:
        """Return integers that may not vary; raise ModelExportError where one does."""
        found = tuple(size for size in sizes if not isinstance(size, Varying))
        if len(found) < len(sizes):
            shown = ", ".join(map(str, sizes))
            raise self.error(
                f"{name} that is the same at every size of a dynamic axis, got ({shown}): ONNX has "
                "it as an attribute"
            )
        return found

    def integers(self, sizes: Sequence[Size]) -> Value:
        """Return int64 integers, (n,), computed in the graph where they vary."""
        if is_static(sizes):
            return self.array(list(sizes), int64)
        parts, pending = [], []
        for size in sizes:
            if isinstance(size, int):
                pending.append(size)
                continue
            if pending:
                parts.append(self.array(pending, int64))
                pending = []
            parts.append(self._measured(size))
        if pending:
            parts.append(self.array(pending, int64))
        return parts[0] if len(parts) == 1 else self.emit("Concat", *parts, axis=0)

    def scalar(self, size: Size, dtype: DType) -> Value:
        """Return an integer as a constant without axes, in a dtype, computed where it varies."""
        if isinstance(size, int):
            return self.number(size, dtype)
        empty = self.array(np.zeros(0, np.int64), int64)
        return self.cast(self.emit("Reshape", self._measured(size), empty), dtype)

    def _measured(self, size: Varying) -> Value:
        """Return an integer that varies, (1,), by its formula of sizes."""
        count = len(size.values)
        table = list(zip(*(values_of(v, count) for _, _, v in self.sizes.axes), strict=True))
        formula = formula_of(size.values, table, self.sizes.fitted) if table else None
        if formula is None:
            known = ", ".join(f"{name}.shape[{axis}]={v}" for name, axis, v in self.sizes.axes)
            raise self.error(
                f"sizes that follow from the dynamic axes by +, *, and // with whole numbers, got "
                f"{size} where {known}"
            )
        return self._computed(formula)

    def _computed(self, formula: Formula) -> Value:
        total: Value | None = None
        for term in formula.terms:
            found = self._term(term)
            total = found if total is None else self.emit("Add", total, found)
        assert total is not None
        if formula.offset:
            total = self.emit("Add", total, self.array([formula.offset], int64))
        if formula.divisor > 1:
            total = self.emit("Div", total, self.array([formula.divisor], int64))
        return total

    def _term(self, term: Monomial) -> Value:
        product: Value | None = None
        for position in term.sizes:
            name, axis, _ = self.sizes.axes[position]
            shape = self.emit("Shape", Value(name, int64), dtype=int64, start=axis, end=axis + 1)
            product = shape if product is None else self.emit("Mul", product, shape)
        assert product is not None
        if term.factor != 1:
            product = self.emit("Mul", product, self.array([term.factor], int64))
        return product

    # ---- shapes ----

    def reshape(self, x: Value, shape: Sequence[Size]) -> Value:
        """Return a value in another shape; x's own shape must be known."""
        if tuple(shape) == x.shape:
            return x
        target, allows_zero = self._target(x.shape, shape)
        made = self.emit("Reshape", x, target, allowzero=allows_zero)
        return Value(made.name, made.dtype, tuple(shape))

    def _target(self, old: tuple[Size, ...], new: Sequence[Size]) -> tuple[Value, int | None]:
        """Return the shape of a Reshape, and whether a 0 in it is a size.

        Else a 0 keeps the axis there, and one -1 is what is left.
        """
        if 0 in new or is_static(new):
            return self.integers(new), 1 if 0 in new else None
        spelled: list[Size] = [
            0 if isinstance(n, Varying) and i < len(old) and old[i] == n else n
            for i, n in enumerate(new)
        ]
        left = [i for i, n in enumerate(spelled) if isinstance(n, Varying)]
        if len(left) == 1:
            spelled[left[0]] = -1
        return self.integers(spelled), None

    def stretch(self, old: tuple[Size, ...], new: Sequence[Size]) -> Value:
        """Return the shape of an Expand: 1 keeps the size of an axis, where it is that already."""
        before = len(new) - len(old)
        return self.integers(
            [
                1 if isinstance(n, Varying) and i >= before and old[i - before] == n else n
                for i, n in enumerate(new)
            ]
        )

    def transpose(self, x: Value, axes: Sequence[int]) -> Value:
        """Return a value with its axes in another order."""
        if tuple(axes) == tuple(range(len(axes))):
            return x
        made = self.emit("Transpose", x, perm=list(axes))
        shape = tuple(x.shape[a] for a in axes) if x.shape else ()
        return Value(made.name, made.dtype, shape)


def onnx_type(dtype: DType) -> str:
    """Return how ONNX's schemas name a tensor of a dtype."""
    return f"tensor({TensorProto.DataType.Name(onnx_dtype(dtype)).lower()})"


def onnx_dtype(dtype: DType) -> int:
    """Return ONNX's number of a dtype."""
    if dtype is bool_:
        return int(TensorProto.BOOL)
    return int(helper.np_dtype_to_tensor_dtype(np.dtype(dtype.numpy)))
