"""What moves elements keeps their dtype, each of them, and zero-d stays zero-d."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pyrite
from pyrite.backend.device import device, device_names, device_problem
from pyrite.errors import PyriteError
from pyrite.op import OPS
from pyrite.tensor.creation import tensor
from pyrite.tensor.tensor import Tensor
from pyrite.testing import Example, examples
from pyrite.types import DTYPES, DType, float32

pytestmark = pytest.mark.filterwarnings("ignore::pyrite.backend.fallback.FallbackWarning")

WORKING = [n for n in device_names() if device_problem(n) is None]


def first(x: Tensor) -> Tensor:
    """Return the position 0 as an index."""
    return pyrite.zeros((1,), dtype="int32", device=x.device)


#: What moves elements of a (4, 4).
MOVES: dict[str, Callable[[Tensor], Any]] = {
    "pad": lambda x: x.pad(1),
    "pad by True": lambda x: x.pad(1, value=True) if x.dtype.is_bool else x.pad(1, value=1),
    "pad edge": lambda x: x.pad(1, mode="edge"),
    "pad reflect": lambda x: x.pad(1, mode="reflect"),
    "pad circular": lambda x: x.pad(1, mode="circular"),
    "diag": lambda x: x.diag(),
    "diag below": lambda x: x[0].diag(-1),
    "diagonal": lambda x: x.diagonal(),
    "tril": lambda x: x.tril(),
    "triu": lambda x: x.triu(1),
    "roll": lambda x: x.roll(1, 0),
    "rot90": lambda x: x.rot90(),
    "flip": lambda x: x.flip(0),
    "tile": lambda x: x.tile((2, 1)),
    "repeat": lambda x: x.repeat(2, axis=0),
    "stack": lambda x: pyrite.stack([x, x]),
    "concat": lambda x: pyrite.concat([x, x]),
    "unstack": lambda x: x.unstack()[0],
    "split": lambda x: x.split(2)[0],
    "chunk": lambda x: x.chunk(2)[0],
    "reshape": lambda x: x.reshape(-1),
    "transpose": lambda x: x.mT,
    "moveaxis": lambda x: x.moveaxis(0, 1),
    "expand_dims": lambda x: x.expand_dims(0),
    "squeeze": lambda x: x[:1].squeeze(0),
    "broadcast_to": lambda x: x.broadcast_to((2, 4, 4)),
    "slice": lambda x: x[1:, ::2],
    "narrow": lambda x: x.narrow(0, 1, 2),
    "take": lambda x: x.take(first(x), axis=0),
    "take_along_axis": lambda x: x.take_along_axis(first(x).expand_dims(0), 0),
    "gather_nd": lambda x: x.gather_nd(first(x).expand_dims(0)),
    "scatter": lambda x: x.scatter(0, first(x).expand_dims(0), x[:1, :1]),
    "at.set": lambda x: x.at[0].set(x[1]),
    "where": lambda x: pyrite.where(x == x, x, x),
    "sliding_window": lambda x: x.sliding_window(0, 2, 1),
    "sort": lambda x: x.sort(0),
    "topk": lambda x: x.topk(1, axis=0),
    "max": lambda x: x.max(0),
    "min": lambda x: x.min(),
    "cummax": lambda x: x.cummax(0),
    "clone": lambda x: x.clone(),
    "unfold4d": lambda x: x.reshape((1, 1, 4, 4)).unfold4d((2, 2)),
    "pixel_shuffle": lambda x: x.reshape((1, 4, 2, 2)).pixel_shuffle(2),
    "masked_select": lambda x: x.masked_select(x == x),
    "unique": lambda x: x.unique(),
    "zeros_like": lambda x: pyrite.zeros_like(x),
    "full_like": lambda x: pyrite.full_like(x, 1),
}


@pytest.mark.sample(2, by="move")
@pytest.mark.parametrize("name", WORKING)
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: d.name)
@pytest.mark.parametrize("move", MOVES)
def test_a_move_keeps_the_dtype(move: str, dtype: DType, name: str) -> None:
    if dtype not in device(name).backend.dtypes:
        return
    x = tensor(np.ones((4, 4), dtype.numpy), device=name)
    found = MOVES[move](x)
    for result in found[:1] if isinstance(found, tuple) else [found]:
        assert result.dtype is dtype


ZERO_D = [e for e in examples() if e.op.infer is not None and e.op.is_composite]


@pytest.mark.parametrize("name", sorted({e.op.name for e in ZERO_D}))
def test_a_composite_gives_the_type_that_it_infers(name: str) -> None:
    for example in (e for e in ZERO_D if e.op.name == name):
        assert_inferred(example)


def assert_inferred(example: Example) -> None:
    op = OPS[example.op.name]
    inputs = [tensor(a) if isinstance(a, np.ndarray) else a for a in example.arrays(float32)]
    attrs = {**op.attributes, **example.sample.attrs}
    types = [None if x is None else x._type for x in inputs if x is None or isinstance(x, Tensor)]
    if len(types) != len(inputs):
        return
    if op.canonical:
        attrs = dict(op.canonical(*types, **attrs))
    assert op.infer is not None
    inferred = op.infer(*types, **attrs)
    wanted = inferred if isinstance(inferred, tuple) else (inferred,)
    assert [r._type for r in example.call(inputs)] == list(wanted)


@pytest.mark.parametrize("name", sorted(n for n, op in OPS.items() if len(op.inputs) <= 2))
def test_what_takes_zero_d_and_keeps_shapes_gives_zero_d(name: str) -> None:
    """An op whose example of shape (2, 3) gives (2, 3) gives () of ()."""
    op = OPS[name]
    if op.sync or not callable(getattr(Tensor, name, None)):
        return
    rest = [tensor([0.5])] if name == "prelu" else [tensor(0.5)] * (len(op.inputs) - 1)
    try:
        wide = getattr(pyrite.ones((2, 3)), name)(*rest)
        narrow = getattr(tensor(1.0), name)(*rest)
    except (PyriteError, TypeError):
        return
    if isinstance(wide, Tensor) and wide.shape == (2, 3):
        assert narrow.shape == ()
