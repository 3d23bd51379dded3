"""Memory of programs: what is in use together lies apart, and hardly more is made than it takes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import pyrite
from pyrite import Tensor, nn
from pyrite.backend.cube import CubeBackend
from pyrite.backend.cube.block import Use, least_bytes
from pyrite.backend.cube.placement import (
    BLOCK,
    SMALL,
    Part,
    Placement,
    in_one_block,
    in_storages,
)
from pyrite.backend.cube.recorded_memory import RecordedMemory
from pyrite.backend.cube.recording_launcher import RecordingLauncher
from pyrite.backend.cube.slot import Slot
from pyrite.backend.device import Device, device_problem
from pyrite.backend.fusion import Fusion
from pyrite.config import config
from pyrite.optim import Adam
from pyrite.testing.random_graphs import RandomGraph
from pyrite.testing.random_steps import STEPS

ALIGNMENT = 64
#: Of parts of storages, which take more: a launch cannot read and write two parts of one.
GPU, MOST_STORAGES = 256, 1.2
#: What a plan may take of the most that is in use at once, and bytes for each part beside that.
MOST, SLACK = 1.05, ALIGNMENT


# ---- what a placement has to be ----


@dataclass(frozen=True)
class Life:
    """A buffer of a program by its launches alone: the first and the last, both included."""

    nbytes: int
    begin: int
    end: int


def where(placement: Placement, name: int, life: Life) -> tuple[int, int, int]:
    """Return buffer, first byte and the byte behind the last of what is placed."""
    place = placement.places[name]
    if isinstance(place, Part):
        assert place.nbytes == life.nbytes
        assert place.offset % ALIGNMENT == 0
        return place.buffer, place.offset, place.offset + place.nbytes
    return place, 0, life.nbytes


def require_apart(placement: Placement, lives: dict[int, Life]) -> None:
    """Fail where two that are in use together overlap, or one lies outside of its buffer."""
    found = [(where(placement, name, life), life) for name, life in lives.items() if life.nbytes]
    for (buffer, _, end), _ in found:
        assert end <= (placement.block if buffer == BLOCK else placement.sizes[buffer])
    for n, ((buffer, first, end), life) in enumerate(found):
        for (other, start, stop), second in found[:n]:
            if buffer != other or life.begin > second.end or second.begin > life.end:
                continue
            assert end <= start or stop <= first, f"{life} and {second} overlap in {buffer}"


def most_at_once(lives: Sequence[Life]) -> int:
    """Return the most bytes in use at a launch."""
    last = max((life.end for life in lives), default=0)
    return max(
        (sum(x.nbytes for x in lives if x.begin <= at <= x.end) for at in range(last + 1)),
        default=0,
    )


def require_not_read_and_written(placement: Placement, apart: dict[int, set[int]]) -> None:
    """Fail where a launch would read one part of a storage and write another."""
    buffers = {name: placement.buffer_of(name) for name in placement.places}
    for name, others in apart.items():
        assert all(buffers[name] != buffers[other] for other in others if other != name)


def some(seed: int) -> tuple[dict[int, Use], dict[int, Use]]:
    """Return results and others, as a network has them: many short ones, some until backward."""
    rng = np.random.default_rng(seed)
    results, inner = dict[int, Use](), dict[int, Use]()
    for n in range(int(rng.integers(1, 90))):
        nbytes = int(rng.integers(0, 4000)) * int(rng.choice([1, 16]))
        if rng.random() < 0.3:
            results[n] = Use(nbytes, n, 200)
            continue
        inner[n] = Use(nbytes, n, n + int(rng.integers(0, 5)) if rng.random() < 0.7 else 200 - n)
    return results, inner


def test_what_is_in_use_together_lies_apart() -> None:
    for seed in range(30):
        results, inner = some(seed)
        uses = results | inner
        lives = {n: Life(u.nbytes, u.begin, u.end) for n, u in uses.items()}
        assert least_bytes([*uses.values()]) == most_at_once([*lives.values()])
        for placement in (
            in_one_block(results, inner, ALIGNMENT),
            in_one_block(results, inner, ALIGNMENT, renewed=results),
            in_one_block(results, inner, ALIGNMENT, small=SMALL),
            in_storages(results, inner),
            in_storages(results, inner, is_exact=True),
        ):
            assert placement.places.keys() == uses.keys()
            require_apart(placement, lives)
            assert placement.nbytes >= most_at_once([*lives.values()])
        assert not any(isinstance(p, Part) for p in in_storages(results, inner).places.values())


def test_no_storage_is_read_and_written_by_one_launch() -> None:
    parted = 0
    for seed in range(60):
        results, inner = some(seed)
        uses = results | inner
        rng = np.random.default_rng(seed)
        apart: dict[int, set[int]] = {n: set() for n in uses}
        for n, one in uses.items():
            for m, other in uses.items():
                if n < m and one.meets(other) and rng.random() < 0.1:
                    apart[n].add(m)
                    apart[m].add(n)
        plain = in_storages(results, inner)
        placement = in_storages(results, inner, renewed=results, apart=apart)
        lives = {n: Life(u.nbytes, u.begin, u.end) for n, u in uses.items()}
        require_apart(placement, lives)
        require_not_read_and_written(placement, apart)
        assert placement.nbytes <= plain.nbytes
        exact = in_storages(results, inner, renewed=results, apart=apart, is_exact=True)
        assert not any(isinstance(place, Part) for place in exact.places.values())
        parted += any(isinstance(place, Part) for place in placement.places.values())
    assert parted > 5


def test_uses_that_never_meet_share_their_place() -> None:
    uses = {n: Use(100, n, n) for n in range(50)}
    assert in_one_block({}, uses, ALIGNMENT).nbytes == in_storages({}, uses).nbytes == 100
    assert in_one_block({}, {}, ALIGNMENT).nbytes == in_storages({}, {}).nbytes == 0


def test_only_results_that_take_the_places_of_inputs_share_buffers() -> None:
    """Who holds another one keeps nothing else alive."""
    inner = {n: Use(1 << 20, n, n + 1) for n in range(100, 130)}
    few = {n: Use(1 << 16, 150, 200) for n in range(7)}
    small = {n: Use(4, 150, 200) for n in range(50)}
    many = {n: Use(1 << 16, 150, 200) for n in range(64)}
    for results, renewed in ((few, few), (small, small), (many, {})):
        placement = in_one_block(results, inner, ALIGNMENT, renewed=renewed)
        assert [placement.places[n] for n in results] == list(range(len(results)))
    mixed = in_one_block(many | {99: Use(1 << 16, 1, 200)}, inner, ALIGNMENT, renewed=many)
    assert isinstance(mixed.places[99], int)
    assert all(isinstance(mixed.places[n], Part) for n in many)
    assert mixed.nbytes <= MOST * (4 << 20) + (1 << 16)
    assert all(size <= 9 << 20 for size in mixed.sizes)


# ---- programs ----


@dataclass(frozen=True)
class Plan:
    """What a recording makes, and the lives of its buffers by its launches."""

    placement: Placement
    lives: dict[int, Life]
    results: set[int]
    #: The same in storages, as on a GPU, and what cannot be read and written in one of these.
    storages: Placement
    apart: dict[int, set[int]]


def read_and_written(launches: Sequence[Any], uses: dict[int, Use]) -> dict[int, set[int]]:
    """Return of each slot those that a launch writes where it reads it, or the other way round."""
    apart: dict[int, set[int]] = {n: set() for n in uses}
    for launch in launches:
        slots = [(slot.number, is_written) for slot, is_written in launch.slots]
        for one, is_written in slots:
            for other, is_too in slots:
                if is_written and not is_too and {one, other} <= uses.keys():
                    apart[one].add(other)
                    apart[other].add(one)
    return apart


@pytest.fixture
def plans(monkeypatch: pytest.MonkeyPatch) -> list[Plan]:
    """All plans that are made, with lives that are found from launches here, not by the planner."""
    found: list[Plan] = []
    place = RecordedMemory._placed

    def placed(self: RecordedMemory) -> Placement:
        made, slots = place(self), self.wanted.slots
        results = [self.standing(n) for n in self.wanted.results]
        lives: dict[int, Life] = {}
        for n, launch in enumerate(self.launches):
            for slot in [b for b in launch.bindings if isinstance(b, Slot)]:
                if slot.number in made.places:
                    before = lives.get(slot.number, Life(slot.nbytes, n, n))
                    lives[slot.number] = Life(slot.nbytes, before.begin, n)
        for slot in results:
            if slot.number in made.places:
                begin = lives[slot.number].begin if slot.number in lives else 0
                lives[slot.number] = Life(slot.nbytes, begin, len(self.launches))
        names = {slot.number for slot in results}
        uses = {n: Use(life.nbytes, life.begin, life.end) for n, life in lives.items()}
        outer = {n: uses[n] for n in uses if n in names}
        inner = {n: uses[n] for n in uses if n not in names}
        apart = read_and_written(self.launches, uses)
        renewed = [n for n in outer if slots[n].type in self.wanted.types]
        storages = in_storages(outer, inner, renewed=renewed, apart=apart)
        found.append(Plan(made, lives, names, storages, apart))
        return made

    monkeypatch.setattr(RecordedMemory, "_placed", placed)
    return found


def require_near(plan: Plan, lives: Sequence[Life], what: str) -> None:
    require_apart(plan.placement, plan.lives)
    least = most_at_once(lives)
    planned = plan.placement.nbytes
    assert planned <= MOST * least + SLACK * len(lives), f"{what}: {planned / least:.3f}"


def with_results_held(plan: Plan) -> list[Life]:
    """Return the lives where results are in memory all the time.

    One that is let go by itself has a buffer of its own, which what is larger cannot use before.
    """
    return [
        Life(life.nbytes, 0, life.end) if n in plan.results else life
        for n, life in plan.lives.items()
    ]


class Language(nn.Module):
    """A transformer of two layers."""

    def __init__(self) -> None:
        self.token, self.place = nn.Embedding(64, 48), nn.Embedding(32, 48)
        self.blocks = [nn.TransformerEncoderLayer(48, 3, 192, dropout=0.0) for _ in range(2)]
        self.norm, self.head = nn.LayerNorm(48), nn.Linear(48, 64, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        h = self.token(x) + self.place(pyrite.arange(x.shape[1], device=x.device))
        for block in self.blocks:
            h = block(h, is_causal=True)
        scores: Tensor = self.head(self.norm(h)).reshape((-1, 64))
        return scores


def images() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.GELU(), nn.Conv2d(8, 12, 3), nn.BatchNorm2d(12),
        nn.GELU(), nn.Flatten(), nn.Linear(12 * 12 * 12, 10),
    )  # fmt: skip


def perceptron() -> nn.Module:
    return nn.Sequential(nn.Linear(100, 96), nn.ReLU(), nn.Linear(96, 64), nn.ReLU(),
                         nn.Linear(64, 10))  # fmt: skip


NETWORKS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...], int]] = {
    "mlp": (perceptron, (32, 100), 32),
    "cnn": (images, (16, 1, 16, 16), 16),
    "gpt": (Language, (8, 32), 256),
}


@pytest.mark.skipif(config.guard is not None, reason="guarded memory has margins")
@pytest.mark.parametrize("name", NETWORKS)
def test_a_step_of_training_takes_hardly_more_than_is_in_use_at_once(
    name: str, plans: list[Plan]
) -> None:
    root = pyrite.device("cpu").backend.root
    assert isinstance(root, CubeBackend)
    device = Device(Fusion(root))
    make, shape, labels = NETWORKS[name]
    rng = np.random.default_rng(0)
    model, optimizer = make().to(device), Adam(1e-3)
    x = rng.standard_normal(shape, dtype=np.float32) if len(shape) != 2 or name == "mlp" else (
        rng.integers(0, 64, shape).astype(np.int32)
    )  # fmt: skip
    given = pyrite.tensor(x, device=device)
    y = pyrite.tensor(rng.integers(0, 10, labels), device=device)
    step = pyrite.value_and_grad(lambda m, x, y: m(x).cross_entropy_with_logits(y, axis=-1))
    for _ in range(3):
        loss, gradients = step(model, given, y)
        model = optimizer.step(model, gradients)
    loss.item()
    largest = sorted(plans, key=lambda plan: -plan.placement.nbytes)[:3]
    assert all(len(plan.lives) > 20 for plan in largest)
    for plan in largest:
        require_near(plan, [*plan.lives.values()], name)
        require_apart(plan.storages, plan.lives)
        require_not_read_and_written(plan.storages, plan.apart)
        least = most_at_once([*plan.lives.values()])
        assert plan.storages.nbytes <= MOST_STORAGES * least + GPU * len(plan.lives)


@pytest.mark.parametrize("first", range(0, 400, 10))
@pytest.mark.sample(4)
def test_random_graphs_take_hardly_more_than_is_in_use_at_once(
    first: int, plans: list[Plan]
) -> None:
    device = Device(Fusion(pyrite.device("cpu").backend.root))
    for seed in range(first, first + 10):
        plans.clear()
        RandomGraph(seed, STEPS).run(device)
        for plan in plans:
            require_near(plan, with_results_held(plan), f"seed {seed}")


def test_who_holds_what_is_no_parameter_keeps_nothing_else() -> None:
    device = Device(Fusion(pyrite.device("cpu").backend.root))
    rng = np.random.default_rng(0)
    model, optimizer = Language().to(device), Adam(1e-3)
    given = pyrite.tensor(rng.integers(0, 64, (8, 32)).astype(np.int32), device=device)

    def loss(m: Language, x: Tensor) -> tuple[Tensor, Tensor]:
        each = m(x).logsumexp(-1)
        return each.mean(), each

    step = pyrite.value_and_grad(loss, has_aux=True)
    runtime: Any = device.backend.root.runtime  # type: ignore[attr-defined]
    kept: list[Tensor] = []
    live: list[int] = []
    for _ in range(8):
        (_, each), gradients = step(model, given)
        model = optimizer.step(model, gradients)
        kept.append(each)
        del each, gradients
        device.synchronize()
        live.append(runtime.memory_report().live)
    assert live[-1] - live[-5] <= 4 * 2 * kept[0].numpy().nbytes


@pytest.mark.skipif(
    device_problem("wgpu") is not None or config.guard is not None,
    reason="no wgpu here, or one whose storages have margins",
)
def test_parameters_in_parts_of_storages_learn_as_others(monkeypatch: pytest.MonkeyPatch) -> None:
    shared: list[bool] = []
    record = RecordingLauncher.recording

    def recording(self: Any, *given: Any) -> Any:
        made = record(self, *given)
        shared.append(made.shares_rooms)
        return made

    monkeypatch.setattr(RecordingLauncher, "recording", recording)
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((64, 48), dtype=np.float32), rng.integers(0, 10, 64)

    def trained() -> list[Any]:
        device = Device(Fusion(pyrite.device("wgpu").backend.root))
        with pyrite.random_stream(0):
            layers = [nn.Linear(48, 32), *[nn.Linear(32, 32) for _ in range(4)], nn.Linear(32, 10)]
            model: Any = nn.Sequential(*layers).to(device)
        optimizer = Adam(1e-2)
        given, labels = (pyrite.tensor(v, device=device) for v in (x, y))

        @pyrite.compile
        def step(model: Any, x: Tensor, y: Tensor) -> Any:
            loss, found = pyrite.value_and_grad(
                lambda m, x, y: m(x).cross_entropy_with_logits(y, axis=-1)
            )(model, x, y)
            return optimizer.step(model, found), loss

        found = []
        for _ in range(5):
            model, loss = step(model, given, labels)
            found.append(loss.numpy())
        return [*found, *[p.numpy() for p in model.parameters()]]

    # Taken whether it is worth it or not, as in a network of many layers it is.
    with monkeypatch.context() as always:
        always.setattr("pyrite.backend.cube.placement.WORTH_SHARING", 8.0)
        parted = trained()
    assert any(shared)
    shared.clear()
    monkeypatch.setattr("pyrite.backend.cube.placement.STORAGE_ROOMS", ())
    for one, other in zip(parted, trained(), strict=True):
        np.testing.assert_array_equal(one, other)
    assert not any(shared)
