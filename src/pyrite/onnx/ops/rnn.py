"""RNN, GRU and LSTM: directions, layouts, lengths, peepholes and activations by name.

The usual cells are the ops of whole sequences that `pyrite.nn` has.  Others are unrolled; what does
not depend on the step before, x W, is one product for all steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pyrite.errors import ArgumentError
from pyrite.onnx.converter import Fixed, converts
from pyrite.tensor import functions
from pyrite.tensor.tensor import Tensor

Activation = Callable[[Tensor], Tensor]
#: From gates of x, and the states, to the next states, of which the first is the output.
Cell = Callable[[Tensor, tuple[Tensor, ...]], tuple[Tensor, ...]]

#: By name: the function of alpha and beta, and their defaults.
_ACTIVATIONS: dict[str, tuple[Callable[[Tensor, float, float], Tensor], float, float]] = {
    "relu": (lambda x, a, b: x.relu(), 0, 0),
    "tanh": (lambda x, a, b: x.tanh(), 0, 0),
    "sigmoid": (lambda x, a, b: x.sigmoid(), 0, 0),
    "affine": (lambda x, a, b: x * a + b, 1.0, 0.0),
    "leakyrelu": (lambda x, a, b: x.leaky_relu(a), 0.01, 0),
    "thresholdedrelu": (lambda x, a, b: x.thresholded_relu(a), 1.0, 0),
    "scaledtanh": (lambda x, a, b: (x * b).tanh() * a, 1.0, 1.0),
    "hardsigmoid": (lambda x, a, b: x.hard_sigmoid(a, b), 0.2, 0.5),
    "elu": (lambda x, a, b: x.elu(a), 1.0, 0),
    "softsign": (lambda x, a, b: x.softsign(), 0, 0),
    "softplus": (lambda x, a, b: x.softplus(), 0, 0),
}
_TAKES_ALPHA = {
    "affine", "leakyrelu", "thresholdedrelu", "scaledtanh", "hardsigmoid", "elu",
}  # fmt: skip
_TAKES_BETA = {"affine", "scaledtanh", "hardsigmoid"}


@dataclass(frozen=True, slots=True)
class Layer:
    """What the three ops share of their operands and attributes."""

    x: Tensor
    lengths: Tensor | None
    layout: int
    direction: str

    @property
    def directions(self) -> int:
        """How many times the sequence is gone over."""
        return 2 if self.direction == "bidirectional" else 1

    @property
    def sequence(self) -> Tensor:
        """The input with the steps first: (T, N, D)."""
        return self.x.swap_axes(0, 1) if self.layout else self.x

    def initial(self, given: Tensor | None, hidden: int) -> Tensor:
        """Return the first state of all directions: (directions, N, H)."""
        if given is None:
            shape = (self.directions, self.sequence.shape[1], hidden)
            return functions.zeros(shape, dtype=self.x.dtype, device=self.x.device)
        return given.swap_axes(0, 1) if self.layout else given

    def run_whole(
        self, op: Callable[..., tuple[Tensor, ...]], order: Sequence[int],
        weights: Sequence[Tensor | None], states: Sequence[Tensor], **attributes: Any,
    ) -> tuple[Tensor, ...]:  # fmt: skip
        """Return (Y, and the last of each state) by an op of a whole sequence.

        order: the places that the op's gates have among ONNX's.  weights: W, R and B.
        """
        outputs, finals = [], []
        for direction in range(self.directions):
            is_reversed = direction == 1 or self.direction == "reverse"
            of_x, of_h, bias = (None if w is None else w[direction] for w in weights)
            biases = (None, None) if bias is None else bias.chunk(2, 0)
            given = (_in_order(w, order) for w in (of_x, of_h, *biases))
            first = (state[direction] for state in states)
            y, *last = op(self.sequence, *given, *first, is_reversed=is_reversed, **attributes)
            outputs.append(y)
            finals.append(last)
        return self._joined(outputs, finals)

    def run(
        self, cells: Sequence[Cell], gates: Sequence[Tensor], states: Sequence[Tensor]
    ) -> tuple[Tensor, ...]:
        """Return (Y, and the last of each state) over all directions."""
        outputs, finals = [], []
        for direction, (cell, gate) in enumerate(zip(cells, gates, strict=True)):
            backwards = direction == 1 or self.direction == "reverse"
            first = tuple(state[direction] for state in states)
            y, last = self._run_one(cell, gate, first, backwards)
            outputs.append(y)
            finals.append(last)
        return self._joined(outputs, finals)

    def _joined(
        self, outputs: list[Tensor], finals: Sequence[Sequence[Tensor]]
    ) -> tuple[Tensor, ...]:
        """Return the outputs and last states of all directions in the op's layout."""
        y = functions.stack(outputs, 1)
        ends = [functions.stack(list(found), 0) for found in zip(*finals, strict=True)]
        if self.layout:
            return (y.permute_dims((2, 0, 1, 3)), *(state.swap_axes(0, 1) for state in ends))
        return (y, *ends)

    def _run_one(
        self, cell: Cell, gates: Tensor, states: tuple[Tensor, ...], backwards: bool
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        steps = gates.shape[0]
        made = []
        for step in range(steps)[:: -1 if backwards else 1]:
            new = cell(gates[step], states)
            if self.lengths is not None:
                runs = (self.lengths > step).reshape((-1, 1))
                made.append(functions.where(runs, new[0], 0))
                new = tuple(
                    functions.where(runs, n, old) for n, old in zip(new, states, strict=True)
                )
            else:
                made.append(new[0])
            states = new
        return functions.stack(made[:: -1 if backwards else 1], 0), states


def _in_order(weight: Tensor | None, order: Sequence[int]) -> Tensor | None:
    """Return a weight with its blocks of rows, one a gate, in another order."""
    if weight is None or len(order) == 1:
        return weight
    blocks = weight.chunk(len(order), 0)
    return functions.concat([blocks[gate] for gate in order], 0)


def _are_usual(names: Sequence[str], *usual: str) -> bool:
    """Whether the activations of each direction are the usual ones."""
    return [name.lower() for name in names] == [*usual] * (len(names) // len(usual))


def _activations(
    names: Sequence[str], alphas: Sequence[float], betas: Sequence[float]
) -> list[Activation]:
    """Return functions by name; alpha and beta go to those that take them, in order."""
    alpha, beta = iter(alphas), iter(betas)
    found: list[Activation] = []
    for name in names:
        key = name.lower()
        if key not in _ACTIVATIONS:
            raise ArgumentError(f"a recurrent op requires a known activation, got {name!r}")
        function, a, b = _ACTIVATIONS[key]
        a = next(alpha, a) if key in _TAKES_ALPHA else a
        b = next(beta, b) if key in _TAKES_BETA else b
        found.append(_bound(function, a, b))
    return found


def _bound(function: Callable[[Tensor, float, float], Tensor], a: float, b: float) -> Activation:
    return lambda x: function(x, a, b)


def _clipped(clip: float | None, function: Activation) -> Activation:
    return function if clip is None else lambda x: function(x.clip(-clip, clip))


def _gates(layer: Layer, w: Tensor, bias: Tensor | None, direction: int, gates: int) -> Tensor:
    """Return x W + the bias of the input, for all steps: (T, N, gates H)."""
    found = layer.sequence.matmul(w[direction].mT)
    return found if bias is None else found + bias[direction, : gates * (w.shape[1] // gates)]


@converts("RNN")
def rnn(
    x: Tensor,
    w: Tensor,
    r: Tensor,
    b: Tensor | None = None,
    sequence_lens: Fixed | None = None,
    initial_h: Tensor | None = None,
    *,
    activation_alpha: Sequence[float] = (),
    activation_beta: Sequence[float] = (),
    activations: Sequence[str] = ("Tanh", "Tanh"),
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int | None = None,
    layout: int = 0,
    output_sequence: int = 1,
) -> tuple[Tensor, ...]:
    """Return all hidden states, and the last: h' = f(x W + h R + b)."""
    layer = Layer(x, sequence_lens, layout, direction)
    hidden = r.shape[-1]
    begin = layer.initial(initial_h, hidden)
    for nonlinearity in ("tanh", "relu"):
        if layer.lengths is None and clip is None and _are_usual(activations, nonlinearity):
            op = type(x)._rnn
            return layer.run_whole(op, (0,), (w, r, b), [begin], nonlinearity=nonlinearity)
    chosen = _activations(activations, activation_alpha, activation_beta)
    cells: list[Cell] = []
    for d in range(layer.directions):
        bias = None if b is None else b[d, hidden:]
        cells.append(_rnn_cell(r[d], bias, _clipped(clip, chosen[d])))
    gates = [_gates(layer, w, b, d, 1) for d in range(layer.directions)]
    return layer.run(cells, gates, [begin])


def _rnn_cell(r: Tensor, bias: Tensor | None, f: Activation) -> Cell:
    def cell(x: Tensor, states: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        recurrent = states[0].matmul(r.mT)
        return (f(x + (recurrent if bias is None else recurrent + bias)),)

    return cell


@converts("GRU")
def gru(
    x: Tensor,
    w: Tensor,
    r: Tensor,
    b: Tensor | None = None,
    sequence_lens: Fixed | None = None,
    initial_h: Tensor | None = None,
    *,
    activation_alpha: Sequence[float] = (),
    activation_beta: Sequence[float] = (),
    activations: Sequence[str] = ("Sigmoid", "Tanh", "Sigmoid", "Tanh"),
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int | None = None,
    layout: int = 0,
    linear_before_reset: int = 0,
    output_sequence: int = 1,
) -> tuple[Tensor, ...]:
    """Return all hidden states, and the last: h' = (1 - z) n + z h, with gates z, r and n."""
    layer = Layer(x, sequence_lens, layout, direction)
    hidden = r.shape[-1]
    begin = layer.initial(initial_h, hidden)
    is_usual = clip is None and _are_usual(activations, "sigmoid", "tanh")
    if layer.lengths is None and is_usual and linear_before_reset:
        return layer.run_whole(type(x)._gru, (1, 0, 2), (w, r, b), [begin])
    chosen = [
        _clipped(clip, f) for f in _activations(activations, activation_alpha, activation_beta)
    ]
    cells: list[Cell] = []
    for d in range(layer.directions):
        bias = functions.zeros((3 * hidden,), dtype=x.dtype, device=x.device)
        bias = bias if b is None else b[d, 3 * hidden :]
        cells.append(_gru_cell(r[d], bias, chosen[2 * d : 2 * d + 2], bool(linear_before_reset)))
    gates = [_gates(layer, w, b, d, 3) for d in range(layer.directions)]
    return layer.run(cells, gates, [begin])


def _gru_cell(r: Tensor, bias: Tensor, functions: Sequence[Activation], linear: bool) -> Cell:
    f, g = functions
    size = r.shape[-1]

    def cell(x: Tensor, states: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        (h,) = states
        both = f(x[..., : 2 * size] + h.matmul(r[: 2 * size].mT) + bias[: 2 * size])
        update, reset = both[..., :size], both[..., size:]
        new_x, new_r, new_b = x[..., 2 * size :], r[2 * size :].mT, bias[2 * size :]
        if linear:
            new = g(new_x + reset * (h.matmul(new_r) + new_b))
        else:
            new = g(new_x + (reset * h).matmul(new_r) + new_b)
        return ((1 - update) * new + update * h,)

    return cell


@converts("LSTM")
def lstm(
    x: Tensor,
    w: Tensor,
    r: Tensor,
    b: Tensor | None = None,
    sequence_lens: Fixed | None = None,
    initial_h: Tensor | None = None,
    initial_c: Tensor | None = None,
    p: Tensor | None = None,
    *,
    activation_alpha: Sequence[float] = (),
    activation_beta: Sequence[float] = (),
    activations: Sequence[str] = ("Sigmoid", "Tanh", "Tanh") * 2,
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int | None = None,
    input_forget: int = 0,
    layout: int = 0,
    output_sequence: int = 1,
) -> tuple[Tensor, ...]:
    """Return all hidden states, the last, and the last cell state; gates are i, o, f and c."""
    layer = Layer(x, sequence_lens, layout, direction)
    hidden = r.shape[-1]
    states = [layer.initial(initial_h, hidden), layer.initial(initial_c, hidden)]
    is_usual = clip is None and _are_usual(activations, "sigmoid", "tanh", "tanh")
    if layer.lengths is None and is_usual and p is None and not input_forget:
        return layer.run_whole(type(x)._lstm, (0, 2, 3, 1), (w, r, b), states)
    chosen = [
        _clipped(clip, f) for f in _activations(activations, activation_alpha, activation_beta)
    ]
    # The last activation is of the cell, which is not clipped.
    plain = _activations(activations, activation_alpha, activation_beta)
    cells: list[Cell] = []
    for d in range(layer.directions):
        bias = None if b is None else b[d, 4 * hidden :]
        peepholes = None if p is None else p[d]
        three = (chosen[3 * d], chosen[3 * d + 1], plain[3 * d + 2])
        cells.append(_lstm_cell(r[d], bias, peepholes, three, bool(input_forget)))
    gates = [_gates(layer, w, b, d, 4) for d in range(layer.directions)]
    return layer.run(cells, gates, states)


def _lstm_cell(
    r: Tensor,
    bias: Tensor | None,
    p: Tensor | None,
    functions: tuple[Activation, Activation, Activation],
    couples: bool,
) -> Cell:
    f, g, h_of = functions
    size = r.shape[-1]

    def peep(gate: int, c: Tensor) -> Tensor | float:
        return 0.0 if p is None else p[gate * size : (gate + 1) * size] * c

    def cell(x: Tensor, states: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        h, c = states
        gates = x + h.matmul(r.mT)
        gates = gates if bias is None else gates + bias
        i, o, forget, new = (gates[..., k * size : (k + 1) * size] for k in range(4))
        i = f(i + peep(0, c))
        kept = 1 - i if couples else f(forget + peep(2, c))
        c = kept * c + i * g(new)
        o = f(o + peep(1, c))
        return o * h_of(c), c

    return cell
