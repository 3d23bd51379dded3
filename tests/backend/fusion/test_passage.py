"""Calls that come together are recorded by one look-up, and are the same program as one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pyrite
from pyrite import Tensor, nn, optim
from pyrite.backend.device import Device
from pyrite.backend.fusion import Fusion
from pyrite.backend.fusion.passage import PassageCalls
from pyrite.errors import IndexRangeError

RNG = np.random.default_rng(3)
STEPS = 6


@pytest.fixture
def device() -> Device:
    """A device of its own, with nothing recorded."""
    return Device(Fusion(pyrite.device("cpu").backend.root))


@pytest.fixture
def jumps(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Of each jump how many calls it stands for."""
    found: list[int] = []
    jumped = PassageCalls._jumped

    def noted(self: PassageCalls, jump: Any) -> Any:
        found.append(len(jump.calls))
        return jumped(self, jump)

    monkeypatch.setattr(PassageCalls, "_jumped", noted)
    return found


def one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PassageCalls, "recorded", lambda self: None)


def tensor(device: Device, *shape: int) -> Tensor:
    return pyrite.tensor(RNG.standard_normal(shape, dtype=np.float32), device=device)


def trained(
    device: Device, optimizer: optim.Optimizer, *, seed: int = 0, steps: int = STEPS
) -> list[np.ndarray]:
    """Return the loss of each step, and the parameters at the end."""
    random = np.random.default_rng(seed)
    with pyrite.random_stream(0):
        model: Any = nn.Sequential(nn.Linear(5, 7), nn.BatchNorm(7), nn.GELU(), nn.Linear(7, 3)).to(
            device
        )
    x = pyrite.tensor(random.standard_normal((9, 5), dtype=np.float32), device=device)
    y = pyrite.tensor(random.integers(0, 3, 9), device=device)
    gradients = pyrite.value_and_grad(lambda m: m(x).cross_entropy_with_logits(y, axis=-1).mean())
    losses = []
    for _ in range(steps):
        loss, grads = gradients(model)
        model = optimizer.step(model, grads)
        losses.append(loss)
    return [*[loss.numpy() for loss in losses], *[p.numpy() for p in model.parameters()]]


@pytest.mark.parametrize(
    "make",
    [
        lambda: optim.Adam(0.01),
        lambda: optim.AdamW(0.01),
        lambda: optim.Adam(0.01, amsgrad=True),
        lambda: optim.SGD(optim.schedule.Step(0.1, step_size=2, gamma=0.5), momentum=0.9),
        lambda: optim.RMSprop(0.01),
        lambda: optim.Adam(0.01).with_clipping(global_norm=0.5),
        lambda: optim.Adam(0.01).with_group("*.bias", learning_rate=0.1),
    ],
)
def test_training_has_the_bits_of_calls_that_are_recorded_one_by_one(
    device: Device, jumps: list[int], monkeypatch: pytest.MonkeyPatch, make: Any
) -> None:
    found = trained(device, make())
    assert len(jumps) >= 2, "a backward pass and a step at least"
    assert max(jumps) > 1
    trained(device, make())  # its first step meets a backward pass that is known
    programs = len(device.backend.recorded.programs.young)  # type: ignore[attr-defined]
    one_by_one(monkeypatch)
    again = trained(device, make())
    assert len(device.backend.recorded.programs.young) == programs  # type: ignore[attr-defined]
    for one, other in zip(found, again, strict=True):
        np.testing.assert_array_equal(one, other)
    plain = trained(Device(device.backend.root), make())
    for one, other in zip(found, plain, strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-4, atol=2e-6)


def test_gradients_that_are_held_and_read_late_are_right(device: Device, jumps: list[int]) -> None:
    w = tensor(device, 4, 4)
    gradient = pyrite.grad(lambda w, x: ((w @ x).tanh() * x).sum())
    held = []
    for n in range(8):
        x = tensor(device, 4, 4)
        held.append((x, gradient(w, x)))
        if n % 3 == 2:
            held[-2][1].numpy()
    assert jumps
    plain = pyrite.device("numpy")
    for x, g in held:
        wanted = gradient(w.to(plain), x.to(plain))
        np.testing.assert_allclose(g.numpy(), wanted.numpy(), rtol=1e-5, atol=1e-5)


def test_operands_that_are_one_tensor_are_another_passage(device: Device) -> None:
    gradient = pyrite.grad(lambda x, y: (x * y * x).sum(), argnums=(0, 1))
    plain = pyrite.device("numpy")
    for n in range(9):
        x = tensor(device, 3)
        y = x if n % 3 == 0 else tensor(device, 3)
        found = gradient(x, y)
        wanted = gradient(x.to(plain), y.to(plain))
        for one, other in zip(found, wanted, strict=True):
            np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-5)


def test_numbers_of_a_step_are_those_of_that_step(device: Device, jumps: list[int]) -> None:
    parameters = [tensor(device, 3), tensor(device, 2, 2)]
    op: Any = Tensor.multiply
    for n in range(5):
        found = pyrite.op.many(op, [(p, float(n)) for p in parameters])
        for one, p in zip(found, parameters, strict=True):
            np.testing.assert_array_equal(one.numpy(), p.numpy() * n)
        (parameters[0] + 1).numpy()


def test_an_index_outside_tells_the_line_of_the_backward_pass_or_before(device: Device) -> None:
    table = tensor(device, 5, 2)

    def loss_of(table: Tensor, at: Tensor) -> Tensor:
        return table[at].square().sum()

    gradient = pyrite.value_and_grad(loss_of)
    good = pyrite.tensor([1, 4, 2], device=device)
    for _ in range(5):
        gradient(table, good)[1].numpy()
    bad = pyrite.tensor([1, 7, 2], device=device)
    loss, g = gradient(table, bad)
    for t in (loss, g):
        with pytest.raises(IndexRangeError) as caught:
            t.numpy()
        assert __file__ in "".join(caught.value.__notes__)
    gradient(table, good)[1].numpy()


def test_explain_sees_the_calls_themselves(device: Device, jumps: list[int]) -> None:
    w = tensor(device, 64, 64)
    gradient = pyrite.grad(lambda w: (w @ w).tanh().sum())
    for _ in range(5):
        gradient(w).numpy()
    before = len(jumps)
    with pyrite.explain() as told:
        gradient(w).numpy()
    assert len(jumps) == before
    assert told.kernels


def test_a_passage_of_which_a_thread_ran_the_operands_is_recorded(device: Device) -> None:
    from threading import Thread

    w = tensor(device, 6)
    gradient = pyrite.grad(lambda w, x: (w * x).exp().sum())
    plain = pyrite.device("numpy")
    made: list[Tensor] = []
    for _ in range(6):
        thread = Thread(target=lambda: made.append(tensor(device, 6) * 2.0))
        thread.start()
        thread.join()
        x = made.pop()
        found = gradient(w, x)
        np.testing.assert_allclose(
            found.numpy(), gradient(w.to(plain), x.to(plain)).numpy(), rtol=1e-5
        )


@pytest.mark.parametrize("is_by_name", [False, True])
def test_numbers_that_updates_share_are_one_number_of_the_program(is_by_name: bool) -> None:
    root = pyrite.device("cpu").backend.root
    device = Device(Fusion(root, after=2 if is_by_name else 0))
    found = trained(device, optim.Adam(0.01), steps=12)
    root.launcher.ahead.finish()  # type: ignore[attr-defined]
    found = trained(device, optim.Adam(0.01), steps=12)
    plain = trained(Device(root), optim.Adam(0.01), steps=12)
    for one, other in zip(found, plain, strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-4, atol=2e-6)
    recorded = device.backend.recorded  # type: ignore[attr-defined]
    assert recorded.program_runs > recorded.op_runs
    numbers = [
        len(program.recording.arguments)
        for program in recorded.programs.young.values()
        if hasattr(program, "recording")
    ]
    # A rate and two corrections of the moments, the share of a batch in the running moments, and
    # what makes its variance unbiased.
    assert numbers
    assert min(numbers) <= 6, "the steps behind the first"
