"""How long a known op stalls at a size that was never seen before, op by op.

    python benchmarks/new_size_stalls.py [--device cpu] [--sizes 16] [--rounds 3] [--only conv]

Each op meets one size, which compiles its kernels, and after a pause in which some are compiled
ahead others in an order that is drawn.  The
stall of a size is what its first call takes beyond a later one of the same size: planning, the
choice of configs, and kernels where some are compiled.  What is counted is processor time of the
calling thread, so other programs on the machine do not show; of several rounds, each in a process
of its own without kept kernels, the least.  A row has the first size's stall, the median and the
greatest of the others, in milliseconds, and how many kernels these compiled in all.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from time import thread_time
from typing import Any

import numpy as np

#: From a random number generator to a call of an op at sizes that it draws.
Draw = Callable[[random.Random], Callable[[], Any]]


def main() -> None:
    """Print the table, of measurements in processes of their own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--sizes", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="ops whose names contain it")
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        for name, stalls, kernels in measured(given.device, given.sizes, given.only):
            print(json.dumps([name, stalls, kernels]), flush=True)
        return
    environment = {**os.environ, "PYRITE_CACHE": "off", "PYRITE_THREADS": "1"}
    command = [sys.executable, __file__, *sys.argv[1:], "--measure"]
    rounds: dict[str, list[tuple[list[float], int]]] = {}
    for _ in range(given.rounds):
        run = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE)
        for line in run.stdout.splitlines():
            name, stalls, kernels = json.loads(line)
            rounds.setdefault(name, []).append((stalls, kernels))
    print(f"{'op':34}  first  median greatest  kernels")
    for name, found in rounds.items():
        first, *others = (min(of) for of in zip(*(stalls for stalls, _ in found), strict=True))
        median, greatest = statistics.median(others), max(others)
        kernels = max(kernels for _, kernels in found)
        print(f"{name:34} {first:6.1f} {median:7.2f} {greatest:8.2f} {kernels:8}")


def measured(device: str, sizes: int, only: str) -> Iterator[tuple[str, list[float], int]]:
    """Give the stalls of each op in milliseconds, the first size's first, and kernels after it."""
    import pyrite
    from pyrite.backend.cube import CubeBackend

    pyrite.set_default_device(device)
    backend = pyrite.device(device).backend.root
    assert isinstance(backend, CubeBackend)
    for name, draw in cases().items():
        if only not in name:
            continue
        rng = random.Random(name)
        stalls, built = [], 0
        for n in range(sizes + 1):
            call = draw(rng)
            backend.launcher.ahead.finish()
            before = backend.launcher.kernels
            took = [seconds(call, backend) for _ in range(4)]
            stalls.append((took[0] - min(took[1:])) * 1e3)
            built += backend.launcher.kernels - before if n else 0
        yield name, stalls, built


def seconds(call: Callable[[], Any], backend: Any) -> float:
    """Return the processor time of one call, until it is computed."""
    start = thread_time()
    result = call()
    backend.synchronize()
    took = thread_time() - start
    del result
    return took


# ---- the ops ----


def cases() -> dict[str, Draw]:
    """Return the ops by name."""
    found: dict[str, Draw] = {}
    found |= convolutions()
    found |= norms()
    found |= products()
    found |= others()
    return found


def convolutions() -> dict[str, Draw]:
    """Return convolutions of images of one to three axes, and their gradients."""
    layers = {
        "conv2d 3x3": ((32, 16, 3, 3), {"padding": 1}),
        "conv2d 3x3, 3 channels": ((32, 3, 3, 3), {"padding": 1}),
        "conv2d 3x3 by 2": ((32, 16, 3, 3), {"padding": 1, "stride": 2}),
        "conv2d 1x1": ((32, 16, 1, 1), {}),
        "conv2d depthwise": ((32, 1, 3, 3), {"padding": 1, "groups": 32}),
        "conv1d 5": ((32, 16, 5), {"padding": 2}),
        "conv3d 3x3x3": ((16, 8, 3, 3, 3), {"padding": 1}),
        "conv2d patches": ((64, 3, 8, 8), {"stride": 8}),
    }
    found: dict[str, Draw] = {}
    for name, (weight, how) in layers.items():
        for way in ("forward", "gradient of x", "gradient of w"):
            found[f"{name}, {way}"] = convolution(weight, dict(how), way)
    found["conv_transpose2d, forward"] = transposed
    return found


def convolution(weight_shape: tuple[int, ...], how: dict[str, Any], way: str) -> Draw:
    """Return one way through a layer, for batches and images of drawn sizes."""
    rank = len(weight_shape) - 2
    groups = how.pop("groups", 1)
    attrs = {
        "stride": (how.pop("stride", 1),) * rank, "dilation": (1,) * rank, "groups": groups,
        "padding": ((how.pop("padding", 0),) * 2,) * rank,
    }  # fmt: skip

    def draw(rng: random.Random) -> Callable[[], Any]:
        low, high = {1: (40, 200), 2: (12, 33), 3: (6, 12)}[rank]
        sizes = tuple(rng.randrange(low, high) for _ in range(rank))
        batch = rng.randrange(2, 9)
        x = tensor(batch, weight_shape[1] * groups, *sizes)
        weight = tensor(*weight_shape)
        if way == "forward":
            bias = tensor(weight_shape[0])
            return lambda: getattr(x, f"conv{rank}d")(weight, bias, **attrs)
        counts = tuple(
            (n + a + b - k) // s + 1
            for n, k, s, (a, b) in zip(
                sizes, weight_shape[2:], attrs["stride"], attrs["padding"], strict=True
            )
        )
        g = tensor(batch, weight_shape[0], *counts)
        if way == "gradient of x":
            return lambda: g._convolution_input_gradient(weight, sizes=sizes, **attrs)
        return lambda: x._convolution_weight_gradient(g, kernel_size=weight_shape[2:], **attrs)

    return draw


def transposed(rng: random.Random) -> Callable[[], Any]:
    """Return a transposed convolution."""
    x = tensor(rng.randrange(2, 12), 16, rng.randrange(8, 40), rng.randrange(8, 40))
    weight, bias = tensor(16, 8, 4, 4), tensor(8)
    return lambda: x.conv_transpose2d(weight, bias, stride=2, padding=1)


def norms() -> dict[str, Draw]:
    """Return norms of rows that are as many, and as long, as is drawn; and their gradients."""

    def rows(rng: random.Random, length: int = 128) -> Any:
        return tensor(rng.randrange(2, 9), rng.randrange(8, 60), length)

    def gradient(op: Callable[..., Any], *inputs: Any) -> Callable[[], Any]:
        import pyrite

        of = pyrite.grad(lambda *x: op(*x).square().sum(), argnums=tuple(range(len(inputs))))
        return lambda: of(*inputs)

    def images(rng: random.Random) -> Any:
        return tensor(rng.randrange(2, 9), 32, rng.randrange(8, 30), rng.randrange(8, 30))

    def lengths(rng: random.Random) -> Any:
        return rows(rng, rng.randrange(33, 600))

    def layer(x: Any) -> Callable[[], Any]:
        weight, bias = tensor(x.shape[-1]), tensor(x.shape[-1])
        return lambda: x.layer_norm(weight, bias)

    def layer_gradient(x: Any) -> Callable[[], Any]:
        weights = tensor(x.shape[-1]), tensor(x.shape[-1])
        return gradient(lambda x, w, b: x.layer_norm(w, b), x, *weights)

    def batch(x: Any) -> Any:
        return x.batch_norm(tensor(32), tensor(32))[0]

    return {
        "layer_norm, rows": lambda rng: layer(rows(rng)),
        "layer_norm, lengths": lambda rng: layer(lengths(rng)),
        "layer_norm, gradients, rows": lambda rng: layer_gradient(rows(rng)),
        "layer_norm, gradients, lengths": lambda rng: layer_gradient(lengths(rng)),
        "group_norm": lambda rng: bound(images(rng), "group_norm", tensor(32), tensor(32),
                                        num_groups=8),
        "group_norm, gradients": lambda rng: gradient(
            lambda x, w, b: x.group_norm(w, b, num_groups=8), images(rng), tensor(32), tensor(32)
        ),
        "batch_norm": lambda rng: bound(images(rng), "batch_norm", tensor(32), tensor(32)),
        "softmax, lengths": lambda rng: bound(lengths(rng), "softmax"),
        "cross_entropy": lambda rng: entropy(rng),
        "sum, lengths": lambda rng: bound(lengths(rng), "sum", axis=-1),
        "sum, columns": lambda rng: bound(lengths(rng), "sum", axis=0),
        "mean of all": lambda rng: bound(lengths(rng), "mean"),
        "argmax, lengths": lambda rng: bound(lengths(rng), "argmax", axis=-1),
        "cumulative_sum, lengths": lambda rng: bound(lengths(rng), "cumulative_sum", axis=-1),
    }  # fmt: skip


def entropy(rng: random.Random) -> Callable[[], Any]:
    """Return a loss of logits and classes."""
    count, classes = rng.randrange(8, 400), rng.randrange(5, 500)
    x, y = tensor(count, classes), numbers(classes, count)
    return lambda: x.cross_entropy_with_logits(y)


def products() -> dict[str, Draw]:
    """Return products of matrices of which some or all sizes are drawn, and attention."""

    def size(rng: random.Random) -> int:
        return rng.randrange(9, 300)

    def attention(rng: random.Random, *, is_gradient: bool = False) -> Callable[[], Any]:
        import pyrite

        shape = (rng.randrange(1, 6), 4, rng.randrange(9, 200), 32)
        q, k, v = (tensor(*shape) for _ in range(3))
        if not is_gradient:
            return lambda: q.scaled_dot_product_attention(k, v, is_causal=True)
        of = pyrite.grad(
            lambda q, k, v: q.scaled_dot_product_attention(k, v, is_causal=True).square().sum(),
            argnums=(0, 1, 2),
        )
        return lambda: of(q, k, v)

    def matmul(*shapes: Any) -> Callable[[], Any]:
        x, y = (tensor(*shape) for shape in shapes)
        return lambda: x @ y

    def linear(rng: random.Random) -> Callable[[], Any]:
        return bound(tensor(size(rng) % 20 + 1, size(rng), 128), "linear", tensor(96, 128),
                     tensor(96))  # fmt: skip

    def token(rng: random.Random) -> Callable[[], Any]:
        """One query at a growing length, as text is generated."""
        length = rng.randrange(9, 300)
        q, k, v = tensor(1, 4, 1, 32), tensor(1, 4, length, 32), tensor(1, 4, length, 32)
        return lambda: q.scaled_dot_product_attention(k, v)

    def all_drawn(rng: random.Random) -> Callable[[], Any]:
        m, k, n = size(rng), size(rng), size(rng)
        return matmul((m, k), (k, n))

    def batch(rng: random.Random) -> Callable[[], Any]:
        b, m, k, n = rng.randrange(2, 9), size(rng), size(rng), size(rng)
        return matmul((b, m, k), (b, k, n))

    return {
        "linear, rows": linear,
        "matmul, all sizes": all_drawn,
        "matmul, batches": batch,
        "attention": attention,
        "attention, gradients": lambda rng: attention(rng, is_gradient=True),
        "attention, one query": token,
    }


def others() -> dict[str, Draw]:
    """Return maps, gathers, scatters, windows, moves and sorts."""

    def table(rng: random.Random) -> Any:
        return tensor(rng.randrange(50, 500), rng.randrange(3, 200))

    def taken(rng: random.Random, *, is_along: bool = False) -> Callable[[], Any]:
        x, count = table(rng), rng.randrange(5, 400)
        index = numbers(x.shape[0], *((count, x.shape[1]) if is_along else (count,)))
        if is_along:
            return lambda: x.take_along_axis(index, axis=0)
        return lambda: x.take(index, axis=0)

    def scattered(rng: random.Random) -> Callable[[], Any]:
        x, count = table(rng), rng.randrange(5, 400)
        index, values = numbers(x.shape[0], count), tensor(count, x.shape[1])
        return lambda: x.at[index].add(values)

    def images(rng: random.Random) -> Any:
        return tensor(rng.randrange(2, 10), 16, rng.randrange(9, 40), rng.randrange(9, 40))

    def added(rng: random.Random) -> Callable[[], Any]:
        x = table(rng)
        y = tensor(x.shape[1])
        return lambda: (x + y).exp()

    def joined(rng: random.Random) -> Callable[[], Any]:
        import pyrite

        x = table(rng)
        y = tensor(rng.randrange(3, 90), x.shape[1])
        return lambda: pyrite.concat([x, y])

    return {
        "add, exp": added,
        "transposed copy": lambda rng: copied(table(rng)),
        "concat": joined,
        "slice by 2": lambda rng: sliced(table(rng)),
        "take": taken,
        "take_along_axis": lambda rng: taken(rng, is_along=True),
        "at[].add": scattered,
        "max_pool 2": lambda rng: bound(images(rng), "max_pool", kernel_size=2),
        "avg_pool 3": lambda rng: bound(images(rng), "avg_pool", kernel_size=3, padding=1),
        "interpolate": lambda rng: bound(images(rng), "interpolate", scale_factor=2,
                                         mode="bilinear"),
        "sort": lambda rng: bound(table(rng), "sort", axis=-1),
        "topk": lambda rng: bound(table(rng), "topk", 3),
    }  # fmt: skip


def copied(x: Any) -> Callable[[], Any]:
    """Return a copy of a transposed matrix, by adding to it."""
    return lambda: x.permute_dims((1, 0)) + 1.0


def sliced(x: Any) -> Callable[[], Any]:
    """Return every second row of a matrix, times 2."""
    return lambda: x[1::2] * 2.0


def bound(x: Any, method: str, *inputs: Any, **attrs: Any) -> Callable[[], Any]:
    """Return the call of a method."""
    return lambda: getattr(x, method)(*inputs, **attrs)


def tensor(*shape: int) -> Any:
    """Return a tensor of normal numbers on the default device."""
    import pyrite

    return pyrite.tensor(np.random.default_rng(0).standard_normal(shape, np.float32))


def numbers(high: int, *shape: int) -> Any:
    """Return indices below ``high``."""
    import pyrite

    return pyrite.tensor(np.random.default_rng(0).integers(0, high, shape).astype(np.int32))


if __name__ == "__main__":
    main()
