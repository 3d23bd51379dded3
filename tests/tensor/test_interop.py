"""Who owns the memory when arrays and tensors meet."""

from __future__ import annotations

import numpy as np
import pytest

import pyrite
from pyrite.errors import ArgumentError, DTypeError
from pyrite.tensor.creation import asarray, tensor
from pyrite.tensor.interop import from_dlpack


def test_tensor_copies_what_its_owner_changes_later() -> None:
    array = np.array([1.0, 2.0])
    x = tensor(array)
    array[0] = 9
    assert x.tolist() == [1.0, 2.0]


@pytest.mark.parametrize(("copy", "seen"), [(False, 9.0), (None, 9.0), (True, 1.0)])
def test_from_dlpack_shares_unless_a_copy_is_asked_for(copy: bool | None, seen: float) -> None:
    array = np.array([1.0, 2.0])
    x = from_dlpack(array, copy=copy)
    array[0] = 9
    assert x.tolist() == [seen, 2.0]


def test_from_dlpack_takes_strided_and_read_only_memory() -> None:
    array = np.arange(12).reshape(3, 4)[::-1, ::2]
    array.flags.writeable = False
    assert from_dlpack(array, copy=False).tolist() == array.tolist()
    assert (from_dlpack(array) + 1).tolist() == (array + 1).tolist()


def test_numpys_view_is_the_memory_and_read_only() -> None:
    x = tensor([1.0, 2.0])
    view = np.from_dlpack(x)
    assert np.shares_memory(view, x.numpy())
    for array in (view, x.numpy(), np.asarray(x)):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 5


def test_a_consumer_of_an_old_dlpack_gets_a_copy() -> None:
    class Old:
        def __init__(self, x: object) -> None:
            self.x = x

        def __dlpack__(self, **_: object) -> object:
            return self.x.__dlpack__()  # type: ignore[attr-defined]

        def __dlpack_device__(self) -> tuple[int, int]:
            return (1, 0)

    x = tensor([1.0, 2.0])
    copied = np.from_dlpack(Old(x))
    assert copied.tolist() == x.tolist()
    assert not np.shares_memory(copied, x.numpy())
    with pytest.raises(BufferError, match=r"requires max_version >= \(1, 0\)"):
        x.__dlpack__(copy=False)


def test_np_array_copies_and_np_asarray_does_not() -> None:
    x = tensor([1, 2])
    assert np.shares_memory(np.asarray(x), x.numpy())
    copied = np.array(x)
    copied[0] = 7
    assert x.tolist() == [1, 2]
    assert np.asarray(x, dtype=np.float64).dtype == np.float64
    with pytest.raises(ArgumentError, match="requires the same dtype, got int32"):
        np.asarray(x, dtype=np.float64, copy=False)


def test_torch_and_pyrite_share_memory_both_ways() -> None:
    torch = pytest.importorskip("torch")
    owner = torch.tensor([1.0, 2.0])
    x = from_dlpack(owner, copy=False)
    owner[0] = 9
    assert x.tolist() == [9.0, 2.0]
    seen = torch.from_dlpack(tensor([[1, 2], [3, 4]]).T)
    assert seen.tolist() == [[1, 3], [2, 4]]
    y = tensor([1.0])
    assert torch.from_dlpack(y).data_ptr() == y.numpy().ctypes.data


def test_bfloat16_has_no_dlpack_through_numpy() -> None:
    with pytest.raises(BufferError, match="bfloat16; cast it"):
        np.from_dlpack(tensor([1.0], dtype="bfloat16"))
    torch = pytest.importorskip("torch")
    with pytest.raises(BufferError, match="requires what NumPy can read, got: Unsupported dtype"):
        from_dlpack(torch.tensor([1.0], dtype=torch.bfloat16))


def test_what_is_no_array_is_a_clear_error() -> None:
    with pytest.raises(DTypeError, match=r"got list; use pyrite\.tensor"):
        from_dlpack([1, 2])  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="use from_dlpack"):
        asarray([1, 2], copy=False)


def test_the_namespace_of_a_tensor_is_pyrite() -> None:
    x = tensor([1.0])
    assert x.__array_namespace__() is pyrite
    assert x.__array_namespace__(api_version="2024.12") is pyrite
    with pytest.raises(ArgumentError, match="requires one of"):
        x.__array_namespace__(api_version="1999.01")


def test_shared_memory_works_one_autodiff_level_up() -> None:
    array = np.array([1.0, 2.0])
    x = from_dlpack(array, device=pyrite.autodiff("numpy"), copy=False)
    array[0] = 9
    assert x.tolist() == [9.0, 2.0]
    assert not x.is_tracked
