"""Recurrent layers over whole sequences: LSTM, GRU and RNN, one layer in one direction.

x is (T, N, D), states are (N, H), weights (gates * H, D) and (gates * H, H), biases (gates * H,):
PyTorch's layout.  The products with the inputs of all steps are one.  From the outputs alone a
gradient op makes all gates again by one product, as nothing there waits for the step before; only
the gradients of the states go from step to step.  An LSTM or GRU that a tape runs gives its gates
as residuals, which saves that product.  float16 and bfloat16 are computed in float32 and rounded
once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple, Self

from pyrite.errors import ArgumentError, ShapeError
from pyrite.op import Attributes, Spec, composite, sample
from pyrite.tensor.contraction import Contraction
from pyrite.tensor.gradient import Gradients, by_position, chosen, in_dtype, widened
from pyrite.tensor.joining import concat, stack
from pyrite.tensor.rectifier import Rectifier
from pyrite.types import TensorType

Nonlinearity = Literal["tanh", "relu"]
#: The type of an input that may be None.
Given = TensorType | None

# ---- types ----


def _types(gates: int) -> Callable[..., tuple[TensorType, ...]]:
    """Return the rule for the types of a cell: outputs of all steps, and states after the last."""

    def infer(
        x: TensorType, weight_ih: TensorType, weight_hh: TensorType, bias_ih: Given,
        bias_hh: Given, *begin: TensorType, keeps_gates: bool = False, **_: Any,
    ) -> tuple[TensorType, ...]:  # fmt: skip
        name = _NAMES[gates]
        if x.ndim != 3 or not x.shape[0]:
            raise ShapeError(f"{name} requires x (T, N, D) with T >= 1, got {x.shape}")
        steps, batch, features = x.shape
        rows = weight_hh.shape[0] if weight_hh.ndim == 2 else 0
        hidden = rows // gates
        wanted = {
            "weight_ih": (weight_ih, (gates * hidden, features)),
            "weight_hh": (weight_hh, (gates * hidden, hidden)),
            "bias_ih": (bias_ih, (gates * hidden,)),
            "bias_hh": (bias_hh, (gates * hidden,)),
            **{f"state {n}": (state, (batch, hidden)) for n, state in enumerate(begin)},
        }
        for what, (given, shape) in wanted.items():
            if given is not None and given.shape != shape:
                raise ShapeError(f"{name} requires {what} of shape {shape}, got {given.shape}")
        outputs = TensorType((steps, batch, hidden), x.dtype)
        return (outputs, *begin, *(_residual_types(gates, outputs) if keeps_gates else ()))

    return infer


def _residual_types(gates: int, outputs: TensorType) -> tuple[TensorType, ...]:
    """Return the types of gates (T, N, 4 H), and of an LSTM's cell states (T + 1, N, H)."""
    steps, batch, hidden = outputs.shape
    dtype = outputs.dtype.compute
    of_gates = TensorType((steps, batch, 4 * hidden), dtype)
    of_cells = TensorType((steps + 1, batch, hidden), dtype)
    return (of_gates, of_cells) if gates == 4 else (of_gates,)


_NAMES = {1: "rnn", 3: "gru", 4: "lstm"}


def _gradient_types(gates: int, states: int) -> Callable[..., tuple[TensorType, ...]]:
    """Return the rule for a gradient op, of all cotangents, outputs, inputs, and residuals."""
    types = _types(gates)

    def infer(*given: Given, argnums: Sequence[int], **_: Any) -> tuple[TensorType, ...]:
        *cotangents, outputs = given[: 2 + states]
        inputs, residuals = given[2 + states : 7 + 2 * states], given[7 + 2 * states :]
        results = types(*inputs)
        kept = _residual_types(gates, results[0]) if residuals else ()
        for got, wanted in zip(
            (*cotangents, outputs, *residuals), (*results, results[0], *kept), strict=True
        ):
            if got is not None and got.shape != wanted.shape:
                raise ShapeError(
                    f"{_NAMES[gates]}_backward requires cotangents, outputs and residuals of the "
                    f"shapes of {_NAMES[gates]}'s results, {[r.shape for r in (*results, *kept)]}, "
                    f"got {got.shape}"
                )
        return tuple(t for p in argnums if (t := inputs[p]) is not None)

    return infer


def _gradient_attributes(
    *types: Given, argnums: Sequence[int], is_reversed: bool, **attrs: Any
) -> Attributes:
    return {**attrs, "argnums": tuple(argnums), "is_reversed": bool(is_reversed)}


def _attributes(*types: Given, is_reversed: bool, **flags: bool) -> Attributes:
    return {"is_reversed": bool(is_reversed), **{name: bool(flags[name]) for name in flags}}


def _rnn_attributes(*types: Given, nonlinearity: str, is_reversed: bool) -> Attributes:
    if nonlinearity not in ("tanh", "relu"):
        raise ArgumentError(f"rnn requires nonlinearity 'tanh' or 'relu', got {nonlinearity!r}")
    return {"nonlinearity": nonlinearity, "is_reversed": bool(is_reversed)}


# ---- sequences ----


class _Sequence(NamedTuple):
    """The inputs of a layer, in the dtype in which they are computed."""

    x: Any
    weight_ih: Any
    weight_hh: Any
    bias_ih: Any
    bias_hh: Any
    begin: tuple[Any, ...]
    is_reversed: bool

    @classmethod
    def of(cls, *inputs: Any, is_reversed: bool) -> _Sequence:
        """Return it of the inputs of a forward op."""
        x, weight_ih, weight_hh, bias_ih, bias_hh, *begin = (
            None if i is None else widened(i) for i in inputs
        )
        return cls(x, weight_ih, weight_hh, bias_ih, bias_hh, tuple(begin), is_reversed)

    @property
    def order(self) -> Sequence[int]:
        """The steps in the order in which they are run."""
        steps = range(self.x.shape[0])
        return steps[::-1] if self.is_reversed else steps

    def from_inputs(self) -> Any:
        """Return the products of the inputs of all steps, biased: (T, N, gates * H)."""
        return self.x.linear(self.weight_ih, self.bias_ih)

    def from_hidden(self, hidden: Any) -> Any:
        """Return the products of hidden states, biased: (..., H) -> (..., gates * H)."""
        return hidden.linear(self.weight_hh, self.bias_hh)

    def run(self, step: Callable[..., tuple[Any, ...]]) -> tuple[Any, ...]:
        """Return the outputs of all steps and the last states; a step returns states."""
        from_inputs, states = self.from_inputs().unstack(0), self.begin
        outputs = {}
        for t in self.order:
            states = step(from_inputs[t], self.from_hidden(states[0]), *states)
            outputs[t] = states[0]
        return (_stacked(outputs), *states)

    def hidden_before(self, outputs: Any) -> Any:
        """Return the hidden state before each step: (T, N, H)."""
        rest, first = outputs.shape[0] - 1, self.begin[0].expand_dims(0)
        if self.is_reversed:
            return concat([outputs.narrow(0, 1, rest), first])
        return concat([first, outputs.narrow(0, 0, rest)])

    def gradients(
        self, argnums: Sequence[int], dtype: Any, before: Any, of_inputs: Any, of_hidden: Any,
        of_begin: Sequence[Any],
    ) -> Gradients:  # fmt: skip
        """Return the gradients at ``argnums`` from those of the gates, as the products give them.

        before: the hidden states before each step; of_begin: the gradients of the first states.
        """
        makers: dict[int, Callable[[], Any]] = {
            0: lambda: of_inputs.matmul(self.weight_ih),
            1: lambda: of_inputs._linear_weight_gradient(self.x),
            2: lambda: of_hidden._linear_weight_gradient(before),
            3: lambda: of_inputs.sum((0, 1)),
            4: lambda: of_hidden.sum((0, 1)),
        }
        for n, g in enumerate(of_begin):
            makers[5 + n] = lambda g=g: g  # type: ignore[misc]
        return chosen(makers, argnums, dtype)


def _steps(x: Any) -> Sequence[Any]:
    """Return the steps of a cotangent or the like, in the dtype in which they are computed."""
    return widened(x).unstack(0)  # type: ignore[no-any-return]


def _stacked(steps: dict[int, Any]) -> Any:
    return stack([steps[t] for t in range(len(steps))])


def _all_in_dtype(tensors: Sequence[Any], dtype: Any) -> tuple[Any, ...]:
    return tuple(in_dtype(t, dtype) for t in tensors)


# ---- cells ----


def _lstm_step(from_input: Any, from_hidden: Any, _: Any, cell: Any) -> tuple[Any, Any]:
    i, f, g, o = (from_input + from_hidden).chunk(4, -1)
    cell = f.sigmoid() * cell + i.sigmoid() * g.tanh()
    return o.sigmoid() * cell.tanh(), cell


def _lstm_residuals(sequence: _Sequence, outputs: Any) -> tuple[Any, Any]:
    """Return the gates of all steps (T, N, 4 H), and the cell states around them (T + 1, N, H)."""
    products = sequence.from_inputs() + sequence.from_hidden(sequence.hidden_before(outputs))
    i, f, g, o = products.chunk(4, -1)
    i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
    kept, added = f.unstack(0), (i * g).unstack(0)
    first, after = (len(kept), 0) if sequence.is_reversed else (0, 1)
    cells, current = {first: sequence.begin[1]}, sequence.begin[1]
    for t in sequence.order:
        cells[t + after] = current = kept[t] * current + added[t]
    return concat([i, f, g, o], -1), _stacked(cells)


def _gru_step(from_input: Any, from_hidden: Any, hidden: Any) -> tuple[Any]:
    r, z, n = from_input.chunk(3, -1)
    hr, hz, hn = from_hidden.chunk(3, -1)
    new = (n + (r + hr).sigmoid() * hn).tanh()
    return (new + (z + hz).sigmoid() * (hidden - new),)


def _gru_residuals(sequence: _Sequence, before: Any) -> Any:
    """Return what the gradient reads of all steps, from the hidden state before each.

    They are reset, update, new, and the product of the hidden state of which the reset gate lets a
    part into new: (T, N, 4 H).
    """
    xr, xz, xn = sequence.from_inputs().chunk(3, -1)
    hr, hz, hn = sequence.from_hidden(before).chunk(3, -1)
    reset, update = (xr + hr).sigmoid(), (xz + hz).sigmoid()
    return concat([reset, update, (xn + reset * hn).tanh(), hn], -1)


def _rnn_step(nonlinearity: Nonlinearity) -> Callable[..., tuple[Any]]:
    def step(from_input: Any, from_hidden: Any, _: Any) -> tuple[Any]:
        total = from_input + from_hidden
        return (total.tanh() if nonlinearity == "tanh" else total.relu(),)

    return step


# ---- derivatives ----


def _vjp(name: str, states: int) -> Callable[..., tuple[Any, ...]]:
    """Return the joint rule of a cell, which asks its gradient op."""

    def rule(
        g: Any, outs: Any, x: Any, weight_ih: Any, weight_hh: Any, bias_ih: Any, bias_hh: Any,
        *begin: Any, tracked: tuple[int, ...], keeps_gates: bool = False, **attrs: Any,
    ) -> tuple[Any, ...]:  # fmt: skip
        residuals = outs[1 + states :] if keeps_gates else ()
        found = getattr(g[0], name)(
            *g[1:], outs[0], x, weight_ih, weight_hh, bias_ih, bias_hh, *begin, *residuals,
            argnums=tracked, **attrs,
        )  # fmt: skip
        return by_position(found, tracked, 5 + states)

    return rule


def _slope_of_sigmoid(y: Any) -> Any:
    return y * (1.0 - y)


def _slope_of_tanh(y: Any) -> Any:
    return 1.0 - y * y


_LSTM = ((3, 2, 4), (12, 4), (12, 3), (12,), (12,), (2, 3), (2, 3))
_GATES = Spec((3, 2, 12), "float", 0.1, 0.9)
_LSTM_BACK = ((3, 2, 3), (2, 3), (2, 3), (3, 2, 3), *_LSTM)
_GRU = ((3, 2, 4), (9, 4), (9, 3), (9,), (9,), (2, 3))
_GRU_BACK = ((3, 2, 3), (2, 3), (3, 2, 3), *_GRU)
_RNN = ((3, 2, 4), (3, 4), (3, 3), (3,), (3,), (2, 3))


class Recurrent(Rectifier, Contraction):
    """Recurrent layers over whole sequences."""

    __slots__ = ()

    # ---- LSTM ----

    @composite(
        canonical=_attributes,
        infer=_types(4),
        vjp=_vjp("_lstm_backward", 2),
        residuals={"keeps_gates": True},
        accepts="float",
        promotes="all",
        samples=(
            sample(*_LSTM),
            sample(*_LSTM, is_reversed=True),
            sample((1, 1, 2), (20, 2), (20, 5), None, None, (1, 5), (1, 5)),
        ),
    )
    def _lstm(
        self, weight_ih: Self, weight_hh: Self, bias_ih: Self | None, bias_hh: Self | None,
        hidden: Self, cell: Self, /, *, is_reversed: bool = False, keeps_gates: bool = False,
    ) -> tuple[Self, ...]:  # fmt: skip
        """Outputs of all steps, last hidden and cell state: (T, N, D) -> (T, N, H), (N, H), (N, H).

        Gates are in the order input, forget, cell, output.  With ``keeps_gates`` also what the
        gradient reads, in the dtype of the computation: the gates of all steps (T, N, 4 H), and the
        cell states before, between and after them (T + 1, N, H).
        Source: Hochreiter & Schmidhuber 1997; Gers et al. 2000 for the forget gate.
        """
        sequence = _Sequence.of(
            self, weight_ih, weight_hh, bias_ih, bias_hh, hidden, cell, is_reversed=is_reversed
        )
        found = sequence.run(_lstm_step)
        results = _all_in_dtype(found, self.dtype)
        return (*results, *_lstm_residuals(sequence, found[0])) if keeps_gates else results

    @composite(
        canonical=_gradient_attributes,
        infer=_gradient_types(4, 2),
        accepts="float",
        promotes=tuple(range(11)),
        samples=(
            sample(*_LSTM_BACK, None, None, argnums=tuple(range(7))),
            sample(*_LSTM_BACK, None, None, argnums=(2,), is_reversed=True),
            sample(*_LSTM_BACK, _GATES, (4, 2, 3), argnums=tuple(range(7))),
            sample(*_LSTM_BACK, _GATES, (4, 2, 3), argnums=(1, 5, 6), is_reversed=True),
        ),
    )
    def _lstm_backward(
        self, g_hidden: Self, g_cell: Self, outputs: Self, x: Self, weight_ih: Self,
        weight_hh: Self, bias_ih: Self | None, bias_hh: Self | None, hidden: Self, cell: Self,
        gates: Self | None = None, cells: Self | None = None, /, *, argnums: tuple[int, ...],
        is_reversed: bool = False,
    ) -> Gradients:  # fmt: skip
        """Gradients of lstm's inputs at ``argnums``, from the cotangents of its three results.

        gates, cells: its residuals; without them they are made again from the outputs.
        """
        sequence = _Sequence.of(
            x, weight_ih, weight_hh, bias_ih, bias_hh, hidden, cell, is_reversed=is_reversed
        )
        results = widened(outputs)
        residuals: Any = (gates, cells)
        if gates is None or cells is None:
            residuals = _lstm_residuals(sequence, results)
        of_steps, states = (widened(x).unstack(0) for x in residuals)
        earlier, later = (1, 0) if is_reversed else (0, 1)
        of_outputs, of_gates = _steps(self), {}
        of_hidden, of_cell = widened(g_hidden), widened(g_cell)
        for t in reversed(sequence.order):
            i, f, g, o = of_steps[t].chunk(4, -1)
            of_hidden = of_hidden + of_outputs[t]
            previous, after = states[t + earlier], states[t + later].tanh()
            of_cell = of_cell + of_hidden * o * _slope_of_tanh(after)
            of_gates[t] = concat(
                [
                    of_cell * g * _slope_of_sigmoid(i),
                    of_cell * previous * _slope_of_sigmoid(f),
                    of_cell * i * _slope_of_tanh(g),
                    of_hidden * after * _slope_of_sigmoid(o),
                ],
                -1,
            )
            of_cell = of_cell * f
            of_hidden = of_gates[t].matmul(sequence.weight_hh)
        of_all, before = _stacked(of_gates), sequence.hidden_before(results)
        return sequence.gradients(argnums, x.dtype, before, of_all, of_all, (of_hidden, of_cell))

    # ---- GRU ----

    @composite(
        canonical=_attributes,
        infer=_types(3),
        vjp=_vjp("_gru_backward", 1),
        residuals={"keeps_gates": True},
        accepts="float",
        promotes="all",
        samples=(
            sample(*_GRU),
            sample(*_GRU, is_reversed=True),
            sample((1, 1, 2), (15, 2), (15, 5), None, None, (1, 5)),
        ),
    )
    def _gru(
        self, weight_ih: Self, weight_hh: Self, bias_ih: Self | None, bias_hh: Self | None,
        hidden: Self, /, *, is_reversed: bool = False, keeps_gates: bool = False,
    ) -> tuple[Self, ...]:  # fmt: skip
        """Outputs of all steps and the last hidden state: (T, N, D) -> (T, N, H), (N, H).

        Gates are in the order reset, update, new; the reset gate is applied after the product.
        With ``keeps_gates`` also what the gradient reads, in the dtype of the computation: the
        gates of all steps and that product (T, N, 4 H).
        Source: Cho et al. 2014, arXiv:1406.1078, section 2.3, with the reset gate as in cuDNN.
        """
        sequence = _Sequence.of(
            self, weight_ih, weight_hh, bias_ih, bias_hh, hidden, is_reversed=is_reversed
        )
        found = sequence.run(_gru_step)
        results = _all_in_dtype(found, self.dtype)
        if not keeps_gates:
            return results
        return (*results, _gru_residuals(sequence, sequence.hidden_before(found[0])))

    @composite(
        canonical=_gradient_attributes,
        infer=_gradient_types(3, 1),
        accepts="float",
        promotes=tuple(range(9)),
        samples=(
            sample(*_GRU_BACK, None, argnums=tuple(range(6))),
            sample(*_GRU_BACK, None, argnums=(2,), is_reversed=True),
            sample(*_GRU_BACK, _GATES, argnums=tuple(range(6))),
            sample(*_GRU_BACK, _GATES, argnums=(1, 5), is_reversed=True),
        ),
    )
    def _gru_backward(
        self, g_hidden: Self, outputs: Self, x: Self, weight_ih: Self, weight_hh: Self,
        bias_ih: Self | None, bias_hh: Self | None, hidden: Self, gates: Self | None = None, /, *,
        argnums: tuple[int, ...], is_reversed: bool = False,
    ) -> Gradients:  # fmt: skip
        """Gradients of gru's inputs at ``argnums``, from the cotangents of its two results.

        gates: its residual; without it the gates are made again from the outputs.
        """
        sequence = _Sequence.of(
            x, weight_ih, weight_hh, bias_ih, bias_hh, hidden, is_reversed=is_reversed
        )
        before = sequence.hidden_before(widened(outputs))
        kept: Any = _gru_residuals(sequence, before) if gates is None else widened(gates)
        reset, update, new, hn = kept.chunk(4, -1)
        # What the gradient of the new hidden state is multiplied by, for all steps at once.
        to_new = (1.0 - update) * _slope_of_tanh(new)
        slopes = (
            to_new * hn * _slope_of_sigmoid(reset),
            (before - new) * _slope_of_sigmoid(update),
            to_new,
            to_new * reset,
            update,
        )
        r, z, n, nr, keep = (slope.unstack(0) for slope in slopes)
        of_outputs, of_hidden = _steps(self), widened(g_hidden)
        of_from_inputs, of_from_hidden = {}, {}
        for t in reversed(sequence.order):
            of_hidden = of_hidden + of_outputs[t]
            of_both = [of_hidden * slope[t] for slope in (r, z)]
            of_from_inputs[t] = concat([*of_both, of_hidden * n[t]], -1)
            of_from_hidden[t] = concat([*of_both, of_hidden * nr[t]], -1)
            of_hidden = of_hidden * keep[t] + of_from_hidden[t].matmul(sequence.weight_hh)
        return sequence.gradients(
            argnums, x.dtype, before, _stacked(of_from_inputs), _stacked(of_from_hidden),
            (of_hidden,),
        )  # fmt: skip

    # ---- RNN ----

    @composite(
        canonical=_rnn_attributes,
        infer=_types(1),
        vjp=_vjp("_rnn_backward", 1),
        accepts="float",
        promotes="all",
        samples=(
            sample(*_RNN),
            sample(*_RNN, is_reversed=True),
            sample((1, 1, 2), (5, 2), (5, 5), None, None, (1, 5), nonlinearity="relu"),
        ),
    )
    def _rnn(
        self, weight_ih: Self, weight_hh: Self, bias_ih: Self | None, bias_hh: Self | None,
        hidden: Self, /, *, nonlinearity: Nonlinearity = "tanh", is_reversed: bool = False,
    ) -> tuple[Self, Self]:  # fmt: skip
        """Outputs of all steps and the last hidden state: (T, N, D) -> (T, N, H), (N, H).

        Source: Elman 1990.
        """
        found = _Sequence.of(
            self, weight_ih, weight_hh, bias_ih, bias_hh, hidden, is_reversed=is_reversed
        ).run(_rnn_step(nonlinearity))
        return _all_in_dtype(found, self.dtype)

    @composite(
        canonical=_gradient_attributes,
        infer=_gradient_types(1, 1),
        accepts="float",
        promotes="all",
        samples=(
            sample((3, 2, 3), (2, 3), (3, 2, 3), *_RNN, argnums=tuple(range(6))),
            sample(
                (3, 2, 3), (2, 3), (3, 2, 3), *_RNN, argnums=(2,), nonlinearity="relu",
                is_reversed=True,
            ),
        ),
    )  # fmt: skip
    def _rnn_backward(
        self, g_hidden: Self, outputs: Self, x: Self, weight_ih: Self, weight_hh: Self,
        bias_ih: Self | None, bias_hh: Self | None, hidden: Self, /, *, argnums: tuple[int, ...],
        nonlinearity: Nonlinearity = "tanh", is_reversed: bool = False,
    ) -> Gradients:  # fmt: skip
        """Gradients of rnn's inputs at ``argnums``, from the cotangents of its two results."""
        sequence = _Sequence.of(
            x, weight_ih, weight_hh, bias_ih, bias_hh, hidden, is_reversed=is_reversed
        )
        results = widened(outputs)
        before = sequence.hidden_before(results)
        slopes = _steps(_slope_of_tanh(results) if nonlinearity == "tanh" else results > 0)
        of_outputs, of_hidden = _steps(self), widened(g_hidden)
        of_gates = {}
        for t in reversed(sequence.order):
            total, slope = of_hidden + of_outputs[t], slopes[t]
            of_gates[t] = total * slope if nonlinearity == "tanh" else slope._where(total, 0.0)
            of_hidden = of_gates[t].matmul(sequence.weight_hh)
        of_all = _stacked(of_gates)
        return sequence.gradients(argnums, x.dtype, before, of_all, of_all, (of_hidden,))
