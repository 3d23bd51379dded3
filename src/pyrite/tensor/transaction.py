"""Values of several tensors by one read of each device: Burn's ``Transaction``.

A read waits for the device, and a read of a GPU costs a round trip of some 150 µs however little is
read.  So what is wanted together is asked for together.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from pyrite.backend.protocol import Backend
from pyrite.errors import DTypeError
from pyrite.op import Handle, public
from pyrite.synchronization import note_sync
from pyrite.tensor.tensor import Tensor
from pyrite.types import Array


@public
def read(*tensors: Tensor) -> tuple[Array, ...]:
    """Return the values of each tensor as ``numpy`` does, by one wait for each device.

    Raises DTypeError for what is no tensor.

    >>> from pyrite import tensor
    >>> loss, hits = read(tensor(0.5), tensor([1, 0, 1]).sum())
    >>> loss.item(), hits.item()
    (0.5, 2)
    """
    note_sync("read")
    found: dict[int, Array] = {}
    for backend, (places, handles) in _by_device(tensors).items():
        found.update(zip(places, backend.download_all(handles), strict=True))
    return tuple(found[place] for place in range(len(tensors)))


async def read_async(*tensors: Tensor) -> tuple[Array, ...]:
    """Return what `read` returns, awaited: the event loop goes on meanwhile.

    >>> import asyncio
    >>> from pyrite import tensor
    >>> [x.item() for x in asyncio.run(read_async(tensor(1), tensor(2)))]
    [1, 2]
    """
    found: dict[int, Array] = {}
    for backend, (places, handles) in _by_device(tensors).items():
        arrays = await backend.download_all_async(handles)
        found.update(zip(places, arrays, strict=True))
    return tuple(found[place] for place in range(len(tensors)))


def _by_device(tensors: Sequence[Tensor]) -> dict[Backend, tuple[list[int], list[Handle]]]:
    """Return the tensors' places and handles under their backends, of whatever level they are."""
    groups: defaultdict[Backend, tuple[list[int], list[Handle]]] = defaultdict(lambda: ([], []))
    for place, tensor in enumerate(tensors):
        if not isinstance(tensor, Tensor):
            raise DTypeError(
                f"read requires tensors, got {type(tensor).__name__}; unpack a list: read(*tensors)"
            )
        plain = tensor._undecorated()
        places, handles = groups[plain._backend]
        places.append(place)
        handles.append(plain._handle)
    return groups
