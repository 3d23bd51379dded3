"""Recurrent layers over whole sequences: LSTM, GRU and RNN, one layer in one direction.

Pyrite has PyTorch's order of gates and ONNX its own, so the rows of weights are gathered in that
order: a constant, which runtimes compute once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pyrite.onnx.exporter.call import Call, Value
from pyrite.onnx.exporter.registry import Types, exports
from pyrite.op import Attributes
from pyrite.types import int64

#: Of each gate of ONNX, the place that it has here: input, output, forget, cell of an LSTM; update,
#: reset, new of a GRU.
_LSTM, _GRU, _RNN = (0, 3, 1, 2), (1, 0, 2), (0,)


def _gives_results_alone(types: Types, attrs: Attributes) -> bool:
    """Whether it is not asked for its gates, which ONNX's layers do not give."""
    return not attrs["keeps_gates"]


@exports("lstm", when=_gives_results_alone)
def _lstm(
    call: Call, x: Value, weight_ih: Value, weight_hh: Value, bias_ih: Value | None,
    bias_hh: Value | None, hidden: Value, cell: Value, *, is_reversed: bool, **_: Any,
) -> tuple[Value, ...]:  # fmt: skip
    weights = _weights(call, _LSTM, weight_ih, weight_hh, bias_ih, bias_hh)
    return _layer(call, "LSTM", x, weights, (hidden, cell), is_reversed)


@exports("gru", when=_gives_results_alone)
def _gru(
    call: Call, x: Value, weight_ih: Value, weight_hh: Value, bias_ih: Value | None,
    bias_hh: Value | None, hidden: Value, *, is_reversed: bool, **_: Any,
) -> tuple[Value, ...]:  # fmt: skip
    weights = _weights(call, _GRU, weight_ih, weight_hh, bias_ih, bias_hh)
    return _layer(call, "GRU", x, weights, (hidden,), is_reversed, linear_before_reset=1)


@exports("rnn")
def _rnn(
    call: Call, x: Value, weight_ih: Value, weight_hh: Value, bias_ih: Value | None,
    bias_hh: Value | None, hidden: Value, *, nonlinearity: str, is_reversed: bool,
) -> tuple[Value, ...]:  # fmt: skip
    weights = _weights(call, _RNN, weight_ih, weight_hh, bias_ih, bias_hh)
    activations = ["Tanh" if nonlinearity == "tanh" else "Relu"]
    return _layer(call, "RNN", x, weights, (hidden,), is_reversed, activations=activations)


def _weights(
    call: Call, order: Sequence[int], weight_ih: Value, weight_hh: Value, bias_ih: Value | None,
    bias_hh: Value | None,
) -> tuple[Value, Value, Value | None]:  # fmt: skip
    """Return weights and biases of one direction with their gates in ONNX's order."""
    (rows,) = call.static("a number of features", weight_hh.shape[:1])
    size = rows // len(order)
    places = call.array(
        np.arange(rows).reshape(len(order), size)[list(order)].reshape(1, -1), int64
    )

    def ordered(value: Value) -> Value:
        return call.emit("Gather", value, places, axis=0)

    biases = None
    if bias_ih is not None or bias_hh is not None:
        zeros = call.array(np.zeros(rows), weight_ih.dtype)
        biases = call.emit("Concat", ordered(bias_ih or zeros), ordered(bias_hh or zeros), axis=1)
    return ordered(weight_ih), ordered(weight_hh), biases


def _layer(
    call: Call, op_type: str, x: Value, weights: tuple[Value, Value, Value | None],
    begin: Sequence[Value], is_reversed: bool, **attrs: Any,
) -> tuple[Value, ...]:  # fmt: skip
    """Return outputs of all steps and last states, without ONNX's axis of directions."""
    (hidden_size,) = call.static("a number of features", begin[0].shape[-1:])
    first, second = call.axes([0]), call.axes([1])
    states = [call.emit("Unsqueeze", state, first) for state in begin]
    outputs, *last = call.emit_many(
        op_type, (x, *weights, None, *states), (x.dtype,) * (1 + len(begin)),
        hidden_size=hidden_size, direction="reverse" if is_reversed else "forward", **attrs,
    )  # fmt: skip
    squeezed = (call.emit("Squeeze", state, first) for state in last)
    return (call.emit("Squeeze", outputs, second), *squeezed)
