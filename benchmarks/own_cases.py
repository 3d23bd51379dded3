"""Calls of the ops for which a backend has something of its own, at sizes that programs have.

A case is a sample of the op, as in its record; `benchmarks/own.py` runs each on the device's own
means and by the op's rule or body.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyrite.op import Sample, integers, sample
from pyrite.op.example import Spec
from pyrite.types import float32, int32, int64

#: Elements of a large tensor, and of one in the caches.
LARGE, SMALL = (1024, 1024), (64, 256)
IMAGES, FEATURES = (8, 32, 56, 56), (4, 64, 14, 14)


def indices(shape: tuple[int, ...], end: int) -> Spec:
    """Return random integers from 0 to an end."""
    return integers(shape, 0, end)


def of(*inputs: Any, **attrs: Any) -> Sequence[Sample]:
    """Return a call of tensors of a shape, small and large: ``...`` stands for it."""
    return [
        sample(*(shape if i is ... else i for i in inputs), **attrs) for shape in (SMALL, LARGE)
    ]


def recurrent(gates: int, states: int, *, is_gradient: bool = False) -> Sequence[Sample]:
    """Return a layer of short and of long sequences, or its gradients."""
    found = []
    for steps, batch, size in ((16, 4, 32), (64, 32, 128)):
        state = (batch, size)
        weights = [(gates * size, size)] * 2 + [(gates * size,)] * 2
        layer = [(steps, batch, size), *weights, *[state] * states]
        if is_gradient:
            out = [(steps, batch, size), *[state] * states, (steps, batch, size)]
            argnums = tuple(range(5 + states))
            # What a tape would have kept of the gates is made again.
            kept = [None] * (states if gates > 1 else 0)
            found.append(sample(*out, *layer, *kept, argnums=argnums))
        else:
            found.append(sample(*layer))
    return found


def pools(**attrs: Any) -> Sequence[Sample]:
    """Return pools of windows that touch and of windows that overlap."""
    return [
        sample(IMAGES, kernel_size=2, **attrs),
        sample(IMAGES, kernel_size=3, stride=2, padding=1, **attrs),
        sample(FEATURES, kernel_size=3, stride=1, padding=1, **attrs),
    ]


def pool_gradients() -> Sequence[Sample]:
    """Return gradients of such pools, of indices anywhere."""
    found = []
    for sizes, window, pad, stride in (
        ((8, 32, 28, 28), 2, 0, 2), ((8, 32, 28, 28), 3, 1, 2), ((8, 32, 56, 56), 3, 1, 1),
    ):  # fmt: skip
        windows = ((window,) * 2, (stride,) * 2, ((pad, pad),) * 2, (1, 1))
        found.append(sample(sizes, indices(sizes, 56 * 56), sizes=(56, 56), windows=windows))
    return found


STEP = {"beta1": 0.9, "beta2": 0.99, "eps": 1e-8}
MUON = {"coefficients": (3.4445, -4.775, 2.0315), "steps": 5, "eps": 1e-7}
CONVOLUTION = {"stride": (1, 1), "padding": ((1, 1), (1, 1)), "dilation": (1, 1), "groups": 1}
ROWS: Any = ((256, 10), (64, 1000), (64, 50_257))

#: Of each op, by its name.
CASES: Mapping[str, Sequence[Sample]] = {
    "adagrad_update": of(..., ..., ..., 0.1, eps=1e-10, weight_decay=0.0),
    "adam_update": of(..., ..., ..., ..., None, 0.1, 0.5, 0.5, weight_decay=0.0, **STEP),
    "adamw_update": of(..., ..., ..., ..., None, 0.1, 0.5, 0.5, 0.1, cautious=False, **STEP),
    "adan_update": of(..., ..., ..., ..., ..., ..., 0.1, 0.5, 0.5, 0.5, 0.1, no_prox=False,
                      beta3=0.9, **STEP),
    "adaptive_max_pool_with_indices": [sample(IMAGES, output_size=7),
                                       sample(FEATURES, output_size=5)],
    "all": of(...), "any": of(...), "argmax": of(..., axis=-1), "argmin": of(..., axis=0),
    "arange": [sample(2, 3, size=n, dtype=d) for n in (1000, 1 << 20) for d in (int32, int64)],
    "argtopk": [sample(shape, k=8) for shape in (SMALL, LARGE)],
    "astype": [sample(LARGE, dtype=float32)],
    "avg_pool": pools(),
    "avg_pool_backward": [
        sample((8, 32, 28, 28), sizes=(56, 56), kernel_size=(3, 3), stride=(2, 2),
               padding=((1, 1), (1, 1)), ceil_mode=False, count_include_pad=True)
    ],
    "band": of(..., low=0, high=None),
    "batch_norm": [sample(IMAGES, (32,), (32,), eps=1e-5)],
    "batch_norm_backward": [sample(IMAGES, (32,), (32,), IMAGES, (32,), eps=1e-5,
                                   argnums=(0, 1, 2))],
    "batch_norm_inference": [sample(IMAGES, (32,), (32,), (32,), (32,), eps=1e-5)],
    "bincount_within": [sample(indices((n,), 100), None, size=100) for n in (1000, 1 << 20)],
    "broadcast_to": of((256,), shape=(64, 256)),
    "class_mask": [sample(indices((64,), 1000), classes=1000, axis=1)],
    "concat": of(..., ..., axis=1),
    "conv1d": [sample((8, 32, 512), (32, 32, 3), (32,), padding=1)],
    "conv2d": [sample(FEATURES, (64, 64, 3, 3), (64,), padding=1)],
    "conv3d": [sample((2, 8, 16, 16, 16), (8, 8, 3, 3, 3), (8,), padding=1)],
    "convolution": [sample(FEATURES, (64, 64, 3, 3), stride=1, padding=1)],
    "convolution_input_gradient": [sample(FEATURES, (64, 64, 3, 3), sizes=(14, 14),
                                          **CONVOLUTION)],
    "convolution_weight_gradient": [sample(FEATURES, FEATURES, kernel_size=(3, 3),
                                           **CONVOLUTION)],
    "cross_entropy": [sample(s, indices(s[:1], s[1]), None) for s in ROWS],
    "cross_entropy_backward": [
        sample(s[:1], s, indices(s[:1], s[1]), None, axis=-1, label_smoothing=0.0,
               ignore_index=None, argnums=(0,)) for s in ROWS
    ],
    "cumulative_argmax": of(..., axis=1), "cumulative_argmin": of(..., axis=1),
    "cumulative_logsumexp": of(..., axis=1), "cumulative_prod": of(..., axis=1),
    "cumulative_sum": of(..., axis=1),
    "dropout": [sample(s, Spec(s, "uint"), p=0.1) for s in (SMALL, LARGE)],
    "embedding": [sample((5000, 256), indices((64, 32), 5000))],
    "embedding_backward": [sample(indices((64, 32), 5000), (64, 32, 256), rows=5000)],
    "fold4d": [sample((8, 288, 3136), output_size=(56, 56), kernel_size=3, padding=1)],
    "full": [sample(1.5, shape=s, dtype=float32) for s in (SMALL, LARGE)],
    "gather_nd": [sample((512, 512), indices((4096, 2), 512))],
    "gelu": of(...), "gelu_backward": of(..., ...),
    "gradient_scaled": of(..., ()),
    "group_norm": [sample(IMAGES, (32,), (32,), num_groups=8, eps=1e-5),
                   sample(FEATURES, (64,), (64,), num_groups=8, eps=1e-5)],
    "group_norm_backward": [
        sample(s, s, (s[1],), num_groups=8, eps=1e-5, argnums=(0, 1, 2))
        for s in (IMAGES, FEATURES)
    ],
    "gru": recurrent(3, 1), "gru_backward": recurrent(3, 1, is_gradient=True),
    # Edges that are sorted: all bins but the last are empty.
    "histogram_within": [
        sample(integers((n,), 0, 4), integers((33,), 2, 3)) for n in (1000, 1 << 20)
    ],
    "is_last_scattered": [sample(indices((64, 1000), 300), shape=(64, 300), axis=1)],
    "is_last_scattered_nd": [sample(indices((4096, 2), 100), shape=(100, 100))],
    "join_heads": [sample((8, 8, 64, 32))],
    "layer_norm": of(..., None, None),
    "layer_norm_backward": of(..., ..., None, axis=-1, eps=1e-5, argnums=(0,)),
    "lerp": of(..., ..., 0.3),
    "linear": [sample((64, 256), (128, 256), (128,)), sample((512, 1024), (1024, 1024), (1024,))],
    "linear_backward": [sample((64, 128), (64, 256), (128, 256), argnums=(0, 1, 2))],
    "linear_recurrence": [sample((64, 256), (63, 256), axis=0)],
    "linear_weight_gradient": [sample((64, 128), (64, 256))],
    "lion_update": of(..., ..., ..., 0.1, 0.01, beta1=0.9, beta2=0.99),
    "log_sigmoid": of(...),
    "log_softmax": of(...), "log_softmax_backward": of(..., ...),
    "lstm": recurrent(4, 2), "lstm_backward": recurrent(4, 2, is_gradient=True),
    "matmul": of(..., (256, 128))[:1] + of(..., LARGE)[1:],  # type: ignore[operator]
    "max": of(..., axis=-1), "max_of_numbers": of(..., axis=-1), "mean": of(..., axis=-1),
    "max_pool": pools(), "max_pool_with_indices": pools(),
    "max_pool_backward": pool_gradients(),
    "min": of(..., axis=0),
    "momentum_update": of(..., ..., ..., 0.1, 1.0, momentum=0.9, nesterov=False,
                          weight_decay=0.0),
    "muon_update": [sample(s, s, s, 0.1, 0.0, nesterov=True, momentum=0.95, **MUON)
                    for s in ((64, 64), (256, 512))],
    "newton_schulz": [sample(s, **MUON) for s in ((64, 64), (512, 256))],
    "norm_of_all": [sample(SMALL, LARGE, (256,))],
    "overlap_add": [sample((64, 400), axis=0, length=10_480, step=160),
                    sample((1000, 16), axis=0, length=1015, step=1)],
    "permute_dims": of(..., axes=(1, 0)),
    "prod": of(..., axis=-1),
    "random_bits": [sample(1, 2, 3, 4, 5, shape=(n,)) for n in (1000, 1 << 20)],
    "relu": of(...), "relu_backward": of(..., ...),
    "resample": [sample((8, 56, 56), indices((224,), 56), (224,), lines=((1, 112, 2),),
                        skips=False)],
    "reshape": [sample(LARGE, shape=(1 << 20,))],
    "rmsprop_update": of(..., ..., ..., None, None, 0.1, weight_decay=0.0, alpha=0.9,
                         momentum=0.0, eps=1e-8),
    "rnn": recurrent(1, 1), "rnn_backward": recurrent(1, 1, is_gradient=True),
    "running_moments": [sample((64,), (64,), (64,), (64,), indices((), 2), 0.1, 1.25)],
    "scaled_dot_product_attention": [
        sample((4, 8, n, 64), (4, 8, n, 64), (4, 8, n, 64), None, None, None) for n in (64, 256)
    ],
    "scaled_dot_product_attention_backward": [
        sample(s, s[:-1], s, s[:-1], s, s, s, None, None, None, is_causal=False, scale=0.125,
               softcap=None, dropout_p=0.0, argnums=(0, 1, 2))
        for s in ((4, 8, 64, 64), (4, 8, 256, 64))
    ],
    "scatter": [sample((64, 300), indices((64, 1000), 300), (64, 1000), shape=(64, 300), axis=1,
                       reduction="add")],
    "scatter_nd": [sample((100, 100), indices((4096, 2), 100), (4096,), shape=(100, 100),
                          reduction="add")],
    "scatter_nd_reduce": [sample((100, 100), indices((4096, 2), 100), (4096,), shape=(100, 100),
                                 reduction="mul")],
    "scatter_reduce": [sample((64, 300), indices((64, 1000), 300), (64, 1000), shape=(64, 300),
                              axis=1, reduction="max")],
    "sgd_update": of(..., ..., 0.1, weight_decay=0.0),
    "sigmoid": of(...), "silu": of(...), "silu_backward": of(..., ...),
    "slice": of(..., start=(1, 3), size=(60, 200), step=(1, 1)),
    "slice_update": of(..., (60, 200), shape=SMALL, start=(1, 3), size=(60, 200),
                       step=(1, 1))[:1],
    "sliding_window": [sample((16_000,), axis=0, size=400, step=160)],
    "softmax": of(...), "softmax_backward": of(..., ...),
    "split_heads": [sample((8, 64, 256), heads=8)],
    "sum": [*of(..., axis=-1), *of(..., axis=0), *of(...)],
    "take": [sample((5000, 256), indices((64, 32), 5000), axis=0)],
    "take_along_axis": [sample((64, 1000), indices((64, 300), 1000), axis=1)],
    "unfold4d": [sample(FEATURES, kernel_size=3, padding=1)],
}  # fmt: skip
