"""Gradients of recurrent layers: steps as launches of one kernel, the last one first.

What is added up over the units of a step is the cotangent of the hidden state before it; the cell's
derivative is taken on these sums.  Gates that were not kept are made again by products of all steps
at once, as those of weights and inputs are.  Formulas are those of the composites, in
`pyrite.tensor.recurrent`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from pyrite.backend.cube.launcher import Launcher, Steps
from pyrite.backend.cube.lowering.recurrent import WHY, Layer, are_for_steps, sigmoid, steps_of
from pyrite.backend.cube.registry import lowers
from pyrite.backend.cube.skeleton.contraction.matrix_product import multiply
from pyrite.backend.cube.skeleton.copy import copy, flattened
from pyrite.backend.cube.skeleton.fold import reduce_axes, sum_of
from pyrite.backend.cube.skeleton.recurrent_cell import RecurrentStep, StepProblem
from pyrite.backend.cube.skeleton.recurrent_step import StepOperands, config_of, pack, run_steps
from pyrite.backend.cube.tensor import CubeTensor
from pyrite.kernel import Value
from pyrite.op import Attributes, Op
from pyrite.types import TensorType


@lowers("lstm_backward", why=WHY, when=are_for_steps)
def lstm_backward(
    launcher: Launcher, op: Op, inputs: Sequence[Any], attrs: Attributes, out: Any
) -> Sequence[CubeTensor]:
    """Return the gradients that were asked for."""
    g, g_hidden, g_cell, outputs, *given, gates, cells = inputs
    layer = Layer.of(launcher, 4, given, attrs)
    before = None
    if gates is None or cells is None:
        before = _hidden_before(layer, outputs)
        gates, cells = _gates_and_cells(layer, before)
    elif 2 in attrs["argnums"]:
        before = _hidden_before(layer, outputs)
    cell_before, cell_after = layer.around_steps(cells)
    of_cell = layer.copied(g_cell)

    def cell(step: RecurrentStep, of_hidden: Value) -> None:
        i, f, new, o = (step.read(1, n) for n in range(4))
        tanh = step.k.tanh(step.read(3))
        total = step.current(1) + of_hidden * o * (1.0 - tanh * tanh)
        step.write(0, total * new * i * (1.0 - i), 0)
        step.write(0, total * step.read(2) * f * (1.0 - f), 1)
        step.write(0, total * i * (1.0 - new * new), 2)
        step.write(0, of_hidden * tanh * o * (1.0 - o), 3)
        step.write(1, total * f)

    of_gates = layer.empty(layer.steps, layer.batch, 4 * layer.size)
    sources = [g, gates, cell_before, cell_after]
    _walk(layer, op.name, "", sources, [of_gates, of_cell], cell, g_hidden)
    of_state = functools.partial(_before_first, layer, of_gates, None)
    return _gradients(layer, attrs, out, before, of_gates, of_gates, [of_state, lambda: of_cell])


@lowers("gru_backward", why=WHY, when=are_for_steps)
def gru_backward(
    launcher: Launcher, op: Op, inputs: Sequence[Any], attrs: Attributes, out: Any
) -> Sequence[CubeTensor]:
    """Return the gradients that were asked for."""
    g, g_hidden, outputs, *given, gates = inputs
    layer = Layer.of(launcher, 3, given, attrs)
    before = _hidden_before(layer, outputs)
    if gates is None:
        gates = _gru_gates(layer, before)
    # What is carried from step to step past the product.
    carried = layer.copied(g_hidden)

    def cell(step: RecurrentStep, of_hidden: Value) -> None:
        reset, update, new, of_new = (step.read(1, n) for n in range(4))
        total = step.current(2) + of_hidden
        to_new = total * (1.0 - update) * (1.0 - new * new)
        to_reset = to_new * of_new * reset * (1.0 - reset)
        to_update = total * (step.read(2) - new) * update * (1.0 - update)
        for n, value in enumerate((to_reset, to_update, to_new)):
            step.write(1, value, n)
        for n, value in enumerate((to_reset, to_update, to_new * reset)):
            step.write(0, value, n)
        step.write(2, total * update)

    of_products, of_inputs = (
        layer.empty(layer.steps, layer.batch, 3 * layer.size) for _ in range(2)
    )
    _walk(layer, op.name, "", [g, gates, before], [of_products, of_inputs, carried], cell)
    of_state = functools.partial(_before_first, layer, of_products, carried)
    return _gradients(layer, attrs, out, before, of_inputs, of_products, [of_state])


@lowers("rnn_backward", why=WHY, when=are_for_steps)
def rnn_backward(
    launcher: Launcher, op: Op, inputs: Sequence[Any], attrs: Attributes, out: Any
) -> Sequence[CubeTensor]:
    """Return the gradients that were asked for."""
    g, g_hidden, outputs, *given = inputs
    layer, is_tanh = Layer.of(launcher, 1, given, attrs), attrs["nonlinearity"] == "tanh"

    def cell(step: RecurrentStep, of_hidden: Value) -> None:
        y = step.read(1)
        slope = of_hidden * (1.0 - y * y) if is_tanh else step.k.where(y > 0.0, of_hidden, 0.0)
        step.write(0, slope)

    of_sums = layer.empty(layer.steps, layer.batch, layer.size)
    _walk(layer, op.name, attrs["nonlinearity"], [g, outputs], [of_sums], cell, g_hidden)
    before = _hidden_before(layer, outputs) if 2 in attrs["argnums"] else None
    of_state = functools.partial(_before_first, layer, of_sums, None)
    return _gradients(layer, attrs, out, before, of_sums, of_sums, [of_state])


# ---- parts ----


def _hidden_before(layer: Layer, outputs: CubeTensor) -> CubeTensor:
    """Return the hidden state before each step: (T, N, H)."""
    before, after = layer.around_steps(layer.states_of_steps())
    copy(layer.launcher, outputs, after)
    return before


def _gates_and_cells(layer: Layer, hidden: CubeTensor) -> tuple[CubeTensor, CubeTensor]:
    """Return the residuals of an LSTM, made again from the hidden state before each step."""
    gates = layer.product(
        hidden, layer.weight_hh.permuted((1, 0)), layer.bias_hh, layer.from_inputs()
    )
    cells = layer.states_of_steps(1)
    before, after = layer.around_steps(cells)

    def cell(step: RecurrentStep) -> None:
        i, f, o = (sigmoid(step, step.current(1, n)) for n in (0, 1, 3))
        new = step.k.tanh(step.current(1, 2))
        for n, value in enumerate((i, f, new, o)):
            step.write(1, value, n)
        step.write(0, f * step.read(0) + i * new)

    _pass_over(layer, "lstm cells", [before], [after, gates], cell)
    return gates, cells


def _gru_gates(layer: Layer, hidden: CubeTensor) -> CubeTensor:
    """Return the residual of a GRU, made again from the hidden state before each step."""
    gates = layer.empty(layer.steps, layer.batch, 4 * layer.size)
    from_hidden = layer.product(hidden, layer.weight_hh.permuted((1, 0)), layer.bias_hh)

    def cell(step: RecurrentStep) -> None:
        reset, update = (sigmoid(step, step.read(0, n) + step.read(1, n)) for n in (0, 1))
        of_new = step.read(1, 2)
        new = step.k.tanh(step.read(0, 2) + reset * of_new)
        for n, value in enumerate((reset, update, new, of_new)):
            step.write(0, value, n)

    _pass_over(layer, "gru gates", [layer.from_inputs(), from_hidden], [gates], cell)
    return gates


def _pass_over(
    layer: Layer, name: str, sources: Sequence[CubeTensor], targets: Sequence[CubeTensor],
    cell: Callable[[RecurrentStep], None],
) -> None:  # fmt: skip
    """Run a cell that has no product at each step."""
    problem = StepProblem(layer.batch, layer.size, 1, 0, layer.x.dtype)
    run_steps(
        layer.launcher, name, "", problem, config_of(layer.launcher, problem),
        StepOperands(None, None, sources, targets), cell, layer.order,
    )  # fmt: skip


def _walk(
    layer: Layer, name: str, variant: str, sources: Sequence[CubeTensor],
    targets: Sequence[CubeTensor], derivative: Callable[[RecurrentStep, Value], None],
    last: CubeTensor | None = None,
) -> None:  # fmt: skip
    """Take a cell's derivative at each step, from the last to the first.

    It gets the cotangent of the step's hidden state: source 0, and beside it the product of
    target 0 at the step after, or ``last`` where there is none.
    """
    launcher, (_, batch, depth) = layer.launcher, targets[0].shape
    end, back = Steps(layer.last, 1, 1), layer.order_back
    extra = [] if last is None else [last]

    def at_end(step: RecurrentStep) -> None:
        g = step.read(0)
        derivative(step, g if last is None else g + step.read(len(sources)))

    def before_end(step: RecurrentStep) -> None:
        derivative(step, step.read(0) + step.sums[0])

    problem = StepProblem(batch, layer.size, 1, depth, layer.x.dtype)
    config = config_of(launcher, problem)
    alone = StepOperands(None, None, [*sources, *extra], targets)
    run_steps(launcher, name, variant, problem, config, alone, at_end, end)
    if back.count > 0:
        weights = layer.weight_hh.permuted((1, 0)).reshaped((1, layer.size, depth))
        assert weights is not None, "an axis of one is a view"
        packed = pack(launcher, weights, problem, config)
        operands = StepOperands(targets[0], packed, sources, targets)
        run_steps(launcher, name, variant, problem, config, operands, before_end, back)


def _before_first(layer: Layer, of_products: CubeTensor, plus: CubeTensor | None) -> CubeTensor:
    """Return the gradient of the first hidden state."""
    first = flattened(layer.launcher, steps_of(of_products, layer.first, 1), of_products.shape[1:])
    return layer.product(first, layer.weight_hh, plus=plus)


def _gradients(
    layer: Layer, attrs: Attributes, out: Sequence[TensorType], before: CubeTensor | None,
    of_inputs: CubeTensor, of_hidden: CubeTensor, of_states: Sequence[Callable[[], CubeTensor]],
) -> list[CubeTensor]:  # fmt: skip
    """Return the gradients that were asked for, from those of the products (T, N, gates * H)."""
    launcher, rows = layer.launcher, layer.steps * layer.batch

    def of_weight(g: CubeTensor, x: CubeTensor | None, type: TensorType) -> CubeTensor:
        assert x is not None, "it was made where it is wanted"
        g, x = (flattened(launcher, t, (rows, t.shape[-1])) for t in (g, x))
        return multiply(launcher, g.permuted((1, 0)), x, type)

    def of_bias(g: CubeTensor, type: TensorType) -> CubeTensor:
        return reduce_axes(launcher, sum_of(g.dtype), g, (0, 1), type)

    makers: dict[int, Callable[[TensorType], CubeTensor]] = {
        0: lambda _: layer.product(of_inputs, layer.weight_ih),
        1: lambda type: of_weight(of_inputs, layer.x, type),
        2: lambda type: of_weight(of_hidden, before, type),
        3: lambda type: of_bias(of_inputs, type),
        4: lambda type: of_bias(of_hidden, type),
    }
    return [
        makers[n](type) if n in makers else of_states[n - len(makers)]()
        for n, type in zip(attrs["argnums"], out, strict=True)
    ]
