"""The Torch backend: PyTorch's devices, behind the same programs."""

from pyrite.backend.torch.backend import Torch as Torch

__all__ = ["Torch"]
