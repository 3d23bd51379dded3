"""Recurrent layers: all steps of a sequence as launches of one kernel.

As a body a step is a product of few rows, which reads its weights as they lie, and passes over its
gates; here it is one kernel, on weights that are packed once for the sequence.  Formulas are those
of the composites, in `pyrite.tensor.recurrent`; narrow dtypes run by their bodies.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyrite.backend.cube.launcher import Launcher, Machine, Steps
from pyrite.backend.cube.registry import Input, lowers
from pyrite.backend.cube.skeleton.contraction import layout_of
from pyrite.backend.cube.skeleton.contraction.matrix_product import multiply
from pyrite.backend.cube.skeleton.copy import contiguous, copy, flattened
from pyrite.backend.cube.skeleton.protocol import NOTHING, Fused, Stage
from pyrite.backend.cube.skeleton.recurrent_cell import Cell, RecurrentStep, StepProblem
from pyrite.backend.cube.skeleton.recurrent_step import StepOperands, config_of, pack, run_steps
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.kernel import Value
from pyrite.kernel.template.operand import Digit, OperandMap
from pyrite.kernel.trace import RecordingAlgebra
from pyrite.op import Attributes, Op
from pyrite.types import TensorType

#: Why these are not bodies.
WHY = "a step is one kernel, on weights packed once for the sequence"

#: Tensors of a step's kernel: an LSTM that keeps its gates has the most.
_BUFFERS = 9


def are_for_steps(machine: Machine, inputs: Sequence[Input]) -> bool:
    """Whether a layer has elements, is of one dtype in which it is computed, and can be bound."""
    tensors = [i for i in inputs if i is not None]
    if machine.buffers < _BUFFERS or not all(isinstance(t, CubeTensor) for t in tensors):
        return False
    dtype = tensors[0].type.dtype
    return dtype.compute is dtype and all(
        t.type.dtype is dtype and t.type.size > 0 for t in tensors
    )


# ---- sequences ----


@dataclass(frozen=True, slots=True)
class Layer:
    """The inputs of a forward op."""

    launcher: Launcher
    gates: int
    x: CubeTensor
    weight_ih: CubeTensor
    weight_hh: CubeTensor
    bias_ih: CubeTensor | None
    bias_hh: CubeTensor | None
    states: Sequence[CubeTensor]
    is_reversed: bool

    @classmethod
    def of(cls, launcher: Launcher, gates: int, inputs: Sequence[Any], attrs: Attributes) -> Layer:
        """Return it of the inputs of a forward op, in their order."""
        x, weight_ih, weight_hh, bias_ih, bias_hh, *states = inputs
        launcher.keep_sizes(*weight_ih.shape, *weight_hh.shape, weight_hh.shape[1])
        return cls(
            launcher, gates, x, weight_ih, weight_hh, bias_ih, bias_hh, states, attrs["is_reversed"]
        )

    @property
    def steps(self) -> int:
        return self.x.shape[0]

    @property
    def batch(self) -> int:
        return self.x.shape[1]

    @property
    def size(self) -> int:
        return self.weight_hh.shape[1]

    @property
    def first(self) -> int:
        """The step that is run first."""
        return self.steps - 1 if self.is_reversed else 0

    @property
    def last(self) -> int:
        """The step that is run last."""
        return 0 if self.is_reversed else self.steps - 1

    @property
    def order(self) -> Steps:
        """The steps in the order in which they are run."""
        return Steps(self.first, self.steps, -1 if self.is_reversed else 1)

    @property
    def order_back(self) -> Steps:
        """The steps but the last, from there to the first, each with the step after it."""
        step = -self.order.step
        return Steps(self.last + step, self.steps - 1, step, apart=-step)

    def empty(self, *shape: int) -> CubeTensor:
        """Return a dense tensor of the layer's dtype."""
        return self.launcher.empty(TensorType(shape, self.x.dtype))

    def copied(self, x: CubeTensor) -> CubeTensor:
        """Return a dense copy of a tensor."""
        return contiguous(self.launcher, x, always=True)

    def from_inputs(self) -> CubeTensor:
        """Return the products of the inputs of all steps, biased: (T, N, gates * H)."""
        return self.product(self.x, self.weight_ih.permuted((1, 0)), self.bias_ih)

    def product(
        self, x: CubeTensor, y: CubeTensor, bias: CubeTensor | None = None,
        plus: CubeTensor | None = None,
    ) -> CubeTensor:  # fmt: skip
        """Return x @ y + bias + plus of steps: (..., K), (K, M), (M,), (..., M) -> (..., M)."""
        depth, columns = y.shape
        rows = x.type.size // depth
        maps, sources = [], []
        if bias is not None:
            maps.append(_matrix(bias, 0, bias.strides[0], rows, columns))
            sources.append(bias)
        if plus is not None:
            maps.append(_matrix(plus, columns, 1, rows, columns))
            sources.append(plus)
        found = multiply(
            self.launcher, flattened(self.launcher, x, (rows, depth)), y,
            TensorType((rows, columns), x.dtype),
            Fused(epilogue=Stage(_added, tuple(maps))) if maps else NOTHING, sources,
        )  # fmt: skip
        return flattened(self.launcher, found, (*x.shape[:-1], columns))

    def states_of_steps(self, which: int = 0) -> CubeTensor:
        """Return memory for a state around all steps (T + 1, N, H), where the first is written."""
        whole = self.empty(self.steps + 1, self.batch, self.size)
        first = self.steps if self.is_reversed else 0
        copy(self.launcher, self.states[which], steps_of(whole, first, 1))
        return whole

    def around_steps(self, states: CubeTensor) -> tuple[CubeTensor, CubeTensor]:
        """Return of a state around all steps that before each, and that after it: (T, N, H)."""
        before, after = (1, 0) if self.is_reversed else (0, 1)
        return steps_of(states, before, self.steps), steps_of(states, after, self.steps)

    def last_of(self, after: CubeTensor) -> CubeTensor:
        """Return a copy of a state after the last step that is run: (T, N, H) -> (N, H)."""
        last = steps_of(after, self.last, 1).reshaped((self.batch, self.size))
        assert last is not None, "an axis of one goes"
        return self.copied(last)


def _matrix(x: CubeTensor, row: int, column: int, rows: int, columns: int) -> OperandMap:
    """Return where the elements of a matrix lie, of the strides of its rows and columns."""
    return OperandMap(
        x.dtype, (), (Digit(rows, row),), (Digit(columns, column),), (), layout_of(x).offset
    )


def _added(k: RecordingAlgebra, value: Value, *others: Value) -> Value:
    """Return the sum of all."""
    return sum(others, start=value)


def steps_of(x: CubeTensor, first: int, count: int) -> CubeTensor:
    """Return so many steps of (T, N, ...), from one on."""
    return x.sliced((first, 0, 0), (count, *x.shape[1:]), (1, 1, 1))


def _run(
    layer: Layer, name: str, variant: str, carried: Sequence[CubeTensor], cell: Cell,
    read: Sequence[CubeTensor] = (),
) -> Sequence[CubeTensor]:  # fmt: skip
    """Return the outputs and the last hidden state, for a cell that writes the hidden state first.

    A cell reads the products with the inputs (0), the hidden state before (1), what is in ``read``,
    and the bias, which is the last.
    """
    launcher = layer.launcher
    problem = StepProblem(layer.batch, layer.size, layer.gates, layer.size, layer.x.dtype)
    config = config_of(launcher, problem)
    weights = layer.weight_hh.reshaped((layer.gates, layer.size, layer.size))
    assert weights is not None, "an axis is cut by a view"
    before, after = layer.around_steps(layer.states_of_steps())
    sources = [layer.from_inputs(), before, *read]
    if layer.bias_hh is not None:
        sources.append(layer.bias_hh)
    operands = StepOperands(
        before, pack(launcher, weights, problem, config), sources, [after, *carried]
    )
    variant = f"{variant} {layer.bias_hh is not None}"
    run_steps(launcher, name, variant, problem, config, operands, cell, layer.order)
    return [after, layer.last_of(after)]


def _biased(step: RecurrentStep, layer: Layer, gate: int) -> Value:
    """Return the product with the hidden state, biased."""
    return step.sums[gate] if layer.bias_hh is None else step.sums[gate] + step.read(-1, gate)


def sigmoid(step: RecurrentStep, x: Value) -> Value:
    """1 / (1 + e ** -x)."""
    return 1.0 / (1.0 + step.k.exp(-x))


@lowers("lstm", why=WHY, when=are_for_steps)
def lstm(
    launcher: Launcher, op: Op, inputs: Sequence[Any], attrs: Attributes, out: Any
) -> Sequence[CubeTensor]:
    """Outputs, the last hidden and cell state, and where they are kept the gates and cells."""
    layer = Layer.of(launcher, 4, inputs, attrs)
    if attrs["keeps_gates"]:
        return _lstm_with_gates(layer, op.name)
    state = layer.copied(layer.states[1])

    def cell(step: RecurrentStep) -> None:
        i, f, g, o = _lstm_gates(step, layer)
        new = f * step.current(1) + i * g
        step.write(1, new)
        step.write(0, o * step.k.tanh(new))

    return [*_run(layer, op.name, "", [state], cell), state]


def _lstm_with_gates(layer: Layer, name: str) -> Sequence[CubeTensor]:
    """Return outputs, the last states, the gates of all steps, and the cells around them."""
    gates = layer.empty(layer.steps, layer.batch, 4 * layer.size)
    cells = layer.states_of_steps(1)
    before, after = layer.around_steps(cells)

    def cell(step: RecurrentStep) -> None:
        i, f, g, o = found = _lstm_gates(step, layer)
        for n, gate in enumerate(found):
            step.write(2, gate, n)
        new = f * step.read(2) + i * g
        step.write(1, new)
        step.write(0, o * step.k.tanh(new))

    results = _run(layer, name, "with gates", [after, gates], cell, [before])
    return [*results, layer.last_of(after), gates, cells]


def _lstm_gates(step: RecurrentStep, layer: Layer) -> tuple[Value, Value, Value, Value]:
    """Return the input, forget, cell and output gates."""
    i, f, g, o = (step.read(0, n) + _biased(step, layer, n) for n in range(4))
    return sigmoid(step, i), sigmoid(step, f), step.k.tanh(g), sigmoid(step, o)


@lowers("gru", why=WHY, when=are_for_steps)
def gru(
    launcher: Launcher, op: Op, inputs: Sequence[Any], attrs: Attributes, out: Any
) -> Sequence[CubeTensor]:
    """Outputs, the last hidden state, and the gates where they are kept."""
    layer = Layer.of(launcher, 3, inputs, attrs)
    kept = [layer.empty(layer.steps, layer.batch, 4 * layer.size)] if attrs["keeps_gates"] else []

    def cell(step: RecurrentStep) -> None:
        reset, update = (sigmoid(step, step.read(0, n) + _biased(step, layer, n)) for n in (0, 1))
        of_hidden = _biased(step, layer, 2)
        new = step.k.tanh(step.read(0, 2) + reset * of_hidden)
        if kept:
            for n, value in enumerate((reset, update, new, of_hidden)):
                step.write(1, value, n)
        step.write(0, new + update * (step.read(1) - new))

    return [*_run(layer, op.name, "with gates" if kept else "", kept, cell), *kept]


@lowers("rnn", why=WHY, when=are_for_steps)
def rnn(
    launcher: Launcher, op: Op, inputs: Sequence[Any], attrs: Attributes, out: Any
) -> Sequence[CubeTensor]:
    """Outputs, and the last hidden state."""
    layer, nonlinearity = Layer.of(launcher, 1, inputs, attrs), attrs["nonlinearity"]

    def cell(step: RecurrentStep) -> None:
        total = step.read(0) + _biased(step, layer, 0)
        is_tanh = nonlinearity == "tanh"
        step.write(0, step.k.tanh(total) if is_tanh else step.k.maximum(total, 0.0))

    return _run(layer, op.name, nonlinearity, [], cell)
