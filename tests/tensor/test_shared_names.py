"""Methods of one name in PyTorch and here, called with the same arguments: what differs is told.

Each name that tensors of both have stands in one of three tables: a call that gives the same, a
call that means otherwise, which the table of docs/guide/from-pytorch.md has, or a reason not to
compare.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyrite

torch = pytest.importorskip("torch")

GUIDE = Path(__file__).parent.parent.parent / "docs" / "guide" / "from-pytorch.md"
RNG = np.random.default_rng(0)

#: What calls are made of: matrices between 0.1 and 0.9, a vector, a cube, integers and bools.
VALUES: dict[str, Any] = {
    "x": RNG.uniform(0.1, 0.9, (2, 3)), "y": RNG.uniform(0.1, 0.9, (2, 3)),
    "z": RNG.uniform(0.1, 0.9, (2, 3)), "s": RNG.uniform(0.1, 0.9, (3, 3)),
    "m": RNG.uniform(0.1, 0.9, (3, 4)), "a": RNG.uniform(0.1, 0.9, (2, 4)),
    "v": RNG.uniform(0.1, 0.9, (3,)), "c": RNG.uniform(0.1, 0.9, (2, 3, 4)),
    "d": RNG.uniform(0.1, 0.9, (2, 4, 3)), "e": RNG.uniform(0.1, 0.9, (2, 3, 3)),
    "w": 1.0 + RNG.uniform(0.1, 0.9, (2, 3)), "n": RNG.normal(size=(2, 3)) * 3,
    "o": np.array([[0.5, np.nan, 1.0]]), "t": np.array([2.0]),
    "i": np.array([[5, 3, 6], [1, 2, 7]]), "j": np.array([[2, 1, 3], [3, 1, 1]]),
    "k": np.array([0, 2, 2]), "l": np.array([[0, 2, 1], [1, 1, 0]]),
    "b": np.array([[True, False, True], [False, False, True]]),
    "q": np.array([[0.0, 2.0, 0.0], [1.0, 0.0, 2.0]]),
}  # fmt: skip

#: Of no arguments, by the value that they are called on.
PLAIN = {
    "x": """abs acos all amax amin any argmax argmin argsort asin atan atanh ceil cos cosh deg2rad
        digamma erf erfc erfinv exp exp2 expm1 flatten floor fliplr flipud isfinite isinf isnan
        lgamma log log10 log1p log2 logit max mean min neg negative numpy positive prod rad2deg
        reciprocal relu rot90 round rsqrt sigmoid sign signbit sin sinc sinh sqrt square squeeze
        sum tan tanh tolist trunc asinh detach clone isfinite frac""",
    "w": "acosh", "s": "trace tril triu cov diagonal", "o": "nan_to_num nanmean nansum",
    "q": "argwhere count_nonzero aminmax", "k": "bincount bitwise_not",
    "b": "logical_not",
}  # fmt: skip

#: Calls that give the same, written in the one way for both.
SAME = """
    x.add(y) x.addcdiv(y,z) x.addcmul(y,z) a.addmm(x,m) v.addmv(s,v) x.allclose(y) x.atan2(y)
    e.baddbmm(c,d) i.bitwise_and(j) i.bitwise_left_shift(j) i.bitwise_or(j)
    i.bitwise_right_shift(j) i.bitwise_xor(j) c.bmm(d) v.broadcast_to((2,3)) x.chunk(2)
    n.clamp(-1,1)
    n.clamp_max(1) n.clamp_min(0) n.clip(-1,1) x.copysign(n) x.cross(y,1) x.cumprod(1) x.cumsum(1)
    x.diff() x.dist(y) x.div(y) x.divide(y) v.dot(v) v.expand(2,3) c.flip(0) n.floor_divide(y)
    o.fmax(t) o.fmin(t) n.fmod(y) x.gather(1,l) x.greater(y) x.greater_equal(y) n.heaviside(y)
    x.hypot(y) c.index_add(1,k,c) x.index_select(1,k) x.isclose(y) x.sum().item()
    x.kron(y) x.lerp(y,0.3) x.less(y) x.less_equal(y) x.log_softmax(1) x.logaddexp(y)
    x.logcumsumexp(1) b.logical_and(b) b.logical_or(b) b.logical_xor(b) x.logsumexp(1)
    x.masked_select(b) x.matmul(m) x.maximum(y) x.minimum(y) x.mm(m) c.moveaxis(0,2) c.movedim(0,2)
    x.mul(y) x.multiply(y) s.mv(v) x.narrow(1,0,2) x.nextafter(y) x.not_equal(y) v.outer(v)
    c.permute(2,0,1) x.pow(y) n.prelu(t) v.quantile(0.3) n.remainder(y) x.reshape(3,2) x.roll(1,0)
    x.scatter(1,l,y) x.scatter_add(1,l,y) x.softmax(1) c.split(1) x.sub(y) x.subtract(y)
    c.swapaxes(0,1) x.take(k) c.tensor_split(2) v.tile((2,)) x.topk(2) c.transpose(0,1)
    c.unflatten(2,(2,2)) c.unfold(2,2,1) q.unique() x.unsqueeze(0) x.where(b,y) x.xlogy(y)
    x.mean(1) x.sum(1) x.prod(1) x.amax(1) x.argmax(1) b.all(1) b.any(1) x.argsort(1) v.kthvalue(2)
""".split()

#: Calls that mean otherwise here, and what the guide's table says of them: the two differ.
DIFFERENT = {
    "v.std()": "`x.std()`", "v.var()": "`x.var()`", "v.repeat(2)": "`x.repeat(2, 1)`",
    "q.nonzero()": "`x.nonzero()`", "x.max(1)": "`x.max(1)`", "x.min(1)": "`x.min(1)`",
    "x.sort()": "`x.sort()`", "x.median(1)": "`x.median(1)`", "x.median()": "`x.median()`",
    "v.cummax(0)": "`x.cummax(0)`", "v.cummin(0)": "`x.cummin(0)`", "v.equal(v)": "`x.equal(y)`",
    "s.diag()": "`x.diag()`", "k.logical_not()": "`x.logical_not()`", "v.inner(v)": "`x.inner()`",
    "v.to(v)": "`x.to(…)`",
}  # fmt: skip

#: Names that are called elsewhere, as they work on gradients.
ELSEWHERE = {"backward": "tests/autodiff/test_tape.py"}


def calls() -> list[str]:
    """All calls of the table of those that give the same."""
    return [f"{on}.{name}()" for on, names in PLAIN.items() for name in names.split()] + SAME


def called(library: Any) -> list[Any]:
    """The results of all calls that are the same, as arrays."""
    return [arrays(eval(call, library)) for call in calls()]


def arrays(found: Any) -> Any:
    """A result, or each of several, as NumPy arrays."""
    if isinstance(found, tuple | list):
        return [arrays(part) for part in found]
    return np.asarray(found.detach().numpy() if isinstance(found, torch.Tensor) else found)


def differ(got: Any, want: Any) -> bool:
    """Whether results differ, in structure, shape, kind or values."""
    if isinstance(got, list) or isinstance(want, list):
        is_one = not (isinstance(got, list) and isinstance(want, list))
        return is_one or len(got) != len(want) or any(map(differ, got, want))
    if got.shape != want.shape or got.dtype.kind != want.dtype.kind:
        return True
    return not np.allclose(got.astype(float), want.astype(float), equal_nan=True, atol=1e-9)


OURS = {name: pyrite.tensor(value) for name, value in VALUES.items()}
THEIRS = {name: torch.tensor(value) for name, value in VALUES.items()}


@pytest.mark.filterwarnings("ignore")
def test_a_call_of_one_name_with_equal_arguments_gives_the_same() -> None:
    found = zip(calls(), called(OURS), called(THEIRS), strict=True)
    assert [call for call, got, want in found if differ(got, want)] == []


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("call", DIFFERENT)
def test_a_call_that_means_otherwise_does_and_the_guide_says_so(call: str) -> None:
    want = arrays(eval(call, dict(THEIRS)))
    try:
        assert differ(arrays(eval(call, dict(OURS))), want)
    except (pyrite.errors.PyriteError, TypeError):
        pass
    table = GUIDE.read_text().split("## What is called the same and is another thing")[1]
    assert DIFFERENT[call] in table


def test_every_name_that_both_have_is_called() -> None:
    both = {
        name
        for name in set(dir(torch.Tensor)) & set(dir(pyrite.Tensor))
        if not name.startswith("_")
        and callable(getattr(torch.Tensor, name))
        and callable(getattr(pyrite.Tensor, name))
    }
    names = {name for call in [*calls(), *DIFFERENT] for name in re.findall(r"\.(\w+)\(", call)}
    assert both - names - set(ELSEWHERE) == set()
