"""PyTorch's switches of precision: read at each product, never written.

They are the process's, so to write one would change what the application's own PyTorch code
computes, and to put it back would race with its threads.  A call that can be told its precision is
told (convolutions on CUDA, sums of narrow products); elsewhere a switch that is coarser than
`pyrite.matmul_precision()` is warned of, once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Literal

import torch

from pyrite.backend.fallback import warn_user
from pyrite.backend.precision import Precision, PrecisionWarning, matmul_precision
from pyrite.types import broadcast

Kind = Literal["matmul", "conv"]

#: Bits lost, by the names of `matmul_precision` and of PyTorch's switches, old and new.
_COARSENESS = {"none": 0, "ieee": 0, "highest": 0, "tf32": 1, "high": 1, "bf16": 2, "medium": 2}

#: What the switch says where products keep all bits.
EXACT = frozenset(name for name, lost in _COARSENESS.items() if not lost)

#: The library whose switch a kind of device follows.
_LIBRARY = {"cpu": "mkldnn", "cuda": "cuda"}

#: PyTorch 2.9 and later have a switch by library and kind.  Its public property takes 2 µs to read,
#: a third of a small product; the older switches raise once the newer are written.
_newer = getattr(torch._C, "_get_fp32_precision_getter", None)

_warned: set[tuple[str, Kind]] = set()
_lock = threading.Lock()


def _switch(device: str, kind: Kind) -> str:
    """Return what PyTorch's switch says for products on a kind of device."""
    library = _LIBRARY.get(device)
    if library is None:
        return "none"
    if _newer is not None:
        return _newer(library, kind)  # type: ignore[no-any-return]
    if kind == "matmul":
        return torch.get_float32_matmul_precision()
    return "tf32" if device == "cuda" and torch.backends.cudnn.allow_tf32 else "none"


def is_coarser(device: str, kind: Kind) -> bool:
    """Whether PyTorch's switch allows less than was asked for."""
    return _COARSENESS[_switch(device, kind)] > _COARSENESS[matmul_precision()]


def note_products(device: str, x: torch.Tensor, kind: Kind = "matmul") -> None:
    """Warn, once, where float32 products are coarser than was asked for."""
    if _switch(device, kind) not in EXACT and x.dtype is torch.float32:
        if is_coarser(device, kind):
            _warn(device, kind)


def switch_of(device: str, kind: Kind) -> Callable[[], str]:
    """Return a function that reads PyTorch's switch: a small product takes 3 µs, so it is quick."""
    library = _LIBRARY.get(device)
    if _newer is None or library is None:
        return partial(_switch, device, kind)
    return partial(_newer, library, kind)


def _warn(device: str, kind: Kind) -> None:
    with _lock:
        if (device, kind) in _warned:
            return
        _warned.add((device, kind))
    switch, asked = _switch(device, kind), matmul_precision()
    accepted: Precision = "high" if switch in ("tf32", "high") else "medium"
    what = {"matmul": "matrix products", "conv": "convolutions"}[kind]
    library = {"cpu": "mkldnn", "cuda": "cuda" if kind == "matmul" else "cudnn"}[device]
    warn_user(
        f"torch:{device} makes float32 {what} less exactly than matmul_precision {asked!r} asks, "
        f"for PyTorch's switch is {switch!r}; torch.backends.{library}.{kind}.fp32_precision = "
        f"'ieee' (before PyTorch 2.9 torch.set_float32_matmul_precision('highest')) makes them "
        f"exact, pyrite.matmul_precision({accepted!r}) accepts them as they are",
        PrecisionWarning,
    )


# ---- what a call can be told ----


def convolution_settings() -> tuple[bool, ...] | None:
    """Return what `torch._convolution` is told on CUDA where PyTorch's switch is not what is asked.

    benchmark, deterministic, enabled, and whether TF32 is allowed; None where the switch will do.
    """
    allowed = matmul_precision() != "highest"
    if (_COARSENESS[_switch("cuda", "conv")] > 0) == allowed:
        return None
    cudnn = torch.backends.cudnn
    return cudnn.benchmark, cudnn.deterministic, cudnn.enabled, allowed


def sums_are_narrow(dtype: torch.dtype) -> bool:
    """Whether PyTorch lets a GPU sum products of float16 or bfloat16 in that dtype."""
    switches = torch.backends.cuda.matmul
    if dtype is torch.float16:
        return bool(switches.allow_fp16_reduced_precision_reduction)
    return bool(switches.allow_bf16_reduced_precision_reduction)


#: Since PyTorch 2.8 a product says in what it sums.
_CAN_SUM_WIDE = "dtype" in torch.ops.aten.mm.overloads()


def summed_wide(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Return a product of float16 or bfloat16 as the float32 in which it was summed."""
    if not _CAN_SUM_WIDE or min(x.ndim, y.ndim) < 2:
        return torch.matmul(x.float(), y.float())
    if y.ndim == 2:
        rows = x.reshape(-1, x.shape[-1]) if x.numel() else x.flatten(0, -2)
        found = torch.mm(rows, y, out_dtype=torch.float32)
        return found.reshape(*x.shape[:-1], y.shape[-1])
    batch = broadcast("matmul", tuple(x.shape[:-2]), tuple(y.shape[:-2]))
    left, right = (v.expand(*batch, *v.shape[-2:]).flatten(0, -3) for v in (x, y))
    found = torch.bmm(left, right, out_dtype=torch.float32)
    return found.reshape(*batch, x.shape[-2], y.shape[-1])
