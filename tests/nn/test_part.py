"""Parts of a built model by path: read, exchanged, changed, tied; the first model stays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pytest

from pyrite import nn, optim
from pyrite.autodiff import value_and_grad
from pyrite.errors import DTypeError, ModuleError, ShapeError
from pyrite.tensor.creation import full, ones, tensor, zeros
from pyrite.tensor.parameter import Parameter, State
from pyrite.tensor.stream import random_stream
from pyrite.tensor.tensor import Tensor


class Block(nn.Module):
    def __init__(self, features: int) -> None:
        self.attn = nn.MultiHeadAttention(features, 2)
        self.mlp = nn.Sequential(nn.Linear(features, features), Tensor.gelu)
        self.drop = nn.Dropout(0.1)

    def forward(self, x):
        return x + self.drop(self.mlp(x + self.attn(x, is_causal=True)))


class Language(nn.Module):
    """A small language model whose head is tied to its embedding, as nanoGPT's is."""

    def __init__(self, tokens: int = 11, features: int = 4) -> None:
        self.wte = nn.Embedding(tokens, features)
        self.wpe = Parameter(zeros((6, features)))
        self.h = [Block(features), Block(features)]
        self.lm_head = nn.Linear(features, tokens, bias=False).replace(weight=self.wte.weight)
        self.seen = State(full((2,), 0.0))

    def forward(self, tokens):
        x = self.wte(tokens) + self.wpe[: tokens.shape[-1]]
        for block in self.h:
            x = block(x)
        return self.lm_head(x)


class Pair(NamedTuple):
    first: nn.Linear
    second: nn.Linear


@dataclass(frozen=True)
class Held:
    layer: nn.Linear
    rate: float


class Holding(nn.Module):
    """A layer in every kind of container, and one that has two paths."""

    def __init__(self) -> None:
        shared = nn.Linear(2, 2)
        self.pair = Pair(shared, nn.Linear(2, 2))
        self.held = Held(nn.Linear(2, 2), 0.5)
        self.named = {"a": shared, "b": [nn.Linear(2, 2), None]}
        self.sizes = [2, 3]


TOKENS = np.arange(8).reshape(2, 4)


@pytest.fixture
def model() -> Language:
    with random_stream(0):
        return Language()


@pytest.fixture
def holding() -> Holding:
    with random_stream(0):
        return Holding()


def train(model: Language, optimizer: optim.Optimizer, steps: int = 1) -> Language:
    for _ in range(steps):
        _, grads = value_and_grad(lambda m: m(tensor(TOKENS)).square().mean())(model)
        model = optimizer.step(model, grads)
    return model


def holds(model: nn.Module, parameter: Parameter) -> bool:
    return any(p is parameter for p in model.parameters())


# ---- get and set ----


def test_a_part_is_read_by_its_path(model):
    assert model.at["h.1.attn"].get() is model.h[1].attn
    assert model.at["h.0.mlp.0.weight"].get() is model.h[0].mlp[0].weight
    assert model.at["h.0.drop.p"].get() == 0.1
    assert model.at["h"].get() is model.h


def test_a_pattern_gives_all_its_parts(model):
    assert list(model.at["h.*.attn.query.bias"].items()) == [
        "h.0.attn.query.bias", "h.1.attn.query.bias",
    ]  # fmt: skip
    # Configuration is no match of a pattern: f of an apply is given modules and tensors.
    assert all(isinstance(p, nn.Module | Tensor) for p in model.at["*"].items().values())
    with pytest.raises(ModuleError, match=r"one part, got 'h\.\*\.mlp', which matches h\.0\.mlp, "):
        model.at["h.*.mlp"].get()


def test_setting_a_part_shares_the_rest_and_leaves_the_model(model):
    layer = nn.Linear(4, 4)
    made = model.at["h.1.attn.output"].set(layer)
    assert made.h[1].attn.output is layer
    assert model.h[1].attn.output is not layer
    assert made.h[0] is model.h[0]
    assert made.wte is model.wte
    assert made.lm_head.weight is made.wte.weight
    assert holds(made, layer.weight)
    assert len(made.named_parameters()) == len(model.named_parameters())


def test_a_new_head_is_trained_from_the_next_step_on(model):
    optimizer = optim.Adam(0.01)
    model = train(model, optimizer)
    made = model.at["lm_head"].set(nn.Linear(4, 3))
    after = train(made, optimizer)
    assert after(tensor(TOKENS)).shape == (2, 4, 3)
    assert np.abs(after.lm_head.weight.numpy() - made.lm_head.weight.numpy()).max() > 0


@pytest.mark.parametrize(
    ("path", "read"),
    [
        ("pair.1", lambda m: m.pair.second),
        ("held.layer", lambda m: m.held.layer),
        ("named.b.0", lambda m: m.named["b"][0]),
        ("named.b.1", lambda m: m.named["b"][1]),
    ],
)
def test_parts_in_every_container_are_exchanged(
    holding: Holding, path: str, read: Callable[[Holding], nn.Linear]
) -> None:
    layer = nn.Linear(2, 2)
    made = holding.at[path].set(layer)
    assert read(made) is layer
    assert holds(made, layer.weight)
    kinds = [type(value) for value in vars(made).values()]
    assert kinds == [type(value) for value in vars(holding).values()]


def test_a_field_that_held_nothing_may_come_to_hold_a_layer(holding):
    class Optional(nn.Module):
        def __init__(self) -> None:
            self.norm = None

    made = Optional().at["norm"].set(nn.LayerNorm(3))
    assert [path for path, _ in made.named_parameters()] == ["norm.weight", "norm.bias"]
    assert made.map(lambda p: p + 1).norm.weight.tolist() == [2, 2, 2]


def test_configuration_is_set_too(model):
    made = model.at["h.0.drop.p"].set(0.5)
    assert (made.h[0].drop.p, made.h[1].drop.p, model.h[0].drop.p) == (0.5, 0.1, 0.1)


# ---- lists and dicts ----


def test_a_list_or_dict_grows_as_a_whole(model, holding):
    longer = model.at["h"].set([*model.h, Block(4)])
    assert len(longer.h) == 3
    assert any(path.startswith("h.2.") for path, _ in longer.named_parameters())
    wider = holding.at["named"].set({**holding.named, "c": nn.Linear(2, 2)})
    assert holds(wider, wider.named["c"].weight)
    with pytest.raises(ModuleError, match="change; make another"):
        wider.named["d"] = nn.Linear(2, 2)


@pytest.mark.parametrize(
    "change",
    [
        lambda m: m.h.append(1),
        lambda m: m.h.extend([1]),
        lambda m: m.h.__setitem__(0, 1),
        lambda m: m.h.pop(),
    ],
)
def test_a_change_of_a_list_in_place_says_what_to_write(model, change):
    with pytest.raises(ModuleError, match=r'list of a module .* model\.at\["blocks"\]\.set'):
        change(model)


@pytest.mark.parametrize(
    "change",
    [
        lambda m: m.named.__setitem__("c", 1),
        lambda m: m.named.update(c=1),
        lambda m: m.named.pop("a"),
        lambda m: m.named.__delitem__("a"),
        lambda m: m.named.setdefault("c", 1),
        lambda m: m.named.__ior__({"c": 1}),
        lambda m: m.named.clear(),
        lambda m: m.named.popitem(),
    ],
)
def test_a_change_of_a_dict_in_place_says_what_to_write(holding, change):
    with pytest.raises(ModuleError, match=r'dict of a module .* model\.at\["heads"\]\.set'):
        change(holding)
    assert list(holding.named) == ["a", "b"]


# ---- values of parameters ----


def test_a_tensor_is_the_next_value_of_a_parameter_at_each_of_its_paths(model):
    made = model.at["lm_head.weight"].set(ones((11, 4)))
    assert made.lm_head.weight is made.wte.weight
    assert made.wte.weight.id == model.wte.weight.id
    assert made.wte.weight.numpy().min() == 1
    assert model.wte.weight.numpy().min() < 1


def test_a_value_of_another_shape_makes_another_parameter_and_keeps_the_tie(model):
    made = model.at["wte.weight"].apply(lambda w: w[:7])
    assert made.lm_head.weight is made.wte.weight
    assert made.wte.weight.id != model.wte.weight.id
    np.testing.assert_array_equal(made.wte.weight.numpy(), model.wte.weight.numpy()[:7])
    frozen = model.freeze("wpe").at["wpe"].apply(lambda w: w[:3])
    assert not frozen.wpe.trainable


def test_a_state_is_given_a_value_too(model):
    made = model.at["seen"].set(ones((2,)))
    assert made.seen.id == model.seen.id
    assert isinstance(made.seen, State)


def test_a_parameter_of_its_own_unties(model):
    made = model.at["lm_head.weight"].set(Parameter(zeros((11, 4))))
    assert made.lm_head.weight.id != made.wte.weight.id
    assert made.wte is model.wte


def test_a_change_of_one_layer_reaches_what_it_is_tied_to(model):
    made = model.at["lm_head"].apply(lambda layer: layer.astype("float64"))
    assert made.lm_head.weight is made.wte.weight
    assert made.wte.weight.dtype.name == "float64"


def test_two_values_for_one_parameter_are_refused(model):
    values = iter((zeros((11, 4)), ones((11, 4))))

    def change(layer):
        return layer.map(lambda p: next(values))

    with pytest.raises(ModuleError, match="one value for each parameter, got two"):
        model.at["*e*"].apply(lambda m: change(m) if m is model.wte or m is model.lm_head else m)


def test_an_array_in_the_place_of_a_parameter_is_refused(model):
    with pytest.raises(DTypeError, match=r"at\['wpe'\] requires a tensor, got a NumPy array"):
        model.at["wpe"].set(np.zeros((6, 4)))


# ---- apply ----


def test_apply_is_given_inner_parts_first_and_shared_ones_once(holding):
    seen: list[str] = []

    def change(part):
        if isinstance(part, nn.Linear):
            seen.append("layer")
            return nn.Sequential(part, nn.Identity())
        return part

    made = holding.at["*"].apply(change)
    assert len(seen) == 4
    assert made.pair.first is made.named["a"]
    assert made.pair.first[0].weight is holding.pair.first.weight


def test_a_part_that_is_changed_at_one_of_its_paths_stays_at_the_other(holding):
    made = holding.at["pair.0"].set(nn.Linear(2, 2))
    assert made.named["a"] is holding.pair.first


def test_a_change_that_changes_nothing_gives_the_same_model(model):
    assert model.at["*"].apply(lambda part: part) is model


# ---- errors ----


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("lm_heat", "got 'lm_heat'; did you mean 'lm_head'"),
        ("h.0.attn.c_proj.qqqqqq", "it has wte, wte.weight"),
        ("h.2", r"got 'h\.2'; to add one, give the whole: model\.at\['h'\]\.set\(\[\*model\.h"),
        ("zzz.*", "it has wte, wte.weight"),
    ],
)
def test_a_path_that_names_nothing_is_an_error_at_once(model, path, message):
    with pytest.raises(ModuleError, match=message):
        model.at[path]


def test_a_key_that_a_dict_lacks_is_told_how_to_add(holding):
    with pytest.raises(ModuleError, match=r"at\['named'\]\.set\(\{\*\*model\.named, 'c': \.\.\.\}"):
        holding.at["named.c"]


# ---- tie ----


def test_tying_keeps_the_sources_id_and_value(model):
    untied = model.at["lm_head.weight"].set(Parameter(zeros((11, 4))))
    made = untied.tie("lm_head.weight", "wte.weight")
    assert made.lm_head.weight is untied.wte.weight
    assert made.num_params() == untied.num_params() - 44
    after = train(made, optim.SGD(0.1))
    assert after.lm_head.weight is after.wte.weight


@pytest.mark.parametrize(
    ("path", "error", "message"),
    [
        ("wpe", ShapeError, r"one shape, got \(6, 4\) 'wpe' and \(11, 4\) 'wte\.weight'"),
        ("h.0", ModuleError, "two parameters, or of two states, got Block 'h.0'"),
        ("seen", ModuleError, "got State 'seen' and Parameter"),
        ("h.*.mlp.0.weight", ModuleError, "one part"),
    ],
)
def test_what_cannot_be_tied_is_refused(model, path, error, message):
    with pytest.raises(error, match=message):
        model.tie(path, "wte.weight")


def test_tying_refuses_another_dtype(model):
    other = model.at["lm_head.weight"].set(Parameter(zeros((11, 4), dtype="float16")))
    with pytest.raises(DTypeError, match="one dtype, got float16"):
        other.tie("lm_head.weight", "wte.weight")


# ---- optimisers ----


def test_state_begins_for_new_parameters_and_ends_for_removed_ones(model):
    optimizer = optim.Adam(0.01)
    model = train(model, optimizer, 3)
    made = model.at["h.1"].set(Block(4))
    made = train(made, optimizer)
    steps = optimizer.record(made).metadata["parameter_steps"]
    assert {path: n for path, n in steps.items() if path.startswith("h.1.")} == {
        path: 1 for path, _ in made.named_parameters() if path.startswith("h.1.")
    }
    assert steps["h.0.mlp.0.weight"] == 4
    assert set(optimizer._state.parameters) == {p.id for p in made.parameters()}
    # The block that was removed is unknown again.
    back = train(made.at["h.1"].set(model.h[1]), optimizer)
    assert optimizer.record(back).metadata["parameter_steps"]["h.1.mlp.0.weight"] == 1


def test_a_cropped_parameter_has_state_of_its_shape(model):
    optimizer = optim.Adam(0.01)
    model = train(model, optimizer)
    cropped = train(model.at["wpe"].apply(lambda w: w[:5]), optimizer)
    assert cropped.wpe.shape == (5, 4)


def test_two_models_of_one_optimiser_keep_their_state(model):
    optimizer = optim.Adam(0.01)
    other = train(model, optimizer)
    with random_stream(1):
        beside = train(Language(), optimizer)
    other = train(other, optimizer)
    assert optimizer.record(other).metadata["parameter_steps"]["wpe"] == 2
    assert optimizer.record(beside).metadata["parameter_steps"]["wpe"] == 1
