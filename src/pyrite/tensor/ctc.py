"""Connectionist temporal classification: the loss of a sequence whose alignment is not known.

The network says at each step a label or "blank"; what it says, without repeats and then without
blanks, is the target.  The loss is -log of the probability of all that give the target, summed by
dynamic programming over the extended target: a blank, a label, a blank, a label, ..., a blank.
Source: Graves et al. 2006, "Connectionist Temporal Classification", section 4.1.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from pyrite.errors import ArgumentError, ShapeError
from pyrite.op import Attributes, composite, integers, public, sample
from pyrite.tensor.alignment import (
    IMPOSSIBLE,
    Lengths,
    as_integers,
    blank_of,
    gradient_of,
    is_possible,
    loss_of,
    reduced,
    require_labels,
    require_within,
    slope_of,
)
from pyrite.tensor.creation import arange, full, tensor
from pyrite.tensor.gradient import in_dtype, widened
from pyrite.tensor.joining import concat, stack
from pyrite.tensor.loss import Reduction
from pyrite.tensor.tensor import Tensor
from pyrite.types import DType, TensorType

_OP = "ctc_loss"


# ---- types ----


def _canonical(log_probs: TensorType, *rest: Any, blank: int, zero_infinity: bool) -> Attributes:
    return {**blank_of(_OP, log_probs, blank), "zero_infinity": bool(zero_infinity)}


def _type(
    log_probs: TensorType,
    targets: TensorType,
    *lengths: TensorType,
    blank: int,
    zero_infinity: bool,
) -> TensorType:
    if log_probs.ndim != 3 or not log_probs.shape[0]:
        raise ShapeError(
            f"{_OP} requires log_probs of shape (T, N, C) with T >= 1, got {log_probs.shape}"
        )
    batch = log_probs.shape[1]
    require_labels(_OP, targets, lengths, batch)
    return TensorType((batch,), log_probs.dtype)


# ---- the dynamic program ----


class _Paths(NamedTuple):
    """The extended target of S = 2 labels + 1 states, and what it may say at each step.

    What may not be is chosen away, not added up: a step that is NaN is so for its paths alone.
    """

    #: Class of each state: (N, S).
    classes: Any
    #: Log-probability of each state at each step: T of (N, S).
    steps: tuple[Any, ...]
    #: Whether a state may follow the one two before it: (N, S).
    may_skip: Any
    #: Whether a path may end in a state: (N, S).
    is_end: Any
    input_lengths: Any

    def forward(self) -> tuple[list[Any], Any]:
        """Return the log-sum of paths to each state after each step, and that of whole paths."""
        # Two states before the first: a path starts in the one from which two can be reached.
        none = self._none()
        before = concat([none, none * 0.0], axis=1)
        paths, found = none.broadcast_to(self.classes.shape), []
        for t, step in enumerate(self.steps):
            wide = concat([before, paths], axis=1)
            before = concat([none, none], axis=1)
            skipped = self.may_skip._where(wide[:, :-2], IMPOSSIBLE)
            came = wide[:, 2:].logaddexp(wide[:, 1:-1]).logaddexp(skipped)
            said = is_possible(came)._where(came + step, IMPOSSIBLE)
            paths = (self.input_lengths > t)._where(said, paths)
            found.append(paths)
        whole = self.is_end._where(paths, IMPOSSIBLE).logsumexp(-1)
        # Nothing said of nothing to say is a path of probability 1.
        says_nothing = (self.input_lengths.flatten() == 0) & self.is_end[:, 0]
        return found, says_nothing._where(0.0, whole)

    def backward(self) -> list[Any]:
        """Return the log-sum of what may follow each state after each step."""
        none = self._none()
        after = concat([none, none], axis=1)
        may_skip = concat([self.may_skip, after > 0.0], axis=1)[:, 2:]
        end = self.is_end._where(0.0, none)
        rest, found = end, []
        for t in reversed(range(len(self.steps))):
            found.append(rest)
            said = is_possible(rest)._where(rest + self.steps[t], IMPOSSIBLE)
            wide = concat([said, after], axis=1)
            skipped = may_skip._where(wide[:, 2:], IMPOSSIBLE)
            comes = wide[:, :-2].logaddexp(wide[:, 1:-1]).logaddexp(skipped)
            rest = (self.input_lengths > t)._where(comes, end)
        return found[::-1]

    def _none(self) -> Any:
        """Return the log-probability of no path: (N, 1), in the dtype of the steps."""
        return full(
            (self.classes.shape[0], 1), IMPOSSIBLE, dtype=self.dtype, device=self.classes.device
        )

    @property
    def dtype(self) -> DType:
        """The dtype in which paths are summed."""
        found: DType = self.steps[0].dtype
        return found


def _paths(
    log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any, blank: int
) -> _Paths:
    batch, labels = targets.shape
    place = arange(labels, dtype=target_lengths.dtype, device=targets.device)
    # What is behind the end of a target may be anything.
    named = (place < target_lengths.expand_dims(1))._where(targets, blank)
    blanks = full((batch, labels + 1), blank, dtype=targets.dtype, device=targets.device)
    pairs = stack([blanks[:, :labels], named], axis=2).reshape((batch, 2 * labels))
    classes = concat([pairs, blanks[:, labels:]], axis=1)
    states = arange(2 * labels + 1, dtype=target_lengths.dtype, device=targets.device)
    two_before = concat([classes[:, :2], classes[:, :-2]], axis=1)[:, : 2 * labels + 1]
    may_skip = (states % 2 == 1) & ((states < 2) | (classes != two_before))
    last = (target_lengths * 2).expand_dims(1)
    ends = (states == last) | (states == last - 1)
    said = log_probs.take_along_axis(classes.expand_dims(0), 2).maximum(IMPOSSIBLE)
    return _Paths(
        classes,
        tuple(said.unstack(0)),
        may_skip,
        ends,
        input_lengths.expand_dims(1),
    )


# ---- the ops ----

_SAMPLES = (
    sample((3, 2, 4), integers((2, 2), 1, 4), integers((2,), 2, 4), integers((2,), 1, 3), blank=0,
           zero_infinity=True),
    sample((4, 1, 3), integers((1, 2), 0, 2), integers((1,), 4, 5), integers((1,), 0, 2), blank=2,
           zero_infinity=True),
)  # fmt: skip


def _vjp(
    g: Any, _: Any, log_probs: Any, targets: Any, *lengths: Any, blank: int, zero_infinity: bool
) -> tuple[Any, ...]:
    found = _ctc_loss_backward(
        g, log_probs, targets, *lengths, blank=blank, zero_infinity=zero_infinity
    )
    return found, None, None, None


@gradient_of(_canonical, _type, _SAMPLES, batch=1)
def _ctc_loss_backward(
    g: Tensor,
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Tensor,
    target_lengths: Tensor,
    /,
    *,
    blank: int,
    zero_infinity: bool,
) -> Tensor:
    """Gradient of the loss for log_probs: -g times how often each class is said at each step."""
    paths = _paths(widened(log_probs), targets, input_lengths, target_lengths, blank)
    steps, total = paths.forward()
    through = stack(steps, axis=0) + stack(paths.backward(), axis=0)
    posterior = (through - total.expand_dims(1)).exp()
    often = slope_of(posterior, total.expand_dims(1), zero_infinity) * -widened(g).expand_dims(1)
    time = arange(len(steps), dtype=input_lengths.dtype, device=input_lengths.device)
    is_said = time.reshape((-1, 1, 1)) < paths.input_lengths
    found: Tensor = type(g)._scatter(
        0.0, paths.classes.expand_dims(0), is_said._where(often, 0.0),
        shape=log_probs.shape, axis=2, reduction="add", asked=_OP,
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
def _ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Tensor,
    target_lengths: Tensor,
    /,
    *,
    blank: int,
    zero_infinity: bool,
) -> Tensor:
    """-log of the probability of each target: (T, N, C), (N, S), (N,), (N,) -> (N,)."""
    paths = _paths(widened(log_probs), targets, input_lengths, target_lengths, blank)
    _, total = paths.forward()
    found: Tensor = loss_of(total, zero_infinity)
    return in_dtype(found, log_probs.dtype)


@public
def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Lengths,
    target_lengths: Lengths,
    *,
    blank: int = 0,
    reduction: Reduction = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """-log of the probability that what is said, without repeats and blanks, is the target.

    log_probs (T, N, C), of `log_softmax`, and targets (N, S) -> (); or one sample, (T, C) and (S,)
    with lengths (1,).  A sample has its first input_lengths[n] steps and target_lengths[n] labels,
    what is behind them may be anything; targets may also be the labels of all samples in a row,
    and then the lengths are read from the device.  ``blank`` is the class that says nothing.

    The mean is over samples, each divided by the number of its labels, as in PyTorch.  A target
    that is too long to be said is an infinite loss with a gradient of NaN, or with
    ``zero_infinity`` a loss of 0 without one.

    Raises ShapeError, DTypeError, and IndexRangeError for a label that is no class.
    Source: Graves et al. 2006, "Connectionist Temporal Classification", section 4.1.

    >>> import pyrite
    >>> half = pyrite.full((2, 1, 2), 0.5).log()  # says 1-, -1 or 11 for the target 1
    >>> round(pyrite.ctc_loss(half, pyrite.tensor([[1]]), [2], [1]).exp().item() * 3, 4)
    4.0
    """
    if log_probs.ndim == 2:
        log_probs, targets = log_probs.expand_dims(1), targets.flatten().expand_dims(0)
    targets = as_integers(targets, log_probs)
    targets = _by_sample(targets, target_lengths) if targets.ndim == 1 else targets
    said, wanted = (as_integers(given, log_probs) for given in (input_lengths, target_lengths))
    losses = _ctc_loss(log_probs, targets, said, wanted, blank=blank, zero_infinity=zero_infinity)
    require_within(_OP, log_probs.shape[0], input_lengths=input_lengths)
    require_within(_OP, targets.shape[1], target_lengths=target_lengths)
    if reduction == "mean":
        losses = losses / wanted.maximum(1).astype(losses.dtype)
    return reduced(losses, reduction)


def _by_sample(targets: Tensor, lengths: Lengths) -> Tensor:
    """Return the labels of all samples in a row as (N, S), S being the greatest length."""
    counts = np.asarray(lengths.numpy() if isinstance(lengths, Tensor) else lengths)
    if counts.sum() != targets.shape[0]:
        raise ArgumentError(
            f"{_OP} requires targets (N, S), or as many in a row as the target lengths add up to, "
            f"{counts.sum()}, got {targets.shape}"
        )
    starts = np.cumsum(counts) - counts
    places = starts[:, None] + np.minimum(np.arange(counts.max(initial=0)), counts[:, None] - 1)
    if not targets.shape[0]:
        return targets.reshape((len(counts), 0))
    places = np.clip(places, 0, targets.shape[0] - 1).astype(np.int32)
    return targets.take(tensor(places, device=targets.device), 0)
