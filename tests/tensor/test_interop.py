"""Who owns the memory when arrays and tensors meet."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyrite
from pyrite import Tensor
from pyrite.backend.device import device_problem
from pyrite.config import config
from pyrite.errors import ArgumentError, DTypeError
from pyrite.tensor.creation import asarray, tensor
from pyrite.tensor.interop import from_dlpack
from pyrite.types import TensorType


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


# ---- whose memory it is, by its addresses, on every backend ----

EVERYWHERE = ("numpy", "cpu", "wgpu", "torch:cpu", "candle")


@pytest.fixture(params=EVERYWHERE)
def everywhere(request: pytest.FixtureRequest) -> pyrite.Device:
    if problem := device_problem(request.param):
        pytest.skip(problem)
    return pyrite.device(request.param)


def shares(device: pyrite.Device) -> bool:
    is_guarded = config.guard is not None and device.name == "cpu"
    return device.backend.root.shares_with_numpy and not is_guarded


def address(array: np.ndarray) -> int:
    return int(array.ctypes.data)


#: By name: an array, and whether it is negative in a stride, read-only, or between addresses.
LAYOUTS: dict[str, Any] = {
    "dense": lambda: np.arange(12.0).reshape(3, 4),
    "two zeros": lambda: np.zeros(2),
    "a part": lambda: np.arange(40.0)[5:11],
    "every second": lambda: np.arange(12.0).reshape(3, 4)[:, 1::2],
    "transposed": lambda: np.arange(12.0).reshape(3, 4).T,
    "stretched": lambda: np.broadcast_to(np.arange(3.0), (4, 3)),
    "reversed": lambda: np.arange(12.0).reshape(3, 4)[::-1, ::-1],
    "read-only": lambda: np.frombuffer(np.arange(4.0).tobytes()),
    "small": lambda: np.arange(9, dtype=np.int8)[3:],
    "a number": lambda: np.array(3.5),
    "bools": lambda: np.array([True, False, True]),
}


def is_refused(device: pyrite.Device, array: np.ndarray) -> bool:
    """PyTorch has no negative strides and no read-only memory."""
    is_plain = array.flags.writeable and min(array.strides, default=0) >= 0
    return not shares(device) or (device.name == "torch:cpu" and not is_plain)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_an_array_is_taken_without_a_copy_or_refused(
    everywhere: pyrite.Device, layout: str
) -> None:
    array = LAYOUTS[layout]()
    if not everywhere.backend.supports(TensorType((), pyrite.types.dtype(array.dtype))):
        pytest.skip("a dtype that is not there")
    if is_refused(everywhere, array):
        with pytest.raises(
            BufferError, match=r"from_dlpack requires memory that .* can share, got"
        ):
            from_dlpack(array, device=everywhere, copy=False)
        x = from_dlpack(array, device=everywhere)
    else:
        x = from_dlpack(array, device=everywhere, copy=False)
        assert address(x.numpy()) == address(array)
        assert x.numpy().strides == array.strides or array.size == 1
        assert address(from_dlpack(array, device=everywhere).numpy()) == address(array)
    copied = from_dlpack(array, device=everywhere, copy=True)

    assert address(copied.numpy()) != address(array)
    for taken in (x, copied):
        assert taken.tolist() == array.tolist()
        assert (taken == taken).all().item()
        assert taken.mT.tolist() == array.T.tolist() if array.ndim == 2 else True
        if array.dtype == np.float64:
            wanted = (array * 2 + 1).sum()
            assert (taken * 2 + 1).sum().item() == wanted


def test_values_are_given_without_a_copy(everywhere: pyrite.Device) -> None:
    x = pyrite.arange(12, dtype="float32", device=everywhere).reshape(3, 4) * 2.0
    wanted = np.arange(12, dtype=np.float32).reshape(3, 4) * 2
    is_same = everywhere.backend.root.shares_with_numpy
    for view, part in ((x, wanted), (x.mT, wanted.T), (x[1:, ::2], wanted[1:, ::2])):
        array = view.numpy()
        np.testing.assert_array_equal(array, part)
        again = (view.numpy(), np.asarray(view), np.from_dlpack(view))
        assert {address(other) == address(array) for other in again} == {is_same}
        for other in (array, *again):
            with pytest.raises(ValueError, match="read-only"):
                other[0] = 5
            assert not other.flags.writeable
    copied = np.array(x)
    copied[0] = 7
    assert x.tolist() == wanted.tolist()


def test_an_exported_view_keeps_its_memory(everywhere: pyrite.Device) -> None:
    """It is never given to another tensor while the view lives, whatever becomes of the tensor."""
    n = 1 << 12
    views = [
        read(pyrite.full((n,), float(i), device=everywhere) + 1.0)
        for i in range(8)
        for read in (Tensor.numpy, np.from_dlpack, np.asarray)
    ]
    for i in range(50):
        (pyrite.full((n,), -1.0, device=everywhere) * float(i)).numpy()

    assert [float(v[0]) for v in views] == [i + 1.0 for i in range(8) for _ in range(3)]
    assert all((v == v[0]).all() for v in views)


def test_a_shared_array_lives_as_long_as_its_reads(everywhere: pyrite.Device) -> None:
    """The tensor and the array are let go before the work that reads them is done."""

    def work(n: int) -> Tensor:
        array = np.full(1 << 16, float(n))
        return pyrite.from_dlpack(array, device=everywhere).exp().sqrt() + 1.0

    found = [work(n) for n in range(6)]
    noise = [np.full(1 << 16, -1.0) for _ in range(6)]

    for n, x in enumerate(found):
        np.testing.assert_allclose(x.numpy(), np.sqrt(np.exp(n)) + 1.0)
    assert noise


def test_a_shared_array_is_let_go_of_after_that() -> None:
    array: Any = Owned(1 << 10)
    owner = weakref.ref(array)
    x = from_dlpack(array, device="cpu", copy=False) if config.guard is None else None
    y = None if x is None else x + 1.0
    del array, x
    pyrite.device("cpu").synchronize()
    gc.collect()

    assert owner() is None
    assert y is None or y.numpy()[0] == 1.0


class Owned:
    """An array of DLPack that can be watched: the capsule keeps it by its buffer."""

    def __init__(self, n: int) -> None:
        self.array = np.zeros(n).view(Watched)
        self.array.watcher = self

    def __dlpack__(self, **how: Any) -> Any:
        return self.array.__dlpack__(**how)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


class Watched(np.ndarray):
    watcher: Any = None


def test_elements_between_addresses_are_copied_or_refused(everywhere: pyrite.Device) -> None:
    array = np.frombuffer(b"x" + np.arange(4, dtype=np.float32).tobytes(), np.float32, offset=1)
    array = np.ndarray((4,), np.float32, bytearray(b"x" + array.tobytes()), 1)
    assert not array.flags.aligned

    x = pyrite.tensor(array, device=everywhere)
    assert x.tolist() == [0.0, 1.0, 2.0, 3.0]
    if everywhere.name == "cpu":
        assert everywhere.backend.adopt(array) is None


def test_the_tables_word_for_sharing_is_true() -> None:
    readme = (Path(__file__).parents[2] / "README.md").read_text()
    row = next(line for line in readme.splitlines() if "shares memory with NumPy" in line)

    assert [cell.strip() for cell in row.split("|")[2:7]] == ["yes", "yes", "", "`torch:cpu`", ""]


def test_memory_that_is_not_the_hosts_is_not_shared_by_a_copy(everywhere: pyrite.Device) -> None:
    x = pyrite.arange(4, dtype="float32", device=everywhere)
    if everywhere.backend.root.shares_with_numpy:
        assert address(np.from_dlpack(x, copy=False)) == address(x.numpy())
        return
    with pytest.raises(BufferError, match="requires host memory to share, got memory of"):
        np.from_dlpack(x, copy=False)
    assert np.from_dlpack(x).tolist() == [0.0, 1.0, 2.0, 3.0]


@pytest.mark.parametrize("copy", [None, False, True])
def test_a_tensor_stays_where_it_is(everywhere: pyrite.Device, copy: bool | None) -> None:
    for x in (
        pyrite.arange(4, device=everywhere),
        pyrite.ones((2,), dtype="bfloat16", device=everywhere),
    ):
        taken = from_dlpack(x, copy=copy)
        assert (taken.device, taken.dtype) == (x.device, x.dtype)
        assert taken.tolist() == x.tolist()


def test_a_tensor_of_another_device_is_copied_where_that_is_allowed() -> None:
    x = pyrite.arange(4, device="numpy")
    assert from_dlpack(x, device="cpu").device == pyrite.device("cpu")
    with pytest.raises(BufferError, match="a tensor of cpu to share its memory, got one of numpy"):
        from_dlpack(x, device="cpu", copy=False)
