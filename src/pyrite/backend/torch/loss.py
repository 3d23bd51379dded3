"""Cross-entropy: of class indices by log_softmax and a gather, of distributions as its body."""

from __future__ import annotations

from typing import Any

import torch

from pyrite.backend.torch.native import Native, native


class Loss(Native):
    """Cross-entropy, forward and backward."""

    @native("cross_entropy")
    def cross_entropy(
        self,
        logits: torch.Tensor,
        targets: torch.Tensor,
        weight: torch.Tensor | None,
        *,
        axis: int,
        label_smoothing: float,
        ignore_index: tuple[int, ...],
    ) -> torch.Tensor:
        logs = torch.log_softmax(logits, axis)
        if targets.is_floating_point() or label_smoothing:
            found = self._distribution(targets, logits, axis, label_smoothing, ignore_index)
            coefficients = _by_class(found, weight, axis)
            return -torch.where(coefficients == 0, 0.0, coefficients * logs).sum(axis)
        classes, ignored = self._classes(targets, logits.shape[axis], ignore_index)
        losses = _chosen(logs, classes, axis)
        if weight is not None:
            chosen = weight[classes]
            # A class of weight 0 adds nothing, also at a logit of -inf.
            losses = torch.where(chosen == 0, 0.0, losses * chosen)
        return losses if ignored is None else torch.where(ignored, 0.0, losses)

    @native("cross_entropy_backward")
    def cross_entropy_backward(
        self,
        g: torch.Tensor,
        logits: torch.Tensor,
        targets: torch.Tensor,
        weight: torch.Tensor | None,
        *,
        axis: int,
        label_smoothing: float,
        ignore_index: tuple[int, ...],
        argnums: tuple[int, ...],
    ) -> Any:
        is_plain = not targets.is_floating_point() and label_smoothing == 0
        if is_plain and argnums == (0,):
            classes, ignored = self._classes(targets, logits.shape[axis], ignore_index, again=True)
            if weight is not None:
                g = g * weight[classes]
            if ignored is not None:
                g = torch.where(ignored, 0.0, g)
            slope = torch.softmax(logits, axis)
            slope.scatter_(axis, classes.unsqueeze(axis), -1.0, reduce="add")
            return slope.mul_(g.unsqueeze(axis))
        g = g.unsqueeze(axis)
        found = self._distribution(targets, logits, axis, label_smoothing, ignore_index)
        logs = torch.log_softmax(logits, axis)
        made = []
        for position in argnums:
            if position == 0:
                coefficients = _by_class(found, weight, axis)
                total = coefficients.sum(axis, keepdim=True)
                made.append(g * (torch.exp(logs) * total - coefficients))
            elif position == 1:
                made.append(g * _by_class(logs * (label_smoothing - 1.0), weight, axis))
            else:
                others = [a for a in range(logits.ndim) if a != axis]
                terms = -(g * found * logs)
                made.append(terms.sum(others) if others else terms)
        return made[0] if len(made) == 1 else tuple(made)

    def _classes(
        self,
        targets: torch.Tensor,
        count: int,
        ignore_index: tuple[int, ...],
        *,
        again: bool = False,
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Return class indices, 0 for those to ignore, and which these are; None for none."""
        ignored: torch.Tensor | None = None
        for index in ignore_index:
            same = targets == index
            ignored = same if ignored is None else ignored | same
        if ignored is not None:
            targets = torch.where(ignored, 0, targets)
        look = self.again if again else self.inside
        return look("cross_entropy", targets, count, 0, negative=False), ignored

    def _distribution(
        self,
        targets: torch.Tensor,
        logits: torch.Tensor,
        axis: int,
        label_smoothing: float,
        ignore_index: tuple[int, ...],
    ) -> torch.Tensor:
        """Return the targets as distributions over the classes, smoothed; zeros where ignored."""
        count, ignored = logits.shape[axis], None
        if targets.is_floating_point():
            found = targets
        else:
            classes, ignored = self._classes(targets, count, ignore_index)
            found = torch.zeros_like(logits).scatter_(axis, classes.unsqueeze(axis), 1.0)
        if label_smoothing:
            found = found * (1.0 - label_smoothing) + label_smoothing / max(1, count)
        return found if ignored is None else torch.where(ignored.unsqueeze(axis), 0.0, found)


def _chosen(logs: torch.Tensor, classes: torch.Tensor, axis: int) -> torch.Tensor:
    """Return minus the logarithms at the classes: (..., C, ...), (...) -> (...)."""
    if axis == logs.ndim - 1 and logs.numel():
        rows, chosen = logs.reshape(-1, logs.shape[-1]), classes.reshape(-1)
        losses = torch.nn.functional.nll_loss(rows, chosen, reduction="none")
        return losses if classes.ndim == 1 else losses.reshape(classes.shape)
    return -torch.gather(logs, axis, classes.unsqueeze(axis)).squeeze(axis)


def _by_class(x: torch.Tensor, weight: torch.Tensor | None, axis: int) -> torch.Tensor:
    if weight is None:
        return x
    return x * weight.reshape([-1 if a == axis else 1 for a in range(x.ndim)])
