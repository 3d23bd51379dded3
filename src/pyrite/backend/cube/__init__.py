"""Pyrite's own kernels as a backend, on any runtime."""

from pyrite.backend.cube.backend import CubeBackend as CubeBackend

__all__ = ["CubeBackend"]
