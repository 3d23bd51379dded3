"""Fusion: what is recorded, what of it runs, when, and as how many kernels."""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
import types

import numpy as np
import pytest

import pyrite
from pyrite import Tensor, nn, optim
from pyrite.backend.cube import CubeBackend
from pyrite.backend.device import Device
from pyrite.backend.fusion import Fusion
from pyrite.backend.fusion import recorded as recorded_module
from pyrite.config import config
from pyrite.errors import IndexRangeError, ShapeError
from pyrite.runtime.interpreter import InterpreterRuntime

RNG = np.random.default_rng(7)


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape, dtype=np.float32)


@pytest.fixture
def device() -> Device:
    """A device of its own, with nothing recorded: on the same processor as all others."""
    return Device(Fusion(pyrite.device("cpu").backend.root))


def fused(device: Device) -> Fusion:
    backend = device.backend
    assert isinstance(backend, Fusion)
    return backend


def launches(device: Device) -> list[int]:
    """Return how many kernels each program has, in the order in which they were made."""
    return [program.launches for program in fused(device).recorded.programs.young.values()]


def gelu(x: Tensor) -> Tensor:
    """A user's own, by the tanh formula."""
    return 0.5 * x * (1 + (0.7978845608 * (x + 0.044715 * x * x * x)).tanh())


# ---- kernels ----


def test_a_chain_of_elementwise_ops_is_one_kernel_of_the_same_bits(device: Device) -> None:
    values = floats(33, 65)
    found = gelu(pyrite.tensor(values, device=device)).numpy()
    assert launches(device) == [1]
    np.testing.assert_array_equal(found, gelu(pyrite.tensor(values, device="cpu")).numpy())


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64", "int8"])
def test_each_op_of_a_kernel_rounds_as_alone(device: Device, dtype: str) -> None:
    values = (floats(7, 33) * 20).astype(np.int8).astype(np.float32)

    def chain(x: Tensor) -> Tensor:
        x = x.astype(dtype)
        return ((x * x + x) * x - x).astype("float64")

    found = chain(pyrite.tensor(values, device=device)).numpy()
    np.testing.assert_array_equal(found, chain(pyrite.tensor(values, device="cpu")).numpy())


def test_what_stands_before_and_after_rows_is_in_their_kernel(device: Device) -> None:
    x = pyrite.tensor(floats(64, 33), device=device)
    y = (((x * 2 + 1).softmax(-1) * 3).exp() - 1).sum(-1)
    reference = (((pyrite.tensor(x.numpy()) * 2 + 1).softmax(-1) * 3).exp() - 1).sum(-1)
    np.testing.assert_allclose(y.numpy(), reference.numpy(), rtol=1e-5, atol=1e-5)
    assert launches(device)[-1] <= 3


def test_a_view_launches_nothing_and_breaks_no_kernel(device: Device) -> None:
    x = pyrite.tensor(floats(6, 35), device=device)
    y = ((x * 2).reshape((6, 5, 7)).mT + 1).exp()
    expected = np.exp((x.numpy() * 2).reshape(6, 5, 7).swapaxes(1, 2) + 1)
    np.testing.assert_allclose(y.numpy(), expected, rtol=1e-6, atol=1e-6)
    assert launches(device) == [1]
    z = x[1:, ::2].mT
    np.testing.assert_array_equal(z.numpy(), x.numpy()[1:, ::2].T)
    assert launches(device) == [1, 0]


def test_only_what_is_held_is_computed(device: Device) -> None:
    x = pyrite.tensor(floats(16, 16), device=device)
    (x @ x).exp()
    y = x + 1
    y.numpy()
    assert launches(device) == [1]
    assert fused(device).recorded.runs == 1


def test_results_that_are_held_come_of_one_program(device: Device) -> None:
    x = pyrite.tensor(floats(5, 9), device=device)
    y = x + 1
    z = y.exp()
    np.testing.assert_array_equal(y.numpy(), x.numpy() + 1)
    np.testing.assert_allclose(z.numpy(), np.exp(x.numpy() + 1), rtol=1e-6)
    assert fused(device).recorded.runs == 1


def test_the_steps_of_a_training_meet_one_program(device: Device) -> None:
    model = nn.Sequential(nn.Linear(13, 17), nn.ReLU(), nn.Linear(17, 3)).to(device)
    x = pyrite.tensor(floats(11, 13), device=device)
    optimizer = optim.AdamW(optim.schedule.CosineAnnealing(1e-2, 50))
    step = pyrite.value_and_grad(lambda m, x: (m(x) ** 2).mean())
    losses = []
    for _ in range(8):
        loss, grads = step(model, x)
        model = optimizer.step(model, grads)
        losses.append(loss.item())
    assert losses[-1] < losses[0]
    # The first step begins with zeros, the second records its backward pass, then all are alike.
    assert fused(device).recorded.compiled <= 4
    assert fused(device).recorded.runs == 8


def test_a_step_of_training_is_that_of_the_device_below(device: Device) -> None:
    def losses(where: Device) -> list[float]:
        with pyrite.random_stream(3):
            model = nn.Sequential(
                nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.GELU(), nn.Dropout(0.3), nn.Flatten(),
                nn.Linear(4 * 8 * 8, 5),
            ).to(where)  # fmt: skip
            images = pyrite.tensor(RNG_IMAGES, device=where)
            labels = pyrite.tensor(np.arange(6) % 5, device=where)
            optimizer, found = optim.Adam(1e-2), []
            step = pyrite.value_and_grad(lambda m, x, y: m(x).cross_entropy_with_logits(y, axis=-1))
            for _ in range(5):
                loss, grads = step(model, images, labels)
                model = optimizer.step(model, grads)
                found.append(loss.item())
        return found

    np.testing.assert_allclose(losses(device), losses(pyrite.device("cpu")), rtol=2e-4)


RNG_IMAGES = floats(6, 1, 10, 10)


def test_numbers_are_arguments_and_bools_are_not(device: Device) -> None:
    x = pyrite.tensor(floats(4, 4), device=device)
    for rate in (0.5, 0.25, -1.0, float("nan")):
        np.testing.assert_array_equal((x * rate).numpy(), x.numpy() * np.float32(rate))
    assert fused(device).recorded.compiled == 1
    mask = x > 0
    for other in (True, False):
        np.testing.assert_array_equal((mask ^ other).numpy(), (x.numpy() > 0) ^ other)


def test_a_number_on_the_left_is_not_one_on_the_right(device: Device) -> None:
    x = pyrite.tensor(floats(9, 33), device=device)
    np.testing.assert_allclose(
        (x - 2).sum(-1).numpy(), (x.numpy() - 2).sum(-1), rtol=1e-5, atol=1e-5
    )
    np.testing.assert_allclose(
        (2 - x).sum(-1).numpy(), (2 - x.numpy()).sum(-1), rtol=1e-5, atol=1e-5
    )


def test_draws_are_those_of_the_device_below(device: Device) -> None:
    with pyrite.random_stream(5):
        found = [pyrite.normal((7, 3), device=device).numpy() for _ in range(3)]
    with pyrite.random_stream(5):
        expected = [pyrite.normal((7, 3), device="cpu").numpy() for _ in range(3)]
    np.testing.assert_array_equal(found, expected)
    assert fused(device).recorded.compiled == 1


def test_what_has_no_elements_runs(device: Device) -> None:
    x = pyrite.tensor(floats(0, 3), device=device)
    assert (x * 2).exp().sum(0).numpy().tolist() == [0.0, 0.0, 0.0]
    assert (x.mT @ x + 1).numpy().tolist() == [[1.0] * 3] * 3


# ---- what cannot wait ----


def test_an_op_whose_shape_depends_on_values_runs_at_once(device: Device) -> None:
    x = pyrite.tensor([0.0, 3.0, 0.0, 5.0], device=device)
    y = (x + 0).argwhere() * 2
    assert y.numpy().tolist() == [[2], [6]]


def test_an_error_of_shapes_comes_at_the_call(device: Device) -> None:
    x = pyrite.tensor(floats(2, 3), device=device)
    with pytest.raises(ShapeError):
        x.exp() @ x


def test_a_chain_of_any_length_runs(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyrite.backend.fusion.decorator.MOST_CALLS", 50)
    x = pyrite.tensor(0, device=device)
    for _ in range(333):
        x = x + 1
    assert x.item() == 333
    assert fused(device).recorded.runs == 7


def test_a_value_of_many_folds_is_made_by_kernels_that_a_compiler_takes(device: Device) -> None:
    # One kernel of all took a compiler minutes.
    x = pyrite.tensor(floats(5, 7), device=device)
    total = pyrite.tensor(0.0, device=device)
    for n in range(150):
        total = total + (x * n).mean()
    expected = sum(float((x.numpy() * np.float32(n)).mean()) for n in range(150))
    np.testing.assert_allclose(total.item(), expected, rtol=1e-4)
    assert launches(device)[-1] in (3, 4)


# ---- index errors ----


def test_a_fold_that_shares_an_operand_and_fits_no_kernel_with_it_comes_later(
    device: Device,
) -> None:
    """The sums of the second softmax read what the first gives along other axes: to make their
    operands asked for them again, without end."""
    x = np.random.default_rng(0).standard_normal((7, 5)).astype(np.float16)

    def run(where: Device | str) -> list[np.ndarray]:
        twice = pyrite.tensor(x, device=where).softmax(1) * 2
        more = (twice * 1.7).unsqueeze(1)
        moved = more.permute_dims((0, 1, 2))
        apart = twice - more
        found = [apart.softmax(0), moved, twice, moved.roll(2, 0), apart]
        return [t.numpy() for t in found]

    for got, want in zip(run(device), run("numpy"), strict=True):
        np.testing.assert_allclose(got.astype(float), want.astype(float), 5e-3, 1e-3)


def test_an_index_error_names_the_line_of_its_op_and_spares_what_it_did_not_reach(
    device: Device,
) -> None:
    x = pyrite.tensor(floats(4, 3), device=device)
    indices = pyrite.tensor([0, 9], device=device)
    for _ in range(2):
        sound = (x * 2).sum(-1)
        wrong = x.take(indices, axis=0) + 1  # this line
        also = wrong.exp()
        np.testing.assert_allclose(sound.numpy(), (x.numpy() * 2).sum(-1), rtol=1e-6, atol=2e-6)
        for tensor in (wrong, also, wrong):
            with pytest.raises(IndexRangeError) as caught:
                tensor.numpy()
            path, line = caught.value.location.rsplit(":", 1)
            assert path.endswith("test_fusion.py")
            with open(__file__) as source:
                assert "# this line" in source.read().splitlines()[int(line) - 1]


# ---- threads and tasks ----


def test_a_value_of_another_thread_is_computed_when_it_is_used(device: Device) -> None:
    x = pyrite.tensor(floats(8, 8), device=device)
    made: list[Tensor] = []
    thread = threading.Thread(target=lambda: made.append(x.exp() + 1))
    thread.start()
    thread.join()
    mine = x * 2
    np.testing.assert_allclose(
        (made[0] + mine).numpy(), np.exp(x.numpy()) + 1 + 2 * x.numpy(), 1e-5
    )


def test_threads_that_share_tensors_do_not_meet_each_others_calls(device: Device) -> None:
    shared = [pyrite.tensor(floats(9, 9), device=device) for _ in range(3)]
    values = [x.numpy() for x in shared]
    crossing: list[Tensor] = []
    wrong: list[str] = []

    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        for _ in range(60):
            i, j = rng.integers(0, 3, 2)
            number = float(rng.integers(1, 5))
            y = shared[i] * number + shared[j]
            crossing.append(y)
            other = crossing[rng.integers(0, len(crossing))]
            z = y + 0 * other
            if not np.allclose(z.numpy(), values[i] * np.float32(number) + values[j], 1e-5):
                wrong.append(f"{seed}: {i} {j} {number}")

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not wrong
    assert not any(thread.is_alive() for thread in threads)


def test_values_are_awaited(device: Device) -> None:
    x = pyrite.tensor(floats(3, 3), device=device)

    async def both() -> list[np.ndarray]:
        one, two = x + 1, x * 2
        return list(await asyncio.gather(one.to_numpy_async(), two.to_numpy_async()))

    one, two = asyncio.run(both())
    np.testing.assert_array_equal(one, x.numpy() + 1)
    np.testing.assert_array_equal(two, x.numpy() * 2)


def test_ops_run_while_another_thread_imports_asyncio(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "asyncio", types.ModuleType("asyncio"))

    assert (pyrite.ones((2,), device=device) + 1).sum().item() == 4


def test_tasks_that_take_turns_meet_their_own_programs(device: Device) -> None:
    """In whatever order their calls come; the weight belongs to all of them."""
    weight = pyrite.tensor(floats(6, 6), device=device)
    values = weight.numpy()
    given = [floats(4, 6), floats(5, 6)]
    order = np.random.default_rng(0)

    async def work(x: np.ndarray, *, is_first: bool) -> np.ndarray:
        y = pyrite.tensor(x, device=device)
        for n in range(4):
            for _ in range(int(order.integers(0, 3))):
                await asyncio.sleep(0)
            y = (y @ weight).tanh() if is_first else y * weight[n] + weight[n].sum()
        return y.numpy()

    async def all_at_once() -> list[np.ndarray]:
        outside.append(weight + 1)
        return list(await asyncio.gather(*[work(x, is_first=n == 0) for n, x in enumerate(given)]))

    outside: list[Tensor] = [weight * 2]
    expected = asyncio.run(all_at_once())
    made = fused(device).recorded.compiled
    for _ in range(10):
        for found, wanted in zip(asyncio.run(all_at_once()), expected, strict=True):
            np.testing.assert_array_equal(found, wanted)
    assert fused(device).recorded.compiled == made
    y = given[0].astype(np.float64)
    for _ in range(4):
        y = np.tanh(y @ values)
    np.testing.assert_allclose(expected[0], y, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(outside[0].numpy(), values * 2)
    np.testing.assert_array_equal(outside[-1].numpy(), values + 1)


# ---- memory of an application ----


def test_what_reads_shared_memory_runs_before_its_owner_may_write_again(device: Device) -> None:
    array = floats(32, 32)
    x = pyrite.from_dlpack(array, device=device)
    expected = array[::2].T + 1, array * 2
    found = x[::2].mT + 1, x * 2
    device.synchronize()
    array[:] = 0
    for values, reference in zip(found, expected, strict=True):
        np.testing.assert_array_equal(values.numpy(), reference)
    # In guarded mode `from_dlpack` copies, as no poison lies around memory of others.
    if config.guard is None:
        assert fused(device).recorded.runs >= 2, "each call on shared memory runs at once"


# ---- failures ----


@pytest.mark.parametrize("error", [MemoryError, KeyboardInterrupt, pyrite.errors.DeviceError])
def test_a_run_that_failed_is_tried_again(
    device: Device, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    x = pyrite.tensor(floats(3, 3), device=device)
    y = x + 1
    compile = type(fused(device).inner).compile
    monkeypatch.setattr(
        type(fused(device).inner), "compile", lambda *_: (_ for _ in ()).throw(error("no room"))
    )
    for _ in range(2):
        with pytest.raises((error, pyrite.errors.DeviceError)):
            y.numpy()
    monkeypatch.setattr(type(fused(device).inner), "compile", compile)
    np.testing.assert_array_equal(y.numpy(), x.numpy() + 1)


# ---- memory ----


def test_pending_calls_hold_no_results_and_finished_ones_no_inputs() -> None:
    # On a runtime of its own: on the one that all share tensors of other tests may die meanwhile.
    device = Device(Fusion(CubeBackend(InterpreterRuntime())))
    x = pyrite.tensor(floats(64, 64), device=device)
    report = fused(device).inner.runtime.memory_report  # type: ignore[attr-defined]
    (x + 1).numpy()
    gc.collect()
    before = report().live
    values = [x + n for n in range(10)]
    assert report().live == before
    device.synchronize()
    assert report().live == before + 10 * x.numpy().nbytes
    del values
    gc.collect()
    assert report().live == before


def test_a_tree_of_calls_is_begun_anew(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorded_module, "MOST_KNOWN", 20)
    x = pyrite.tensor(floats(2, 2), device=device)
    for n in range(1, 30):
        y = x.reshape((4,)) if n % 2 else x
        for _ in range(n):
            y = y.abs()
        np.testing.assert_array_equal(y.numpy().ravel(), np.abs(x.numpy()).ravel())
        assert fused(device).recorded.calls <= 20 + n + 1


# ---- other backends ----


@pytest.mark.parametrize("name", ["numpy", "torch:cpu"])
def test_a_backend_without_programs_runs_the_calls_one_by_one(name: str) -> None:
    if pyrite.backend.device_problem(name) is not None:
        pytest.skip(f"{name} is not here")
    device = Device(Fusion(pyrite.device(name).backend))
    x = pyrite.tensor(floats(6, 5), device=device)
    y = gelu(x @ x.mT).softmax(-1)
    plain = pyrite.tensor(x.numpy(), device=name)
    np.testing.assert_allclose(y.numpy(), gelu(plain @ plain.mT).softmax(-1).numpy(), rtol=1e-6)


def test_on_the_interpreter_no_access_of_a_program_is_outside() -> None:
    device = Device(Fusion(CubeBackend(InterpreterRuntime())))
    x = pyrite.tensor(floats(3, 4, 5), device=device)[:, ::-1, 1:]
    y = (x.mT.softmax(1) * 2 + x.mT.mean(1, keepdims=True)).layer_norm()
    reference = pyrite.tensor(x.numpy())
    expected = (reference.mT.softmax(1) * 2 + reference.mT.mean(1, keepdims=True)).layer_norm()
    np.testing.assert_allclose(y.numpy(), expected.numpy(), rtol=1e-4, atol=1e-5)


def test_gradients_of_gradients_are_those_of_numpy(device: Device) -> None:
    values = floats(4, 3)

    def second(where: object) -> np.ndarray:
        x = pyrite.tensor(values, device=where)
        first = pyrite.grad(lambda x: (x.tanh() * x).sum())
        return pyrite.grad(lambda x: (first(x) ** 2).sum())(x).numpy()

    np.testing.assert_allclose(second(device), second("numpy"), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("first", ["constant", "recorded"])
def test_tensors_of_the_backend_below_are_constants_in_any_place(
    first: str, device: Device
) -> None:
    x = pyrite.tensor(floats(3), device=device)
    below = pyrite.tensor(floats(3), device=device.backend.root)
    pair = (below, x) if first == "constant" else (x, below)
    expected = np.concatenate([t.numpy() for t in pair])

    for joined in (pyrite.concat(pair), pyrite.where(below > 9, *pair), pair[0] + pair[1]):
        assert joined.device == device

    np.testing.assert_array_equal(pyrite.concat(pair).numpy(), expected)
    gradient = pyrite.grad(lambda x: (below * x).sum())(x)
    np.testing.assert_array_equal(gradient.numpy(), below.numpy())
