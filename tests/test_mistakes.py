"""What a newcomer reads after a typical mistake: the form, the fix, and no frames of ours."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyrite
from pyrite import nn, optim
from pyrite.errors import DTypeError, PyriteError
from pyrite.op import public


class Net(nn.Module):
    def __init__(self) -> None:
        self.hidden = nn.Linear(4, 8)
        self.out = nn.Linear(8, 2)

    def forward(self, x: Any) -> Any:
        return self.out(self.hidden(x).relu())


class Remembering(nn.Module):
    def forward(self, x: Any) -> Any:
        self.last = x
        return x


def ones(*shape: int) -> pyrite.Tensor:
    return pyrite.ones(shape)


def stepped_twice() -> Any:
    net, optimizer = Net(), optim.SGD(0.1)
    _, grads = pyrite.value_and_grad(lambda m: m(ones(3, 4)).mean())(net)
    return optimizer.step(optimizer.step(net, grads), grads)


def lost_gradients() -> Any:
    net = Net()
    return net, pyrite.value_and_grad(lambda m: m(ones(3, 4)).detach().mean())(net)[1]


MISTAKES: dict[str, Callable[[], Any]] = {
    "matmul requires x.shape[-1] == y.shape[-2], got (5, 3) @ (4, 3)": lambda: (
        ones(5, 3) @ ones(4, 3)
    ),
    "Linear requires x.shape[-1] == 4, got (3, 5); declare Linear(5, 8)": lambda: Net()(ones(3, 5)),
    "Conv2d requires x of shape (N, 3, H, W), got (2, 1, 8, 8)": lambda: nn.Conv2d(3, 8, 3)(
        ones(2, 1, 8, 8)
    ),
    "concat requires shapes that are equal but for axis 0, got (2, 3) and (2, 4)": lambda: (
        pyrite.concat([ones(2, 3), ones(2, 4)])
    ),
    "concat requires one sequence of tensors, got tensors one by one; put them into a list: "
    "concat([x, y])": lambda: pyrite.concat(ones(2), ones(2)),  # type: ignore[arg-type, type-var]
    "stack requires one sequence of tensors, got tensors one by one; put them into a list: "
    "stack([x, y])": lambda: pyrite.stack(ones(2), ones(2)),  # type: ignore[arg-type, type-var]
    "full requires one number, got a tensor of shape (3,); use broadcast_to": lambda: pyrite.full(
        (2, 3), ones(3)
    ),  # type: ignore[arg-type]
    "zeros requires a shape in one argument, got 2 sizes; write zeros((2, 3))": lambda: (
        pyrite.zeros(2, 3)  # type: ignore[call-arg, misc]
    ),
    "ones requires a shape in one argument, got 3 sizes; write ones((2, 3, 4))": lambda: (
        pyrite.ones(2, 3, 4, dtype=pyrite.int32)  # type: ignore[call-arg, misc]
    ),
    "empty requires a shape in one argument, got 2 sizes; write empty((2, 3))": lambda: (
        pyrite.empty(2, 3)  # type: ignore[call-arg, misc]
    ),
    "full requires a shape in one argument, got 2 sizes; write full((2, 3), 1.5)": lambda: (
        pyrite.full(2, 3, 1.5)  # type: ignore[call-arg, misc]
    ),
    "reshape requires the same number of elements, got (2, 6) = 12 and (5, 3) = 15": lambda: ones(
        2, 6
    ).reshape(5, 3),
    "permute_dims requires each of 2 axes once, got axes=(0, 0)": lambda: ones(2, 3).permute(0, 0),
    "sum requires -2 <= axis < 2, got axis=2": lambda: ones(2, 3).sum(axis=2),
    "indexing requires at most 1 indices, one per axis, got 2": lambda: ones(3)[0, 0],
    "cross_entropy requires targets of shape (4, 3), probabilities for logits of shape (4, 3) with "
    "classes on axis 1, got (4,); cast indices of classes: targets.astype(int32)": lambda: (
        nn.CrossEntropyLoss()(ones(4, 3), ones(4))
    ),
    "MSELoss requires target of the prediction's shape (3, 1), got (3,); reshape one of them": (
        lambda: nn.MSELoss()(ones(3, 1), ones(3))
    ),
    "Dropout requires 0 <= p <= 1, got p=1.5": lambda: nn.Dropout(1.5),
    "add requires tensors or Python numbers, got a NumPy array; convert it: pyrite.tensor(...)": (
        lambda: ones(3) + np.ones(3)
    ),
    "subtract requires tensors or Python numbers, got a NumPy array; convert it: "
    "pyrite.tensor(...)": lambda: np.ones(3) - ones(3),
    "multiply requires tensors or Python numbers, got list; convert it: pyrite.tensor(...)": (
        lambda: ones(2) * [1.0, 2.0]  # type: ignore[operator]
    ),
    "divide requires tensors or Python numbers, got NoneType": (
        lambda: ones(2) / None  # type: ignore[operator]
    ),
    "exp requires a tensor among its inputs, got a NumPy array; convert it: pyrite.tensor(...)": (
        lambda: pyrite.exp(np.ones(3))  # type: ignore[type-var]
    ),
    "exp requires a tensor among its inputs, got none": (
        lambda: pyrite.exp(1.0)  # type: ignore[type-var]
    ),
    "matmul requires a tensor among its inputs, got a NumPy array; convert it: "
    "pyrite.tensor(...)": lambda: pyrite.matmul(
        np.ones((3, 3)),  # type: ignore[type-var]
        np.ones((3, 3)),  # type: ignore[type-var]
    ),
    "where requires tensors, got a NumPy array; convert it: pyrite.tensor(...)": lambda: (
        pyrite.where(np.ones(3) > 0, ones(3), 0.0)  # type: ignore[arg-type]
    ),
    "cross_entropy_with_logits requires tensors, got a NumPy array; convert it: "
    "pyrite.tensor(...)": lambda: nn.CrossEntropyLoss()(ones(2, 3), np.array([0, 1])),
    "Linear requires tensors, got a NumPy array; convert it: pyrite.tensor(...)": lambda: Net()(
        np.ones((3, 4))
    ),
    "tensor requires nested sequences of equal lengths, got ragged ones; pad them": lambda: (
        pyrite.tensor([[1, 2], [3]])
    ),
    "tensor requires numbers, got NoneType None": lambda: pyrite.tensor(None),
    "tensor requires values, got tensors through which gradients flow, which a copy would cut; use "
    "pyrite.stack": lambda: pyrite.grad(lambda x: pyrite.tensor([x, 2 * x]).sum())(ones()),
    "backward requires an autodiff device, got numpy; use pyrite.autodiff('numpy') or "
    "pyrite.value_and_grad": lambda: Net()(ones(3, 4)).mean().backward(),
    "backward requires a scalar, got shape (3,); use .sum()": lambda: ones(3).backward(),
    "value_and_grad requires a scalar loss, got shape (3, 2); use .mean()": lambda: (
        pyrite.value_and_grad(lambda m: m(ones(3, 4)))(Net())
    ),
    "value_and_grad requires a float tensor or a module, got int32; make one: pyrite.tensor(1.0)": (
        lambda: pyrite.grad(lambda x: (x * x).sum())(pyrite.tensor([1, 2]))
    ),
    "value_and_grad requires a float tensor or a module, got float; make one: pyrite.tensor(1.0)": (
        lambda: pyrite.grad(lambda x: x * x)(3.0)
    ),
    "value_and_grad requires a function, got Tensor; give the function itself, and call what is "
    "returned: value_and_grad(loss)(model, batch)": lambda: pyrite.value_and_grad(
        Net()(ones(3, 4)).mean()  # type: ignore[arg-type]
    ),
    "value_and_grad requires a function that returns a scalar tensor, got float; return the loss "
    "itself, or (loss, more) with has_aux=True": lambda: pyrite.grad(lambda x: (x * x).item())(
        ones()
    ),
    "step requires a gradient of at least one parameter, got none; the loss depends on no "
    "parameter of the model: was it detached, or a constant?": lambda: optim.SGD(0.1).step(
        *lost_gradients()
    ),
    "value_and_grad requires a float loss, got int32": lambda: pyrite.grad(lambda x: x.argmax())(
        ones(3)
    ),
    "step requires gradients, got Tensor; take them by value_and_grad(fn)(model) or "
    "loss.backward()": lambda: optim.SGD(0.1).step(Net(), Net()(ones(3, 4)).mean()),
    "gradients require the parameter that they were taken of, got version 1 for gradients of "
    "version 0; take them again after the step": stepped_twice,
    "Remembering requires its fields to stay as __init__ left them, got an assignment to 'last'; "
    "return the value from forward, or use replace(last=...)": lambda: Remembering()(ones(2)),
    "freeze requires a path of a parameter, got 'encoder.*'; it has hidden.weight, hidden.bias, "
    "out.weight, out.bias": lambda: Net().freeze("encoder.*"),
}


@pytest.mark.parametrize(("message", "mistake"), MISTAKES.items(), ids=range(len(MISTAKES)))
def test_a_mistake_is_named_at_the_users_line(message: str, mistake: Callable[[], Any]) -> None:
    with pytest.raises(PyriteError) as caught:
        mistake()
    assert str(caught.value) == message
    assert str(caught.value.location).startswith(f"{__file__}:")
    ours = str(Path(pyrite.__file__).parent)
    *_, last = (i for i, e in enumerate(caught.traceback) if not str(e.path).startswith(ours))
    assert len(caught.traceback) - 1 - last <= 2


@pytest.mark.parametrize(
    "mistake",
    [
        lambda x, t: x + t,
        lambda x, t: t + x,
        lambda x, t: t @ x,
        lambda x, t: pyrite.stack([x, t]),
        lambda x, t: x[t > 0],
        lambda x, t: x.at[0].set(t),
        lambda x, t: pyrite.relu(t),
    ],
    ids=range(7),
)
def test_a_tensor_of_pytorch_is_called_so_and_how_it_is_converted(
    mistake: Callable[[Any, Any], Any],
) -> None:
    torch = pytest.importorskip("torch")
    fix = r"requires .*, got a torch\.Tensor; convert it: pyrite\.tensor\(\.\.\.\)$"

    with pytest.raises(DTypeError, match=fix) as caught:
        mistake(ones(3), torch.ones(3))

    assert str(caught.value.location).startswith(f"{__file__}:")


def test_an_error_of_ones_own_is_not_taken_for_a_foreign_array() -> None:
    """A list among the arguments does not explain every missing attribute."""

    @public
    def read(path: Any, sizes: Any) -> Any:
        return path.name, sizes

    with pytest.raises(AttributeError, match="'NoneType' object has no attribute 'name'"):
        read(None, [1, 2])


def test_a_call_that_does_not_fit_otherwise_is_pythons_own() -> None:
    with pytest.raises(TypeError, match=r"zeros\(\) takes 1 positional argument but 2 were given"):
        pyrite.zeros((2, 3), pyrite.float32)  # type: ignore[call-arg, misc]

    @public
    def fails(shape: Any) -> Any:
        raise TypeError("of its own")

    with pytest.raises(TypeError, match="of its own"):
        fails(2)


def test_an_error_in_a_layer_keeps_the_line_of_the_users_forward() -> None:
    with pytest.raises(PyriteError) as caught:
        Net()(ones(3, 5))
    assert [e.name for e in caught.traceback if str(e.path) == __file__][-1] == "forward"
    line = Net.forward.__code__.co_firstlineno + 1
    assert caught.value.location == f"{__file__}:{line}"
    assert caught.value.__notes__ == ["in Net 'hidden': Linear(in_features=4, out_features=8)"]


def test_arguments_that_do_not_fit_name_the_op() -> None:
    with pytest.raises(TypeError, match=r"^permute_dims\(self, axes\): too many positional"):
        ones(2, 3).permute_dims(0, 1)  # type: ignore[call-arg, arg-type]
    with pytest.raises(
        TypeError, match=r"^sum\(.*'dim'; dim is axis here; keepdim is keepdims here$"
    ):
        ones(2, 3).sum(dim=1, keepdim=True)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"^exp\(self\): got an unexpected keyword argument 'dim'$"):
        ones(2, 3).exp(dim=1)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("make", "got"),
    [
        (lambda: optim.Adam(Net().parameters()), "got list"),
        (lambda: optim.Adam(Net()), "got Net"),
        (lambda: optim.LBFGS(Net()), "got Net"),
        (lambda: optim.Adam(lr=1e-3), "got lr=0.001"),
        (lambda: optim.SGD(Net().parameters(), lr=1e-3, foreach=True), "got lr=0.001, foreach=T"),
        (lambda: optim.LBFGS(Net().parameters(), lr=1), "got lr=1"),
        (lambda: optim.Adam(Net(), 1e-3), "got 2 without a name"),
        (
            lambda: optim.Adam(betas=(0.9, 0.99)),
            r"among learning_rate, beta1, .* got betas=\(0\.9,",
        ),
    ],
    ids=range(8),
)
def test_an_optimizer_takes_settings_and_no_model(make: Callable[[], Any], got: str) -> None:
    fix = r"; write (Adam|SGD|LBFGS)\(learning_rate=\.\.\.\), and give the model to step$"
    with pytest.raises(PyriteError, match=f"{got}.*{fix}") as caught:
        make()
    assert str(caught.value.location).startswith(f"{__file__}:")


def test_what_an_optimizer_takes_is_seen_in_its_signature() -> None:
    for rule in (optim.Optimizer, optim.Adam, optim.LBFGS):
        assert next(iter(inspect.signature(rule).parameters)) == "learning_rate"
