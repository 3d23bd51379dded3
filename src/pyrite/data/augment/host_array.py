"""Fields of an item as arrays of the host, where augmentations change them, and back.

Augmentation is work of a loader's workers, on the host, for arrays and for tensors alike: a tensor
is read, changed as its array would be, by the same draws, and is a tensor of its dtype on its
device again.

Invariant: what an augmentation leaves as it is comes back as the same object.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pyrite.errors import GradientError
from pyrite.tensor.creation import tensor
from pyrite.tensor.tensor import Tensor
from pyrite.types import float32


class HostArray(NamedTuple):
    """The array of a field, and what makes a field of its kind of a changed array."""

    array: NDArray[Any]
    restore: Callable[[NDArray[Any]], Any]


def host_array(value: Any, name: str) -> HostArray:
    """Return a tensor's elements, or what NumPy reads in another value, for the op `name`.

    Floats that NumPy has not (bfloat16, float8) are changed as float32 and rounded once.

    Raises GradientError for a tensor that is tracked: no derivative comes through the host.
    """
    if not isinstance(value, Tensor):
        return HostArray(np.asarray(value), lambda changed: changed)
    if value.is_tracked:
        raise GradientError(
            f"{name} requires tensors without gradients, got one that is tracked; "
            "augment x.detach()"
        )
    array = value.numpy()
    if array.dtype.kind == "V":
        array = value.astype(float32).numpy()

    def restore(changed: NDArray[Any]) -> Tensor:
        if changed is array:
            return value
        return tensor(changed, dtype=value.dtype, device=value.device)

    return HostArray(array, restore)
