"""The trial of a device: ``python -m pyrite.testing.trial wgpu`` prints its verdict as JSON.

The verdict is null for a device that may be a default, else why not, in one line.  It runs in a
process of its own, because a broken driver may end it: see `pyrite.backend.default`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator

import numpy as np

from pyrite.autodiff import grad
from pyrite.backend.device import device, device_problem
from pyrite.errors import PyriteError
from pyrite.tensor.creation import tensor
from pyrite.tensor.tensor import Tensor
from pyrite.types import Array

#: What a result may differ from NumPy's by, relative to the greatest of its elements.
TOLERANCE = 1e-5


def verdict(name: str) -> str | None:
    """Return why a device is not fit to be a default, in one line; None when it is.

    >>> verdict("numpy")
    """
    if problem := device_problem(name):
        return problem
    if device(name).backend.is_software:
        return f"{name} is a GPU imitated by the processors"
    for what, compute, arrays in _tasks():
        want = _result(compute, arrays, "numpy")
        try:
            got = _result(compute, arrays, name)
        except PyriteError as error:
            return f"{name} cannot compute {what}: {str(error).splitlines()[0]}"
        if not np.allclose(got, want, rtol=TOLERANCE, atol=TOLERANCE * float(np.abs(want).max())):
            return f"{name} computes {what} wrongly"
    return None


def _result(compute: Callable[..., Tensor], arrays: list[Array], name: str) -> Array:
    return compute(*(tensor(a, device=name) for a in arrays)).numpy()


def _tasks() -> Iterator[tuple[str, Callable[..., Tensor], list[Array]]]:
    """One task for each family of kernels that a training step needs."""
    rng = np.random.default_rng(0)

    def draw(*shape: int) -> Array:
        return rng.standard_normal(shape).astype(np.float32)

    yield "elementwise", lambda x, y: (x * y + 1).gelu(), [draw(1000, 33), draw(33)]
    yield "sums", lambda x: x.sum(0) + x.sum(1).sum(), [draw(300, 77)]
    yield "softmax", lambda x: x.softmax(-1), [draw(50, 1000)]
    yield "matrix products", lambda x, y: x @ y, [draw(130, 67), draw(67, 95)]
    image, weight = draw(2, 3, 12, 12), draw(8, 3, 3, 3)
    yield "convolution", lambda x, w: x.conv2d(w, padding=1), [image, weight]
    yield "gradients", grad(lambda x, w: (x.conv2d(w) ** 2).sum()), [image, weight]


if __name__ == "__main__":
    print(json.dumps(verdict(sys.argv[1])))
