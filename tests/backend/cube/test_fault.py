"""An index outside is an error of all that comes of it, at each read, and of nothing else."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import pyrite
from pyrite import Tensor, custom_op, nn
from pyrite.backend.cube import CubeBackend, fault
from pyrite.backend.cube.fault import Doubt, joined
from pyrite.backend.device import Device, device_problem
from pyrite.errors import IndexRangeError
from pyrite.extension import KernelScope, TensorArgument, kernel
from pyrite.optim import SGD
from pyrite.runtime.cpu.runtime import CpuRuntime
from pyrite.runtime.interpreter import InterpreterRuntime
from pyrite.types import TensorType

#: Far outside of every axis here.
BAD = 77


@kernel
def picked(k: KernelScope, x: TensorArgument, index: TensorArgument, out: TensorArgument) -> None:
    (i,) = k.at
    out[i] = x[index[i]]


@custom_op(infer=lambda x, index: TensorType(index.shape, x.dtype), kernels=[picked])
def pick(x: Tensor, index: Tensor, /) -> Tensor:
    """x[index], by a kernel that may fail."""
    ...


@kernel
def twice(k: KernelScope, x: TensorArgument, out: TensorArgument) -> None:
    out[k.at] = x[k.at] * 2.0


@custom_op(infer=lambda x: x, kernels=[twice])
def doubled(x: Tensor, /) -> Tensor:
    """2 x, by a kernel that cannot fail."""
    ...


@pytest.fixture(params=["cpu", "wgpu"])
def device(request: pytest.FixtureRequest) -> Device:
    if problem := device_problem(request.param):
        pytest.skip(problem)
    return pyrite.device(request.param)


@pytest.fixture
def cpu() -> Any:
    """A runtime of its own, with nothing launched."""
    runtime = CpuRuntime(threads=2)
    yield Device(CubeBackend(runtime))
    runtime.close()


def numbers(device: Device, n: int = 4) -> Tensor:
    return pyrite.arange(n, dtype="float32", device=device)


def indices(device: Device, *values: int) -> Tensor:
    return pyrite.tensor(np.array(values, np.int32), device=device)


def taken(device: Device, index: int) -> Tensor:
    return numbers(device).take(indices(device, index, 1), 0)


def faults_of(device: Device) -> fault.Faults:
    assert isinstance(device.backend, CubeBackend)
    return device.backend.launcher.faults


def doubts() -> int:
    gc.collect()
    return sum(type(o) is Doubt for o in gc.get_objects())


def open_launches(device: Device) -> int:
    return sum(len(word.open) for word in faults_of(device)._open)


# ---- from the index to the read ----


def table(device: Device) -> Tensor:
    return pyrite.ones((4, 3), device=device)


def embedding_gradient(device: Device, i: int) -> Tensor:
    return indices(device, i, 1)._embedding_backward(pyrite.ones((2, 3), device=device), rows=4)


def loss(device: Device, i: int) -> Tensor:
    return table(device).cross_entropy(indices(device, 0, 1, i, 2))


def loss_gradient(device: Device, i: int) -> Tensor:
    _, grads = pyrite.value_and_grad(lambda x: x.cross_entropy(indices(device, 0, 1, i, 2)).mean())(
        table(device)
    )
    found: Tensor = grads
    return found


#: By the op that the error names, what uses an index; 2 is inside.
WAYS: dict[str, tuple[str, Callable[[Device, int], Tensor]]] = {
    "take": ("take", taken),
    "gather": (
        "take_along_axis", lambda d, i: numbers(d).take_along_axis(indices(d, i, 0), 0),
    ),
    "gather_nd": ("gather_nd", lambda d, i: table(d).gather_nd(indices(d, i).reshape((1, 1)))),
    "subscript": ("gather_nd", lambda d, i: table(d)[indices(d, i), indices(d, 1)]),
    "embedding": ("embedding", lambda d, i: table(d).embedding(indices(d, i))),
    "embedding_backward": ("embedding", embedding_gradient),
    "scatter": ("scatter", lambda d, i: numbers(d).scatter(0, indices(d, i), 1.0)),
    "scatter add": (
        "scatter", lambda d, i: numbers(d).scatter(0, indices(d, i), 1.0, reduction="add"),
    ),
    "at.set": ("scatter_nd", lambda d, i: table(d).at[indices(d, i)].set(5.0)),
    "at.add": ("scatter_nd", lambda d, i: table(d).at[indices(d, i)].add(5.0)),
    "cross_entropy": ("cross_entropy", loss),
    "cross_entropy gradient": ("cross_entropy", loss_gradient),
    "one_hot": ("one_hot", lambda d, i: indices(d, i, 0).one_hot(3)),
    "custom kernel": ("pick", lambda d, i: pick(numbers(d), indices(d, i, 0))),
}  # fmt: skip


async def awaited(x: Tensor) -> Any:
    return await x.to_numpy_async()


async def awaited_together(x: Tensor) -> Any:
    return await pyrite.read_async(pyrite.ones((2,), device=x.device), x)


FORMS: dict[str, Callable[[Tensor], Any]] = {
    "numpy": lambda x: x.numpy(),
    "item": lambda x: x.sum().item(),
    "tolist": lambda x: x.tolist(),
    "print": str,
    "bool": lambda x: bool(x.sum() > 0),
    "to_numpy_async": lambda x: asyncio.run(awaited(x)),
    "read_async": lambda x: asyncio.run(awaited_together(x)),
    "read": lambda x: pyrite.read(pyrite.ones((2,), device=x.device), x),
    "another device": lambda x: x.to("numpy"),
    "dlpack": np.from_dlpack,
    "argwhere": lambda x: x.argwhere(),
    "unique": lambda x: x.unique(),
}


@pytest.mark.sample(3, by="way")
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("way", WAYS)
def test_every_read_raises_and_names_the_op(device: Device, way: str, form: str) -> None:
    op, use = WAYS[way]
    good, before = use(device, 2), numbers(device)
    bad = use(device, BAD)

    assert before.tolist() == [0, 1, 2, 3]
    for _ in range(2):
        with pytest.raises(IndexRangeError, match=f"^{op} requires") as error:
            FORMS[form](bad)
        assert str(error.value.location).startswith(__file__)
    FORMS[form](good)
    assert numbers(device).tolist() == [0, 1, 2, 3]
    FORMS[form](use(device, 2))


class Net(nn.Module):
    def __init__(self) -> None:
        self.linear = nn.Linear(1, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x)


def stepped(x: Tensor) -> Tensor:
    """A weight after a step whose loss came of x."""
    net = Net().to(x.device)
    _, grads = pyrite.value_and_grad(lambda net: net(x.reshape((-1, 1))).sum())(net)
    weight = SGD(learning_rate=0.1).step(net, grads).linear.weight
    assert isinstance(weight, Tensor)
    return weight


def lifted(x: Tensor) -> Tensor:
    return (x.to(pyrite.autodiff(x.device)).require_grad() * 2.0).detach()


COMES_OF: dict[str, Callable[[Tensor], Tensor]] = {
    "a view": lambda x: x.reshape((2, 1)).permute_dims((1, 0))[:, 1:].expand_dims(0),
    "clone": lambda x: x.clone(),
    "detach": lambda x: x.detach(),
    "copy": lambda x: x.reshape((2, 1)).permute_dims((1, 0)).reshape((2,)),
    "arithmetic": lambda x: (x * 2.0 + numbers(x.device, 2)).exp(),
    "many ops": lambda x: sum((x * float(i) for i in range(20)), x).sum(),
    "the later of two": lambda x: taken(x.device, 1) + x,
    "the earlier of two": lambda x: x + taken(x.device, 1),
    "a shape": lambda x: pyrite.zeros_like(x) + x,
    "where": lambda x: pyrite.where(x > 0, 1.0, 2.0),
    "a matrix product": lambda x: x.reshape((2, 1)) @ x.reshape((1, 2)),
    "sort": lambda x: x.sort(0),
    "cast": lambda x: x.astype("int32"),
    "update": lambda x: x.at[0].set(1.0),
    "updated with": lambda x: numbers(x.device).at[indices(x.device, 0, 1)].set(x),
    "custom kernel": doubled,
    "step": stepped,
    "autodiff": lifted,
    "nothing": lambda x: x[:0],
}


@pytest.mark.parametrize("is_noticed", [False, True], ids=["not noticed", "noticed"])
@pytest.mark.parametrize("name", COMES_OF)
def test_what_comes_of_it_raises_too(device: Device, name: str, is_noticed: bool) -> None:
    bad = taken(device, BAD)
    if is_noticed:
        with pytest.raises(IndexRangeError):
            bad.numpy()
    derived = COMES_OF[name](bad)

    for _ in range(2):
        with pytest.raises(IndexRangeError, match="take requires"):
            derived.numpy()
    COMES_OF[name](taken(device, 1)).numpy()


def test_a_sound_operand_does_not_hide_the_failed_one(cpu: Device) -> None:
    bad = taken(cpu, BAD)
    with pytest.raises(IndexRangeError):
        bad.numpy()
    later = taken(cpu, 2)
    later.numpy()

    for x in (
        bad + later,
        later + bad,
        bad + taken(cpu, 2),
        (bad + 1.0).at[indices(cpu, 0)].set(1),
    ):
        with pytest.raises(IndexRangeError):
            x.numpy()


def test_a_primitive_raises_what_was_noticed(cpu: Device) -> None:
    bad = taken(cpu, BAD)
    bad.primitive()  # nothing waits, so nothing is known
    with pytest.raises(IndexRangeError):
        cpu.synchronize()

    with pytest.raises(IndexRangeError, match="take requires"):
        bad.primitive()


# ---- and nothing else ----


def test_what_no_checked_op_preceded_is_read_without_the_word(cpu: Device) -> None:
    x = numbers(cpu)
    taken(cpu, BAD)

    assert (x * 2.0).tolist() == [0, 2, 4, 6]
    assert open_launches(cpu) == 1


def test_what_was_read_is_not_looked_after_again(cpu: Device) -> None:
    x = taken(cpu, 2)
    x.numpy()
    taken(cpu, BAD)
    y = x * 2.0

    assert y.tolist() == [4, 2]
    assert open_launches(cpu) == 1


def test_launches_before_the_failed_one_are_sound_and_those_after_it_are_not(cpu: Device) -> None:
    before, bad, after = taken(cpu, 3), taken(cpu, BAD), taken(cpu, 3)

    assert before.tolist() == [3, 1]
    for _ in range(2):
        for x in (bad, after):
            with pytest.raises(IndexRangeError):
                x.numpy()
        assert before.tolist() == [3, 1]
    assert taken(cpu, 3).tolist() == [3, 1]


def test_the_first_of_two_is_named(cpu: Device) -> None:
    first = numbers(cpu).scatter(0, indices(cpu, BAD), 1.0)
    second = taken(cpu, BAD)
    for x in (second, first):
        with pytest.raises(IndexRangeError, match="scatter requires"):
            x.numpy()


def test_the_line_is_that_of_the_call_that_failed(cpu: Device) -> None:
    lines = []
    for index in (1, BAD):
        found = taken(cpu, index)
        other = numbers(cpu).take(indices(cpu, index), 0)
        try:
            pyrite.read(found, other)
        except IndexRangeError as error:
            lines.append(str(error.location))

    assert lines == [f"{__file__}:{taken.__code__.co_firstlineno + 1}"]


def test_synchronize_raises_what_no_read_has_found(cpu: Device) -> None:
    bad = taken(cpu, BAD)
    for wait in (cpu.synchronize, lambda: asyncio.run(cpu.synchronize_async())):
        with pytest.raises(IndexRangeError):
            wait()
        wait()
        with pytest.raises(IndexRangeError):
            bad.numpy()
        bad = taken(cpu, BAD)


def test_no_read_is_added_and_the_word_is_read_along(cpu: Device) -> None:
    backend: Any = cpu.backend
    x, doubtful = numbers(cpu), taken(cpu, 2)
    count = backend.runtime.report()["read_backs"]
    x.numpy()
    doubtful.numpy()
    pyrite.read(x, taken(cpu, 1), doubtful)

    assert backend.runtime.report()["read_backs"] == count + 3


# ---- threads, and reads that end early ----


def test_threads_find_their_own_errors_while_others_launch_and_read(cpu: Device) -> None:
    rounds = 60
    together = threading.Barrier(4)

    def work(n: int) -> list[int]:
        """Rounds in which what should have raised did not, or the other way round."""
        wrong = []
        x = numbers(cpu)
        for i in range(rounds):
            if i % 10 == 0:
                together.wait()
            is_bad = n == 0 and i % 3 == 0
            y = taken(cpu, BAD if is_bad else 2) + x[:2]
            try:
                y.numpy()
                has_raised = False
            except IndexRangeError:
                has_raised = True
            if (is_bad and not has_raised) or (x + 1.0).tolist() != [1, 2, 3, 4]:
                wrong.append(i)
        return wrong

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(work, range(4))) == [[]] * 4
    assert taken(cpu, 2).tolist() == [2, 1]


def test_a_launch_of_another_thread_is_not_taken_for_sound_before_it_is_made() -> None:
    runtime = InterpreterRuntime()
    device = Device(CubeBackend(runtime))
    good = taken(device, 2)
    begun, may_go_on = threading.Event(), threading.Event()
    launch = runtime.launch

    def late(*given: Any) -> None:
        if threading.current_thread() is thread:
            begun.set()
            may_go_on.wait(1)
        launch(*given)

    runtime.launch = late  # type: ignore[method-assign]
    found: list[Tensor] = []
    x, bad = numbers(device), indices(device, BAD)
    thread = threading.Thread(target=lambda: found.append(pick(x, bad)))
    thread.start()
    begun.wait()
    reader = threading.Thread(target=good.numpy)
    reader.start()
    reader.join(0.1)
    may_go_on.set()
    thread.join()
    reader.join()

    with pytest.raises(IndexRangeError):
        found[0].numpy()


@pytest.mark.parametrize("is_async", [False, True], ids=["read", "read_async"])
def test_a_read_that_is_ended_loses_nothing(
    cpu: Device, monkeypatch: pytest.MonkeyPatch, is_async: bool
) -> None:
    backend: Any = cpu.backend
    bad = taken(cpu, BAD)

    def ended(*_: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(backend.runtime, "read_all_async" if is_async else "read_all", ended)
        with pytest.raises(KeyboardInterrupt):
            FORMS["to_numpy_async" if is_async else "numpy"](bad)

    with pytest.raises(IndexRangeError):
        bad.numpy()


def test_a_signal_handler_may_read_during_a_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = InterpreterRuntime()
    device = Device(CubeBackend(runtime))
    x, good, bad = numbers(device), taken(device, 2), indices(device, BAD)
    launch, read = runtime.launch, []

    def interrupted(*given: Any) -> None:
        read.append(good.tolist())
        launch(*given)

    monkeypatch.setattr(runtime, "launch", interrupted)
    found = pick(x, bad)

    assert read == [[2, 1]]
    with pytest.raises(IndexRangeError):
        found.numpy()


# ---- what is remembered ----


def test_thousands_of_steps_leave_nothing_behind(cpu: Device) -> None:
    x, index = numbers(cpu), indices(cpu, 2)
    before = doubts()
    for _ in range(1_999):
        y = x.take(index, 0)
    bad = x.take(indices(cpu, BAD), 0)
    assert open_launches(cpu) == 2_000
    with pytest.raises(IndexRangeError):
        bad.numpy()

    del y, bad
    assert open_launches(cpu) == 0
    assert doubts() <= before + 1  # the latest of this thread


def test_many_launches_without_a_read_are_looked_after_in_time(
    cpu: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fault, "_OPEN", 8)
    x, good = numbers(cpu), indices(cpu, 2)
    bad = x.take(indices(cpu, BAD), 0)
    for _ in range(20):
        y = x.take(good, 0)

    assert open_launches(cpu) <= 8
    assert y.tolist() == [2]
    with pytest.raises(IndexRangeError):
        bad.numpy()
    with pytest.raises(IndexRangeError):
        x.take(indices(cpu, BAD), 0).numpy()


def test_a_word_is_replaced_before_its_numbers_end(
    cpu: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fault, "_GREATEST", 5)
    monkeypatch.setattr(fault, "_LAUNCHES", 5)
    for i in range(30):
        index = BAD if i % 7 == 0 else 2
        if i % 7 == 0:
            with pytest.raises(IndexRangeError):
                taken(cpu, index).numpy()
        else:
            assert taken(cpu, index).tolist() == [2, 1]
        taken(cpu, 1)


def test_the_first_failure_wins_over_later_numbers() -> None:
    one, two, three = (Doubt(n, "it", "here") for n in (1, 2, 3))

    assert joined(None, two) is two
    assert joined(one, two) is joined(two, one) is two
    one.settle(None)
    two.settle(fault.Failure("it", "here"))
    assert joined(two, three) is joined(three, two) is two
    assert joined(one, three) is three


# ---- threads ----


@pytest.mark.parametrize("readers", [1, 3])
def test_a_failure_of_one_thread_is_no_error_of_anothers(device: Device, readers: int) -> None:
    """Each thread's results are its own, and where they meet both count."""
    rounds, start = 60, threading.Barrier(readers + 1)
    shared, spoilt = taken(device, 2), numbers(device).take(indices(device, 3, 1), 0)

    def failing() -> int:
        start.wait()
        found = 0
        for _ in range(rounds):
            with pytest.raises(IndexRangeError):
                (taken(device, BAD) + shared).numpy()
            found += 1
        return found

    def sound() -> list[str]:
        wrong: list[str] = []
        start.wait()
        for n in range(rounds):
            try:
                first = taken(device, n % 4) + spoilt
                second = taken(device, 1) * shared
                pyrite.read(first, second) if n % 2 else (first.tolist(), second.tolist())
            except IndexRangeError as error:
                wrong.append(str(error))
        return wrong

    with ThreadPoolExecutor(readers + 1) as pool:
        failed = pool.submit(failing)
        others = [pool.submit(sound) for _ in range(readers)]
        assert failed.result(120) == rounds
        assert [other.result(120) for other in others] == [[]] * readers


def test_what_comes_of_two_threads_fails_with_either(device: Device) -> None:
    def launched(index: int) -> Tensor:
        """Return what this thread launches, also where calls are recorded."""
        found = taken(device, index)
        found.is_ready()
        return found

    with ThreadPoolExecutor(1) as pool:
        good = pool.submit(launched, 2).result()
        bad = pool.submit(launched, BAD).result()
    here, wrong = taken(device, 1), taken(device, BAD)
    both = (good + here, good + wrong, bad + here, bad + wrong)

    outcomes = []
    for x in both:
        try:
            outcomes.append(x.tolist())
        except IndexRangeError:
            outcomes.append(None)

    # In one thread what was launched before a failure is sound; this was in each.
    assert outcomes == [[3.0, 2.0], None, None, None]
    with pytest.raises(IndexRangeError):
        pyrite.read(good, bad)
    assert good.tolist() == [2.0, 1.0]


def test_synchronize_finds_the_failure_of_a_thread_that_ended(cpu: Device) -> None:
    thread = threading.Thread(target=lambda: taken(cpu, BAD))
    thread.start()
    thread.join()

    with pytest.raises(IndexRangeError):
        cpu.synchronize()
    cpu.synchronize()


def test_threads_that_come_and_go_leave_nothing_open(cpu: Device) -> None:
    kept = []
    for n in range(2 * fault.WORDS):
        thread = threading.Thread(target=lambda n=n: kept.append(taken(cpu, n % 4)))
        thread.start()
        thread.join()

    assert len(faults_of(cpu)._open) <= fault.WORDS
    assert [x.tolist()[0] for x in kept] == [n % 4 for n in range(2 * fault.WORDS)]
