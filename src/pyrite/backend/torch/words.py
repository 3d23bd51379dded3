"""Random words on the host, by the kernel of the device ``cpu`` where that works here.

PyTorch has no Philox that can be called and no unsigned products.  Of its own ops, in int64, a draw
takes five times as long (1 Mi words on one thread: 28 ms, the kernel 5).  The bits are the same.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import torch

from pyrite.backend.device import device
from pyrite.backend.protocol import Backend
from pyrite.errors import DeviceError
from pyrite.op import OPS, Constant, Plan
from pyrite.philox import MULTIPLIERS, ROUNDS, WEYL, WORDS
from pyrite.types import DType, Shape, TensorType, element_count, uint32

_WORD = 0xFFFFFFFF
_NUMBER = TensorType((), uint32)
#: A word of a draw.
Word: TypeAlias = "Constant | torch.Tensor"


@functools.cache
def _kernels() -> Backend | None:
    """Return the backend of the device ``cpu``; None where there is none, as without LLVM.

    That without Fusion: a draw is waited for at once.
    """
    try:
        return device("cpu").backend.root
    except DeviceError:
        return None


def words_of(draw: Sequence[Word], shape: Shape, device: torch.device) -> torch.Tensor:
    """Return the random words of a draw, uint32; its own are numbers, or tensors of one element."""
    if device.type == "cpu" and (found := host_words(draw, shape)) is not None:
        return found
    count = element_count(shape)
    index = torch.arange(-(-count // WORDS), dtype=torch.int64, device=device)
    key_low, key_high, *rest = (
        int(word.value) if isinstance(word, Constant) else word.to(torch.int64) & _WORD
        for word in draw
    )
    words = philox(index, *rest, key=(key_low, key_high))
    return words.reshape(-1)[:count].reshape(shape).to(torch.uint32)


def host_words(draw: Sequence[Word], shape: Shape) -> torch.Tensor | None:
    """Return the words of a draw, uint32, in memory of their own; None without a kernel."""
    if (direct := _direct(shape)) is not None:
        make, memory, wanted = direct
        words = torch.empty(memory, dtype=torch.uint32)
        make(words.data_ptr(), *map(_word, draw))
        return words if wanted is None else words[:wanted].view(shape)
    backend, count = _kernels(), element_count(shape)
    if backend is None or count == 0:
        return None
    draw = [Constant(_word(w), _NUMBER) for w in draw]
    # There is a kernel for each number of words, and those of a draw begin alike.
    found = backend.execute(OPS["random_bits"], draw, _plan(_with_few_digits(count)))
    assert found is not None, "a primitive is executed"
    words = backend.host_view(found[0])[:count]
    # Nobody writes to a handle, but PyTorch warns of an array that says so.
    words.flags.writeable = True
    return torch.from_numpy(words).view(shape)


def _word(word: Word) -> int:
    """Return a word of a draw as a number."""
    return int(word.value if isinstance(word, Constant) else word) & _WORD


#: So many words are made by who wants them: to wake a thread takes as long.
_FEW = 1 << 15


@functools.lru_cache(maxsize=1024)
def _direct(shape: Shape) -> tuple[Callable[..., None], Shape, int | None] | None:
    """Return the kernel of draws of a shape, what it fills, and how many of these are wanted.

    That is None for all, and all is None for many words, and where no kernel can be called so.
    """
    count = element_count(shape)
    if not 0 < count <= _FEW:
        return None
    whole = _with_few_digits(count)
    kernel = _kernel_of(whole)
    if kernel is None:
        return None
    return (kernel, shape, None) if whole == count else (kernel, (whole,), count)


@functools.lru_cache(maxsize=1024)
def _kernel_of(count: int) -> Callable[..., None] | None:
    """Return the kernel of draws of so many words, None where none can be called so."""
    backend, draw = _kernels(), [Constant(0, _NUMBER)] * 5
    if backend is None:
        return None
    return backend.direct_launch(OPS["random_bits"], draw, _plan(count))


def dropping(count: int, dtype: DType, p: float) -> Callable[..., None] | None:
    """Return a kernel that drops elements, from the second call for so many and a p on, if any.

    It takes the addresses of the elements, their words, and the result.
    """
    if count > _FEW or not count:
        return None
    key = count, dtype, p
    if key not in _DROPPED:
        # A call that never comes again is not worth a kernel.
        if len(_DROPPED) >= _MOST:
            _DROPPED.clear()
        _DROPPED[key] = None
        return None
    return _dropping(*key)


#: What was dropped from once.
_DROPPED: dict[tuple[int, DType, float], None] = {}
_MOST = 1024


@functools.lru_cache(maxsize=_MOST)
def _dropping(count: int, dtype: DType, p: float) -> Callable[..., None] | None:
    backend, of = _kernels(), TensorType((count,), dtype)
    if backend is None:
        return None
    inputs = [backend.upload(np.zeros(count, t.numpy)) for t in (dtype, uint32)]
    return backend.direct_launch(OPS["dropout"], inputs, Plan({"p": p}, (of,), is_kept=True))


@functools.lru_cache(maxsize=1024)
def _plan(count: int) -> Plan:
    """Return the plan of draws of so many words, by which the backend finds its kernel again."""
    type = TensorType((count,), uint32)
    return Plan({"shape": type.shape}, (type,), is_kept=True)


def _with_few_digits(count: int) -> int:
    """Return a number from count on, at most an eighth more, of four binary digits and zeros.

    >>> [_with_few_digits(n) for n in (7, 100, 1000, 1025)]
    [7, 104, 1024, 1152]
    """
    unit = 1 << max(0, count.bit_length() - 4)
    return -(-count // unit) * unit


def philox(
    index: torch.Tensor, stream: Any, low: Any, high: Any, *, key: tuple[Any, Any]
) -> torch.Tensor:
    """Return four words for each counter (index, stream, low, high): int64 (n,) -> int64 (n, 4).

    `pyrite.philox` in int64, whose products wrap around to the same 64 bits.  The words besides the
    index are numbers, or tensors of one element, which nobody waits for.
    """
    x0, x1, x2, x3 = (torch.full_like(index, 0) + word for word in (index, stream, low, high))
    key0, key1 = key
    for _ in range(ROUNDS):
        product0, product1 = x0 * MULTIPLIERS[0], x2 * MULTIPLIERS[1]
        x0 = (product1 >> 32 & _WORD) ^ x1 ^ key0
        x2 = (product0 >> 32 & _WORD) ^ x3 ^ key1
        x1, x3 = product1 & _WORD, product0 & _WORD
        key0, key1 = (key0 + WEYL[0]) & _WORD, (key1 + WEYL[1]) & _WORD
    return torch.stack((x0, x1, x2, x3), -1)
