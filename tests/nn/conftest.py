"""The judge of layers: PyTorch's layer of the same name, in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pyrite import nn
from pyrite.autodiff import value_and_grad
from pyrite.tensor.creation import tensor

Agrees = Callable[..., None]


@pytest.fixture
def agrees(tmp_path: Any) -> Agrees:
    """Return a check that our module does as PyTorch's, on NumPy arrays.

    Ours takes the values of theirs, by name, from a file.  Compared are the output, and the
    gradients of the sum of the output times cosines (where there is no reason for it to be 0) with
    respect to each float input and each parameter.
    """
    torch = pytest.importorskip("torch")

    def check(
        ours: nn.Module, theirs: Any, *arrays: Any, training: bool = True, rtol: float = 1e-9
    ) -> None:
        theirs = theirs.double().train(training)
        if theirs.state_dict():
            torch.save(theirs.state_dict(), tmp_path / "theirs.pt")
            ours = ours.load(tmp_path / "theirs.pt", dtype="file")
        inputs = [torch.tensor(a, requires_grad=a.dtype.kind == "f") for a in arrays]
        out = theirs(*inputs)
        weight = np.cos(np.arange(out.numel())).reshape(tuple(out.shape))
        (out * torch.tensor(weight)).sum().backward()

        def loss(ours: nn.Module, *inputs: Any) -> Any:
            got = ours(*inputs)
            return (got * tensor(weight)).sum(), got

        given = [tensor(a) for a in arrays]
        tracked = [i for i, a in enumerate(arrays, start=1) if a.dtype.kind == "f"]
        (_, got), (grads, *of_inputs) = value_and_grad(
            loss, (0, *tracked), has_aux=True, training=training
        )(ours, *given)
        close = {"rtol": rtol, "atol": rtol}
        np.testing.assert_allclose(got.numpy(), out.detach().numpy(), **close)
        for i, found in zip(tracked, of_inputs, strict=True):
            np.testing.assert_allclose(found.numpy(), inputs[i - 1].grad.numpy(), **close)
        wanted = dict(theirs.named_parameters())
        assert [name for name, _ in ours.named_parameters()] == list(wanted)
        for name, parameter in ours.named_parameters():
            want = wanted[name].grad.numpy()
            np.testing.assert_allclose(grads[parameter].numpy(), want, err_msg=name, **close)

    return check
