"""Reverse-mode differentiation: the Autodiff decorator, and gradients of functions."""

from pyrite.autodiff.checkpoint import checkpoint as checkpoint
from pyrite.autodiff.checkpoint import saved_bytes as saved_bytes
from pyrite.autodiff.gradients import Gradients as Gradients
from pyrite.autodiff.mode import no_grad as no_grad
from pyrite.autodiff.mode import training as training
from pyrite.autodiff.mode import training_mode as training_mode
from pyrite.autodiff.tape import Autodiff as Autodiff
from pyrite.autodiff.tape import autodiff as autodiff
from pyrite.autodiff.transform import grad as grad
from pyrite.autodiff.transform import value_and_grad as value_and_grad

__all__ = [
    "Autodiff",
    "Gradients",
    "autodiff",
    "checkpoint",
    "grad",
    "no_grad",
    "saved_bytes",
    "training",
    "training_mode",
    "value_and_grad",
]
