"""The NumPy backend, reference of all others."""

from pyrite.backend.numpy.backend import NumPy as NumPy

__all__ = ["NumPy"]
