"""What `peers.py` times: each case is the same function, of Pyrite, of PyTorch and of JAX.

Here are elements, rows, groups and counts; `peer_networks` has products and layers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

import pyrite
from pyrite.types import Array

Function = Callable[..., Any]
RANDOM = np.random.default_rng(0)


@dataclass(frozen=True)
class Case:
    """A function of arrays, as each library writes it; None where one has no such function.

    nbytes: what must be read and written; operations: a multiplication and an addition are two.
    maps: whether a compiler may do better than the library's own kernels, so that torch.compile
    is asked; checks: whether results are compared with PyTorch's.
    device: where Pyrite runs it, if not on the device that is timed.
    """

    name: str
    inputs: tuple[Array, ...]
    ours: Function
    torchs: Function
    jaxs: Function | None = None
    nbytes: float = 0.0
    operations: float = 0.0
    maps: bool = False
    checks: bool = True
    device: str | None = None
    tolerance: float = field(default=1e-3)


def normal(*shape: int) -> Array:
    """Return normal numbers in float32."""
    return RANDOM.standard_normal(shape, np.float32)


def size_of(*arrays: Array) -> float:
    """Return how many bytes arrays have."""
    return float(sum(x.nbytes for x in arrays))


# ---- elements ----


def maps(is_gpu: bool) -> Iterator[Case]:
    """exp of scores that a mask takes, or that nearly vanish; angles; sums of two; maxima."""
    plain = RANDOM.uniform(-20, 0, (2048 if is_gpu else 512, 1024)).astype(np.float32)
    half = np.where(np.tri(len(plain), 1024, 512, dtype=bool), plain, np.float32(-1e4))
    kinds = {
        "": plain, "half masked": half, "masked": plain - np.float32(1e4),
        "subnormal": plain / np.float32(2) - np.float32(90),
    }  # fmt: skip
    for kind, array in kinds.items():
        yield unary(f"exp scores {kind}".strip(), array, "exp")
    if not is_gpu:
        yield unary("exp scores float64 masked", plain.astype(np.float64) - 1e4, "exp")
    angles = RANDOM.uniform(-1, 1, plain.shape).astype(np.float32)
    for name in ("sin", "cos", "tan"):
        yield unary(f"{name} of 1e3", angles * np.float32(1e3), name)
        yield unary(f"{name} of 1e20", angles * np.float32(1e20), name)
    sizes = {"64K": 1 << 16, "1M": 1 << 20, "16M": 1 << 24, "64M": 1 << 26}
    for name, n in sizes.items():
        if is_gpu or n < 1 << 26:
            x, y = normal(n), normal(n)
            add = lambda x, y: x + y  # noqa: E731 - one rule for all three
            yield Case(f"add {name}", (x, y), add, add, add, nbytes=3 * x.nbytes, maps=True)


def unary(name: str, array: Array, op: str) -> Case:
    """Return a function of one tensor, which all three call the same."""

    def ours(x: Any) -> Any:
        return getattr(x, op)()

    def of_jax(x: Any) -> Any:
        import jax.numpy as jnp

        return getattr(jnp, op)(x)

    return Case(name, (array,), ours, ours, of_jax, nbytes=2 * array.nbytes, maps=True,
                tolerance=1e-2 if "tan" in op else 1e-3)  # fmt: skip


def rows(is_gpu: bool) -> Iterator[Case]:
    """Maxima, sums, softmax and layer norm along rows."""
    x = normal(16384 if is_gpu else 4096, 4096)

    def softmax(x: Any) -> Any:
        import jax

        return jax.nn.softmax(x)

    def case(name: str, ours: Function, torchs: Function, jaxs: Function, passes: int = 1) -> Case:
        return Case(name, (x,), ours, torchs, jaxs, nbytes=passes * x.nbytes, maps=True)

    yield case("max over rows", lambda x: x.max(1), lambda x: x.amax(1), lambda x: x.max(1))
    for name, along in (("rows", 1), ("columns", 0)):
        total = partial(lambda axis, x: x.sum(axis), along)
        yield case(f"sum over {name}", total, total, total)
    own = partial(lambda axis, x: x.softmax(axis), -1)
    yield case("softmax", own, own, softmax, passes=2)


def groups(is_gpu: bool) -> Iterator[Case]:
    """Group norm, both ways, and of channels that lie last."""
    shapes = [((8, 64, 32, 32), 8), ((4, 128, 64, 64), 32)]
    for shape, count in [((64, 128, 64, 64), 32)] if is_gpu else shapes:
        x, g, w, b = normal(*shape), normal(*shape), normal(shape[1]), normal(shape[1])
        yield from group_norm(f"group norm {shape[2]}²", count, x, g, w, b)
    if not is_gpu:
        x, g = (normal(8, 32, 32, 64).transpose(0, 3, 1, 2) for _ in "xg")
        yield from group_norm("group norm channels last", 8, x, g, normal(64), normal(64))


def group_norm(name: str, count: int, x: Array, g: Array, w: Array, b: Array) -> Iterator[Case]:
    """Yield group norm in so many groups, and its gradients."""
    n, c, *sizes = x.shape

    def of_jax(x: Any, w: Any, b: Any) -> Any:
        import jax
        import jax.numpy as jnp

        split = x.reshape(n, count, -1)
        mean = split.mean(-1, keepdims=True)
        rate = jax.lax.rsqrt(((split - mean) ** 2).mean(-1, keepdims=True) + 1e-5)
        found = ((split - mean) * rate).reshape(x.shape)
        return found * jnp.expand_dims(w, (1, 2)) + jnp.expand_dims(b, (1, 2))

    def of_jax_back(g: Any, x: Any, w: Any, b: Any) -> Any:
        import jax

        return jax.vjp(of_jax, x, w, b)[1](g)

    def forward(x: Any, w: Any, b: Any) -> Any:
        import torch

        return torch.nn.functional.group_norm(x, count, w, b)

    def back(g: Any, x: Any, w: Any, b: Any) -> Any:
        import torch

        flat = x.reshape(n, count, -1)
        mean, rate = statistics[id(x)] if id(x) in statistics else (
            flat.mean(-1), (flat.var(-1, unbiased=False) + 1e-5).rsqrt()
        )  # fmt: skip
        statistics[id(x)] = mean, rate
        return torch.ops.aten.native_group_norm_backward(
            g, x, mean, rate, w, n, c, sizes[0] * sizes[1], count, [True] * 3
        )

    #: PyTorch's forward keeps them; ours makes them again.
    statistics: dict[int, Any] = {}
    yield Case(name, (x, w, b), lambda x, w, b: x.group_norm(w, b, num_groups=count), forward,
               of_jax, nbytes=2 * x.nbytes, maps=True)  # fmt: skip
    yield Case(
        f"{name} backward", (g, x, w, b),
        lambda g, x, w, b: g._group_norm_backward(
            x, w, num_groups=count, eps=1e-5, argnums=(0, 1, 2)
        ),
        back, of_jax_back, nbytes=3 * x.nbytes,
    )  # fmt: skip


# ---- counts ----


def counts(is_gpu: bool) -> Iterator[Case]:
    """Counts, histograms, and additions at places, of integers and of floats."""
    n, bins = (1 << 22 if is_gpu else 1 << 18), 1000
    i, v = (RANDOM.integers(0, bins, n, dtype=np.int32) for _ in "iv")
    f, zeros = normal(n), np.zeros(bins, np.int32)
    yield Case("bincount", (i,), lambda i: i.bincount(size=bins),
               lambda i: i.bincount(minlength=bins), counted(bins), nbytes=i.nbytes)  # fmt: skip

    def of_jax(f: Any) -> Any:
        import jax.numpy as jnp

        return jnp.histogram(f, 100, (-3.0, 3.0))[0]

    def ours(f: Any) -> Any:
        return pyrite.histogram(f, 100, (-3.0, 3.0)).counts

    def theirs(f: Any) -> Any:
        return f.histc(100, -3.0, 3.0)

    # A float near an edge falls into either bin.
    yield Case("histogram", (f,), ours, theirs, of_jax, nbytes=f.nbytes, tolerance=0.2)
    for kind, base, added in (("int", zeros, v), ("float", zeros.astype(np.float32), f)):
        yield Case(
            f"at[].add {kind}", (base, i, added), lambda x, i, v: x.at[i].add(v),
            lambda x, i, v: x.index_add(0, i, v), lambda x, i, v: x.at[i].add(v),
            nbytes=size_of(i, added), tolerance=0.1,
        )  # fmt: skip


def counted(bins: int) -> Function:
    """Return JAX's bincount."""

    def of_jax(i: Any) -> Any:
        import jax.numpy as jnp

        return jnp.bincount(i, length=bins)

    return of_jax
