"""Recurrent layers: forward by PyTorch's own functions, backward by its products and maps.

No autograd graph is made, whatever PyTorch's modes are.  What keeps its gates runs its
steps itself.  Other gradients make the gates of all steps again by one product, as the bodies of
their ops do.  A step is its product and passes over (N, H), into memory that is there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional

from pyrite.backend.torch.native import Native, native

#: From the cotangent of a sigmoid or tanh and its result, the cotangent of what went in.
_through_sigmoid = torch.ops.aten.sigmoid_backward.grad_input
_through_tanh = torch.ops.aten.tanh_backward.grad_input

#: The functions of `torch` by which an op runs a layer.
_RNN = {"tanh": torch.rnn_tanh, "relu": torch.rnn_relu}


def _is_exact(x: torch.Tensor, *_: Any, **__: Any) -> bool:
    """Whether PyTorch's functions compute in the dtype that was asked for.

    cuDNN's take TF32 unless a switch of the process says otherwise, and sizes of 0 not at all.
    """
    return not x.is_cuda


class Recurrent(Native):
    """Recurrent layers over whole sequences."""

    @native("lstm", when=_is_exact, has_own_residuals=True)
    def lstm(
        self, x: torch.Tensor, *inputs: Any, is_reversed: bool, keeps_gates: bool,
        is_for_derivative: bool = False,
    ) -> tuple[torch.Tensor, ...]:  # fmt: skip
        *weights, hidden, cell = inputs
        self.note_products(x)
        if is_for_derivative and _has_own_gradient(x, hidden):
            return _lstm_with_workspace(x, *inputs, is_reversed=is_reversed)
        if keeps_gates:
            return _lstm_with_gates(x, *inputs, is_reversed=is_reversed)
        return _run(torch.lstm, x, weights, (hidden[None], cell[None]), is_reversed)

    @native("gru", when=_is_exact)
    def gru(
        self, x: torch.Tensor, *inputs: Any, is_reversed: bool, keeps_gates: bool
    ) -> tuple[torch.Tensor, ...]:
        *weights, hidden = inputs
        self.note_products(x)
        if keeps_gates:
            return _gru_with_gates(x, *inputs, is_reversed=is_reversed)
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
        *given, gates, cells = inputs
        if gates is not None and gates.ndim == 1:
            found = _lstm_by_workspace(
                (g, g_hidden, g_cell), outputs, given, gates, cells, is_reversed=is_reversed
            )
            return tuple(found[n] for n in argnums)
        layer = _Layer.of(*given, outputs=outputs, is_reversed=is_reversed)
        if gates is None or cells is None:
            gates, cells = _lstm_gates(layer)
        else:
            gates, cells = layer.in_order(gates), layer.in_order(cells)
        of_gates, *of_states = _lstm(layer, gates, cells, layer.in_order(g), g_hidden, g_cell)
        return layer.gradients(argnums, of_gates, of_gates, of_states)

    @native("gru_backward")
    def gru_backward(
        self, g: torch.Tensor, g_hidden: torch.Tensor, outputs: torch.Tensor, *inputs: Any,
        argnums: tuple[int, ...], is_reversed: bool,
    ) -> Any:  # fmt: skip
        *given, gates = inputs
        layer = _Layer.of(*given, outputs=outputs, is_reversed=is_reversed)
        gates = _gru_gates(layer) if gates is None else layer.in_order(gates)
        of_inputs, of_hidden, *of_states = _gru(layer, gates, layer.in_order(g), g_hidden)
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
    # Where a gradient may be asked for, oneDNN makes a workspace of 15 times the outputs.
    with torch.no_grad():
        out, *ends = function(steps, states, *_parameters(weights), 1, 0.0, False, False, False)
    return (out.flip(0) if is_reversed else out, *(end[0] for end in ends))


def _parameters(weights: Sequence[Any]) -> tuple[list[torch.Tensor], bool]:
    """Return weights, and biases if there are any, and whether there are: PyTorch takes both."""
    weight_ih, weight_hh, *biases = weights
    if all(bias is None for bias in biases):
        return [weight_ih, weight_hh], False
    if any(bias is None for bias in biases):
        none = weight_ih.new_zeros((len(weight_ih),))
        biases = [none if b is None else b for b in biases]
    return [weight_ih, weight_hh, *biases], True


def _has_own_gradient(x: torch.Tensor, hidden: torch.Tensor) -> bool:
    """Whether oneDNN runs a layer of these, and its gradient."""
    is_known = x.dtype is torch.float32 and x.is_cpu and torch.backends.mkldnn.is_available()
    return is_known and x.numel() > 0 and hidden.numel() > 0


def _lstm_with_workspace(x: torch.Tensor, *inputs: Any, is_reversed: bool) -> Any:
    """Return outputs, last states, and for `_lstm_by_workspace` oneDNN's notes and the states.

    The notes are bytes, seen as the float32 that residuals are, and one axis tells them from gates.
    """
    *weights, hidden, cell = inputs
    steps = x.flip(0) if is_reversed else x
    out, hidden_end, cell_end, notes = torch.ops.aten.mkldnn_rnn_layer(
        *_dense(steps, *_four(weights), hidden, cell), False, [], _LSTM, hidden.shape[1], 1, True,
        False, False, True,
    )  # fmt: skip
    ends = torch.stack((hidden_end, cell_end))
    out = out.flip(0) if is_reversed else out
    return out, hidden_end.clone(), cell_end.clone(), notes.view(torch.float32), ends


def _lstm_by_workspace(
    cotangents: Sequence[torch.Tensor], outputs: torch.Tensor, given: Sequence[Any],
    notes: torch.Tensor, ends: torch.Tensor, *, is_reversed: bool,
) -> list[torch.Tensor]:  # fmt: skip
    """Return the gradients of all that `_lstm_with_workspace` was given."""
    x, *weights, hidden, cell = given
    g, g_hidden, g_cell = cotangents
    if is_reversed:
        x, outputs, g = x.flip(0), outputs.flip(0), g.flip(0)
    of_x, *found = torch.ops.aten.mkldnn_rnn_layer_backward(
        *_dense(x, *_four(weights), hidden, cell, outputs, *ends, g, g_hidden, g_cell), False,
        _LSTM, hidden.shape[1], 1, True, True, False, [], False, notes.view(torch.uint8),
    )  # fmt: skip
    return [of_x.flip(0) if is_reversed else of_x, *found]


def _four(weights: Sequence[Any]) -> list[torch.Tensor]:
    """Return weights and both biases, 0 where there are none."""
    found, has_biases = _parameters(weights)
    none = found[0].new_zeros((len(found[0]),))
    return found if has_biases else [*found, none, none]


def _dense(*tensors: torch.Tensor) -> list[torch.Tensor]:
    """Return tensors that lie row by row, as oneDNN takes them for granted."""
    return [x.contiguous() for x in tensors]


#: The number of the kind of layer.
_LSTM = 2


def _lstm_with_gates(
    x: torch.Tensor, weight_ih: torch.Tensor, weight_hh: torch.Tensor,
    bias_ih: torch.Tensor | None, bias_hh: torch.Tensor | None, hidden: torch.Tensor,
    cell: torch.Tensor, /, *, is_reversed: bool,
) -> tuple[torch.Tensor, ...]:  # fmt: skip
    """Return outputs, last states, gates of all steps (T, N, 4 H), cells around them."""
    bias = bias_ih if bias_hh is None else bias_hh if bias_ih is None else bias_ih + bias_hh
    gates = functional.linear(x, weight_ih, bias)
    steps, (batch, size) = len(x), hidden.shape
    outputs, cells = (gates.new_empty((n, batch, size)) for n in (steps, steps + 1))
    first, after = (steps, 0) if is_reversed else (0, 1)
    cells[first] = cell
    weight, new_cells = weight_hh.t(), cells[after : after + steps]
    views = zip(*(x.unbind(0) for x in (gates, *_parts(gates), new_cells, outputs)), strict=True)
    for sums, i_f, i, f, g, o, new_cell, out in reversed([*views]) if is_reversed else views:
        sums.addmm_(hidden, weight)
        i_f.sigmoid_()
        cell = torch.mul(f, cell, out=new_cell).addcmul_(i, g.tanh_())
        hidden = torch.tanh(cell, out=out).mul_(o.sigmoid_())
    # Results are memory of their own.
    return outputs, hidden.clone(), cell.clone(), gates, cells


def _gru_with_gates(
    x: torch.Tensor, weight_ih: torch.Tensor, weight_hh: torch.Tensor,
    bias_ih: torch.Tensor | None, bias_hh: torch.Tensor | None, hidden: torch.Tensor, /, *,
    is_reversed: bool,
) -> tuple[torch.Tensor, ...]:  # fmt: skip
    """Return outputs, last state, and the gates of all steps (T, N, 4 H)."""
    products = functional.linear(x, weight_ih, bias_ih)
    steps, (batch, size) = len(x), hidden.shape
    outputs, gates = (products.new_empty((steps, batch, n * size)) for n in (1, 4))
    views = zip(products.unbind(0), gates.unbind(0), outputs.unbind(0), strict=True)
    for product, kept, out in reversed([*views]) if is_reversed else views:
        from_hidden = functional.linear(hidden, weight_hh, bias_hh)
        hidden = _gru_step(product, from_hidden, kept).lerp(hidden, kept[:, size : 2 * size])
        out.copy_(hidden)
    return outputs, hidden, gates


def _gru_step(
    from_inputs: torch.Tensor, from_hidden: torch.Tensor, gates: torch.Tensor
) -> torch.Tensor:
    """Return the new gate (..., H) of both products (..., 3 H); write all gates (..., 4 H)."""
    size = gates.shape[-1] // 4
    both, reset = gates[..., : 2 * size], gates[..., :size]
    torch.add(from_inputs[..., : 2 * size], from_hidden[..., : 2 * size], out=both).sigmoid_()
    gates[..., 3 * size :] = from_hidden[..., 2 * size :]
    new = gates[..., 2 * size : 3 * size]
    return torch.addcmul(
        from_inputs[..., 2 * size :], reset, from_hidden[..., 2 * size :], out=new
    ).tanh_()


def _parts(gates: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Return the input and forget gate together, and the four alone, of (..., 4 H)."""
    size = gates.shape[-1] // 4
    return gates[..., : 2 * size], *gates.split(size, -1)


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


def _lstm_gates(layer: _Layer) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the gates of all steps (T, N, 4 H), and the cells around them (T + 1, N, H)."""
    steps, batch, size = layer.outputs.shape
    gates = layer.from_inputs().add_(layer.from_hidden())
    i_f, i, f, g, o = _parts(gates)
    i_f.sigmoid_()
    g.tanh_()
    o.sigmoid_()
    cells = gates.new_empty((steps + 1, batch, size))
    cells[0] = layer.states[1]
    for t in range(steps):
        torch.mul(f[t], cells[t], out=cells[t + 1]).addcmul_(i[t], g[t])
    return gates, cells


def _own(state: torch.Tensor) -> torch.Tensor:
    """Return a copy to write to, row by row: a batch of one may lie with rows of stride 1.

    Products on CUDA refuse that as a result.
    """
    return state.clone(memory_format=torch.contiguous_format)


def _lstm(
    layer: _Layer, gates: torch.Tensor, cells: torch.Tensor, g: torch.Tensor,
    of_hidden: torch.Tensor, of_cell: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:  # fmt: skip
    """Return the gradients of the gates (T, N, 4 H), and of the first hidden and cell state."""
    of_gates = torch.empty_like(gates)
    of_hidden, of_cell = _own(of_hidden), _own(of_cell)
    tanh, product = torch.empty_like(of_cell), torch.empty_like(of_cell)
    of_parts = of_gates, *of_gates.split(layer.outputs.shape[-1], -1)
    views = (g, cells[:-1], cells[1:], *_parts(gates)[1:], *of_parts)
    for g_t, before, after, i, f, new, o, of_step, of_i, of_f, of_new, of_o in reversed(
        [*zip(*(x.unbind(0) for x in views), strict=True)]
    ):
        of_hidden.add_(g_t)
        torch.tanh(after, out=tanh)
        _through_sigmoid(torch.mul(of_hidden, tanh, out=product), o, grad_input=of_o)
        _through_tanh(torch.mul(of_hidden, o, out=product), tanh, grad_input=product)
        of_cell.add_(product)
        _through_sigmoid(torch.mul(of_cell, new, out=product), i, grad_input=of_i)
        _through_sigmoid(torch.mul(of_cell, before, out=product), f, grad_input=of_f)
        _through_tanh(torch.mul(of_cell, i, out=product), new, grad_input=of_new)
        of_cell.mul_(f)
        torch.mm(of_step, layer.weight_hh, out=of_hidden)
    return of_gates, of_hidden, of_cell


def _gru_gates(layer: _Layer) -> torch.Tensor:
    """Return the gates of all steps (T, N, 4 H)."""
    gates = layer.outputs.new_empty((*layer.outputs.shape[:2], 4 * layer.outputs.shape[2]))
    _gru_step(layer.from_inputs(), layer.from_hidden(), gates)
    return gates


def _gru(
    layer: _Layer, gates: torch.Tensor, g: torch.Tensor, of_hidden: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the gradients of both products (T, N, 3 H), and of the first hidden state."""
    steps, batch, size = layer.outputs.shape
    of_inputs, of_products = (gates.new_empty((steps, batch, 3 * size)) for _ in range(2))
    of_hidden, total = _own(of_hidden), gates.new_empty((batch, size))
    part = torch.empty_like(total)
    of_parts = of_products, *of_products.split(size, -1), of_inputs[..., 2 * size :]
    views = (g, layer.before, *gates.split(size, -1), *of_parts)
    for g_t, before, r, z, new, hn, of_step, of_r, of_z, of_hn, of_new in reversed(
        [*zip(*(x.unbind(0) for x in views), strict=True)]
    ):
        torch.add(of_hidden, g_t, out=total)
        torch.addcmul(total, total, z, value=-1, out=part)
        _through_tanh(part, new, grad_input=of_new)
        torch.mul(of_new, r, out=of_hn)
        _through_sigmoid(torch.mul(of_new, hn, out=part), r, grad_input=of_r)
        _through_sigmoid(torch.sub(before, new, out=part).mul_(total), z, grad_input=of_z)
        torch.mul(total, z, out=of_hidden).addmm_(of_step, layer.weight_hh)
    of_inputs[..., : 2 * size] = of_products[..., : 2 * size]
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
