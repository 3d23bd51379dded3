"""The loss of transducers: sequences that are aligned by a network which hears what it said.

At each place (t, u) of a lattice, T steps of the input by U + 1 labels said so far, the network
says the next label, and u grows, or "blank", and t grows.  The loss is -log of the probability of
all ways from (0, 0) through the last blank at (T - 1, U).
Source: Graves 2012, "Sequence Transduction with Recurrent Neural Networks", arXiv:1211.3711,
section 2.4.

The lattice is walked by diagonals d = t + u: all places of one depend on those of the one before
alone, so a step is elementwise work over u, as in the paper's equation 16 turned by 45 degrees.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from pyrite.errors import ShapeError
from pyrite.op import Attributes, composite, integers, public, sample
from pyrite.tensor.alignment import (
    IMPOSSIBLE,
    Lengths,
    as_integers,
    blank_of,
    gradient_of,
    loss_of,
    reduced,
    require_labels,
    require_within,
    slope_of,
)
from pyrite.tensor.creation import arange, full
from pyrite.tensor.gradient import in_dtype, widened
from pyrite.tensor.joining import concat, stack
from pyrite.tensor.loss import Reduction
from pyrite.tensor.tensor import Tensor
from pyrite.types import TensorType

_OP = "rnnt_loss"


# ---- types ----


def _canonical(log_probs: TensorType, *rest: Any, blank: int) -> Attributes:
    return blank_of(_OP, log_probs, blank)


def _type(
    log_probs: TensorType, targets: TensorType, *lengths: TensorType, blank: int
) -> TensorType:
    if log_probs.ndim != 4 or not log_probs.shape[1]:
        raise ShapeError(
            f"{_OP} requires log_probs of shape (N, T, U + 1, C) with T >= 1, got {log_probs.shape}"
        )
    require_labels(_OP, targets, lengths, log_probs.shape[0])
    if targets.shape[1] + 1 != log_probs.shape[2]:
        raise ShapeError(
            f"{_OP} requires log_probs.shape[2] == targets.shape[1] + 1, got {log_probs.shape} and "
            f"{targets.shape}"
        )
    return TensorType((log_probs.shape[0],), log_probs.dtype)


# ---- the dynamic program ----


class _Lattice(NamedTuple):
    """The two steps from each place, by diagonals: T + U of (N, U + 1)."""

    #: Log-probability of the blank at (d - u, u).
    blanks: tuple[Any, ...]
    #: Log-probability of the next label there.
    labels: tuple[Any, ...]
    #: 0 at the place behind the last blank, else `IMPOSSIBLE`: (T + U + 1, N, U + 1).
    end: Any
    #: Class of the next label, the blank where there is none: (N, U + 1).
    classes: Any

    def forward(self) -> Any:
        """Return the log-sum of paths to each place: (T + U + 1, N, U + 1)."""
        low = self.end[0] * 0.0 + IMPOSSIBLE
        first = low[:, :1]
        paths = concat([first * 0.0, low[:, 1:]], axis=1)
        found = [paths]
        for blank, label in zip(self.blanks, self.labels, strict=True):
            said = concat([first, (paths + label)[:, :-1]], axis=1)
            paths = (paths + blank).logaddexp(said)
            found.append(paths)
        return stack(found, axis=0)

    def backward(self) -> Any:
        """Return the log-sum of paths from each place to the end: (T + U + 1, N, U + 1)."""
        ends = self.end.unstack(0)
        rest = ends[-1]
        first = rest[:, :1] * 0.0 + IMPOSSIBLE
        found = [rest]
        for d in reversed(range(len(self.blanks))):
            after = concat([rest[:, 1:], first], axis=1)
            rest = (rest + self.blanks[d]).logaddexp(after + self.labels[d]).logaddexp(ends[d])
            found.append(rest)
        return stack(found[::-1], axis=0)


def _lattice(
    log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any, blank: int
) -> _Lattice:
    batch, steps, places, _ = log_probs.shape
    u = arange(places, dtype="int32", device=targets.device)
    d = arange(steps + places, dtype="int32", device=targets.device).reshape((-1, 1, 1))
    t = d - u
    inputs, labels = input_lengths.expand_dims(1), target_lengths.expand_dims(1)
    no_label = full((batch, 1), blank, dtype=targets.dtype, device=targets.device)
    # What is behind the end of a target may be anything.
    classes = (u < labels)._where(concat([targets, no_label], axis=1), blank)
    of_blank = log_probs[..., blank]
    of_label = log_probs.take_along_axis(classes.reshape((batch, 1, places, 1)), 3)[..., 0]
    is_there = (t >= 0) & (t < inputs)
    when = ((t >= 0) & (t < steps))._where(t, 0)

    def by_diagonals(values: Any, may: Any) -> tuple[Any, ...]:
        """Return (N, T, U + 1) as T + U of (N, U + 1), what may not be as `IMPOSSIBLE`."""
        skewed = values.maximum(IMPOSSIBLE).permute_dims((1, 0, 2)).take_along_axis(when, 0)
        found: tuple[Any, ...] = may._where(skewed, IMPOSSIBLE).unstack(0)
        return found[:-1]

    is_end = (d == inputs + labels) & (u == labels)
    return _Lattice(
        by_diagonals(of_blank, is_there & (u <= labels)),
        by_diagonals(of_label, is_there & (u < labels)),
        (~is_end).astype(of_blank.dtype) * IMPOSSIBLE,
        classes,
    )


def _total(paths: Any, end: Any) -> Any:
    """Return the log-sum of whole paths: (N,)."""
    return (paths + end).logsumexp((0, 2))


# ---- the ops ----

_SAMPLES = (
    sample((2, 3, 3, 4), integers((2, 2), 1, 4), integers((2,), 2, 4), integers((2,), 1, 3),
           blank=0),
    sample((1, 2, 1, 3), integers((1, 0), 0, 2), integers((1,), 2, 3), integers((1,), 0, 1),
           blank=2),
)  # fmt: skip


def _vjp(
    g: Any, _: Any, log_probs: Any, targets: Any, *lengths: Any, blank: int
) -> tuple[Any, ...]:
    return _rnnt_loss_backward(g, log_probs, targets, *lengths, blank=blank), None, None, None


@gradient_of(_canonical, _type, _SAMPLES, batch=0)
def _rnnt_loss_backward(
    g: Tensor,
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Tensor,
    target_lengths: Tensor,
    /,
    *,
    blank: int,
) -> Tensor:
    """Gradient of the loss for log_probs: -g times the probability that a path takes each step."""
    batch, steps, places, _ = log_probs.shape
    lattice = _lattice(widened(log_probs), targets, input_lengths, target_lengths, blank)
    paths, rest = lattice.forward(), lattice.backward()
    total = _total(paths, lattice.end).expand_dims(1)
    low = rest[:-1, :, :1] * 0.0 + IMPOSSIBLE
    onward = concat([rest[1:, :, 1:], low], axis=2)
    taken = [
        (paths[:-1] + stack(lattice.blanks, axis=0) + rest[1:] - total).exp(),
        (paths[:-1] + stack(lattice.labels, axis=0) + onward - total).exp(),
    ]
    time = arange(steps, dtype="int32", device=targets.device).reshape((steps, 1, 1))
    place = arange(places, dtype="int32", device=targets.device)
    often = stack([x.take_along_axis(time + place, 0) for x in taken], axis=3)
    slope = slope_of(often, total.expand_dims(2), False) * -widened(g).reshape((batch, 1, 1))
    # By a choice: what is behind the end is on no path, whatever g is.
    labels = target_lengths.expand_dims(1)
    may = stack([place <= labels, place < labels], axis=2)
    is_there = (time < input_lengths.expand_dims(1)).expand_dims(3) & may
    slope = is_there._where(slope, 0.0)
    none = lattice.classes * 0 + blank
    index = stack([none, lattice.classes], axis=2).expand_dims(1)
    found: Tensor = type(g)._scatter(
        0.0, index, slope.permute_dims((1, 0, 2, 3)), shape=log_probs.shape, axis=3,
        reduction="add", asked=_OP,
    )  # fmt: skip
    return in_dtype(found, log_probs.dtype)


@composite(
    canonical=_canonical,
    infer=_type,
    vjp=_vjp,
    accepts="float",
    promotes=(0,),
    samples=_SAMPLES,
)
def _rnnt_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Tensor,
    target_lengths: Tensor,
    /,
    *,
    blank: int,
) -> Tensor:
    """-log of the probability of each target: (N, T, U + 1, C), (N, U), (N,), (N,) -> (N,)."""
    lattice = _lattice(widened(log_probs), targets, input_lengths, target_lengths, blank)
    found: Tensor = loss_of(_total(lattice.forward(), lattice.end), False)
    return in_dtype(found, log_probs.dtype)


@public
def rnnt_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Lengths,
    target_lengths: Lengths,
    *,
    blank: int = 0,
    reduction: Reduction = "mean",
) -> Tensor:
    """-log of the probability that a transducer says the target, over all alignments.

    log_probs (N, T, U + 1, C), the `log_softmax` of the joint network at each step for each number
    of labels said, and targets (N, U) -> ().  A sample has its first input_lengths[n] steps and
    target_lengths[n] labels; what is behind them may be anything.  ``blank`` is the class that
    says nothing.  The mean is over samples.  torchaudio's takes logits, and the last class as
    blank: this is ``rnnt_loss(logits.log_softmax(-1), ..., blank=-1)``.

    Raises ShapeError, DTypeError, and IndexRangeError for a label that is no class.
    Source: Graves 2012, arXiv:1211.3711, section 2.4.

    >>> import pyrite
    >>> half = pyrite.full((1, 2, 2, 2), 0.5).log()  # says 1, -, - or -, 1, -
    >>> round(pyrite.rnnt_loss(half, pyrite.tensor([[1]]), [2], [1]).exp().item(), 4)
    4.0
    """
    targets = as_integers(targets, log_probs)
    said, wanted = (as_integers(given, log_probs) for given in (input_lengths, target_lengths))
    losses = _rnnt_loss(log_probs, targets, said, wanted, blank=blank)
    require_within(_OP, log_probs.shape[1], input_lengths=input_lengths)
    require_within(_OP, targets.shape[1], target_lengths=target_lengths)
    return reduced(losses, reduction)
