"""Recurrent layers: RNN, LSTM and GRU, stacked, in one direction, in reverse, or in both.

Parameters have PyTorch's names and layouts (``weight_ih_l0``, ``bias_hh_l1_reverse``), so its
weights load.  The usual cells are ops over a whole sequence (`pyrite.tensor.recurrent`); with other
activations, or a variant that has no such op, steps run one by one, after one product with all
inputs.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

from pyrite.backend.device import DeviceLike
from pyrite.errors import ArgumentError, ShapeError
from pyrite.nn.dropout import Dropout
from pyrite.nn.init import Initializer, Uniform, positive
from pyrite.nn.layer import Layer
from pyrite.tensor.creation import full
from pyrite.tensor.joining import concat, stack
from pyrite.tensor.recurrent import Nonlinearity
from pyrite.tensor.tensor import Tensor
from pyrite.types import DTypeLike

Function = Callable[[Tensor], Tensor]
Direction = Literal["forward", "reverse", "both"]


#: Activations of an RNN for which there is an op of whole sequences.
_NONLINEARITIES: dict[Function, Nonlinearity] = {Tensor.tanh: "tanh", Tensor.relu: "relu"}


class LSTMState(NamedTuple):
    """What an LSTM carries from step to step, each (layers * directions, N, H)."""

    hidden: Tensor
    cell: Tensor


class _Recurrent(Layer):
    """Stacked layers of a cell: (N, T, in_features) -> (N, T, H), with twice H for both directions.

    What a cell defines: how many gates it has, and one step.
    """

    #: How many blocks of H rows its weights have.
    _gates: int
    #: How many tensors its state has.
    _states: int = 1

    def __init__(
        self,
        in_features: int,
        hidden_features: int,
        layers: int = 1,
        *,
        bias: bool = True,
        direction: Direction = "forward",
        bidirectional: bool | None = None,
        dropout: float = 0.0,
        batch_first: bool = True,
        initializer: Initializer | None = None,
        dtype: DTypeLike | None = None,
        device: DeviceLike = None,
    ) -> None:
        name = type(self).__name__
        direction = _direction(name, direction, bidirectional)
        positive(name, in_features=in_features, hidden_features=hidden_features, layers=layers)
        self.in_features = in_features
        self.hidden_features = hidden_features
        self.num_layers = layers
        self.direction: Direction = direction
        self.batch_first = batch_first
        self.dropout = Dropout(dropout)
        bound = 1 / math.sqrt(hidden_features)
        draw = initializer or Uniform(-bound, bound)
        rows = self._gates * hidden_features
        for layer in range(layers):
            inputs = in_features if layer == 0 else hidden_features * len(self._suffixes)
            for suffix in self._suffixes:
                shapes = {"weight_ih": (rows, inputs), "weight_hh": (rows, hidden_features)}
                if bias:
                    shapes |= {"bias_ih": (rows,), "bias_hh": (rows,)}  # type: ignore[dict-item]
                for kind, shape in shapes.items():
                    parameter = draw.parameter(shape, dtype=dtype, device=device)
                    setattr(self, f"{kind}_l{layer}{suffix}", parameter)

    @property
    def _suffixes(self) -> tuple[str, ...]:
        return ("", "_reverse") if self.direction == "both" else ("",)

    def extra_repr(self) -> str:
        """Return sizes and direction."""
        sizes = f"in_features={self.in_features}, hidden_features={self.hidden_features}"
        return f"{sizes}, layers={self.num_layers}, direction={self.direction!r}"

    def forward(self, x: Tensor, state: Any = None) -> tuple[Tensor, Any]:
        """Return the outputs of the last layer, and the state after the last step.

        x: (N, T, in_features), or (T, N, in_features) without batch_first.
        state: zeros unless given, (layers * directions, N, H) for each of the state's tensors.

        Raises ShapeError where shapes do not fit.
        """
        steps = self._checked(x)
        states = self._initial(steps, state)
        finals: list[tuple[Tensor, ...]] = []
        out = steps
        for layer in range(self.num_layers):
            outputs = []
            for number, suffix in enumerate(self._suffixes):
                begin = states[layer * len(self._suffixes) + number]
                is_reversed = suffix == "_reverse" or self.direction == "reverse"
                output, final = self._run(out, begin, f"_l{layer}{suffix}", is_reversed)
                outputs.append(output)
                finals.append(final)
            out = outputs[0] if len(outputs) == 1 else concat(outputs, axis=-1)
            if layer < self.num_layers - 1:
                out = self.dropout(out)
        result = out if not self.batch_first else out.swap_axes(0, 1)
        return result, self._packed([stack(parts, axis=0) for parts in zip(*finals, strict=True)])

    def _checked(self, x: Tensor) -> Tensor:
        """Return x with steps first: (T, N, in_features)."""
        if x.ndim != 3 or x.shape[-1] != self.in_features:
            axes = "(N, T" if self.batch_first else "(T, N"
            raise ShapeError(
                f"{type(self).__name__} requires x of shape {axes}, {self.in_features}), "
                f"got {x.shape}"
            )
        steps = x.swap_axes(0, 1) if self.batch_first else x
        if not steps.shape[0]:
            raise ShapeError(f"{type(self).__name__} requires at least one step, got {x.shape}")
        return steps

    def _initial(self, steps: Tensor, state: Any) -> list[tuple[Tensor, ...]]:
        """Return the state of each layer and direction before the first step."""
        count = self.num_layers * len(self._suffixes)
        shape = (count, steps.shape[1], self.hidden_features)
        if state is None:
            zeros = full(shape[1:], 0.0, dtype=steps.dtype, device=steps.device)
            return [(zeros,) * self._states] * count
        tensors = (state,) if isinstance(state, Tensor) else tuple(state)
        if len(tensors) != self._states or any(t.shape != shape for t in tensors):
            raise ShapeError(
                f"{type(self).__name__} requires {self._states} states of shape {shape}, got "
                f"{', '.join(str(t.shape) for t in tensors)}"
            )
        return list(zip(*(t.unstack(0) for t in tensors), strict=True))

    def _packed(self, tensors: list[Tensor]) -> Any:
        return tensors[0]

    def _run(
        self, steps: Tensor, state: tuple[Tensor, ...], suffix: str, is_reversed: bool
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Return the outputs of all steps in their order, and the state after the last one run."""
        found = self._whole(steps, self._weights(suffix), state, is_reversed)
        if found is not None:
            return found[0], found[1:]
        from_inputs = steps.linear(
            getattr(self, f"weight_ih{suffix}"), getattr(self, f"bias_ih{suffix}", None)
        ).unstack(0)
        weight = getattr(self, f"weight_hh{suffix}")
        bias = getattr(self, f"bias_hh{suffix}", None)
        order = reversed(range(len(from_inputs))) if is_reversed else range(len(from_inputs))
        outputs: dict[int, Tensor] = {}
        for t in order:
            state = self._step(from_inputs[t], weight, bias, state)
            outputs[t] = state[0]
        return stack([outputs[t] for t in range(len(from_inputs))], axis=0), state

    def _weights(self, suffix: str) -> tuple[Tensor | None, ...]:
        """Return weight_ih, weight_hh, bias_ih and bias_hh of a layer and direction."""
        kinds = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        return tuple(getattr(self, f"{kind}{suffix}", None) for kind in kinds)

    @abstractmethod
    def _whole(
        self, steps: Tensor, weights: tuple[Any, ...], state: tuple[Tensor, ...], is_reversed: bool
    ) -> tuple[Tensor, ...] | None:
        """Return outputs and states by the op of a whole sequence; None where the cell differs."""

    @abstractmethod
    def _step(
        self, from_input: Tensor, weight: Tensor, bias: Tensor | None, state: tuple[Tensor, ...]
    ) -> tuple[Tensor, ...]:
        """Return the state after one step, hidden first.

        from_input: the gates' products with the input, biases included; weight and bias: those of
        the products with the hidden state.
        """


def _direction(name: str, direction: Direction, bidirectional: bool | None) -> Direction:
    """Return the direction; ``bidirectional`` is PyTorch's word for "both"."""
    if direction not in ("forward", "reverse", "both"):
        raise ArgumentError(
            f"{name} requires direction forward, reverse or both, got {direction!r}"
        )
    if bidirectional is None or bidirectional is (direction == "both"):
        return direction
    if direction != "forward":
        raise ArgumentError(
            f"{name} requires direction and bidirectional to agree, got {direction!r} and "
            f"{bidirectional}; give one of them"
        )
    return "both"


class RNN(_Recurrent):
    """h' = activation(W_ih x + b_ih + W_hh h + b_hh).  Source: Elman 1990.

    batch_first: x is (N, T, in_features), else (T, N, in_features).  PyTorch's default is False.
    direction: "forward", "reverse", or "both", which ``bidirectional=True`` means too.

    >>> import pyrite
    >>> from pyrite import nn
    >>> out, h = nn.RNN(4, 8)(pyrite.ones((2, 5, 4)))
    >>> out.shape, h.shape
    ((2, 5, 8), (1, 2, 8))
    """

    _gates = 1

    def __init__(
        self,
        in_features: int,
        hidden_features: int,
        layers: int = 1,
        *,
        bias: bool = True,
        direction: Direction = "forward",
        bidirectional: bool | None = None,
        dropout: float = 0.0,
        batch_first: bool = True,
        activation: Function = Tensor.tanh,
        initializer: Initializer | None = None,
        dtype: DTypeLike | None = None,
        device: DeviceLike = None,
    ) -> None:
        super().__init__(
            in_features, hidden_features, layers, bias=bias, direction=direction,
            bidirectional=bidirectional, dropout=dropout, batch_first=batch_first,
            initializer=initializer, dtype=dtype, device=device,
        )  # fmt: skip
        self.activation = activation

    def _whole(
        self, steps: Tensor, weights: tuple[Any, ...], state: tuple[Tensor, ...], is_reversed: bool
    ) -> tuple[Tensor, ...] | None:
        nonlinearity = _NONLINEARITIES.get(self.activation)
        if nonlinearity is None:
            return None
        return steps._rnn(*weights, *state, nonlinearity=nonlinearity, is_reversed=is_reversed)

    def _step(
        self, from_input: Tensor, weight: Tensor, bias: Tensor | None, state: tuple[Tensor, ...]
    ) -> tuple[Tensor, ...]:
        return (self.activation(from_input + state[0].linear(weight, bias)),)


class LSTM(_Recurrent):
    """Long short-term memory, gates in the order input, forget, cell, output.

    batch_first: x is (N, T, in_features), else (T, N, in_features).  PyTorch's default is False.
    direction: "forward", "reverse", or "both", which ``bidirectional=True`` means too.
    clip: bound of the cell state, |c| <= clip, or None.
    input_forget: couple the gates, forget = 1 - input (Greff et al. 2015, arXiv:1503.04069).
    gate_activation, cell_activation, hidden_activation: sigmoid, tanh and tanh unless given.

    Source: Hochreiter & Schmidhuber 1997; Gers et al. 2000 for the forget gate.

    >>> import pyrite
    >>> from pyrite import nn
    >>> out, state = nn.LSTM(4, 8, layers=2, direction="both")(pyrite.ones((2, 5, 4)))
    >>> out.shape, state.cell.shape
    ((2, 5, 16), (4, 2, 8))
    """

    _gates = 4
    _states = 2

    def __init__(
        self,
        in_features: int,
        hidden_features: int,
        layers: int = 1,
        *,
        bias: bool = True,
        direction: Direction = "forward",
        bidirectional: bool | None = None,
        dropout: float = 0.0,
        batch_first: bool = True,
        clip: float | None = None,
        input_forget: bool = False,
        gate_activation: Function = Tensor.sigmoid,
        cell_activation: Function = Tensor.tanh,
        hidden_activation: Function = Tensor.tanh,
        initializer: Initializer | None = None,
        dtype: DTypeLike | None = None,
        device: DeviceLike = None,
    ) -> None:
        if clip is not None and clip <= 0:
            raise ArgumentError(f"LSTM requires clip > 0 or None, got {clip}")
        super().__init__(
            in_features, hidden_features, layers, bias=bias, direction=direction,
            bidirectional=bidirectional, dropout=dropout, batch_first=batch_first,
            initializer=initializer, dtype=dtype, device=device,
        )  # fmt: skip
        self.clip = clip
        self.input_forget = input_forget
        self.gate_activation = gate_activation
        self.cell_activation = cell_activation
        self.hidden_activation = hidden_activation

    def _packed(self, tensors: list[Tensor]) -> LSTMState:
        return LSTMState(*tensors)

    def _whole(
        self, steps: Tensor, weights: tuple[Any, ...], state: tuple[Tensor, ...], is_reversed: bool
    ) -> tuple[Tensor, ...] | None:
        activations = (self.gate_activation, self.cell_activation, self.hidden_activation)
        is_usual = activations == (Tensor.sigmoid, Tensor.tanh, Tensor.tanh)
        if not is_usual or self.clip is not None or self.input_forget:
            return None
        return steps._lstm(*weights, *state, is_reversed=is_reversed)

    def _step(
        self, from_input: Tensor, weight: Tensor, bias: Tensor | None, state: tuple[Tensor, ...]
    ) -> tuple[Tensor, ...]:
        i, f, g, o = (from_input + state[0].linear(weight, bias)).chunk(4, axis=-1)
        take = self.gate_activation(i)
        keep = 1.0 - take if self.input_forget else self.gate_activation(f)
        cell = keep * state[1] + take * self.cell_activation(g)
        if self.clip is not None:
            cell = cell.clip(-self.clip, self.clip)
        return self.gate_activation(o) * self.hidden_activation(cell), cell


class GRU(_Recurrent):
    """Gated recurrent unit, gates in the order reset, update, new.

    batch_first: x is (N, T, in_features), else (T, N, in_features).  PyTorch's default is False.
    direction: "forward", "reverse", or "both", which ``bidirectional=True`` means too.
    reset_after: apply the reset gate to the product with the hidden state, as PyTorch and cuDNN do;
    False applies it to the hidden state before the product, as the paper.

    Source: Cho et al. 2014, arXiv:1406.1078.

    >>> import pyrite
    >>> from pyrite import nn
    >>> nn.GRU(4, 8)(pyrite.ones((2, 5, 4)))[0].shape
    (2, 5, 8)
    """

    _gates = 3

    def __init__(
        self,
        in_features: int,
        hidden_features: int,
        layers: int = 1,
        *,
        bias: bool = True,
        direction: Direction = "forward",
        bidirectional: bool | None = None,
        dropout: float = 0.0,
        batch_first: bool = True,
        reset_after: bool = True,
        gate_activation: Function = Tensor.sigmoid,
        hidden_activation: Function = Tensor.tanh,
        initializer: Initializer | None = None,
        dtype: DTypeLike | None = None,
        device: DeviceLike = None,
    ) -> None:
        super().__init__(
            in_features, hidden_features, layers, bias=bias, direction=direction,
            bidirectional=bidirectional, dropout=dropout, batch_first=batch_first,
            initializer=initializer, dtype=dtype, device=device,
        )  # fmt: skip
        self.reset_after = reset_after
        self.gate_activation = gate_activation
        self.hidden_activation = hidden_activation

    def _whole(
        self, steps: Tensor, weights: tuple[Any, ...], state: tuple[Tensor, ...], is_reversed: bool
    ) -> tuple[Tensor, ...] | None:
        activations = (self.gate_activation, self.hidden_activation)
        if activations != (Tensor.sigmoid, Tensor.tanh) or not self.reset_after:
            return None
        return steps._gru(*weights, *state, is_reversed=is_reversed)

    def _step(
        self, from_input: Tensor, weight: Tensor, bias: Tensor | None, state: tuple[Tensor, ...]
    ) -> tuple[Tensor, ...]:
        hidden, size = state[0], self.hidden_features
        if self.reset_after:
            of_hidden = hidden.linear(weight, bias)
            reset, update = self._gate(from_input, of_hidden)
            new = reset * of_hidden.narrow(-1, 2 * size, size)
        else:
            gates = (
                weight.narrow(0, 0, 2 * size),
                None if bias is None else bias.narrow(0, 0, 2 * size),
            )
            reset, update = self._gate(from_input, hidden.linear(*gates))
            rest = (
                weight.narrow(0, 2 * size, size),
                None if bias is None else bias.narrow(0, 2 * size, size),
            )
            new = (reset * hidden).linear(*rest)
        candidate = self.hidden_activation(from_input.narrow(-1, 2 * size, size) + new)
        return (candidate + update * (hidden - candidate),)

    def _gate(self, from_input: Tensor, of_hidden: Tensor) -> tuple[Tensor, Tensor]:
        """Return the reset and update gates."""
        size = self.hidden_features
        both = from_input.narrow(-1, 0, 2 * size) + of_hidden.narrow(-1, 0, 2 * size)
        reset, update = self.gate_activation(both).chunk(2, axis=-1)
        return reset, update
