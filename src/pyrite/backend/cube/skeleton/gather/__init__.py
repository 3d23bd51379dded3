"""Gathers: each element of the result finds its own, or each vector of them, by `Gather`."""

from pyrite.backend.cube.skeleton.gather.kernel import gather as gather

__all__ = ["gather"]
