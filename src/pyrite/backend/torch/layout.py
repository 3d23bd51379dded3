"""PyTorch's kernels that are called below the checks of its functions, and the layouts they read.

``torch.nn.functional.scaled_dot_product_attention`` looks at strides before it chooses a kernel;
the kernel itself does not, and reads what lies where it expects an element.  This file is the one
place where such a kernel is named: each states how it wants its operands, in order, and gets them
so.  A test forbids the others to name one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Literal

import torch

_aten = torch.ops.aten

#: - ``"any"``: the kernel follows the strides, or copies by itself;
#: - ``"dense"``: contiguous, for it counts elements from the first;
#: - ``"rows"``: the last axis contiguous, rows apart, on a GPU at addresses that it loads whole.
Layout = Literal["any", "dense", "rows"]

#: In bytes, what a GPU's attention kernels load at once.
_ALIGNMENT = 16


def dense(x: torch.Tensor) -> torch.Tensor:
    """Return x, or a contiguous copy of what is not."""
    return x if x.is_contiguous() else x.contiguous()


def all_dense(tensors: Iterable[torch.Tensor]) -> list[torch.Tensor]:
    """Return each tensor, or a contiguous copy of what is not."""
    return [dense(t) for t in tensors]


def in_rows(x: torch.Tensor) -> torch.Tensor:
    """Return x, or a contiguous copy where it has not the layout "rows"."""
    if x.is_cuda:
        return x if _is_in_rows(x) and _is_aligned(x) else _copy(x)
    return x if x.is_contiguous() or _is_in_rows(x) else _copy(x)


def _is_in_rows(x: torch.Tensor) -> bool:
    *_, between, last = x.stride()
    return last == 1 and between >= x.shape[-1]


def _is_aligned(x: torch.Tensor) -> bool:
    size = x.dtype.itemsize
    strides = x.stride()[:-1]
    return x.data_ptr() % _ALIGNMENT == 0 and not any(s * size % _ALIGNMENT for s in strides)


def _copy(x: torch.Tensor) -> torch.Tensor:
    return x.clone(memory_format=torch.contiguous_format)


_LAID: dict[Layout, Callable[[torch.Tensor], torch.Tensor]] = {"dense": dense, "rows": in_rows}


def kernel(function: Callable[..., Any], *layouts: Layout) -> Callable[..., Any]:
    """Return a kernel that gets its first operands in these layouts, and others as they are."""
    demands = [(place, _LAID[layout]) for place, layout in enumerate(layouts) if layout != "any"]
    if not demands:
        return function

    def called(*operands: Any, **settings: Any) -> Any:
        laid = list(operands)
        for place, lay in demands:
            if laid[place] is not None:
                laid[place] = lay(laid[place])
        return function(*laid, **settings)

    return called


# ---- attention: query, key, value; g, query, key, value, output, logarithms of sums ----

host_flash = kernel(_aten._scaled_dot_product_flash_attention_for_cpu, "rows", "rows", "rows")
host_flash_backward = kernel(
    _aten._scaled_dot_product_flash_attention_for_cpu_backward,
    "rows", "rows", "rows", "rows", "rows", "dense",
)  # fmt: skip
flash = kernel(_aten._scaled_dot_product_flash_attention, "rows", "rows", "rows")
flash_backward = kernel(
    _aten._scaled_dot_product_flash_attention_backward,
    "rows", "rows", "rows", "rows", "rows", "dense",
)  # fmt: skip
efficient = kernel(_aten._scaled_dot_product_efficient_attention, "rows", "rows", "rows")
#: Has a bias before the output.
efficient_backward = kernel(
    _aten._scaled_dot_product_efficient_attention_backward,
    "rows", "rows", "rows", "rows", "any", "rows", "dense",
)  # fmt: skip

# ---- norms ----

#: It takes g and the output.  The host's kernel of PyTorch 2.4 and 2.5 takes a strided output
#: for dense.
softmax_backward = kernel(_aten._softmax_backward_data, "dense", "dense")
log_softmax_backward = kernel(_aten._log_softmax_backward_data, "dense", "dense")
#: It takes x, shape, weight and bias.
layer_norm = kernel(torch.native_layer_norm, "dense", "any", "dense", "dense")
#: It takes g, x, shape, mean, rate, weight and bias.
layer_norm_backward = kernel(
    _aten.native_layer_norm_backward,
    "dense", "dense", "any", "dense", "dense", "dense", "dense",
)  # fmt: skip
#: It takes x, weight and bias; it refuses an x that is not dense.
group_norm = kernel(torch.native_group_norm, "dense", "dense", "dense")
#: It takes g, x, mean, rate and weight.
group_norm_backward = kernel(
    _aten.native_group_norm_backward, "dense", "dense", "dense", "dense", "dense"
)
#: It takes x, weight, bias and running moments, which it writes.
batch_norm = kernel(torch.native_batch_norm, "any", "dense", "dense")
#: It takes x, moments, weight and bias: cuDNN refuses vectors that are not dense.
batch_norm_by_moments = kernel(
    torch.nn.functional.batch_norm, "any", "dense", "dense", "dense", "dense"
)
batch_norm_statistics = kernel(torch.batch_norm_update_stats)
#: Of g, x, weight, running moments, mean and rate.  With g and x dense it reads a weight as dense.
batch_norm_backward = kernel(
    _aten.native_batch_norm_backward,
    "any", "any", "dense", "dense", "dense", "dense", "dense",
)  # fmt: skip

# ---- windows, rows, activations ----

#: Of x, weight and bias: what `conv2d` becomes, told of cuDNN's settings.  Copies as it needs.
convolution = kernel(torch._convolution)
#: Of g, x and weight.  Chooses among libraries by the layouts of x and weight, and copies for them.
convolution_backward = kernel(_aten.convolution_backward)
#: Of g and x; copies g into the order of x, of which only shape and order are looked at.
avg_pool2d_backward = kernel(_aten.avg_pool2d_backward)
avg_pool3d_backward = kernel(_aten.avg_pool3d_backward)
#: It takes g and indices: if they are many, it sorts them as if they were dense.
embedding_backward = kernel(_aten.embedding_dense_backward, "dense", "dense")
#: It takes data; its lengths are made here, dense.
segment_reduce = kernel(torch.segment_reduce, "dense")
threshold_backward = kernel(_aten.threshold_backward)
silu_backward = kernel(_aten.silu_backward)
#: It takes g and x; the host's library fails on elements that overlap.
gelu_backward = kernel(_aten.gelu_backward, "dense", "dense")
