"""Calls of ops at sizes that are drawn, by families: what `benchmarks/new_size_stalls.py` measures.

A case is an op of the table and a function that draws an example call of it.  What a model keeps,
as features and windows, is the same in all calls of a case; batches, lengths and images differ.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from random import Random
from typing import Any, NamedTuple

from pyrite.op import Sample, integers, sample
from pyrite.op.example import Spec, bools

#: From a random number generator to an example call.
Draw = Callable[[Random], Sample]


class Case(NamedTuple):
    """An op, and what draws its calls."""

    op: str
    draw: Draw


# ---- products ----


def products(rng: Random) -> tuple[int, int, int]:
    """Return the sizes of a product."""
    m, k, n = (rng.randrange(9, 300) for _ in range(3))
    return m, k, n


def matmul(rng: Random) -> Sample:
    """Return a product of matrices of which every size is drawn."""
    m, k, n = products(rng)
    return sample((m, k), (k, n))


def matmuls(rng: Random) -> Sample:
    """Return a batch of such products."""
    (m, k, n), batch = products(rng), rng.randrange(2, 9)
    return sample((batch, m, k), (batch, k, n))


def matvec(rng: Random) -> Sample:
    """Return a product of a matrix and a vector."""
    m, k, _ = products(rng)
    return sample((m, k), (k,))


def batch_of(rng: Random) -> tuple[int, int]:
    """Return a batch and a length."""
    return rng.randrange(1, 21), rng.randrange(9, 300)


def linear(rng: Random) -> Sample:
    """Return a layer's product of a batch of rows."""
    return sample((*batch_of(rng), 128), (96, 128), (96,))


def linear_backward(rng: Random) -> Sample:
    """Return the gradients of such a layer."""
    batch = batch_of(rng)
    return sample((*batch, 96), (*batch, 128), (96, 128), argnums=(0, 1, 2))


PRODUCTS = {
    "matmul": Case("matmul", matmul),
    "matmul, batches": Case("matmul", matmuls),
    "matvec": Case("matvec", matvec),
    "linear": Case("linear", linear),
    "linear, gradients": Case("linear_backward", linear_backward),
}


# ---- convolutions ----

#: The least and the greatest size of an image, by the number of its axes.
IMAGE_SIZES = {1: (40, 200), 2: (12, 33), 3: (6, 12)}


class Layer(NamedTuple):
    """The weight of a convolution and how its windows lie."""

    weight: tuple[int, ...]
    padding: int = 0
    stride: int = 1
    groups: int = 1


LAYERS = {
    "conv1d 5": Layer((32, 16, 5), padding=2),
    "conv2d 3x3": Layer((32, 16, 3, 3), padding=1),
    "conv2d 3x3, 3 channels": Layer((32, 3, 3, 3), padding=1),
    "conv2d 3x3 by 2": Layer((32, 16, 3, 3), padding=1, stride=2),
    "conv2d 3x3, 4 groups": Layer((32, 4, 3, 3), padding=1, groups=4),
    "conv2d 1x1": Layer((32, 16, 1, 1)),
    "conv2d depthwise": Layer((32, 1, 3, 3), padding=1, groups=32),
    "conv2d patches": Layer((64, 3, 8, 8), stride=8),
    "conv3d 3x3x3": Layer((16, 8, 3, 3, 3), padding=1),
}


def convolutions() -> dict[str, Case]:
    """Return layers and their gradients, and transposed ones of one to three axes."""
    found: dict[str, Case] = {}
    for name, layer in LAYERS.items():
        rank = len(layer.weight) - 2
        found[name] = Case(f"conv{rank}d", partial(convolution, layer))
        found[f"{name}, gradient of x"] = Case(
            "convolution_input_gradient", partial(input_gradient, layer)
        )
        found[f"{name}, gradient of w"] = Case(
            "convolution_weight_gradient", partial(weight_gradient, layer)
        )
    for rank in IMAGE_SIZES:
        found[f"conv_transpose{rank}d"] = Case(f"conv_transpose{rank}d", partial(transposed, rank))
    return found


def images(layer: Layer, rng: Random) -> tuple[int, tuple[int, ...]]:
    """Return the size of a batch and those of its images."""
    rank = len(layer.weight) - 2
    return rng.randrange(2, 9), tuple(rng.randrange(*IMAGE_SIZES[rank]) for _ in range(rank))


def windows(layer: Layer) -> dict[str, Any]:
    """Return the attributes of a convolution and its gradients."""
    rank = len(layer.weight) - 2
    return {
        "stride": (layer.stride,) * rank, "padding": ((layer.padding,) * 2,) * rank,
        "dilation": (1,) * rank, "groups": layer.groups,
    }  # fmt: skip


def counts(layer: Layer, sizes: tuple[int, ...]) -> tuple[int, ...]:
    """Return how many windows there are along each axis."""
    pad, step = 2 * layer.padding, layer.stride
    return tuple((n + pad - k) // step + 1 for n, k in zip(sizes, layer.weight[2:], strict=True))


def convolution(layer: Layer, rng: Random) -> Sample:
    """Return a call of a layer with a bias."""
    batch, sizes = images(layer, rng)
    x = (batch, layer.weight[1] * layer.groups, *sizes)
    return sample(x, layer.weight, (layer.weight[0],), **windows(layer))


def input_gradient(layer: Layer, rng: Random) -> Sample:
    """Return the gradient of a layer's images."""
    batch, sizes = images(layer, rng)
    g = (batch, layer.weight[0], *counts(layer, sizes))
    return sample(g, layer.weight, sizes=sizes, **windows(layer))


def weight_gradient(layer: Layer, rng: Random) -> Sample:
    """Return the gradient of a layer's weight."""
    batch, sizes = images(layer, rng)
    x = (batch, layer.weight[1] * layer.groups, *sizes)
    g = (batch, layer.weight[0], *counts(layer, sizes))
    return sample(x, g, kernel_size=layer.weight[2:], **windows(layer))


def transposed(rank: int, rng: Random) -> Sample:
    """Return a transposed convolution that doubles its images."""
    sizes = tuple(rng.randrange(*IMAGE_SIZES[rank]) for _ in range(rank))
    weight = (16, 8, *(4,) * rank)
    return sample((rng.randrange(2, 9), 16, *sizes), weight, (8,), stride=2, padding=1)


# ---- rows ----


def rows(rng: Random) -> tuple[int, int, int]:
    """Return the shape of rows that are as many, and as long, as is drawn."""
    return rng.randrange(2, 9), rng.randrange(8, 60), rng.randrange(33, 600)


def of_rows(op: str, count: int = 1, **attrs: Any) -> Case:
    """Return the case of an op whose tensors have one shape."""
    return Case(op, lambda rng: sample(*(rows(rng),) * count, **attrs))


def of_features(op: str, *parts: str, **attrs: Any) -> Case:
    """Return the case of a norm of rows of 128 features: ``rows`` and ``features`` by name."""

    def draw(rng: Random) -> Sample:
        shapes = {"rows": (*rows(rng)[:2], 128), "features": (128,)}
        return sample(*(shapes[part] for part in parts), **attrs)

    return Case(op, draw)


def of_images(op: str, *parts: str, **attrs: Any) -> Case:
    """Return the case of a norm of images of 32 channels: ``images`` and ``channels`` by name."""

    def draw(rng: Random) -> Sample:
        sizes = rng.randrange(8, 30), rng.randrange(8, 30)
        shapes = {"images": (rng.randrange(2, 9), 32, *sizes), "channels": (32,)}
        return sample(*(shapes[part] for part in parts), **attrs)

    return Case(op, draw)


SOFTMAX = {
    "softmax": of_rows("softmax"),
    "softmax, gradient": of_rows("softmax_backward", 2),
    "log_softmax": of_rows("log_softmax"),
    "log_softmax, gradient": of_rows("log_softmax_backward", 2),
    "logsumexp": of_rows("logsumexp", axis=-1),
    "vector_norm": of_rows("vector_norm", axis=-1),
    "var": of_rows("var", axis=-1),
    "cosine_similarity": of_rows("cosine_similarity", 2),
}

GRADIENTS = {"eps": 1e-5, "argnums": (0, 1, 2)}
NORMS = {
    "layer_norm": of_features("layer_norm", "rows", "features", "features"),
    "layer_norm, lengths": Case("layer_norm", lambda rng: sample(rows(rng), None, None)),
    "layer_norm, gradients": of_features(
        "layer_norm_backward", "rows", "rows", "features", axis=(2,), **GRADIENTS
    ),
    "rms_norm": of_features("rms_norm", "rows", "features"),
    "rms_norm, gradients": of_features(
        "rms_norm_backward", "rows", "rows", "features", axis=(2,), eps=1e-5, argnums=(0, 1)
    ),
    "group_norm": of_images("group_norm", "images", "channels", "channels", num_groups=8),
    "group_norm, gradients": of_images(
        "group_norm_backward", "images", "images", "channels", num_groups=8, **GRADIENTS
    ),
    "batch_norm": of_images("batch_norm", "images", "channels", "channels"),
    "batch_norm, gradients": of_images(
        "batch_norm_backward", "images", "channels", "channels", "images", "channels", **GRADIENTS
    ),
    "batch_norm, inference": of_images("batch_norm_inference", "images", *["channels"] * 4),
}

FOLDS = {
    "sum of rows": of_rows("sum", axis=-1),
    "sum of columns": of_rows("sum", axis=0),
    "sum of all": of_rows("sum"),
    "mean": of_rows("mean", axis=-1),
    "max": of_rows("max", axis=-1),
    "prod": of_rows("prod", axis=1),
    "argmax": of_rows("argmax", axis=-1),
    "any": Case("any", lambda rng: sample(bools(rows(rng)), axis=-1)),
    "cumulative_sum": of_rows("cumulative_sum", axis=-1),
    "cumulative_logsumexp": of_rows("cumulative_logsumexp", axis=1),
}


# ---- maps ----


def added(rng: Random) -> Sample:
    """Return a sum of rows and one row, which is stretched."""
    shape = rows(rng)
    return sample(shape, shape[-1:])


def joined(rng: Random) -> Sample:
    """Return two matrices one below the other."""
    *_, length = rows(rng)
    return sample((rng.randrange(50, 500), length), (rng.randrange(3, 90), length), axis=0)


def updated(rng: Random) -> Sample:
    """Return a matrix with a part of it replaced."""
    m, n = rng.randrange(50, 500), rng.randrange(30, 300)
    size = rng.randrange(3, 40), rng.randrange(3, 20)
    return sample((m, n), size, shape=(m, n), start=(2, 3), size=size, step=(1, 1))


MAPS = {
    "add": Case("add", added),
    "gelu": of_rows("gelu"),
    "where": Case("where", lambda rng: (lambda s: sample(bools(s), s, s))(rows(rng))),
    "concat": Case("concat", joined),
    "slice_update": Case("slice_update", updated),
    "band": Case("band", lambda rng: sample(rows(rng)[1:], low=0, high=None)),
    "roll": of_rows("roll", shift=3, axis=-1),
    "split_heads": Case("split_heads", lambda rng: sample((*rows(rng)[:2], 128), heads=4)),
    "join_heads": Case("join_heads", lambda rng: sample((rows(rng)[0], 4, rows(rng)[1], 32))),
    "dropout": Case(
        "dropout", lambda rng: (lambda s: sample(s, Spec(s, "uint"), p=0.1))(rows(rng))
    ),
}


# ---- attention ----


def attention(
    rng: Random, *, queries: int | None = None, is_masked: bool = False, dropout_p: float = 0.0,
    is_causal: bool = False,
) -> Sample:  # fmt: skip
    """Return attention of four heads of 32 features."""
    batch, length = rng.randrange(1, 6), rng.randrange(9, 200)
    count = queries or length
    mask = bools((batch, 1, count, length)) if is_masked else None
    key = Spec((2,), "uint") if dropout_p else None
    q, k = (batch, 4, count, 32), (batch, 4, length, 32)
    return sample(q, k, k, mask, None, key, is_causal=is_causal, dropout_p=dropout_p)


def attention_gradients(
    rng: Random, *, is_masked: bool = False, dropout_p: float = 0.0, is_causal: bool = False
) -> Sample:
    """Return the gradients of such attention."""
    batch, length = rng.randrange(1, 6), rng.randrange(9, 200)
    mask = bools((batch, 1, length, length)) if is_masked else None
    key = Spec((2,), "uint") if dropout_p else None
    x = (batch, 4, length, 32)
    return sample(
        x, x[:-1], x, x[:-1], x, x, x, mask, None, key, is_causal=is_causal, scale=0.2,
        softcap=None, dropout_p=dropout_p, argnums=(0, 1, 2),
    )  # fmt: skip


def attentions() -> dict[str, Case]:
    """Return attention and its gradients, plain and with what may be added."""
    ways: dict[str, dict[str, Any]] = {
        "": {}, ", causal": {"is_causal": True}, ", mask": {"is_masked": True},
        ", dropout": {"dropout_p": 0.1},
    }  # fmt: skip
    op = "scaled_dot_product_attention"
    found = {f"attention{name}": Case(op, partial(attention, **how)) for name, how in ways.items()}
    found["attention, one query"] = Case(op, partial(attention, queries=1))
    for name, how in ways.items():
        found[f"attention{name}, gradients"] = Case(
            f"{op}_backward", partial(attention_gradients, **how)
        )
    return found


# ---- gathers and scatters ----


def table(rng: Random) -> tuple[int, int]:
    """Return the shape of a table."""
    return rng.randrange(50, 500), rng.randrange(3, 200)


def taken(rng: Random) -> Sample:
    """Return rows of a table."""
    shape, count = table(rng), rng.randrange(5, 400)
    return sample(shape, integers((count,), 0, shape[0]), axis=0)


def taken_along(rng: Random) -> Sample:
    """Return elements of a table, of each column others."""
    shape, count = table(rng), rng.randrange(5, 400)
    return sample(shape, integers((count, shape[1]), 0, shape[0]), axis=0)


def taken_at(rng: Random) -> Sample:
    """Return elements at coordinates."""
    shape, count = table(rng), rng.randrange(5, 400)
    return sample(shape, integers((count, 2), 0, min(shape)))


def embedded(rng: Random) -> Sample:
    """Return rows of a model's embeddings."""
    return sample((500, 64), integers(batch_of(rng), 0, 500))


def embedding_gradient(rng: Random) -> Sample:
    """Return the gradient of such embeddings."""
    batch = batch_of(rng)
    return sample(integers(batch, 0, 500), (*batch, 64), rows=500)


def scattered(reduction: str, rng: Random) -> Sample:
    """Return a table with updates of elements, of each column others."""
    shape, count = table(rng), rng.randrange(5, 400)
    updates = (count, shape[1])
    return sample(
        shape, integers(updates, 0, shape[0]), updates, shape=shape, axis=0, reduction=reduction
    )


def scattered_at(rng: Random) -> Sample:
    """Return a table with updates of rows."""
    shape, count = table(rng), rng.randrange(5, 400)
    updates = (count, shape[1])
    return sample(shape, integers((count, 1), 0, shape[0]), updates, shape=shape, reduction="add")


GATHERS = {
    "take": Case("take", taken),
    "take_along_axis": Case("take_along_axis", taken_along),
    "gather_nd": Case("gather_nd", taken_at),
    "embedding": Case("embedding", embedded),
}
SCATTERS = {
    "scatter": Case("scatter", partial(scattered, "add")),
    "scatter_reduce": Case("scatter_reduce", partial(scattered, "max")),
    "scatter_nd": Case("scatter_nd", scattered_at),
    "embedding, gradient": Case("embedding_backward", embedding_gradient),
    "bincount": Case(
        "bincount_within", lambda rng: sample(integers((table(rng)[0],), 0, 50), None, size=50)
    ),
}


# ---- windows ----


def pooled(rng: Random, **attrs: Any) -> Sample:
    """Return a pool of images of 16 channels."""
    sizes = rng.randrange(9, 40), rng.randrange(9, 40)
    return sample((rng.randrange(2, 10), 16, *sizes), **attrs)


def max_pool_gradient(rng: Random) -> Sample:
    """Return the gradient of a pool of windows of 2."""
    counts = rng.randrange(4, 20), rng.randrange(4, 20)
    sizes = tuple(2 * n for n in counts)
    g = (rng.randrange(2, 10), 16, *counts)
    one, two, none = (1, 1), (2, 2), ((0, 0), (0, 0))
    windows = (two, two, none, one)
    return sample(g, integers(g, 0, sizes[0] * sizes[1]), sizes=sizes, windows=windows)


def folded(rng: Random) -> Sample:
    """Return columns of windows of 3 that are put back into images of 16 channels."""
    height, width = rng.randrange(9, 40), rng.randrange(9, 40)
    return sample(
        (rng.randrange(2, 10), 16 * 9, height * width), output_size=(height, width),
        kernel_size=3, stride=1, padding=1, dilation=1,
    )  # fmt: skip


def resized_gradient(rng: Random) -> Sample:
    """Return the gradient of images that were made twice as large."""
    sizes = rng.randrange(9, 40), rng.randrange(9, 40)
    g = (rng.randrange(2, 10), 16, 2 * sizes[0], 2 * sizes[1])
    return sample(g, sizes=sizes, scale_factor=(2.0, 2.0), mode="linear", align_corners=False)


def read_at_points(rng: Random) -> Sample:
    """Return images that are read at the points of a grid, some of which lie outside."""
    batch = rng.randrange(2, 10)
    x = (batch, 16, rng.randrange(9, 40), rng.randrange(9, 40))
    grid = Spec((batch, rng.randrange(9, 40), rng.randrange(9, 40), 2), low=-1.2, high=1.2)
    return sample(x, grid, mode="linear", padding_mode="zeros", align_corners=False)


WINDOWS = {
    "max_pool 2": Case("max_pool", partial(pooled, kernel_size=2)),
    "max_pool 2, gradient": Case("max_pool_backward", max_pool_gradient),
    "avg_pool 3": Case("avg_pool", partial(pooled, kernel_size=3, padding=1)),
    "unfold 3": Case("unfold4d", partial(pooled, kernel_size=3, padding=1)),
    "fold 3": Case("fold4d", folded),
    "interpolate": Case("interpolate", partial(pooled, scale_factor=2, mode="bilinear")),
    "interpolate, gradient": Case("interpolate_backward", resized_gradient),
    "grid_sample": Case("grid_sample", read_at_points),
}


# ---- recurrent layers ----


def recurrent(gates: int, states: int, rng: Random, *, is_gradient: bool = False) -> Sample:
    """Return a layer of 32 features over a batch of sequences, or its gradients."""
    steps, batch, size = rng.randrange(3, 40), rng.randrange(2, 20), 32
    state, sequence = (batch, size), (steps, batch, size)
    weights = [(gates * size, size)] * 2 + [(gates * size,)] * 2
    layer = [sequence, *weights, *[state] * states]
    if not is_gradient:
        return sample(*layer)
    out = [sequence, *[state] * states, sequence]
    kept = [None] * (states if gates > 1 else 0)
    return sample(*out, *layer, *kept, argnums=tuple(range(5 + states)))


RECURRENT = {
    f"{name}{', gradients' if is_gradient else ''}": Case(
        f"{name}{'_backward' if is_gradient else ''}",
        partial(recurrent, gates, states, is_gradient=is_gradient),
    )
    for name, gates, states in (("rnn", 1, 1), ("gru", 3, 1), ("lstm", 4, 2))
    for is_gradient in (False, True)
}


# ---- losses and optimisers ----


def entropy(rng: Random) -> Sample:
    """Return a loss of logits and classes."""
    count, classes = rng.randrange(8, 400), rng.randrange(5, 500)
    return sample((count, classes), integers((count,), 0, classes), None)


def entropy_gradient(rng: Random) -> Sample:
    """Return its gradient of the logits."""
    count, classes = rng.randrange(8, 400), rng.randrange(5, 500)
    return sample(
        (count,), (count, classes), integers((count,), 0, classes), None, axis=-1,
        label_smoothing=0.0, ignore_index=None, argnums=(0,),
    )  # fmt: skip


def binary(rng: Random) -> Sample:
    """Return a loss of logits of two classes."""
    shape = table(rng)
    return sample(shape, shape, None)


LOSSES = {
    "cross_entropy": Case("cross_entropy", entropy),
    "cross_entropy, gradient": Case("cross_entropy_backward", entropy_gradient),
    "binary_cross_entropy": Case("binary_cross_entropy_with_logits", binary),
}


def step(op: str, tensors: int, *numbers: float | None, **attrs: Any) -> Case:
    """Return the step of a parameter whose shape is drawn."""
    return Case(op, lambda rng: sample(*(table(rng),) * tensors, *numbers, **attrs))


ADAM = {"beta1": 0.9, "beta2": 0.99, "eps": 1e-8}
OPTIMISERS = {
    "sgd": step("sgd_update", 2, 0.1, weight_decay=0.0),
    "momentum": step(
        "momentum_update", 3, 0.1, 1.0, momentum=0.9, nesterov=False, weight_decay=0.0
    ),
    "adam": step("adam_update", 4, None, 0.1, 0.5, 0.5, weight_decay=0.0, **ADAM),
    "adamw": step("adamw_update", 4, None, 0.1, 0.5, 0.5, 0.1, cautious=False, **ADAM),
    "rmsprop": step(
        "rmsprop_update", 3, None, None, 0.1, weight_decay=0.0, alpha=0.9, momentum=0.0, eps=1e-8
    ),
    "lion": step("lion_update", 3, 0.1, 0.01, beta1=0.9, beta2=0.99),
}

ORDERS = {
    "sort": Case("sort", lambda rng: sample(table(rng), axis=-1)),
    "topk": Case("argtopk", lambda rng: sample(table(rng), k=3)),
}

#: Cases by their names, by families.
FAMILIES: Mapping[str, Mapping[str, Case]] = {
    "products": PRODUCTS, "convolutions": convolutions(), "rows": SOFTMAX, "folds": FOLDS,
    "maps": MAPS, "attention": attentions(), "gathers": GATHERS, "scatters": SCATTERS,
    "windows": WINDOWS, "norms": NORMS, "recurrent": RECURRENT, "losses": LOSSES,
    "optimisers": OPTIMISERS, "orders": ORDERS,
}  # fmt: skip
