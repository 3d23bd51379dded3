"""Recurrent layers: forward by PyTorch's own functions, backward from the outputs alone.

A gradient makes the gates of all steps again by one product, as the body of its op does, and what a
step's cotangent is multiplied by for all steps at once.  So a step is its product and two to five
passes over (N, H), written in place; no autograd graph is made, whatever PyTorch's modes are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional

from pyrite.backend.torch.native import Native, native

#: The functions of `torch` by which an op runs a layer.
_RNN = {"tanh": torch.rnn_tanh, "relu": torch.rnn_relu}


def _is_exact(x: torch.Tensor, *_: Any, **__: Any) -> bool:
    """Whether PyTorch's functions compute in the dtype that was asked for.

    cuDNN's take TF32 unless a switch of the process says otherwise, and sizes of 0 not at all.
    """
    return not x.is_cuda


class Recurrent(Native):
    """Recurrent layers over whole sequences."""

    @native("lstm", when=_is_exact)
    def lstm(self, x: torch.Tensor, *inputs: Any, is_reversed: bool) -> tuple[torch.Tensor, ...]:
        *weights, hidden, cell = inputs
        self.note_products(x)
        return _run(torch.lstm, x, weights, (hidden[None], cell[None]), is_reversed)

    @native("gru", when=_is_exact)
    def gru(self, x: torch.Tensor, *inputs: Any, is_reversed: bool) -> tuple[torch.Tensor, ...]:
        *weights, hidden = inputs
        self.note_products(x)
        return _run(torch.gru, x, weights, hidden[None], is_reversed)

    @native("rnn", when=_is_exact)
    def rnn(
        self, x: torch.Tensor, *inputs: Any, nonlinearity: str, is_reversed: bool
    ) -> tuple[torch.Tensor, ...]:
        *weights, hidden = inputs
        self.note_products(x)
        return _run(_RNN[nonlinearity], x, weights, hidden[None], is_reversed)

    @native("lstm_backward")
    def lstm_backward(
        self, g: torch.Tensor, g_hidden: torch.Tensor, g_cell: torch.Tensor, outputs: torch.Tensor,
        *inputs: Any, argnums: tuple[int, ...], is_reversed: bool,
    ) -> Any:  # fmt: skip
        layer = _Layer.of(*inputs, outputs=outputs, is_reversed=is_reversed)
        of_gates, *of_states = _lstm(layer, layer.in_order(g), g_hidden, g_cell)
        return layer.gradients(argnums, of_gates, of_gates, of_states)

    @native("gru_backward")
    def gru_backward(
        self, g: torch.Tensor, g_hidden: torch.Tensor, outputs: torch.Tensor, *inputs: Any,
        argnums: tuple[int, ...], is_reversed: bool,
    ) -> Any:  # fmt: skip
        layer = _Layer.of(*inputs, outputs=outputs, is_reversed=is_reversed)
        of_inputs, of_hidden, *of_states = _gru(layer, layer.in_order(g), g_hidden)
        return layer.gradients(argnums, of_inputs, of_hidden, of_states)

    @native("rnn_backward")
    def rnn_backward(
        self, g: torch.Tensor, g_hidden: torch.Tensor, outputs: torch.Tensor, *inputs: Any,
        argnums: tuple[int, ...], nonlinearity: str, is_reversed: bool,
    ) -> Any:  # fmt: skip
        layer = _Layer.of(*inputs, outputs=outputs, is_reversed=is_reversed)
        of_gates, *of_states = _rnn(layer, layer.in_order(g), g_hidden, nonlinearity)
        return layer.gradients(argnums, of_gates, of_gates, of_states)


# ---- forward ----


def _run(
    function: Callable[..., Any], x: torch.Tensor, weights: Sequence[Any], states: Any,
    is_reversed: bool,
) -> tuple[torch.Tensor, ...]:  # fmt: skip
    """Return the outputs and last states of one layer in one direction."""
    steps = x.flip(0) if is_reversed else x
    out, *ends = function(steps, states, *_parameters(weights), 1, 0.0, False, False, False)
    return (out.flip(0) if is_reversed else out, *(end[0] for end in ends))


def _parameters(weights: Sequence[Any]) -> tuple[list[torch.Tensor], bool]:
    """Return weights, and biases if there are any, and whether there are: PyTorch takes both."""
    weight_ih, weight_hh, *biases = weights
    if all(bias is None for bias in biases):
        return [weight_ih, weight_hh], False
    none = weight_ih.new_zeros((len(weight_ih),))
    return [weight_ih, weight_hh, *(none if b is None else b for b in biases)], True


# ---- backward ----


@dataclass(frozen=True, slots=True)
class _Layer:
    """What a forward op was given and gave, its steps in the order in which they were run."""

    x: torch.Tensor
    weight_ih: torch.Tensor
    weight_hh: torch.Tensor
    bias_ih: torch.Tensor | None
    bias_hh: torch.Tensor | None
    states: tuple[torch.Tensor, ...]
    outputs: torch.Tensor
    #: The hidden state before each step.
    before: torch.Tensor
    is_reversed: bool

    @classmethod
    def of(cls, *inputs: Any, outputs: torch.Tensor, is_reversed: bool) -> _Layer:
        """Return it of the inputs of a forward op and its first result."""
        x, weight_ih, weight_hh, bias_ih, bias_hh, *states = inputs
        if is_reversed:
            x, outputs = x.flip(0), outputs.flip(0)
        before = torch.cat([states[0][None], outputs[:-1]])
        return cls(
            x, weight_ih, weight_hh, bias_ih, bias_hh, tuple(states), outputs, before, is_reversed
        )

    def in_order(self, x: torch.Tensor) -> torch.Tensor:
        """Return steps that lie in their order as those that were run; the other way too."""
        return x.flip(0) if self.is_reversed else x

    def from_inputs(self) -> torch.Tensor:
        """Return the products of all inputs, biased: (T, N, gates * H)."""
        return functional.linear(self.x, self.weight_ih, self.bias_ih)

    def from_hidden(self) -> torch.Tensor:
        """Return the products of all hidden states, biased: (T, N, gates * H)."""
        return functional.linear(self.before, self.weight_hh, self.bias_hh)

    def gradients(
        self, argnums: Sequence[int], of_inputs: torch.Tensor, of_hidden: torch.Tensor,
        of_states: Sequence[torch.Tensor],
    ) -> tuple[torch.Tensor, ...]:  # fmt: skip
        """Return the gradients that are wanted, from those of the products (T, N, gates * H)."""
        makers: dict[int, Callable[[], torch.Tensor]] = {
            0: lambda: self.in_order(torch.matmul(of_inputs, self.weight_ih)),
            1: lambda: torch.mm(of_inputs.flatten(0, 1).t(), self.x.flatten(0, 1)),
            2: lambda: torch.mm(of_hidden.flatten(0, 1).t(), self.before.flatten(0, 1)),
            3: lambda: of_inputs.sum((0, 1)),
            4: lambda: of_hidden.sum((0, 1)),
        }
        return tuple(makers[n]() if n < 5 else of_states[n - 5] for n in argnums)


def _slope_of_sigmoid(y: torch.Tensor) -> torch.Tensor:
    return torch.addcmul(y, y, y, value=-1)


def _slope_of_tanh(y: torch.Tensor) -> torch.Tensor:
    return (y * y).neg_().add_(1)


def _lstm(
    layer: _Layer, g: torch.Tensor, of_hidden: torch.Tensor, of_cell: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the gradients of the gates (T, N, 4 H), and of the first hidden and cell state."""
    steps, batch, size = layer.outputs.shape
    gates = layer.from_inputs().add_(layer.from_hidden()).view(steps, batch, 4, size)
    gates[:, :, :2].sigmoid_()
    gates[:, :, 2].tanh_()
    gates[:, :, 3].sigmoid_()
    i, f, g_, o = gates.unbind(2)
    cells = gates.new_empty((steps + 1, batch, size))
    cells[0] = layer.states[1]
    given = i * g_
    for t in range(steps):
        torch.addcmul(given[t], f[t], cells[t], out=cells[t + 1])
    after = cells[1:].tanh()
    to_cell = _slope_of_tanh(after).mul_(o)
    # What the cotangents of cell (three) and hidden state are multiplied by, and then the products.
    slopes = torch.stack(
        [
            _slope_of_sigmoid(i).mul_(g_),
            _slope_of_sigmoid(f).mul_(cells[:-1]),
            _slope_of_tanh(g_).mul_(i),
            _slope_of_sigmoid(o).mul_(after),
        ],
        2,
    )
    of_gates = slopes.view(steps, batch, 4 * size)
    for t in reversed(range(steps)):
        of_hidden = of_hidden + g[t]
        of_cell = torch.addcmul(of_cell, of_hidden, to_cell[t])
        slopes[t, :, :3].mul_(of_cell[:, None])
        slopes[t, :, 3].mul_(of_hidden)
        of_cell.mul_(f[t])
        of_hidden = torch.mm(of_gates[t], layer.weight_hh)
    return of_gates, of_hidden, of_cell


def _gru(
    layer: _Layer, g: torch.Tensor, of_hidden: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the gradients of both products (T, N, 3 H), and of the first hidden state."""
    steps, batch, size = layer.outputs.shape
    form = (steps, batch, 3, size)
    from_inputs, from_hidden = layer.from_inputs().view(form), layer.from_hidden().view(form)
    reset, update = (from_inputs[:, :, :2] + from_hidden[:, :, :2]).sigmoid_().unbind(2)
    of_new = from_hidden[:, :, 2]
    new = torch.addcmul(from_inputs[:, :, 2], reset, of_new).tanh_()
    to_new = _slope_of_tanh(new).mul_(1 - update)
    slopes = torch.stack(
        [
            _slope_of_sigmoid(reset).mul_(to_new).mul_(of_new),
            _slope_of_sigmoid(update).mul_(layer.before - new),
            to_new * reset,
        ],
        2,
    )
    of_products = slopes.view(steps, batch, 3 * size)
    of_all = torch.empty_like(to_new)
    for t in reversed(range(steps)):
        torch.add(of_hidden, g[t], out=of_all[t])
        slopes[t].mul_(of_all[t][:, None])
        of_hidden = torch.addmm(of_all[t] * update[t], of_products[t], layer.weight_hh)
    of_inputs = torch.cat([of_products[..., : 2 * size], to_new.mul_(of_all)], -1)
    return of_inputs, of_products, of_hidden


def _rnn(
    layer: _Layer, g: torch.Tensor, of_hidden: torch.Tensor, nonlinearity: str
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the gradients of the sums (T, N, H), and of the first hidden state."""
    out, is_tanh = layer.outputs, nonlinearity == "tanh"
    slopes = _slope_of_tanh(out) if is_tanh else (out > 0).logical_not_()
    of_sums = slopes if is_tanh else torch.empty_like(out)
    for t in reversed(range(len(out))):
        if is_tanh:
            of_sums[t].mul_(of_hidden + g[t])
        else:
            torch.add(of_hidden, g[t], out=of_sums[t]).masked_fill_(slopes[t], 0.0)
        of_hidden = torch.mm(of_sums[t], layer.weight_hh)
    return of_sums, of_hidden
