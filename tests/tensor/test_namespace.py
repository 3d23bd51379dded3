"""What the standard asks of the namespace; tests/standard tries the rest."""

from __future__ import annotations

import pytest

import pyrite
from pyrite.errors import ArgumentError, ZeroRankError
from pyrite.tensor.creation import tensor


def test_a_device_without_a_dtype_does_not_name_it(monkeypatch: pytest.MonkeyPatch) -> None:
    root = pyrite.device("numpy").backend.root
    monkeypatch.setattr(type(root), "dtypes", frozenset({pyrite.float32, pyrite.bfloat16}))
    assert list(pyrite.__array_namespace_info__().dtypes(device="numpy")) == ["float32"]


def test_astype_moves_to_a_device_and_needs_no_copy() -> None:
    x = tensor([1.7])
    assert pyrite.astype(x, "int8", copy=True, device="cpu").device == "cpu"
    assert x.astype("int8", copy=False).tolist() == [1]


def test_reshape_takes_one_shape_by_place_or_by_name() -> None:
    x = pyrite.arange(6)
    assert pyrite.reshape(x, (2, 3)).shape == pyrite.reshape(x, shape=(2, -1)).shape == (2, 3)
    assert x.reshape(shape=(3, 2), copy=True).shape == x.reshape(3, 2, copy=None).shape == (3, 2)
    with pytest.raises(ArgumentError, match="one shape"):
        x.reshape(2, 3, shape=(2, 3))


@pytest.mark.parametrize("of_no_axis", [len, iter])
def test_len_and_iter_of_no_axis_are_errors_of_type_and_of_value(of_no_axis: type) -> None:
    for error in (ZeroRankError, TypeError, ValueError):
        with pytest.raises(error, match="at least one axis"):
            of_no_axis(tensor(1.0))


def test_real_numbers_are_their_own_conjugate() -> None:
    x = tensor([1.5, -2.0])
    assert pyrite.conj(x).tolist() == pyrite.real(x).tolist() == [1.5, -2.0]
    assert pyrite.imag(x).tolist() == [0.0, 0.0]
    assert complex(tensor(2)) == 2 + 0j
