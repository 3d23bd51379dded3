"""What lies in memory, whatever is known of it."""

from __future__ import annotations

from dataclasses import replace

from pyrite.backend.cube import CubeBackend
from pyrite.tensor.tensor import Tensor
from pyrite.types import Array


def contents(x: Tensor) -> Array:
    """Return the values of a tensor of kernels, also where a read of it raises IndexRangeError."""
    backend = x.device.backend.root
    assert isinstance(backend, CubeBackend), "of others a read has all there is"
    return backend.download(replace(x._handle, doubt=None))
