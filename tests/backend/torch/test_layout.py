"""Each implementation of the Torch backend on inputs of every memory layout, judged by dense NumPy.

PyTorch's kernels for gradients and attention are called below the checks that its own functions
make.  A gradient's op takes its cotangent as an input, so the cotangents are laid out here too.
"""

from __future__ import annotations

import ast
import itertools
import math
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyrite
from pyrite.backend import device_problem
from pyrite.op import OPS, Op, Sample, Spec, integers, sample
from pyrite.testing import Example
from pyrite.testing.examples import samples_of
from pyrite.types import Array, DType, bfloat16, float16, float32

torch = pytest.importorskip("torch")

from pyrite.backend.torch import Torch, layout  # noqa: E402 - torch may be missing

HAS_CUDA = device_problem("torch:cuda") is None
needs_cuda = pytest.mark.skipif(not HAS_CUDA, reason="no CUDA device")
#: Those that work only, lest a sample be spent on others.
DEVICES = ["torch:cpu", "torch:cuda"] if HAS_CUDA else ["torch:cpu"]
each_device = pytest.mark.parametrize("name", DEVICES)

#: Relative to the greatest magnitude of a result.
TOLERANCE = {"float32": 2e-5, "float16": 1e-2, "bfloat16": 8e-2}


# ---- layouts ----


def _transposed(x: Any) -> Any:
    """Column-major."""
    axes = tuple(reversed(range(x.ndim)))
    return x.permute(axes).contiguous().permute(axes)


def _last_two_swapped(x: Any) -> Any:
    return x.mT.contiguous().mT if x.ndim > 1 else x


def _channels_last(x: Any) -> Any:
    return x.movedim(1, -1).contiguous().movedim(-1, 1) if x.ndim > 2 else x


def _inside(x: Any, *, before: int, step: int) -> Any:
    """Part of a larger tensor, whose other elements are NaN or great."""
    if x.ndim == 0:
        return x
    sizes = [before + step * n + 3 for n in x.shape]
    larger = torch.empty(sizes, dtype=x.dtype, device=x.device)
    larger.fill_(math.nan if x.is_floating_point() else 1)
    place = tuple(slice(before, before + step * n, step) for n in x.shape)
    larger[place] = x
    return larger[place]


def _every_second_of_the_last(x: Any) -> Any:
    if x.ndim == 0:
        return x
    twice = torch.full((*x.shape[:-1], 2 * x.shape[-1]), 1, dtype=x.dtype, device=x.device)
    twice[..., ::2] = x
    return twice[..., ::2]


def _stretched(x: Any, *axes: int) -> Any:
    """The first along some axes, everywhere, without memory of its own."""
    for axis in axes:
        if -x.ndim <= axis < x.ndim and x.shape[axis]:
            x = x.narrow(axis, 0, 1)
    return x


def _broadcast(*axes: int | None) -> Callable[[Any], Any]:
    def lay(x: Any) -> Any:
        along = [a for a in axes if a is not None] or list(range(x.ndim))
        return _stretched(x, *along).expand(x.shape)

    return lay


def _overlapping(x: Any) -> Any:
    """Each row begins at the second element of the row before."""
    if x.ndim < 2 or not x.numel():
        return x
    line = x.new_empty(x.shape[-2] + x.shape[-1] - 1)
    line[: x.shape[-1]] = x.flatten()[: x.shape[-1]]
    line[x.shape[-1] - 1 :] = x[..., -1].flatten()[: x.shape[-2]]
    return line.unfold(0, x.shape[-1], 1).expand(x.shape)


def _lengths_without_a_stride(x: Any) -> Any:
    """Dense, with strides of axes of one element that no walk over memory would give."""
    strides = [997 if n == 1 else s for n, s in zip(x.shape, x.stride(), strict=True)]
    return torch.as_strided(x, x.shape, strides)


LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "dense": lambda x: x,
    "transposed": _transposed,
    "last two swapped": _last_two_swapped,
    "channels last": _channels_last,
    "offset": lambda x: _inside(x, before=1, step=1),
    "every second": lambda x: _inside(x, before=0, step=2),
    "every second of the last": _every_second_of_the_last,
    "broadcast on the first": _broadcast(0),
    "broadcast on the last": _broadcast(-1),
    "broadcast on the last but one": _broadcast(-2),
    "overlapping": _overlapping,
    "broadcast on all": _broadcast(None),
    "odd strides of one": _lengths_without_a_stride,
}

#: Larger calls than the table's, of ops for which PyTorch has kernels that differ by size.
_HEADS = (2, 3, 130, 40)
#: Queries and keys whose scores are at most 2, however they lie: of 40 times the same they would be
#: 33, and exponentials beside sums that are not theirs 1e12, of which float32 knows four digits.
_SMALL = Spec(_HEADS, low=-0.5, high=0.5)
LARGE: dict[str, list[Sample]] = {
    "scaled_dot_product_attention": [
        sample(_HEADS, _HEADS, _HEADS, None, None, None,
               is_causal=causal, scale=0.2, softcap=None, dropout_p=0.0)
        for causal in (False, True)
    ],
    "scaled_dot_product_attention_backward": [
        # Only with known zeros for the sums' cotangent is the fused kernel taken.
        sample(_HEADS, Spec(_HEADS[:-1], low=0.0, high=0.0),
               _HEADS, Spec(_HEADS[:-1], low=5.0, high=6.0),
               _SMALL, _SMALL, _HEADS, None, None, None,
               is_causal=causal, scale=0.2, softcap=None, dropout_p=0.0, argnums=(0, 1, 2))
        for causal in (False, True)
    ],
    "softmax": [sample((70, 130), axis=a) for a in (0, 1)],
    "log_softmax": [sample((3, 70, 130), axis=a) for a in (0, 1, 2)],
    "softmax_backward": [sample((3, 70, 130), (3, 70, 130), axis=a) for a in (0, 1, 2)],
    "log_softmax_backward": [sample((3, 70, 130), (3, 70, 130), axis=a) for a in (0, 1, 2)],
    "gelu_backward": [sample((70, 130), (70, 130), approximate=a) for a in ("none", "tanh")],
    "silu_backward": [sample((70, 130), (70, 130))],
    "relu_backward": [sample((70, 130), (70, 130))],
    "layer_norm": [sample((4, 9, 130), (130,), (130,), axis=(2,), eps=1e-5)],
    "layer_norm_backward": [
        sample((40, 130), (40, 130), (130,), axis=(1,), eps=1e-5, argnums=(0, 1, 2))
    ],
    "group_norm": [sample((3, 32, 9, 11), (32,), (32,), num_groups=4, eps=1e-5)],
    "group_norm_backward": [
        sample((3, 32, 9, 11), (3, 32, 9, 11), (32,), num_groups=4, eps=1e-5, argnums=(0, 1, 2))
    ],
    "batch_norm": [sample((5, 32, 9, 11), (32,), (32,), eps=1e-5)],
    "batch_norm_inference": [
        sample((5, 32, 9, 11), (32,), Spec((32,), low=0.5, high=2.0), (32,), (32,), eps=1e-5)
    ],
    "batch_norm_backward": [
        sample((5, 32, 9, 11), (32,), (32,), (5, 32, 9, 11), (32,), eps=1e-5, argnums=(0, 1, 2))
    ],
    "embedding_backward": [sample(integers((60, 5), 0, 30), (60, 5, 33), rows=30)],
    "matmul": [sample((70, 65), (65, 33)), sample((3, 17, 65), (3, 65, 33))],
}  # fmt: skip

NARROW = {
    op
    for op, method in Torch._implementations.items()
    if getattr(getattr(Torch, method), "_demand").narrow != "nowhere"  # noqa: B009
}


def dtypes_of(op: str) -> list[DType]:
    return [float32, float16, bfloat16] if op in NARROW else [float32]


def examples_of(op: Op) -> Iterator[Example]:
    for number, found in enumerate([*samples_of(op), *LARGE.get(op.name, [])]):
        yield Example(op, number, found)


def laid_out(array: Any, kind: str, name: str) -> tuple[Any, Any]:
    """An input on the device in a layout, and its values on NumPy."""
    if not isinstance(array, np.ndarray):
        return array, array
    if array.size and not array.any():
        zeros = pyrite.zeros(array.shape, dtype=str(array.dtype), device=name)
        return zeros, zeros.to("numpy")
    handle = pyrite.tensor(array, device=name).torch()
    shared = pyrite.from_torch(LAYOUTS[kind](handle))
    return shared, pyrite.tensor(shared.numpy().copy(), device="numpy")


def assignments(count: int, kind: str) -> Iterator[list[str]]:
    """Every input so, each alone, and two drawn mixtures of all layouts."""
    yield [kind] * count
    if count > 1:
        for place in range(count):
            yield [kind if i == place else "dense" for i in range(count)]
    draw = random.Random(f"{kind} {count}")
    for _ in range(2 if count > 1 else 0):
        yield draw.choices(list(LAYOUTS), k=count)


def difference(got: Array, want: Array) -> float:
    """The greatest difference, relative to the greatest magnitude where that is above 1."""
    assert (got.shape, got.dtype) == (want.shape, want.dtype)
    wide_got, wide_want = got.astype(np.float64), want.astype(np.float64)
    same = (wide_got == wide_want) | (np.isnan(wide_got) & np.isnan(wide_want))
    if not (np.isfinite(wide_got) & np.isfinite(wide_want))[~same].all():
        return math.inf
    scale = max(1.0, np.abs(wide_want[np.isfinite(wide_want)]).max(initial=0))
    return float(np.abs(wide_got[~same] - wide_want[~same]).max(initial=0) / scale)


def tolerance_of(op: str, dtype: DType, layouts: list[str]) -> float:
    """What results may differ by: a wrong layout makes them differ by as much as they are."""
    is_constant = any(kind.startswith(("broadcast", "overlapping")) for kind in layouts)
    # The norm of constants divides rounding by the root of eps.
    return 5e-2 if "norm" in op and is_constant else TOLERANCE[dtype.name]


@each_device
@pytest.mark.parametrize("kind", LAYOUTS)
@pytest.mark.parametrize("op", sorted(Torch._implementations))
@pytest.mark.sample(1, by="op")
def test_an_implementation_is_numpys_for_every_layout(name: str, op: str, kind: str) -> None:
    wrong = []
    for example, dtype in itertools.product(examples_of(OPS[op]), dtypes_of(op)):
        arrays = example.arrays(dtype)
        for layouts in assignments(len(arrays), kind):
            pairs = [laid_out(a, b, name) for a, b in zip(arrays, layouts, strict=True)]
            got = example.call([on_device for on_device, _ in pairs], name)
            want = example.call([dense for _, dense in pairs], "numpy")
            for place, (g, w) in enumerate(zip(got, want, strict=True)):
                found = difference(g.numpy(), w.numpy())
                if found > tolerance_of(op, dtype, layouts):
                    wrong.append((example.id, dtype.name, layouts, f"result {place}", found))
    assert not wrong, f"{len(wrong)} differ, first {wrong[0]}"


# ---- the kernels ----


def test_a_kernel_below_the_checks_of_pytorch_is_named_in_one_file_only() -> None:
    folder = Path(layout.__file__).parent
    found = [
        f"{file.name}:{node.lineno} {name}"
        for file in sorted(folder.glob("*.py"))
        if file.name != "layout.py"
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Attribute) and _is_below_checks(name := ast.unparse(node))
    ]
    assert found == []


def _is_below_checks(name: str) -> bool:
    """Whether a name is a kernel's; those of lists look at strides, or get `all_dense` copies."""
    path, _, last = name.rpartition(".")
    if path != "torch":
        return name == "torch.ops"
    is_checked = last.startswith(("__", "_C", "_foreach_", "_fused_adam"))
    return last.startswith(("native_", "_", "batch_norm", "segment_")) and not is_checked


def test_a_kernel_gets_each_operand_in_its_layout_and_none_is_copied_in_vain() -> None:
    got: list[Any] = []
    called = layout.kernel(lambda *operands: got.extend(operands), "rows", "any", "dense", "dense")
    rows, strided = torch.zeros(3, 8, 4).transpose(0, 1), torch.zeros(4, 3).mT
    called(rows, strided, None, strided)

    assert got[0] is rows
    assert got[1] is strided
    assert got[2] is None
    assert got[3].is_contiguous()


@pytest.mark.parametrize(
    "x",
    [
        torch.zeros(4, 6).mT,
        torch.zeros(4, 12)[:, ::2],
        torch.zeros(6).expand(4, 6),
        torch.zeros(9).unfold(0, 6, 1),
        torch.zeros(4, 1).expand(4, 6),
    ],
    ids=["transposed", "every second", "one row", "overlapping", "one column"],
)
def test_rows_are_dense_in_themselves_and_apart(x: Any) -> None:
    found = layout.in_rows(x)
    assert found.stride() == (x.shape[-1], 1)
    assert found.equal(x)


@needs_cuda
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_on_a_gpu_rows_begin_where_it_loads_whole_words(dtype: Any) -> None:
    line = torch.zeros(100, dtype=dtype, device="cuda")
    for x in (line[1:65].view(4, 16), line.as_strided((4, 16), (17, 1))):
        found = layout.in_rows(x)
        assert found.data_ptr() % 16 == 0
        assert found.stride() == (16, 1)


def test_group_norm_of_one_pixel_whose_strides_pass_for_channels_last_has_gradients() -> None:
    """PyTorch's own kernel ends the process there if x needs no gradient."""
    rows = pyrite.tensor(np.linspace(-1, 1, 64, dtype=np.float32).reshape(4, 1, 1, 16))
    weight = pyrite.ones((16,))

    def gradient(device: str) -> Any:
        x = rows.to(device).permute_dims((0, 3, 1, 2))
        run = pyrite.grad(lambda w: (x.group_norm(w, num_groups=4) ** 2).sum())
        return run(weight.to(device)).numpy()

    np.testing.assert_allclose(gradient("torch:cpu"), gradient("numpy"), 1e-5, 1e-5)
