"""Types of tensors, and the numbers by which they are looked up."""

from __future__ import annotations

import copy
from typing import Any

from pyrite import types
from pyrite.types import TensorType, float32, int32


def test_equal_types_have_one_key_and_others_another() -> None:
    x = TensorType((2, 3), float32)

    assert x.key == TensorType((2, 3), float32).key
    others = [
        TensorType((3, 2), float32),
        TensorType((2, 3), int32),
        TensorType((2, 3, 1), float32),
    ]
    assert len({x.key, *[o.key for o in others]}) == 4


def test_a_type_from_elsewhere_has_the_key_of_this_process() -> None:
    x = TensorType((7, 5), float32)
    make, given = x.__reduce__()  # what another process gets

    assert given == (x.shape, x.dtype)
    for other in (make(*given), copy.copy(x), copy.deepcopy(x)):
        assert (other, other.key) == (x, x.key)


def test_keys_that_are_forgotten_never_come_back_for_another_type(monkeypatch: Any) -> None:
    monkeypatch.setattr(types, "_MOST_KEYS", 4)
    monkeypatch.setattr(types, "_keys", {})
    made = [TensorType((n,), float32) for n in range(20)]

    assert len({t.key for t in made}) == 20
    assert len(types._keys) <= 4
