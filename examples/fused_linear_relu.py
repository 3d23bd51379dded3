"""A product, a bias and a ReLU as one kernel, in two languages: Burn's example of a custom kernel.

    python examples/fused_linear_relu.py [device]

`in_python` has a kernel in Python, which runs on every device of Pyrite's own; `in_wgsl` has one in
WGSL, for wgpu.  Both are ops: they are differentiable, to any order, and where no kernel runs (on
numpy, or on torch) they are their body.  The kernels are made to be read: each element walks its
row and column alone, so for large matrices the body, whose product is tiled, is faster.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pyrite
from pyrite import Tensor
from pyrite.errors import ShapeError
from pyrite.extension import KernelScope, TensorArgument, kernel
from pyrite.types import TensorType


def linear_relu_type(x: TensorType, weight: TensorType, bias: TensorType) -> TensorType:
    """The type of the result; what does not fit is an error at the caller's line."""
    if bias.ndim != 1 or x.ndim != 2 or weight.shape != (x.shape[1], bias.shape[0]):
        raise ShapeError(
            "linear_relu requires x of (N, D), weight of (D, E) and bias of (E,), got "
            f"{x.shape}, {weight.shape} and {bias.shape}"
        )
    return TensorType((x.shape[0], weight.shape[1]), x.dtype)


def linear_relu_vjp(g: Tensor, out: Tensor, x: Tensor, weight: Tensor, _bias: None) -> Any:
    """The cotangents of x, weight and bias, in tensor operators: so they have derivatives too."""
    g = pyrite.where(out > 0, g, 0.0)
    return g @ weight.mT, x.mT @ g, g.sum(0)


def linear_relu_body(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """What it means, by ops that every device has."""
    return (x @ weight + bias).relu()


# ---- a kernel in Python ----


@kernel
def linear_relu(
    k: KernelScope,
    x: TensorArgument,
    weight: TensorArgument,
    bias: TensorArgument,
    out: TensorArgument,
) -> None:
    """One invocation for each element of out."""
    row, column = k.at
    total = bias[column]
    for i in range(x.shape[1]):
        total = k.fma(x[row, i], weight[i, column], total)
    out[row, column] = k.math.maximum(total, 0.0)


@pyrite.custom_op(
    infer=linear_relu_type,
    body=linear_relu_body,
    vjp=linear_relu_vjp,
    kernels=[linear_relu],
    accepts="float",
    promotes="all",
)
def in_python(x: Tensor, weight: Tensor, bias: Tensor, /) -> Tensor:
    """max(x @ weight + bias, 0).  Shapes: (N, D), (D, E), (E,) -> (N, E)."""
    ...


# ---- a kernel in WGSL ----


@pyrite.custom_op(
    infer=linear_relu_type,
    body=linear_relu_body,
    vjp=linear_relu_vjp,
    kernels=[
        pyrite.wgpu.kernel(
            Path(__file__).with_suffix(".wgsl").read_text(), name="linear_relu", workgroup_size=128
        )
    ],
    accepts="float",
    promotes="all",
)
def in_wgsl(x: Tensor, weight: Tensor, bias: Tensor, /) -> Tensor:
    """max(x @ weight + bias, 0).  Shapes: (N, D), (D, E), (E,) -> (N, E)."""
    ...


def main(device: str | None = None) -> None:
    """Compare value and gradients with those of the ops that the kernels stand for."""
    where = pyrite.autodiff(pyrite.device(device))
    with pyrite.random_stream(0):
        x, weight, bias = (pyrite.normal(s, device=where) for s in ((32, 64), (64, 16), (16,)))
    x, weight, bias = x.require_grad(), weight.require_grad(), bias.require_grad()
    want = linear_relu_body(x, weight, bias)
    wanted = want.sum().backward()
    for op in (in_python, in_wgsl):
        out = op(x, weight, bias)
        grads = out.sum().backward()
        worst = max(abs(grads[t] - wanted[t]).max().item() for t in (x, weight, bias))
        print(
            f"{op.__name__} on {where}: value differs by {abs(out - want).max().item():.1e}, "
            f"gradients by {worst:.1e}"
        )


if __name__ == "__main__":
    main(*sys.argv[1:2])
