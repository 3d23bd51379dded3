"""Losses of sequences whose alignment with the input is not known: speech, handwriting."""

from __future__ import annotations

from pyrite.nn.loss.reduction import Given, Loss
from pyrite.tensor.alignment import Lengths, as_integers
from pyrite.tensor.ctc import ctc_loss
from pyrite.tensor.tensor import Tensor
from pyrite.tensor.transducer import rnnt_loss


class CTCLoss(Loss):
    """-log of the probability of targets, over all alignments: (T, N, C), (N, S) -> ().

    It takes log-probabilities, as `log_softmax` gives them; the class ``blank`` says nothing.
    The mean is over samples, each divided by the number of its labels, as in PyTorch;
    ``"batch_mean"`` is not divided.  ``zero_infinity`` makes 0 of a loss that no alignment has.

    Source: Graves et al. 2006, "Connectionist Temporal Classification", section 4.1.

    >>> import pyrite
    >>> from pyrite import nn
    >>> x = pyrite.zeros((4, 2, 3)).log_softmax(-1)  # 4 steps of 2 samples, 3 classes
    >>> nn.CTCLoss()(x, pyrite.tensor([[1, 2], [2, 0]]), [4, 3], [2, 1]).shape
    ()
    """

    def __init__(
        self, blank: int = 0, reduction: Given = "mean", zero_infinity: bool = False
    ) -> None:
        super().__init__(reduction)
        self.blank = blank
        self.zero_infinity = zero_infinity

    def forward(
        self,
        log_probs: Tensor,
        targets: Tensor,
        input_lengths: Lengths,
        target_lengths: Lengths,
    ) -> Tensor:
        """Return the loss of the targets; lengths are numbers of steps and labels by sample."""
        losses = ctc_loss(
            log_probs, targets, input_lengths, target_lengths, blank=self.blank, reduction="none",
            zero_infinity=self.zero_infinity,
        )  # fmt: skip
        if self.reduction == "mean":
            labels = as_integers(target_lengths, losses)
            losses = losses / labels.maximum(1).astype(losses.dtype)
        return self._reduced(losses)


class RNNTLoss(Loss):
    """-log of the probability that a transducer says the targets: (N, T, U + 1, C), (N, U) -> ().

    It takes log-probabilities, as `log_softmax` gives them; the class ``blank`` says nothing.

    Source: Graves 2012, arXiv:1211.3711, section 2.4.
    """

    def __init__(self, blank: int = 0, reduction: Given = "mean") -> None:
        super().__init__(reduction)
        self.blank = blank

    def forward(
        self,
        log_probs: Tensor,
        targets: Tensor,
        input_lengths: Lengths,
        target_lengths: Lengths,
    ) -> Tensor:
        """Return the loss of the targets; lengths are numbers of steps and labels by sample."""
        return self._reduced(
            rnnt_loss(
                log_probs, targets, input_lengths, target_lengths, blank=self.blank,
                reduction="none",
            )
        )  # fmt: skip
