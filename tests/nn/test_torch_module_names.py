"""What users of PyTorch call on a module is an error that says what to write, which works."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest

import pyrite
from pyrite import nn
from pyrite.errors import DTypeError, ModuleError
from pyrite.nn.torch_names import INSTEAD
from pyrite.op.foreign import renamed


@pytest.mark.parametrize("name", INSTEAD)
def test_what_is_advised_works_and_the_name_is_not_here(name: str, tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(2, 2))
    use = INSTEAD[name]
    path, record = tmp_path / "m.safetensors", model.record()
    model.save(path)

    with pytest.raises(
        AttributeError, match=f"^'Sequential' object has no attribute '{name}'; use "
    ):
        getattr(model, name)

    if use.startswith(("nothing", "a field")):
        return
    names = {"pyrite": pyrite, "path": path, "record": record, "change": lambda p: p}
    names |= {"name": "0", "pattern": "0", "grads": pyrite.Gradients()}
    first, *other = use.replace("'wgpu'", "'numpy'").split(", or ")
    code = [first.partition(", of")[0], *(o for o in other if o.startswith("model.l"))]
    for expression in code:
        eval(expression.removeprefix("model = "), {"model": model, **names})


def test_any_other_name_is_the_error_that_python_makes() -> None:
    model: Any = nn.Linear(2, 2)

    with pytest.raises(AttributeError, match=r"^'Linear' object has no attribute 'wieght'$"):
        model.wieght  # noqa: B018


@pytest.mark.parametrize("name", ["model.pt", "model", "model.weights"])
def test_what_was_saved_is_loaded_whatever_its_name(name: str, tmp_path: Path) -> None:
    model = nn.Linear(2, 2)
    model.save(tmp_path / name)

    loaded = nn.Linear(2, 2).load(tmp_path / name)

    assert loaded.weight.tolist() == model.weight.tolist()


def test_a_list_is_no_layer_and_no_tensor() -> None:
    with pytest.raises(ModuleError, match=r"got \[.*\]; unpack it: Sequential\(\*layers\)$"):
        nn.Sequential([nn.ReLU()])
    with pytest.raises(DTypeError, match=r"^Linear requires tensors, got list; convert it: pyrite"):
        nn.Linear(2, 2)([[1.0, 2.0]])


ARGUMENTS = {
    "a layer": (lambda: nn.Softmax(dim=1), "^Softmax requires .* got dim; dim is axis here$"),
    "in place": (lambda: nn.ReLU(inplace=True), "inplace: leave it out, a tensor never changes"),
    "an LSTM": (
        lambda: nn.LSTM(input_size=2, hidden_size=3, num_layers=2),
        "input_size is in_features here; hidden_size is hidden_features here; num_layers is layers",
    ),
    "a transformer": (
        lambda: nn.TransformerEncoderLayer(d_model=8, nhead=2, dim_feedforward=3),
        "d_model is features here; nhead is heads here; dim_feedforward is hidden_features here",
    ),
    "an op": (lambda: pyrite.ones((2, 2)).softmax(dim=1), "dim is axis here"),
    "cat": (lambda: pyrite.cat([pyrite.ones(2)], dim=0), "^concat requires .*; dim is axis here$"),
    "stack": (lambda: pyrite.stack([pyrite.ones(2)], dim=0), "; dim is axis here$"),
    "split": (lambda: pyrite.ones(2).split(1, dim=0), "; dim is axis here$"),
    "sum": (
        lambda: pyrite.ones((2, 2)).sum(dim=1, keepdim=True),
        "dim is axis here; keepdim is keepdims here",
    ),
    "flatten": (lambda: pyrite.ones((2, 2)).flatten(start_dim=1), "start_dim is start_axis here"),
    "var": (
        lambda: pyrite.ones((2, 2)).var(unbiased=False),
        "unbiased: write correction=1 for True, correction=0 for False",
    ),
    "a tensor": (
        lambda: pyrite.zeros((2,), requires_grad=True), "requires_grad: make it a pyrite.Parameter"
    ),
    "a loader": (
        lambda: pyrite.data.DataLoader([1], 1, num_workers=2), "num_workers is workers here"
    ),
    "transpose": (
        lambda: pyrite.ones((2, 2)).swap_axes(dim0=0, dim1=1),
        "dim0 is axis1 here; dim1 is axis2 here",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", ARGUMENTS)
def test_an_argument_of_pytorchs_name_is_an_error_that_says_what_to_write(what: str) -> None:
    call, message = ARGUMENTS[what]
    with pytest.raises(TypeError, match=message):
        call()


#: By layer, what PyTorch's takes, in its declaration or its call, and nothing here stands for.
UNSUPPORTED = {
    "AvgPool2d": {"divisor_override"}, "AvgPool3d": {"divisor_override"},
    "BatchNorm1d": {"bias"}, "BatchNorm2d": {"bias"}, "BatchNorm3d": {"bias"},
    "ConvTranspose1d": {"padding_mode", "output_size"},
    "ConvTranspose2d": {"padding_mode", "output_size"},
    "ConvTranspose3d": {"padding_mode", "output_size"},
    "Embedding": {"max_norm", "norm_type", "scale_grad_by_freq"},
    "EmbeddingBag": {"include_last_offset", "max_norm", "norm_type", "scale_grad_by_freq"},
    "GroupNorm": {"bias"},
    "InstanceNorm1d": {"bias", "momentum", "track_running_stats"},
    "InstanceNorm2d": {"bias", "momentum", "track_running_stats"},
    "InstanceNorm3d": {"bias", "momentum", "track_running_stats"},
    "MultiheadAttention": {"add_bias_kv"},
    "PoissonNLLLoss": {"log_input"},
    "Softplus": {"threshold"},
    "Transformer": {"bias", "custom_decoder", "custom_encoder", "memory_is_causal"},
    "TransformerDecoder": {"norm", "memory_is_causal"},
    "TransformerDecoderLayer": {"bias", "memory_is_causal"},
    "TransformerEncoder": {"norm"},
    "TransformerEncoderLayer": {"bias"},
    "Upsample": {"recompute_scale_factor"},
}  # fmt: skip


def test_each_argument_of_pytorchs_layers_is_taken_or_answered_or_listed() -> None:
    torch = pytest.importorskip("torch")
    if not torch.__version__.startswith("2.13."):
        pytest.skip(f"the list is of PyTorch 2.13, this is {torch.__version__}")

    def arguments(function: Any) -> list[str]:
        found = inspect.signature(function).parameters.values()
        several = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        return [p.name for p in found if p.kind not in several and p.name != "self"]

    def lacking(ours: Any, theirs: Any) -> set[str]:
        here = inspect.signature(ours).parameters
        return {
            name for name in arguments(theirs) if name not in here and not renamed([name], here)
        }

    lacks = {}
    for name in [*nn.__all__, "MultiheadAttention"]:
        ours = nn.MultiHeadAttention if name == "MultiheadAttention" else getattr(nn, name)
        theirs = getattr(torch.nn, name, None)
        if theirs is None or not inspect.isclass(ours) or not issubclass(ours, nn.Module):
            continue
        if found := lacking(ours, theirs.__init__) | lacking(ours.forward, theirs.forward):
            lacks[name] = found
    assert lacks == UNSUPPORTED


def test_an_argument_of_a_call_is_answered_with_the_layers_path() -> None:
    x = pyrite.ones((1, 2, 8))
    net = nn.TransformerEncoderLayer(8, 2, 16)
    with pytest.raises(
        TypeError,
        match=r"got src_key_padding_mask; src_key_padding_mask: write a mask, "
        r"~src_key_padding_mask\[:, None, None, :\], which is True where a key counts",
    ):
        net(x, src_key_padding_mask=x)
    mask = pyrite.tensor([[False, True]])  # PyTorch's: the second token is padding
    hidden = net(x, mask=~mask[:, None, None, :])
    assert hidden[0, 0].allclose(net(x[:, :1])[0, 0], atol=1e-6)
    with pytest.raises(TypeError, match=r"^ReLU requires no arguments, got inplace; inplace: "):
        nn.ReLU(inplace=True)
    with pytest.raises(TypeError, match=r"^DataLoader requires arguments among dataset, "):
        pyrite.data.DataLoader([1], 1, num_workers=2)


def test_a_type_error_of_a_users_forward_pass_stays_what_it_is() -> None:
    class Net(nn.Module):
        def forward(self, x: Any, *, dim: int) -> Any:
            return x + object.__new__(3)  # type: ignore[arg-type]

    with pytest.raises(TypeError, match=r"not a type object"):
        Net()(pyrite.ones(2), dim=1)
    with pytest.raises(TypeError, match=r"unexpected keyword argument 'nonesuch'$"):
        nn.ReLU()(pyrite.ones(2), nonesuch=1)


def test_an_argument_that_nobody_has_is_the_error_that_python_makes() -> None:
    with pytest.raises(TypeError, match=r"unexpected keyword argument 'nonesuch'$"):
        nn.Softmax(nonesuch=1)
    with pytest.raises(TypeError, match=r"unexpected keyword argument 'nonesuch'$"):
        pyrite.stack([pyrite.ones(2)], nonesuch=1)
