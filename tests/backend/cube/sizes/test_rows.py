"""Rows and bodies: the first length or number of rows makes the kernel for the others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import pyrite
from pyrite import Tensor
from pyrite.backend.cube import CubeBackend
from pyrite.op import OPS, bind

Built = Callable[[Callable[..., Any], Sequence[Any]], list[int]]
Draw = Callable[..., Any]

#: (rows, length): a CPU has one kernel for all that are longer than four of its vectors.
LONG = [(3, 70), (5, 70), (3, 101), (7, 128), (2, 203), (9, 65), (4, 1000)]
NONE = [0] * (len(LONG) - 1)


def tensor(array: Any, device: Any) -> Tensor:
    """Return an array as a tensor of a device."""
    return pyrite.tensor(array, device=device)


class Several:
    """Several tensors as one array."""

    def __init__(self, tensors: Sequence[Any]) -> None:
        self._tensors = tensors

    def numpy(self) -> Any:
        """Return all elements."""
        return np.concatenate([t.numpy().ravel() for t in self._tensors])


@pytest.fixture
def is_cpu(backend: CubeBackend) -> bool:
    """Whether the machine is a processor."""
    return backend.launcher.machine.kind == "cpu"


def softmax(x: Any, axis: int = -1) -> Any:
    """Return the softmax by NumPy."""
    power = np.exp(x - x.max(axis, keepdims=True))
    return power / power.sum(axis, keepdims=True)


def normal(x: Any, eps: float = 1e-5) -> Any:
    """Return rows less their mean over their deviation."""
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt((centred * centred).mean(-1, keepdims=True) + eps)


def log_softmax(x: Any) -> Any:
    """Return the logarithm of the softmax by NumPy."""
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


#: From a tensor and vectors of its length to a tensor, and what it should be of arrays.
FORWARD: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "softmax": (lambda x, *_: x.softmax(-1), lambda x, *_: softmax(x)),
    "log_softmax": (lambda x, *_: x.log_softmax(-1), lambda x, *_: log_softmax(x)),
    "logsumexp": (lambda x, *_: x.logsumexp(-1), lambda x, *_: np.log(np.exp(x).sum(-1))),
    "layer_norm": (lambda x, w, b: x.layer_norm(w, b), lambda x, w, b: normal(x) * w + b),
    "rms_norm": (
        lambda x, w, _: x.rms_norm(w, eps=1e-5),
        lambda x, w, _: x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * w,
    ),
    "var": (lambda x, *_: x.var(-1, correction=1), lambda x, *_: x.var(-1, ddof=1)),
}


@pytest.mark.parametrize("name", FORWARD)
def test_all_lengths_and_numbers_of_rows_have_one_kernel(
    built: Built, draw: Draw, name: str, is_cpu: bool
) -> None:
    op, by_numpy = FORWARD[name]

    def case(device: Any, size: Any) -> Any:
        x, w, b = draw(*size), draw(size[1]), draw(size[1])
        return op(*(tensor(a, device) for a in (x, w, b))), by_numpy(x, w, b)

    found = built(case, LONG)

    assert found[0] == 1
    # On a GPU width, lanes and registers of a lane come of the length: their classes have kernels.
    assert found[1:] == NONE if is_cpu else found[1] == 0


def layer_norm_gradients(g: Any, x: Any, w: Any) -> list[Any]:
    """Return those of x, weight and bias."""
    rate = 1 / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
    n, h = normal(x), g * w
    of_x = rate * (h - h.mean(-1, keepdims=True) - n * (h * n).mean(-1, keepdims=True))
    return [of_x, (g * n).sum(0), g.sum(0)]


#: Attributes, how many inputs there are, and what comes of them.
GRADIENTS: dict[str, tuple[dict[str, Any], int, Callable[..., Any]]] = {
    "softmax_backward": (
        {"axis": -1}, 2, lambda g, p: [p * (g - (g * p).sum(-1, keepdims=True))],
    ),
    "log_softmax_backward": (
        {"axis": -1}, 2, lambda g, y: [g - np.exp(y) * g.sum(-1, keepdims=True)],
    ),
    "layer_norm_backward": (
        {"axis": (1,), "eps": 1e-5, "argnums": (0, 1, 2)}, 3, layer_norm_gradients,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", GRADIENTS)
def test_so_have_gradients(built: Built, draw: Draw, name: str, is_cpu: bool) -> None:
    attrs, count, by_numpy = GRADIENTS[name]

    def case(device: Any, size: Any) -> Any:
        given = [draw(*size), draw(*size), draw(size[1])][:count]
        found = bind(OPS[name], [tensor(a, device) for a in given], attrs)
        several = found if isinstance(found, tuple) else (found,)
        return Several(several), np.concatenate([a.ravel() for a in by_numpy(*given)])

    found = built(case, LONG)

    assert found[1:] == NONE if is_cpu else found[1] == 0


def test_strided_rows_have_one_kernel_too(built: Built, draw: Draw, is_cpu: bool) -> None:
    def case(device: Any, size: Any) -> Any:
        rows, length = size
        x = draw(2 * rows + 1, length + 3)
        found = tensor(x, device)[1::2, 2 : length + 2].softmax(-1)
        return found, softmax(x[1::2, 2 : length + 2])

    found = built(case, LONG)

    assert found[1:] == NONE if is_cpu else found[1] == 0


def test_short_rows_have_kernels_by_powers_of_two(built: Built, draw: Draw, is_cpu: bool) -> None:
    """Their vectors are in registers, which a kernel must know: 2, 4, 8, 16, 32 and 64 elements."""

    def case(device: Any, length: Any) -> Any:
        x = draw(3, length)
        return tensor(x, device).softmax(-1), softmax(x)

    found = built(case, [2, 3, 4, 5, 8, 6, 9, 16, 10, 17, 32, 30, 33, 64, 50, 65, 100])

    assert sum(found) <= 7 if is_cpu else sum(found) < len(found)


@pyrite.composite()
def whitened(x: Tensor, /) -> Tensor:
    """Columns less their mean, over the lengths of rows and a root of the size."""
    centred = x - x.sum(1, keepdims=True) / x.shape[1]
    return centred * (centred * centred).sum(1, keepdims=True) ** -0.5 * x.shape[1] ** 0.5


del OPS["whitened"]  # suites go through those of Pyrite


def test_sizes_in_the_body_of_an_application_are_no_constants(
    built: Built, draw: Draw, is_cpu: bool
) -> None:
    def case(device: Any, size: Any) -> Any:
        x = draw(*size)
        centred = x - x.mean(1, keepdims=True)
        return whitened(tensor(x, device)), centred / np.sqrt((centred**2).mean(1, keepdims=True))

    found = built(case, LONG)

    assert found[0] == 1
    assert found[1:] == NONE if is_cpu else found[1] == 0


@pyrite.composite()
def halved(x: Tensor, /) -> Tensor:
    """Rows by the root of their length where that is even, else by 3."""
    return x.sum(1) / (x.shape[1] ** 0.5 if x.shape[1] % 2 == 0 else 3)


del OPS["halved"]  # suites go through those of Pyrite


def test_a_body_that_branches_on_a_size_has_a_kernel_for_each_branch(
    built: Built, draw: Draw, is_cpu: bool
) -> None:
    def case(device: Any, size: Any) -> Any:
        x, n = draw(*size), size[1]
        return halved(tensor(x, device)), x.sum(1) / (n**0.5 if n % 2 == 0 else 3)

    found = built(case, [(3, 70), (3, 101), (3, 80), (3, 99), (3, 102)])

    assert found[:2] == [1, 1]
    assert found[2:] == [0, 0, 0] if is_cpu else sum(found) <= 5


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_classes_and_samples_may_be_any(built: Built, draw: Draw, smoothing: float) -> None:
    def case(device: Any, size: Any) -> Any:
        rows, classes = size
        x, at = draw(*size), np.arange(rows, dtype=np.int32) * 7 % classes
        target = np.eye(classes)[at] * (1 - smoothing) + smoothing / classes
        found = tensor(x, device).cross_entropy_with_logits(
            tensor(at, device), label_smoothing=smoothing, reduction="none"
        )
        return found, -(log_softmax(x) * target).sum(-1)

    found = built(case, LONG)

    assert found[1] == 0


@pytest.mark.parametrize("op", ["group_norm", "group_norm_backward"])
def test_samples_and_places_of_groups_may_be_any(
    built: Built, draw: Draw, op: str, is_cpu: bool
) -> None:
    def case(device: Any, size: Any) -> Any:
        samples, places = size
        x, g = draw(samples, 4, places), draw(samples, 4, places)
        rows, h = (a.reshape(samples * 2, 2 * places) for a in (x, g))
        if op == "group_norm":
            return tensor(x, device).group_norm(num_groups=2), normal(rows).reshape(x.shape)
        attrs = {"num_groups": 2, "eps": 1e-5, "argnums": (0,)}
        found = bind(OPS[op], [tensor(g, device), tensor(x, device), None], attrs)
        return found, layer_norm_gradients(h, rows, np.ones(1, "float32"))[0].reshape(x.shape)

    found = built(case, [(3, 70), (5, 70), (3, 101), (2, 66), (7, 130), (4, 65)])

    assert found[1:] == [0] * 5 if is_cpu else found[1] == 0


def test_columns_of_equal_sizes_are_no_other_kernel(built: Built, draw: Draw, is_cpu: bool) -> None:
    def case(device: Any, size: Any) -> Any:
        x = draw(*size)
        return tensor(x, device).softmax(-1), softmax(x)

    found = built(case, [(70, 80), (80, 80), (81, 80), (80, 81), (128, 128)])

    assert found[1:] == [0] * 4 if is_cpu else found[1] == 0


def batch_normal(x: Any, w: Any, b: Any) -> Any:
    """Return channels of (N, C, H, W) less their mean over their deviation, by weight and bias."""
    centred = x - x.mean((0, 2, 3), keepdims=True)
    rate = 1 / np.sqrt((centred * centred).mean((0, 2, 3), keepdims=True) + 1e-5)
    return centred * rate * w[:, None, None] + b[:, None, None]


#: (samples, height, width): pieces of more than four vectors, whole or not.
IMAGES = [(5, 9, 9), (3, 9, 9), (16, 9, 9), (5, 8, 16), (4, 10, 7), (3, 17, 13), (2, 30, 30)]


def test_a_channel_of_any_batch_and_image_has_one_kernel(
    built: Built, draw: Draw, is_cpu: bool
) -> None:
    def case(device: Any, size: Any) -> Any:
        samples, *image = size
        x, w, b = draw(samples, 3, *image), draw(3), draw(3)
        result, _, _ = tensor(x, device).batch_norm(tensor(w, device), tensor(b, device))
        return result, batch_normal(x, w, b)

    found = built(case, IMAGES)

    assert found[0] == 1 or not is_cpu
    # On a GPU the sizes of an image are built in: lanes divide by them.  Batches are free, but
    # lanes and registers come of the length of the row.
    assert found[1:] == [0] * 6 if is_cpu else found[1] <= 1


def test_so_has_its_gradient(built: Built, draw: Draw, is_cpu: bool) -> None:
    def case(device: Any, size: Any) -> Any:
        samples, *image = size
        x, g, zero = draw(samples, 3, *image), draw(samples, 3, *image), np.zeros(3, "float32")
        rows, h = (a.swapaxes(0, 1).reshape(3, -1) for a in (x, g))
        attrs = {"eps": 1e-5, "argnums": (0,)}
        given = [*(tensor(a, device) for a in (g, zero, zero, x)), None]
        wanted = layer_norm_gradients(h, rows, np.ones(1, "float32"))[0]
        wanted = wanted.reshape(3, samples, *image).swapaxes(0, 1)
        found = bind(OPS["batch_norm_backward"], given, attrs)
        return (found[0] if isinstance(found, tuple) else found), wanted

    found = built(case, IMAGES)

    assert found[1:] == [0] * 6 if is_cpu else found[1] <= 1


def test_samples_and_groups_may_be_any_number(built: Built, draw: Draw, is_cpu: bool) -> None:
    """A weight is one number for each piece of a row.

    The order of sums goes over the borders of channels that are no whole turns of all lanes: so
    their size is built into the kernel (docs/design/0032).
    """

    def case(device: Any, size: Any) -> Any:
        samples, groups, channels, places = size
        shape = (samples, groups * channels, places)
        x, w, b = draw(*shape), draw(shape[1]), draw(shape[1])
        found = tensor(x, device).group_norm(
            tensor(w, device), tensor(b, device), num_groups=groups
        )
        normalised = normal(x.reshape(samples * groups, -1)).reshape(shape)
        return found, normalised * w[:, None] + b[:, None]

    found = built(case, [(3, 2, 3, 70), (2, 2, 3, 70), (5, 4, 3, 70)])

    assert found[1:] == [0] * 2 if is_cpu else found[1] == 0
