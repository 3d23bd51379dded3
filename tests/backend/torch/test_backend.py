"""What the conformance suite cannot know of the Torch backend: memory, devices, errors, waiting."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator

import numpy as np
import pytest

import pyrite
from pyrite.backend import device_problem
from pyrite.errors import DeviceError, DTypeError, IndexRangeError, SyncError
from pyrite.op import OPS, primitive
from pyrite.types import TensorType

torch = pytest.importorskip("torch")

from pyrite.backend.torch import Torch  # noqa: E402 - torch may be missing
from pyrite.backend.torch.fault import Faults  # noqa: E402

HAS_CUDA = device_problem("torch:cuda") is None
needs_cuda = pytest.mark.skipif(not HAS_CUDA, reason="no CUDA device")
DEVICES = ["torch:cpu", pytest.param("torch:cuda", marks=needs_cuda)]
each_device = pytest.mark.parametrize("name", DEVICES)


# ---- names ----


@needs_cuda
def test_a_device_has_one_backend_under_all_of_its_names() -> None:
    assert pyrite.device("torch:cuda") == pyrite.device("torch:cuda:0") == "torch:cuda"


def test_details_name_the_gpu_and_ask_for_it_only_then(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(
        torch.cuda, "get_device_name", lambda device: asked.append(device) or "NVIDIA H200"
    )

    backend = Torch("cuda:1")

    assert asked == []
    assert backend.details == f"torch {torch.__version__}, NVIDIA H200"
    assert asked == [torch.device("cuda", 1)]
    assert Torch("cpu").details == f"torch {torch.__version__}"


@needs_cuda
def test_the_gpu_has_a_name() -> None:
    assert Torch("cuda").details.endswith(torch.cuda.get_device_name(0))


@pytest.mark.parametrize(
    "name", ["torch", "torch:tpu", "torch:cpu:0", "torch:cuda:x", "numpy:0", "torch:"]
)
def test_a_name_of_no_device_is_an_error_that_lists_them(name: str) -> None:
    with pytest.raises(DeviceError, match=r"device requires one of numpy, .*torch:cpu, torch:cuda"):
        pyrite.device(name)


@pytest.mark.skipif(HAS_CUDA, reason="there is a CUDA device")
def test_a_missing_gpu_is_one_clear_error() -> None:
    with pytest.raises(DeviceError, match=r"requires a CUDA device 0 .* use torch:cpu"):
        pyrite.zeros((2,), device="torch:cuda")


def test_a_missing_package_is_one_line_with_the_command_that_gets_it() -> None:
    program = (
        "import sys; sys.modules['torch'] = None\n"
        "from pyrite.backend import device_problem\n"
        "print(device_problem('torch:cpu'))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == (
        "torch:cpu requires the package torch, which is not installed here; "
        "pip install 'pyrite[torch]'\n"
    )


def test_importing_pyrite_does_not_import_torch() -> None:
    program = "import pyrite, sys; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "False\n"


# ---- memory ----


@each_device
def test_from_torch_shares_memory_until_it_is_asked_to_copy(name: str) -> None:
    source = torch.zeros(3, device=name.partition(":")[2])
    shared, copied = pyrite.from_torch(source), pyrite.from_torch(source, copy=True)
    source[0] = 7
    assert shared.device == name
    assert (shared.tolist(), copied.tolist()) == ([7, 0, 0], [0, 0, 0])


@each_device
def test_torch_gives_the_memory_itself_without_a_graph(name: str) -> None:
    x = pyrite.tensor([1.0, 2.0], device=name) * 2
    found = x.torch()
    assert found.data_ptr() == x.primitive().data_ptr()
    assert not found.requires_grad
    found.requires_grad_()
    assert not x.primitive().requires_grad


def test_a_parameter_of_a_network_of_pytorch_is_cut_off_its_graph() -> None:
    source = torch.ones(2, requires_grad=True) * 3
    assert not pyrite.from_torch(source).primitive().requires_grad


def test_torch_of_another_device_is_a_copy() -> None:
    x = pyrite.tensor([1, 2], dtype="bfloat16")
    found = x.torch()
    assert (found.dtype, found.tolist()) == (torch.bfloat16, [1.0, 2.0])
    found[0] = 9
    assert x.tolist() == [1, 2]


def test_writing_to_exported_zeros_leaves_other_zeros_alone() -> None:
    found = pyrite.zeros((2, 2), device="torch:cpu").torch()
    found += 1
    assert pyrite.zeros((3,), device="torch:cpu").tolist() == [0, 0, 0]


def test_views_clones_and_detached_tensors_share_memory() -> None:
    x = pyrite.arange(6.0, device="torch:cpu")
    address = x.primitive().data_ptr()
    for same in (x.clone(), x.detach(), x.reshape(2, 3), x.reshape(2, 3).T, x[:2]):
        assert same.primitive().data_ptr() == address


def test_what_is_read_is_read_only_and_what_is_uploaded_a_copy() -> None:
    array = np.ones(2)
    x = pyrite.tensor(array, device="torch:cpu")
    array[0] = 5
    assert not x.numpy().flags.writeable
    assert x.tolist() == [1, 1]


@pytest.mark.parametrize("wrong", [3, np.zeros(2)])
def test_from_torch_refuses_what_is_no_torch_tensor(wrong: object) -> None:
    with pytest.raises(DTypeError, match=r"from_torch requires a torch.Tensor, got"):
        pyrite.from_torch(wrong)


def test_a_layer_that_is_given_a_torch_tensor_names_the_conversion() -> None:
    with pytest.raises(DTypeError, match=r"got a torch\.Tensor; .* pyrite\.tensor"):
        pyrite.nn.Linear(3, 2)(torch.ones(1, 3))


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.ones(2, requires_grad=True),
        lambda: torch.ones(2, dtype=torch.bfloat16),
        lambda: torch.eye(2).to_sparse(),
    ],
    ids=["requires grad", "bfloat16", "sparse"],
)
def test_tensor_of_what_pytorch_does_not_give_numpy_names_from_torch(
    make: Callable[[], torch.Tensor],
) -> None:
    with pytest.raises(DTypeError, match=r"an array that NumPy can read, got .*pyrite\.from_torch"):
        pyrite.tensor(make())


def test_tensor_of_a_torch_tensor_keeps_its_dtype_as_of_any_array() -> None:
    for kind in (torch.float64, torch.int64, torch.float16):
        assert pyrite.tensor(torch.ones(2, dtype=kind)).torch().dtype == kind


@pytest.mark.parametrize(
    ("make", "got"),
    [
        (lambda: torch.eye(2).to_sparse(), r"torch\.sparse_coo; call its to_dense\(\)"),
        (lambda: torch.ones(2, 2).to_mkldnn(), r"torch\._mkldnn; call its to_dense\(\)"),
        (lambda: torch.tensor([1 + 2j]).conj().imag, r"negates .*; call its resolve_neg\(\)"),
    ],
    ids=["sparse", "mkldnn", "negated"],
)
@pytest.mark.parametrize("copy", [False, True])
def test_from_torch_refuses_memory_that_does_not_hold_each_element(
    make: Callable[[], torch.Tensor], got: str, copy: bool
) -> None:
    with pytest.raises(DTypeError, match=f"from_torch requires memory .* got .*{got}"):
        pyrite.from_torch(make(), copy=copy)


def test_from_torch_refuses_dtypes_that_pyrite_lacks() -> None:
    with pytest.raises(DTypeError, match=r"from_torch requires one of bool.* got torch.complex64"):
        pyrite.from_torch(torch.zeros(2, dtype=torch.complex64))


# ---- indices ----


def test_an_index_outside_is_an_error_at_once_on_the_host() -> None:
    x = pyrite.arange(3, device="torch:cpu")
    with pytest.raises(IndexRangeError, match=r"take requires -3 <= index < 3 on axis 0, got.* 5"):
        x.take(pyrite.tensor([0, 5], device="torch:cpu"), 0)


@needs_cuda
def test_an_index_outside_is_an_error_at_the_next_read_on_a_gpu() -> None:
    x = pyrite.arange(3, device="torch:cuda")
    found = x.take(pyrite.tensor([0, 5], device="torch:cuda"), 0)
    with pytest.raises(IndexRangeError, match="take requires -3 <= index < 3 on axis 0") as caught:
        found.numpy()
    assert caught.value.location is not None
    assert "test_backend.py" in caught.value.location
    assert x.tolist() == [0, 1, 2]


def test_an_index_outside_is_an_error_each_time_that_it_is_used() -> None:
    class Far(Torch):
        """The host, as a device that cannot be asked at once."""

        is_host = property(lambda self: False)  # type: ignore[assignment]

    far = pyrite.Device(Far("cpu"))
    x, indices = pyrite.arange(3, device=far), pyrite.tensor([0, 5], device=far)
    for _ in range(3):
        found = x.take(indices, 0)
        with pytest.raises(IndexRangeError, match="take requires -3 <= index < 3 on axis 0"):
            found.numpy()
    weight = pyrite.ones((3, 2), device=far)
    with pytest.raises(IndexRangeError, match="embedding requires"):
        weight.embedding(indices).numpy()
    assert x.tolist() == [0, 1, 2]


@each_device
def test_of_several_writes_to_one_place_the_last_wins(name: str) -> None:
    rng = np.random.default_rng(0)
    indices, values = rng.integers(0, 7, 5000), rng.standard_normal(5000).astype(np.float32)
    want = np.zeros(7, np.float32)
    for i, value in zip(indices, values, strict=True):
        want[i] = value
    x = pyrite.zeros((7,), device=name)
    got = x.scatter(0, pyrite.tensor(indices, device=name), pyrite.tensor(values, device=name))
    np.testing.assert_array_equal(got.numpy(), want)


@each_device
@pytest.mark.parametrize("reduction", ["add", "mul", "max"])
def test_scattering_twice_gives_the_same_bits(name: str, reduction: str) -> None:
    rng = np.random.default_rng(1)
    indices = pyrite.tensor(rng.integers(0, 50, 20000), device=name)
    values = pyrite.tensor(rng.uniform(0.9, 1.1, 20000).astype(np.float32), device=name)
    x = pyrite.ones((50,), device=name)
    runs = [x.scatter(0, indices, values, reduction=reduction).numpy() for _ in range(3)]
    for again in runs[1:]:
        np.testing.assert_array_equal(again, runs[0])


# ---- integers ----


@each_device
@pytest.mark.parametrize("dtype", ["int8", "int32", "uint32", "int64"])
def test_products_of_integers_wrap_around_exactly(name: str, dtype: str) -> None:
    rng, info = np.random.default_rng(2), np.iinfo(dtype)
    x, y = (rng.integers(info.min, info.max, s, dtype, True) for s in ((9, 300), (300, 5)))
    got = pyrite.tensor(x, device=name) @ pyrite.tensor(y, device=name)
    np.testing.assert_array_equal(got.numpy(), np.matmul(x, y))


@each_device
def test_random_words_are_those_of_numpy(name: str) -> None:
    for where in ("numpy", name):
        with pyrite.random_stream(2**40 + 5, "words"):
            words = pyrite.random_bits((1001,), device=where).numpy()
        if where == "numpy":
            want = words
    np.testing.assert_array_equal(words, want)


# ---- attention ----


@each_device
@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_fused_attention_has_the_values_and_gradients_of_numpy(
    name: str, is_causal: bool, dtype: str
) -> None:
    rng = np.random.default_rng(3)
    arrays = [rng.standard_normal((2, 3, 17, 16)) for _ in range(3)]

    def on(where: str) -> list[np.ndarray]:
        inputs = [pyrite.tensor(a, dtype=dtype, device=where) for a in arrays]

        def loss(q: pyrite.Tensor, k: pyrite.Tensor, v: pyrite.Tensor) -> pyrite.Tensor:
            out = q.scaled_dot_product_attention(k, v, is_causal=is_causal)
            return (out * out).sum()

        value, grads = pyrite.value_and_grad(loss, (0, 1, 2))(*inputs)
        return [np.asarray(t.numpy(), np.float64) for t in (value, *grads)]

    tolerance = {"float32": 1e-4, "float16": 2e-2, "bfloat16": 0.15}[dtype]
    for got, want in zip(on(name), on("numpy"), strict=True):
        np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


# ---- waiting ----


@needs_cuda
@pytest.mark.filterwarnings("ignore:Synchronization debug mode is a prototype")
def test_a_training_step_on_a_gpu_waits_for_nothing() -> None:
    model = pyrite.nn.TransformerEncoderLayer(32, 4, 64, dropout=0.1).to("torch:cuda")
    x = pyrite.normal((4, 8, 32), device="torch:cuda")
    optimizer = pyrite.optim.AdamW(1e-3)
    step = pyrite.value_and_grad(lambda m, x: (m(x, is_causal=True) ** 2).mean())
    _, grads = step(model, x)  # draws the initial weights on the host
    model = optimizer.step(model, grads)
    torch.cuda.set_sync_debug_mode("error")
    try:
        with pyrite.no_sync():
            _, grads = step(model, x)
            optimizer.step(model, grads)
    finally:
        torch.cuda.set_sync_debug_mode("default")


# ---- fallbacks ----


@pytest.fixture
def reversal() -> Iterator[object]:
    """An op of a user's that is known to NumPy only."""

    @primitive(
        reference=lambda x: x[::-1].copy(),
        infer=lambda x: TensorType(x.shape, x.dtype),
        accepts="any",
    )
    def reversal_for_test(self, /):  # type: ignore[no-untyped-def]
        """The elements in reverse."""

    yield reversal_for_test
    del OPS["reversal_for_test"]


@pytest.mark.filterwarnings("ignore::pyrite.FallbackWarning")
def test_an_op_that_only_numpy_knows_falls_back_and_is_counted(reversal: object) -> None:
    key, x = ("torch:cpu", "reversal_for_test"), pyrite.arange(3, device="torch:cpu")
    before = pyrite.fallbacks().get(key, 0)
    got = reversal(x)  # type: ignore[operator]
    assert (got.device.name, got.tolist()) == ("torch:cpu", [2, 1, 0])
    assert pyrite.fallbacks()[key] == before + 1
    with pyrite.no_sync(), pytest.raises(SyncError, match="requires waiting for the device"):
        reversal(x)  # type: ignore[operator]


def test_a_fallback_is_an_error_in_strict_mode(
    reversal: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pyrite.config, "strict", True)
    with pytest.raises(DeviceError, match="reversal_for_test requires an implementation on torch"):
        reversal(pyrite.arange(3, device="torch:cpu"))  # type: ignore[operator]


# ---- training ----


@each_device
def test_a_network_trains_as_on_numpy(name: str) -> None:
    def train(where: str) -> list[float]:
        pyrite.seed(0)
        model = pyrite.nn.Linear(8, 4).to(where)
        rng, losses = np.random.default_rng(4), []
        optimizer = pyrite.optim.Adam(1e-2)
        step = pyrite.value_and_grad(lambda m, x, y: m(x).gelu().cross_entropy_with_logits(y))
        for _ in range(10):
            x = pyrite.tensor(rng.standard_normal((16, 8)).astype(np.float32), device=where)
            y = pyrite.tensor(rng.integers(0, 4, 16), device=where)
            loss, grads = step(model, x, y)
            model = optimizer.step(model, grads)
            losses.append(float(loss))
        return losses

    np.testing.assert_allclose(train(name), train("numpy"), rtol=1e-4)


# ---- faults ----


def test_of_many_noted_faults_the_first_is_raised() -> None:
    faults = Faults()
    for i in range(200):
        faults.note(torch.tensor(i in (150, 190)), f"number {i % 180}")
    with pytest.raises(IndexRangeError, match="number 150"):
        faults.raise_any()
    faults.raise_any()


def test_what_was_noted_before_a_fault_is_kept_apart() -> None:
    faults = Faults()
    for i in range(3):
        faults.note(torch.tensor(i > 0), f"number {i}")
    with pytest.raises(IndexRangeError, match="number 1"):
        faults.raise_any()


def test_both_of_numpys_uint64_are_uploaded_and_shared() -> None:
    for dtype in (np.uint64, np.ulonglong):
        array = np.array([2**63, 1], dtype)
        assert pyrite.tensor(array, device="torch:cpu").tolist() == [2**63, 1]
        assert pyrite.from_dlpack(array, device="torch:cpu").tolist() == [2**63, 1]
    assert pyrite.tensor(2**63, dtype="uint64", device="torch:cpu").item() == 2**63
