"""Einstein summation against NumPy, its gradients against torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyrite.autodiff import grad
from pyrite.backend.numpy import NumPy
from pyrite.errors import ArgumentError, PyriteError, ShapeError
from pyrite.op import Op
from pyrite.tensor.creation import tensor
from pyrite.tensor.einsum import einsum
from pyrite.types import float32, int8

RANDOM = np.random.default_rng(0)


def floats(*shape: int) -> Any:
    return RANDOM.uniform(-1, 1, shape)


CASES: list[tuple[str, list[Any]]] = [
    ("ij,jk->ik", [(2, 3), (3, 4)]),
    ("ij,jk", [(2, 3), (3, 4)]),
    ("ba", [(2, 3)]),
    ("ij->", [(2, 3)]),
    ("i,i->", [(3,), (3,)]),
    ("i,j->ji", [(3,), (4,)]),
    ("i,i->i", [(3,), (3,)]),
    ("ii->i", [(3, 3)]),
    ("iij->j", [(3, 3, 2)]),
    ("iii->", [(3, 3, 3)]),
    ("bij,bjk->bik", [(5, 2, 3), (5, 3, 4)]),
    ("bhqd,bhkd->bhqk", [(2, 3, 4, 5), (2, 3, 6, 5)]),
    ("ij,kl->", [(2, 3), (4, 5)]),
    ("ij,jk,kl,lm->im", [(2, 9), (9, 3), (3, 8), (8, 2)]),
    ("i,ij,j->", [(2,), (2, 3), (3,)]),
    ("...ij,...jk->...ik", [(2, 1, 2, 3), (4, 3, 5)]),
    ("i...,i...->...", [(3, 2, 4), (3, 4)]),
    ("...", [(2, 3)]),
    ("i...", [(2, 3)]),
    ("bij,kj->bik", [(2, 3, 1), (4, 5)]),
    (" i j , j -> i ", [(2, 3), (3,)]),
    ("ij,jk->ik", [(2, 0), (0, 4)]),
    (",ij->ij", [(), (2, 3)]),
    ("Aa,aB->BA", [(2, 3), (3, 4)]),
]


@pytest.mark.parametrize(("equation", "shapes"), CASES)
def test_einsum_and_its_gradients_are_torchs(equation: str, shapes: Any) -> None:
    torch = pytest.importorskip("torch")
    arrays = [floats(*shape) for shape in shapes]
    leaves = [torch.tensor(a, requires_grad=True) for a in arrays]
    expected = torch.einsum(equation, *leaves)
    seed = floats(*expected.shape)
    (expected * torch.tensor(seed)).sum().backward()
    inputs = [tensor(a) for a in arrays]
    out = einsum(equation, *inputs)
    np.testing.assert_allclose(out.numpy(), expected.detach().numpy(), atol=1e-12)
    found = grad(
        lambda *xs: (einsum(equation, *xs) * tensor(seed)).sum(), tuple(range(len(inputs)))
    )(*inputs)
    for g, leaf in zip(found, leaves, strict=True):
        np.testing.assert_allclose(g.numpy(), leaf.grad.numpy(), atol=1e-12)


def test_operands_meet_in_one_dtype_which_the_result_keeps() -> None:
    x = tensor([[100, 100]], dtype="int8")
    assert einsum("ij->i", x).dtype is int8
    assert einsum("ij->i", x).numpy().tolist() == [-56]
    assert einsum("ij,ij->i", x, tensor([[1.0, 2.0]])).dtype is float32


@pytest.mark.parametrize(
    ("equation", "shapes", "message"),
    [
        ("ij,jk->ik", [(2, 3)], r"one term per operand, got 'ij,jk->ik' with 2 terms for 1"),
        ("ij->ik", [(2, 3)], r"each letter of the result once and in a term, got 'ij->ik'"),
        ("ij->ii", [(2, 3)], r"each letter of the result once"),
        ("i1->i", [(2, 3)], r"requires terms of letters and one '...', got 'i1->i'"),
        ("......", [(2, 3)], r"requires terms of letters and one '...'"),
        ("i->i", [(2, 3)], r"requires one letter per axis, got 'i' of 'i->i' for \(2, 3\)"),
        ("ijk->i", [(2, 3)], r"requires one letter per axis, got 'ijk'"),
        ("ij,jk", [(2, 3), (4, 5)], r"one size for 'j' of 'ij,jk->ik', got \(2, 3\) and \(4, 5\)"),
    ],
)
def test_an_equation_that_does_not_fit_is_named(equation: str, shapes: Any, message: str) -> None:
    with pytest.raises((ArgumentError, ShapeError), match=message) as caught:
        einsum(equation, *(tensor(floats(*shape)) for shape in shapes))
    assert isinstance(caught.value, PyriteError)
    assert __file__ in str(caught.value.location)


class Watched(NumPy):
    """A backend that notes the size of the greatest result."""

    greatest = 0

    def execute(self, op: Op, inputs: Any, plan: Any) -> Any:
        results = super().execute(op, inputs, plan)
        if results is None:
            return None
        self.greatest = max(self.greatest, *(r.size for r in results))
        return results


def test_a_chain_is_multiplied_from_its_cheap_end() -> None:
    device = Watched()
    arrays = [floats(*s) for s in ((40, 3), (3, 40), (40, 3), (3,))]
    expected = np.linalg.multi_dot(arrays)
    out = einsum("ab,bc,cd,d->a", *(tensor(a, device=device) for a in arrays))
    np.testing.assert_allclose(out.numpy(), expected)
    assert device.greatest == 120  # the matrices themselves, rearranged; never two multiplied
