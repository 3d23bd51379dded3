"""Modules are values: declared, frozen, changed into new ones, saved, shared between threads."""

from __future__ import annotations

import copy
import gc
import inspect
import threading
from abc import ABC, abstractmethod
from collections import OrderedDict
from dataclasses import dataclass

import numpy as np
import pytest

from pyrite import nn, optim
from pyrite.autodiff import autodiff, checkpoint, value_and_grad
from pyrite.errors import ArgumentError, ModuleError, RecordError, ShapeError
from pyrite.record import MatchError
from pyrite.tensor.creation import full, tensor
from pyrite.tensor.parameter import Parameter, State
from pyrite.tensor.stream import random_stream, seed
from pyrite.tensor.tensor import Tensor
from pyrite.tensor.tree import tree_items, tree_leaves, tree_map


class Net(nn.Module):
    def __init__(self, hidden: int = 8) -> None:
        self.hidden = nn.Linear(4, hidden)
        self.layers = [nn.Linear(hidden, hidden), nn.Linear(hidden, hidden)]
        self.heads = {"a": nn.Linear(hidden, 2), "b": nn.Linear(hidden, 3, bias=False)}
        self.mean = State(full((hidden,), 0.0))
        self.scale = 2.0

    def forward(self, x):
        x = self.hidden(x) * self.scale
        for layer in self.layers:
            x = layer(x)
        return self.heads["a"](x)


class Tied(nn.Module):
    def __init__(self) -> None:
        self.first = nn.Linear(3, 3, bias=False)
        self.second = nn.Linear(3, 3, bias=False)
        self.second = self.second.replace(weight=self.first.weight)

    def forward(self, x):
        return self.second(self.first(x))


@pytest.fixture
def net() -> Net:
    with random_stream(0):
        return Net()


def test_parameters_are_named_by_path_in_order_of_declaration(net):
    assert [path for path, _ in net.named_parameters()] == [
        "hidden.weight", "hidden.bias", "layers.0.weight", "layers.0.bias", "layers.1.weight",
        "layers.1.bias", "heads.a.weight", "heads.a.bias", "heads.b.weight",
    ]  # fmt: skip
    assert [path for path, _ in net.named_states()] == ["mean"]
    assert net.num_params() == 4 * 8 + 8 + 2 * (64 + 8) + 16 + 2 + 24


def test_it_is_frozen_after_init(net):
    with pytest.raises(ModuleError, match=r"assignment to 'scale'; .* use replace\(scale="):
        net.scale = 3.0
    with pytest.raises(ModuleError, match="del hidden"):
        del net.hidden
    assert isinstance(net.layers, tuple)
    with pytest.raises(TypeError):
        net.heads["c"] = nn.Linear(1, 1)


def test_assigning_in_forward_is_an_error():
    class Counting(nn.Module):
        def __init__(self) -> None:
            self.calls = 0

        def forward(self, x):
            self.calls += 1
            return x

    with pytest.raises(ModuleError, match="return the value from forward"):
        Counting()(tensor(1.0))


def test_replace_returns_another_module_and_shares_the_rest(net):
    other = net.replace(scale=3.0)
    assert (net.scale, other.scale) == (2.0, 3.0)
    assert other.hidden is net.hidden
    with pytest.raises(ModuleError, match=r"fields of Net, got size; it has hidden"):
        net.replace(size=1)


def test_map_changes_values_and_keeps_identities(net):
    doubled = net.map(lambda p: p * 2)
    for (path, old), (_, new) in zip(
        net.named_parameters(), doubled.named_parameters(), strict=True
    ):
        assert new.id == old.id, path
        np.testing.assert_array_equal(new.numpy(), 2 * old.numpy())
    assert doubled.mean is net.mean


def test_tied_weights_stay_tied(tmp_path):
    with random_stream(1):
        tied = Tied()
    assert tied.num_params() == 9
    for made in (tied.map(lambda p: p + 1), tied.to(autodiff()), tied.astype("float64")):
        assert made.first.weight is made.second.weight
    tied.save(tmp_path / "tied.safetensors")
    loaded = Tied().load(tmp_path / "tied.safetensors")
    assert loaded.first.weight is loaded.second.weight
    np.testing.assert_array_equal(loaded.first.weight.numpy(), tied.first.weight.numpy())


def test_the_gradient_of_a_tied_weight_is_the_sum():
    with random_stream(1):
        tied = Tied()
    x = tensor(np.eye(3, dtype=np.float32))
    _, grads = value_and_grad(lambda m: m(x).sum())(tied)
    w = tied.first.weight.numpy()
    ones = np.ones((3, 3), np.float32)
    want = w.T @ ones + ones @ w.T  # of the sum of W W
    np.testing.assert_allclose(grads[tied.first.weight].numpy(), want, rtol=1e-5)


def test_freeze_by_pattern(net):
    frozen = net.freeze("layers.*", "*.bias")
    trained = [path for path, p in frozen.named_parameters() if p.trainable]
    assert trained == ["hidden.weight", "heads.a.weight", "heads.b.weight"]
    _, grads = value_and_grad(lambda m: m(full((2, 4), 1.0)).sum())(frozen)
    assert frozen.hidden.weight in grads
    assert frozen.layers[0].weight not in grads
    assert all(p.trainable for p in frozen.unfreeze().parameters())
    with pytest.raises(ModuleError, match=r"'encoder\.\*'; it has hidden\.weight"):
        net.freeze("encoder.*")


def test_training_mode_follows_the_context_and_can_be_overridden():
    class Probe(nn.Module):
        def __init__(self) -> None:
            self.weight = Parameter(full((), 1.0))
            self.inner = nn.Lambda(lambda: None)

        def forward(self, x):
            return (x * self.weight).sum(), self.training

    probe, x = Probe(), tensor([1.0])

    def mode(m, **options):
        return value_and_grad(lambda m: m(x), has_aux=True, **options)(m)[0][1]

    assert probe(x)[1] is False
    assert mode(probe) is True
    assert mode(probe, training=False) is False
    assert mode(probe.with_training(False)) is False
    assert probe.with_training(True)(x)[1] is True
    assert probe.with_training(True).with_training(None)(x)[1] is False
    assert probe.to(autodiff())(x)[1] is True
    assert probe.freeze().to(autodiff())(x)[1] is False


def test_a_tracked_input_does_not_train():
    probe = nn.Dropout(0.5)
    x = full((64,), 1.0, device=autodiff()).require_grad()
    np.testing.assert_array_equal(probe(x).numpy(), np.ones(64))


def test_an_error_names_the_path_of_the_layer(net):
    with pytest.raises(
        ShapeError, match=r"x.shape\[-1\] == 4, got \(2, 5\); declare Linear\(5"
    ) as e:
        net(full((2, 5), 1.0))
    assert e.value.__notes__ == ["in Net 'hidden': Linear(in_features=4, out_features=8)"]
    broken = net.replace(layers=(net.layers[0], nn.Sequential(nn.Linear(9, 9))))
    with pytest.raises(ShapeError) as e:
        broken(full((2, 4), 1.0))
    assert "in Net 'layers.1.0'" in e.value.__notes__[0]


def test_a_module_without_forward_says_so():
    with pytest.raises(ModuleError, match="Module requires a forward method"):
        nn.Module()()


def test_initial_values_are_lazy_and_do_not_depend_on_the_order_of_looking():
    with random_stream(5):
        first = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 5))
    with random_stream(5):
        second = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 5))
    assert not first[0].weight.is_initialized
    first_values = [p.numpy() for p in first.parameters()]
    second_values = [p.numpy() for p in reversed(second.parameters())][::-1]
    for x, y in zip(first_values, second_values, strict=True):
        np.testing.assert_array_equal(x, y)


def test_a_module_moves_before_its_values_are_drawn():
    with random_stream(5):
        net = nn.Linear(3, 4)
    moved = net.to(autodiff())
    assert not net.weight.is_initialized
    assert not moved.weight.is_initialized
    np.testing.assert_array_equal(moved.weight.numpy(), net.weight.numpy())
    assert moved.weight.is_tracked


def test_the_default_linear_starts_as_pytorch_says():
    seed(0)
    weight = nn.Linear(400, 300).weight.numpy()
    bound = 1 / np.sqrt(400)
    assert np.abs(weight).max() <= bound
    assert weight.std() == pytest.approx(bound / np.sqrt(3), rel=0.02)


def test_save_and_load(net, tmp_path):
    path = tmp_path / "net.safetensors"
    net.save(path)
    with random_stream(9):
        loaded = Net().load(path)
    for (_, a), (_, b) in zip(net.named_parameters(), loaded.named_parameters(), strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())


def test_what_does_not_fit_is_one_report(net, tmp_path):
    path = tmp_path / "net.safetensors"
    net.save(path)
    with pytest.raises(MatchError, match=r"hidden\.weight"):
        Net(hidden=5).load(path)
    with pytest.raises(RecordError, match=r"\.safetensors, \.pt"):
        net.load(tmp_path / "net.onnx")
    with pytest.raises(
        RecordError, match=r"or a sharded checkpoint, got .*, which does not exist$"
    ):
        net.load(tmp_path / "network")


@pytest.mark.parametrize(
    ("names", "shown", "first"),
    [
        (["config.json", "model.safetensors"], "model.safetensors", "model.safetensors"),
        (["b.pt", "a.bin"], "a.bin, b.pt", "a.bin"),
        (
            ["a.safetensors", "b.safetensors.index.json"],
            "b.safetensors.index.json, a.safetensors",
            "b.safetensors.index.json",
        ),
        ([f"{i}.pt" for i in range(7)], "0.pt, 1.pt, 2.pt, 3.pt, 4.pt and 2 more", "0.pt"),
    ],
)
def test_a_folder_without_an_index_says_what_it_holds(net, tmp_path, names, shown, first):
    for name in names:
        (tmp_path / name).touch()

    with pytest.raises(RecordError) as caught:
        net.load(tmp_path)

    assert str(caught.value) == (
        "load requires a file, or a folder with model.safetensors.index.json, got "
        f"{str(tmp_path)!r} with {shown}; load one file: load({str(tmp_path / first)!r})"
    )
    assert caught.value.location.startswith(f"{__file__}:")


def test_a_folder_without_weights_says_so(net, tmp_path):
    with pytest.raises(RecordError, match=r"with no weights; name a file$"):
        net.load(tmp_path)


def test_renamed_keys_load_with_rules(net, tmp_path):
    class Wrapped(nn.Module):
        def __init__(self) -> None:
            self.model = Net()

        def forward(self, x):
            return self.model(x)

    wrapped = Wrapped()
    wrapped.save(tmp_path / "w.safetensors")
    loaded = net.load(tmp_path / "w.safetensors", rules=[(r"^model\.", "")])
    np.testing.assert_array_equal(loaded.hidden.weight.numpy(), wrapped.model.hidden.weight.numpy())


def test_a_pytorch_state_dict_loads_by_name(tmp_path):
    torch = pytest.importorskip("torch")
    theirs = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    torch.save(theirs.state_dict(), tmp_path / "net.pt")
    ours = nn.Sequential(nn.Linear(4, 8), lambda x: x.relu(), nn.Linear(8, 2))
    ours = ours.load(tmp_path / "net.pt")
    x = np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32)
    want = theirs(torch.tensor(x)).detach().numpy()
    np.testing.assert_allclose(ours(tensor(x)).numpy(), want, rtol=1e-5, atol=1e-6)


def test_one_model_in_eight_threads_sums_to_the_gradient_of_all(net):
    x = np.random.default_rng(0).normal(size=(16, 4)).astype(np.float64)
    net = net.astype("float64")

    def loss(m, x):
        return (m(x) ** 2).sum()

    _, whole = value_and_grad(loss)(net, tensor(x))
    parts: list = [None] * 8

    def work(k: int) -> None:
        parts[k] = value_and_grad(loss)(net, tensor(x[2 * k : 2 * k + 2]))[1]

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    for p in net.parameters():
        if p in whole:
            np.testing.assert_allclose(total[p].numpy(), whole[p].numpy(), rtol=1e-10)


def test_the_tree_shows_shapes_and_counts(net):
    text = repr(net)
    assert text.splitlines()[0] == "Net(scale=2.0) (226 parameters)"
    assert "├── hidden: Linear(in_features=4, out_features=8, weight=[8, 4], bias=[8])  40" in text
    assert "└── mean: State[8]" in text
    assert "40 frozen" in repr(net.freeze("hidden.*"))
    assert repr(nn.Dropout(0.25)) == "Dropout(p=0.25)"


def test_sizes_are_checked():
    with pytest.raises(ArgumentError, match="Linear requires in_features >= 1, got 0"):
        nn.Linear(0, 3)
    with pytest.raises(ArgumentError, match=r"0 <= p <= 1, got p=1.5"):
        nn.Dropout(1.5)


def test_every_initialiser_is_seeded_and_has_its_spread():
    shape = (200, 100)
    spreads = {
        nn.init.Constant(3.0): 0.0,
        nn.init.Zeros(): 0.0,
        nn.init.Ones(): 0.0,
        nn.init.Uniform(-1.0, 1.0): 3**-0.5,
        nn.init.Normal(0.0, 0.5): 0.5,
        nn.init.KaimingUniform(): (1 / 3 / 100) ** 0.5,
        nn.init.KaimingNormal(): (2 / 100) ** 0.5,
        nn.init.XavierUniform(): (2 / 300) ** 0.5,
        nn.init.XavierNormal(): (2 / 300) ** 0.5,
        nn.init.Orthogonal(): 200**-0.5,
    }
    for initializer, spread in spreads.items():
        with random_stream(3):
            values = initializer.parameter(shape).numpy()
        with random_stream(3):
            np.testing.assert_array_equal(initializer.parameter(shape).numpy(), values)
        assert values.std() == pytest.approx(spread, rel=0.03, abs=1e-12)
    with random_stream(3):
        q = nn.init.Orthogonal().parameter((6, 20), dtype="float64").numpy()
    np.testing.assert_allclose(q @ q.T, np.eye(6), atol=1e-12)


def test_dataclasses_are_trees():
    @dataclass(frozen=True)
    class Batch:
        x: Tensor
        name: str

    moved = tree_map(lambda t: t + 1, Batch(tensor([1.0]), "first"))
    assert (moved.x.item(), moved.name) == (2.0, "first")


def test_a_class_shows_the_parameters_of_its_init():
    assert [*inspect.signature(nn.Linear).parameters][:3] == ["in_features", "out_features", "bias"]
    assert not inspect.signature(nn.Identity).parameters


def test_a_deep_copy_has_parameters_of_its_own_with_the_same_values():
    class Stack(nn.Module):
        def __init__(self) -> None:
            first = nn.Linear(2, 2, bias=False)
            tied = nn.Linear(2, 2, bias=False).replace(weight=first.weight)
            self.first, self.others = first, [copy.deepcopy(first) for _ in range(2)]
            self.pair = copy.deepcopy({"a": first, "b": tied})

    stack = Stack()
    assert len({p.id for p in stack.parameters()}) == 4
    assert stack.pair["a"].weight is stack.pair["b"].weight
    np.testing.assert_array_equal(stack.others[1].weight.numpy(), stack.first.weight.numpy())
    assert copy.copy(stack) is stack
    apart = copy.deepcopy(stack.to(autodiff()))
    grads = apart.first.weight.sum().backward()
    assert apart.first.weight in grads
    assert stack.first.weight not in grads


def test_a_module_may_be_abstract_and_hold_any_dict():
    class Shape(nn.Module, ABC):
        @abstractmethod
        def area(self) -> float: ...

    with pytest.raises(TypeError, match="abstract"):
        Shape()

    class Square(Shape):
        def __init__(self) -> None:
            self.sides = OrderedDict(a=nn.Linear(1, 1))

        def area(self) -> float:
            return 1.0

    with pytest.raises(TypeError):
        Square().sides["b"] = nn.Linear(1, 1)


@pytest.mark.parametrize("way", ["plain", "balanced", "checkpoint", "backward"])
def test_a_training_step_leaves_no_cycle(way):
    """A cycle would keep the weights of many steps alive until the garbage collector ran."""
    model = nn.Sequential(
        nn.Linear(4, 6), nn.BatchNorm(6), nn.Tanh(), nn.Softmax(1), nn.Dropout(0.1), nn.Linear(6, 1)
    )
    optimizer, x = optim.Adam(0.1), full((8, 4), 1.0)
    if way == "backward":
        model = model.to(autodiff())

    def step(model):
        if way == "backward":
            return optimizer.step(model, model(x).mean().backward())
        wrap = checkpoint if way == "checkpoint" else lambda m: m
        strategy = "balanced" if way == "balanced" else "none"
        run = value_and_grad(lambda m: wrap(m)(x).mean(), checkpointing=strategy)
        return optimizer.step(model, run(model)[1])

    # With Fusion steps are compiled when they came again.
    for _ in range(8):
        model = step(model)
    gc.collect()
    gc.disable()
    try:
        for _ in range(3):
            model = step(model)
        assert gc.collect() == 0
    finally:
        gc.enable()


def test_a_slice_of_a_sequential_is_one_with_the_same_layers():
    net = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
    front = net[:2]
    assert isinstance(front, nn.Sequential)
    assert front[0] is net[0]
    assert front(full((4, 2), 1.0)).shape == (4, 3)


def test_a_tensor_in_a_field_that_held_none_is_found(net):
    scaled = net.map(lambda p: p * 2).replace(scale=Parameter(full((), 3.0)))
    assert [path for path, _ in scaled.named_parameters()][-1] == "scale"
    assert scaled.parameters()[-1] is scaled.scale
    assert scaled.replace(scale=2.0).num_params() == net.num_params()
    bare = net.heads["b"]
    assert bare.map(lambda p: p).replace(bias=full((3,), 1.0)).to(autodiff()).bias.device.level == 1


def test_a_tensor_that_comes_to_a_field_later_is_found():
    @dataclass
    class Memory:
        last: Tensor | None = None

    class Remembering(nn.Module):
        def __init__(self) -> None:
            self.memory = Memory()
            self.sizes = (2, 3)

    module = Remembering()
    assert module.map(lambda p: p * 2) is module
    module.memory.last = Parameter(full((), 1.0))
    assert module.parameters()[0] is module.memory.last
    assert module.map(lambda p: p * 2).memory.last.item() == 2.0


def test_a_module_says_what_its_children_are():
    class Hiding(nn.Module):
        def __init__(self) -> None:
            self.shown, self.hidden = nn.Linear(1, 1, bias=False), nn.Linear(1, 1)

        def tree_children(self):
            return {"shown": self.shown}

    module = Hiding()
    assert [path for path, _ in module.named_parameters()] == ["shown.weight"]
    doubled = module.map(lambda p: p * 2)
    assert doubled.hidden is module.hidden
    assert doubled.shown.weight.item() == 2 * module.shown.weight.item()


def test_what_a_module_holds_is_what_it_was_made_with(net):
    one, hidden = full((), 1.0), nn.Linear(4, 8)
    assert len(tree_leaves(net)) == 10
    others = [
        net.map(lambda p: p + 1), net.to(autodiff()), net.freeze("layers.*"), copy.deepcopy(net),
        net.with_training(True), net.replace(hidden=hidden), net.replace(scale=one),
        tree_map(lambda t: one, net), tree_map(lambda t: [t, one], net), tree_map(len, net.heads),
    ]  # fmt: skip
    for made in (net, *others):
        assert list(map(id, tree_leaves(made))) == [id(t) for _, t in tree_items(made)]
    assert [len(tree_leaves(made)) for made in others] == [10, 10, 10, 10, 10, 10, 11, 1, 11, 0]


def test_a_copy_made_within_init_is_found_whole():
    class Twice(nn.Module):
        def __init__(self) -> None:
            self.name = "first"
            self.other = self.replace(name="second")
            self.other.weight = Parameter(full((), 1.0))

    assert [path for path, _ in Twice().named_parameters()] == ["other.weight"]
    assert len(Twice().parameters()) == 1


def test_layers_of_a_sequential_are_replaced_by_number():
    net = nn.Sequential(nn.Linear(2, 3), nn.ReLU()).replace(**{"1": nn.Linear(3, 1)})
    assert net(full((4, 2), 1.0)).shape == (4, 1)
    assert len(net.parameters()) == 4


def test_private_fields_are_the_users():
    class Private(nn.Module):
        def __init__(self) -> None:
            self._branches, self._leaves = 3, [1]
            self.out = nn.Linear(1, 1)

    moved = Private().map(lambda p: p * 2)
    assert (moved._branches, moved._leaves) == (3, (1,))
