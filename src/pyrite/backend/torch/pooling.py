"""Pools.  PyTorch's own where the windows are of its kind, else by tables of what each reads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from pyrite.backend import window
from pyrite.backend.torch import layout
from pyrite.backend.torch.activation import has_nan
from pyrite.backend.torch.convolution import cut, pad
from pyrite.backend.torch.gather import Gather
from pyrite.backend.torch.native import native
from pyrite.backend.window import Pairs, Windows
from pyrite.types import Array, Shape, element_count

_MAX_POOLS: dict[int, Callable[..., Any]] = {
    1: functional.max_pool1d_with_indices,
    2: functional.max_pool2d_with_indices,
    3: functional.max_pool3d_with_indices,
}
_AVG_POOLS: dict[int, Callable[..., torch.Tensor]] = {
    1: functional.avg_pool1d,
    2: functional.avg_pool2d,
    3: functional.avg_pool3d,
}


class Pooling(Gather):
    """Pools of (N, C, *sizes)."""

    @native("max_pool", narrow="everywhere")
    def max_pool(self, x: torch.Tensor, **windows: Any) -> torch.Tensor:
        return self.max_pool_with_indices(x, **windows)[0]

    @native("max_pool_with_indices", narrow="everywhere")
    def max_pool_with_indices(
        self,
        x: torch.Tensor,
        *,
        kernel_size: Shape,
        stride: Shape,
        padding: Pairs,
        dilation: Shape,
        ceil_mode: bool,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        fits = all(a == b and 2 * a <= k for (a, b), k in zip(padding, kernel_size, strict=True))
        if not (fits and x.is_floating_point() and x.numel()) or ceil_mode:
            sizes = x.shape[2:]
            starts = window.starts(sizes, kernel_size, stride, padding, dilation, ceil_mode)
            tables = window.tables(starts, sizes, kernel_size, dilation)
            return self._greatest(x, [window.filled(table) for table in tables])

        def pool(x: torch.Tensor) -> Any:
            even = [before for before, _ in padding]
            return _MAX_POOLS[x.ndim - 2](x, kernel_size, stride, even, dilation)

        found, indices = pool(x)
        # PyTorch takes the last of several NaNs.  On the host a look costs no waiting; elsewhere
        # the first would cost ten kernels, and it stays the last.
        if self.is_host and has_nan(found):
            order = torch.arange(element_count(x.shape[2:]), dtype=torch.float64)
            marked = torch.where(torch.isnan(x), -order.reshape(x.shape[2:]), -torch.inf)
            indices = torch.where(torch.isnan(found), pool(marked)[1], indices)
        return found, indices.to(torch.int32)

    @native("adaptive_max_pool_with_indices", narrow="everywhere")
    def adaptive_max_pool_with_indices(
        self, x: torch.Tensor, *, output_size: Shape
    ) -> tuple[torch.Tensor, torch.Tensor]:
        return self._greatest(x, list(map(window.adaptive, x.shape[2:], output_size)))

    def _greatest(self, x: torch.Tensor, tables: list[Array]) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the maximum over the taps of each window, and its index; the first of equals."""
        flat = window.flat(tables, x.shape[2:])
        places = torch.from_numpy(flat).to(self.device)
        shape = (*x.shape[:2], *(table.shape[1] for table in tables))
        if element_count(shape) == 0:
            return x.new_empty(shape), x.new_empty(shape, dtype=torch.int32)
        images = x.reshape(x.shape[0] * x.shape[1], element_count(x.shape[2:]))
        taken = torch.index_select(images, 1, places.reshape(-1))
        taken = taken.reshape(len(images), *flat.shape)
        chosen = torch.argmax(taken, 1, keepdim=True)
        found = torch.gather(taken, 1, chosen)[:, 0]
        indices = torch.gather(places.expand(len(images), *flat.shape), 1, chosen)[:, 0]
        if found.is_floating_point():
            found = self._with_greatest_zero(found, taken)
        return found.reshape(shape), indices.reshape(shape).to(torch.int32)

    def _with_greatest_zero(self, found: torch.Tensor, taken: torch.Tensor) -> torch.Tensor:
        has_plus = ((taken == 0) & ~torch.signbit(taken)).any(1)
        return torch.where((found == 0) & has_plus, torch.zeros_like(found), found)

    @native("max_pool_backward")
    def max_pool_backward(
        self, g: torch.Tensor, indices: torch.Tensor, *, sizes: Shape, windows: Windows | None
    ) -> torch.Tensor:
        images, size = g.shape[0] * g.shape[1], element_count(sizes)
        rows, places = g.reshape(images, -1) if images else g, indices.to(torch.int64)
        if self.is_host or not images or _are_apart(windows):
            # Windows that share no element add nothing up, so their order does not matter.
            out = g.new_zeros((images, size))
            if images:
                out.scatter_add_(1, places.reshape(images, -1), rows)
            return out.reshape(*g.shape[:2], *sizes)
        begins = torch.arange(images, device=self.device)[:, None] * size
        flat = (places.reshape(images, -1) + begins).reshape(-1)
        out = self.written(g.new_zeros((images * size, 1)), flat, rows.reshape(-1, 1), "add")
        return out.reshape(*g.shape[:2], *sizes)

    # ---- means ----

    @native("avg_pool")
    def avg_pool(self, x: torch.Tensor, **windows: Any) -> torch.Tensor:
        if x.numel() == 0:
            return x.new_empty((*x.shape[:2], *map(len, _starts(x.shape[2:], **windows))))
        share, reached = _shares(x.shape[2:], **windows)
        x, pool = pad(x, reached), _AVG_POOLS[x.ndim - 2]
        found = pool(x, windows["kernel_size"], windows["stride"])
        return found if share is None else found * self._like(share, found)

    @native("avg_pool_backward")
    def avg_pool_backward(self, g: torch.Tensor, *, sizes: Shape, **windows: Any) -> torch.Tensor:
        if g.numel() == 0:
            return g.new_empty((*g.shape[:2], *sizes))
        share, reached = _shares(sizes, **windows)
        if share is not None:
            g = g * self._like(share, g)
        padded = tuple(n + b + a for n, (b, a) in zip(sizes, reached, strict=True))
        found = _pool_transposed(g, padded, windows["kernel_size"], windows["stride"])
        return cut(found, sizes, reached)

    def _like(self, share: Array, x: torch.Tensor) -> torch.Tensor:
        return torch.from_numpy(share).to(device=self.device, dtype=x.dtype)


def _pool_transposed(
    g: torch.Tensor, sizes: Shape, kernel_size: Shape, stride: Shape
) -> torch.Tensor:
    """Return the transpose of an average pool without padding, one axis being two of which one."""
    like = g.new_empty((*g.shape[:2], *sizes))
    if len(sizes) == 1:
        found = layout.avg_pool2d_backward(
            g.unsqueeze(2), like.unsqueeze(2), (1, *kernel_size), (1, *stride), (0, 0), False, True,
            None,
        )  # fmt: skip
        return found.squeeze(2)  # type: ignore[no-any-return]
    transposed = layout.avg_pool2d_backward if len(sizes) == 2 else layout.avg_pool3d_backward
    none = (0,) * len(sizes)
    return transposed(g, like, kernel_size, stride, none, False, True, None)  # type: ignore[no-any-return]


def _are_apart(windows: Windows | None) -> bool:
    """Whether windows are known to share no element."""
    if windows is None:
        return False
    kernel_size, stride, _, dilation = windows
    reach = (d * (k - 1) + 1 for k, d in zip(kernel_size, dilation, strict=True))
    return all(r <= s for r, s in zip(reach, stride, strict=True))


def _starts(
    sizes: Shape,
    kernel_size: Shape,
    stride: Shape,
    padding: Pairs,
    ceil_mode: bool,
    count_include_pad: bool,
) -> list[Array]:
    """Return where the windows of an average pool start on each axis."""
    return window.starts(sizes, kernel_size, stride, padding, (1,) * len(sizes), ceil_mode)


def _shares(
    sizes: Shape,
    kernel_size: Shape,
    stride: Shape,
    padding: Pairs,
    ceil_mode: bool,
    count_include_pad: bool,
) -> tuple[Array | None, Pairs]:
    """Return elements of a whole window over those that count, by window, and the padding reached.

    None where all windows count whole.
    """
    starts = _starts(sizes, kernel_size, stride, padding, ceil_mode, count_include_pad)
    counted = window.lengths(starts, sizes, kernel_size, padding, count_include_pad)
    share: Array = np.ones(())
    for k, lengths in zip(kernel_size, counted, strict=True):
        share = share[..., None] * (k / lengths)
    reached = tuple(
        (before, max(int(first[-1]) + k - n, 0) if len(first) else 0)
        for first, n, k, (before, _) in zip(starts, sizes, kernel_size, padding, strict=True)
    )
    return (None if (share == 1).all() else share), reached
