"""What tensors of PyTorch and NumPy have under another name, or not at all: what to write instead.

``x.view(4)`` is an AttributeError that says: use x.reshape(shape).
"""

from __future__ import annotations

#: By the name that a tensor lacks; the tests run what stands first in each.
INSTEAD = {
    "bool": "x.astype(pyrite.bool)",
    "byte": "x.astype(pyrite.uint8)",
    "contiguous": "x itself, which is in the order that it needs",
    "copy": "x itself, which never changes",
    "cpu": "x.to('cpu'), or x.numpy() for an array",
    "cuda": "x.to('wgpu'), or x.to('torch:cuda')",
    "data": "x.detach()",
    "dim": "x.ndim",
    "double": "x.astype(pyrite.float64)",
    "eq": "x == y",
    "expand_as": "x.expand(y.shape)",
    "fill": "pyrite.full_like(x, value)",
    "fill_": "pyrite.full_like(x, value)",
    "float": "x.astype(pyrite.float32)",
    "ge": "x >= y",
    "grad": "grads[x], of the gradients that pyrite.value_and_grad returns",
    "gt": "x > y",
    "half": "x.astype(pyrite.float16)",
    "int": "x.astype(pyrite.int32)",
    "is_contiguous": "x itself, which is in the order that it needs",
    "is_cuda": "x.device",
    "is_floating_point": "x.dtype.is_float",
    "le": "x <= y",
    "long": "x.astype(pyrite.int64)",
    "lt": "x < y",
    "masked_fill": "pyrite.where(mask, value, x)",
    "masked_fill_": "pyrite.where(mask, value, x)",
    "ne": "x != y",
    "nelement": "x.size",
    "new_ones": "pyrite.ones(shape, device=x.device)",
    "new_zeros": "pyrite.zeros(shape, device=x.device)",
    "norm": "x.vector_norm()",
    "normal_": "pyrite.normal_like(x)",
    "numel": "x.size",
    "ravel": "x.flatten()",
    "repeat_interleave": "x.repeat(n, axis)",
    "requires_grad": "x.is_tracked",
    "requires_grad_": "pyrite.value_and_grad, or x.require_grad() on pyrite.autodiff(device)",
    "short": "x.astype(pyrite.int16)",
    "t": "x.T",
    "type": "x.astype(dtype)",
    "type_as": "x.astype(y.dtype)",
    "unbind": "x.unstack()",
    "uniform_": "pyrite.uniform_like(x)",
    "view": "x.reshape(shape)",
    "view_as": "x.reshape(y.shape)",
    "zero_": "pyrite.zeros_like(x)",
}


def missing(name: str, owner: type) -> AttributeError | None:
    """Return the error of a name that tensors have elsewhere and not here; None for any other."""
    use = INSTEAD.get(name) or _in_place(name, owner)
    if use is None:
        return None
    return AttributeError(f"{owner.__name__!r} object has no attribute {name!r}; use {use}")


def _in_place(name: str, owner: type) -> str | None:
    """``add_`` changes a tensor there; here ``add`` makes another."""
    plain = name.removesuffix("_")
    if plain == name or plain.endswith("_") or not hasattr(owner, plain):
        return None
    return f"x = x.{plain}(...), since a tensor never changes"
