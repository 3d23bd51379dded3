"""Examples of ops at larger sizes: those that reach vectors, tiles, masks and several threads.

The examples in the records are small, so that their gradients can be judged by differences.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from pyrite.errors import PyriteError
from pyrite.op import OPS, Sample, Spec, distinct, integers, sample
from pyrite.testing.examples import Example
from pyrite.types import element_count, float32

#: Attributes that say sizes of the inputs or of the result.
_SIZES = ("shape", "size", "k", "sizes", "output_size", "rows", "kernel_size")

#: Gradients as ops: derivatives give them what fits, so their records need not test it.
_GRADIENTS = ("_backward", "_gradient")

#: Elements that an input, and a result, may have.
_MOST = 20_000

#: How often sizes are drawn before an example is left as it is.
_ATTEMPTS = 12

_IMAGES = (3, 16, 10, 10)

_STEPS = {"stride": (1, 1), "padding": ((0, 0), (0, 0)), "dilation": (1, 1), "groups": 1}

#: Calls of gradients, at sizes as in `LARGE`.
_LARGE_GRADIENTS: dict[str, tuple[Sample, ...]] = {
    "adaptive_avg_pool_backward": (sample((3, 16, 4, 3), sizes=(10, 10)),),
    "avg_pool_backward": (
        sample(
            (3, 16, 5, 5),
            sizes=(10, 10),
            kernel_size=(2, 2),
            stride=(2, 2),
            padding=((0, 0), (0, 0)),
            ceil_mode=False,
            count_include_pad=False,
        ),
    ),
    "batch_norm_backward": (
        sample(_IMAGES, (16,), (16,), _IMAGES, (16,), eps=0.1, argnums=(0, 1, 2)),
    ),
    "convolution_input_gradient": (sample((3, 8, 8, 8), (8, 16, 3, 3), sizes=(10, 10), **_STEPS),),
    "convolution_weight_gradient": (sample(_IMAGES, (3, 8, 8, 8), kernel_size=(3, 3), **_STEPS),),
    "group_norm_backward": (
        sample(_IMAGES, _IMAGES, (16,), num_groups=4, eps=0.1, argnums=(0, 1, 2)),
        sample((129, 32), (129, 32), (32,), num_groups=4, eps=0.1, argnums=(0, 1)),
    ),
    "interpolate_backward": (
        sample(
            (2, 8, 13, 7), sizes=(10, 10), scale_factor=None, mode="linear", align_corners=False
        ),
    ),
    "layer_norm_backward": (
        sample((129, 33), (129, 33), (33,), axis=-1, eps=0.1, argnums=(0, 1, 2)),
    ),
    "linear_backward": (sample((129, 65), (129, 33), (65, 33), argnums=(0, 1, 2)),),
    "log_softmax_backward": (sample((129, 33), (129, 33), axis=0),),
    "rms_norm_backward": (sample((129, 33), (129, 33), (33,), axis=-1, eps=0.1, argnums=(0, 1)),),
    "softmax_backward": (sample((129, 33), (129, 33)),),
}

#: Calls at sizes that no example grows to: several workgroups, rows that are no whole vectors.
LARGE: dict[str, tuple[Sample, ...]] = _LARGE_GRADIENTS | {
    "add": (sample((129, 33), (129, 33)), sample(_IMAGES, (16, 1, 1))),
    "avg_pool": (
        sample(_IMAGES, kernel_size=3, stride=2, padding=1),
        sample(_IMAGES, kernel_size=2, stride=1),
    ),
    "batch_norm_inference": (sample(_IMAGES, (16,), (16,), (16,), (16,)),),
    "conv2d": (
        sample(_IMAGES, (8, 16, 3, 3), (8,), padding=1),
        sample(_IMAGES, (32, 4, 3, 3), None, groups=4, stride=2),
    ),
    "conv1d": (sample((2, 8, 65), (24, 8, 5), (24,)),),
    "conv_transpose2d": (
        sample(_IMAGES, (16, 4, 3, 3), None),
        sample(_IMAGES, (16, 8, 2, 2), (8,), stride=2),
    ),
    "cumulative_sum": (sample((129, 33), axis=0), sample((129, 33), axis=1)),
    "fold4d": (sample((2, 36, 80), output_size=(10, 12), kernel_size=3),),
    "group_norm": (
        sample(_IMAGES, (16,), (16,), num_groups=4),
        sample(_IMAGES, (16,), None, num_groups=16),
        sample((2, 8, 33, 17), None, (8,), num_groups=2),
        sample((129, 32), (32,), (32,), num_groups=4),
    ),
    "interpolate": (
        sample(_IMAGES, size=(13, 7), mode="bilinear"),
        sample(_IMAGES, scale_factor=2),
        sample((2, 8, 33), size=50, mode="cubic"),
    ),
    "layer_norm": (sample((129, 33), (33,), (33,)), sample(_IMAGES, None, None, axis=1)),
    "linear": (sample((129, 33), (65, 33), (65,)),),
    "matmul": (
        sample((129, 33), (33, 65)),
        sample((2, 33, 17), (17, 40)),
        sample((3, 1, 20, 31), (4, 31, 9)),
    ),
    "max_pool": (sample(distinct(_IMAGES), kernel_size=3, stride=2, padding=1),),
    "mean": (sample((129, 33), axis=0), sample(_IMAGES, axis=(2, 3))),
    "scaled_dot_product_attention": (
        sample((2, 4, 33, 16), (2, 4, 40, 16), (2, 4, 40, 24), None, None, None),
    ),
    "softmax": (sample((129, 33)), sample((129, 33), axis=0), sample((2, 8, 33, 17), axis=1)),
    "sort": (sample(distinct((129, 33))), sample(distinct((129, 33)), axis=0)),
    "sum": (sample((129, 33), axis=0), sample((129, 33), axis=1), sample((2, 8, 33, 17), axis=2)),
    "take": (sample((129, 33), integers((40,), 0, 129), axis=0),),
    "topk": (sample(distinct((129, 33)), k=5),),
    "unfold4d": (sample(_IMAGES, kernel_size=3, padding=1), sample(_IMAGES, kernel_size=2)),
}


def large_examples(op: str) -> Iterator[Example]:
    """Give the calls of `LARGE` of an op, numbered from 1000 on."""
    for number, found in enumerate(LARGE.get(op, ())):
        yield Example(OPS[op], 1000 + number, found)


def grown(example: Example, rng: random.Random) -> Example | None:
    """Return the example with other sizes for those of its axes, None where none are taken.

    Axes of one size stay axes of one size, and so do attributes that say it.
    """
    if not example.op.is_elementwise and example.op.name.endswith(_GRADIENTS):
        return None
    specs = [i for i in example.sample.inputs if isinstance(i, Spec)]
    sizes = sorted({n for spec in specs for n in spec.shape if n > 1})
    for _ in range(_ATTEMPTS):
        to = {n: rng.choice([n, n, 1, 2 * n, 3 * n + 1, 16, 33]) for n in sizes}
        if all(to[n] == n for n in sizes):
            continue
        for candidate in _resized(example, to):
            if _is_taken(candidate):
                return candidate
    return None


def _resized(example: Example, to: dict[int, int]) -> Iterator[Example]:
    """Give the example with sizes changed in its inputs, and then in its attributes too."""
    inputs = tuple(
        replace(i, shape=tuple(to.get(n, n) for n in i.shape)) if isinstance(i, Spec) else i
        for i in example.sample.inputs
    )
    attrs = example.sample.attrs
    changed = {name: _mapped(v, to) if name in _SIZES else v for name, v in attrs.items()}
    for found in [attrs] if changed == attrs else [changed, attrs]:
        yield replace(example, sample=Sample(inputs, found))


def _mapped(attribute: Any, to: dict[int, int]) -> Any:
    if isinstance(attribute, tuple):
        return tuple(_mapped(n, to) for n in attribute)
    return to.get(attribute, attribute) if type(attribute) is int else attribute


def _is_taken(example: Example) -> bool:
    """Whether the op takes such inputs, and neither they nor its results are too large."""
    inputs = (i for i in example.sample.inputs if isinstance(i, Spec))
    if any(element_count(i.shape) > _MOST for i in inputs):
        return False
    try:
        with np.errstate(all="ignore"):
            results = example.run(float32, "numpy")
    except (PyriteError, ValueError, IndexError, TypeError):
        return False
    return all(r.size <= _MOST for r in results)
