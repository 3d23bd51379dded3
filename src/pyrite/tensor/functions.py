"""Ops as functions, under the names of the array API standard: ``pyrite.exp(x)`` is ``x.exp()``."""

from pyrite.tensor.creation import full as full
from pyrite.tensor.creation import tensor as tensor
from pyrite.tensor.random import random_bits as random_bits
from pyrite.tensor.tensor import Tensor

exp = Tensor.exp
log = Tensor.log
sum = Tensor.sum
mean = Tensor.mean

__all__ = ["exp", "full", "log", "mean", "random_bits", "sum", "tensor"]
