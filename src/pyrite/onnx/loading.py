"""`load`: a file of ONNX becomes a module."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Any, Literal

from pyrite.backend import Device
from pyrite.backend import device as as_device
from pyrite.backend.device import DeviceLike
from pyrite.errors import ArgumentError, ModelImportError, PyriteError
from pyrite.onnx import ops as ops  # the converters file themselves
from pyrite.onnx.graph import Graph, Weight
from pyrite.onnx.inspection import Inspection, inspect_apart
from pyrite.onnx.message import said
from pyrite.onnx.module import OnnxModule, Weights
from pyrite.onnx.naming import paths
from pyrite.onnx.optimization import pruned
from pyrite.onnx.pattern import INFERENCE
from pyrite.onnx.pattern.rewriting import rewritten
from pyrite.onnx.pattern.view import GraphView
from pyrite.onnx.program import compiled, narrowed
from pyrite.onnx.reading import read_graph, read_model
from pyrite.onnx.role import Role, roles
from pyrite.onnx.static import static_inputs
from pyrite.onnx.support import problems
from pyrite.op import public
from pyrite.opening import PathLike
from pyrite.tensor.creation import tensor
from pyrite.tensor.parameter import Parameter, State
from pyrite.tensor.tensor import Tensor


@public
def load(
    source: PathLike | bytes,
    *,
    device: DeviceLike = None,
    trainable: bool | Sequence[str] | None = None,
    narrow_int64: bool = False,
    optimize: Literal["inference"] | None = None,
) -> OnnxModule:
    """Return the model of a file, or of its bytes, as a module.

    Floating-point weights are parameters; means and variances of batch norms are states; scalars
    and operands that are bounds, axes or scales of quantization are constants.

    trainable: which parameters train: all, none, or those whose path fits a pattern, which may name
    constants too.  narrow_int64: 64-bit integers are carried in 32 bits, for a device without them;
    a value that does not fit is a DTypeError.  optimize: "inference" folds batch norms into the
    convolutions before them, whose weights are then others than the file's.

    Raises ModelImportError for a file that is damaged, and with one list of all that it has and
    that is not supported.
    """
    return load_with(
        source,
        inspect_apart,
        device=device,
        trainable=trainable,
        narrow_int64=narrow_int64,
        optimize=optimize,
    )


def load_with(
    source: PathLike | bytes,
    inspection: Inspection,
    *,
    device: DeviceLike = None,
    trainable: bool | Sequence[str] | None = None,
    narrow_int64: bool = False,
    optimize: Literal["inference"] | None = None,
) -> OnnxModule:
    """Return `load`'s module, with ONNX's native code run in a way of the caller's."""
    if optimize not in (None, "inference"):
        raise ArgumentError(f"load requires optimize=None or 'inference', got {optimize!r}")
    place = as_device(device)
    try:
        graph = read_graph(*read_model(source), inspection)
        require_supported(graph)
        graph = pruned(graph)
        if optimize == "inference":
            graph = rewritten(graph, INFERENCE, GraphView(graph, {}, graph.weights))
        return built(graph, place, narrow_int64, trainable)
    except PyriteError:
        raise
    except _DAMAGE as error:
        raise ModelImportError(
            f"load requires a whole model, got one with {said(error)}"
        ) from error


#: What becomes of a field that contradicts another, wherever that is met.
_DAMAGE = (ValueError, TypeError, LookupError, ArithmeticError, AttributeError, RecursionError,
           MemoryError, AssertionError)  # fmt: skip


def require_supported(graph: Graph) -> None:
    """Raise ModelImportError with all of a graph that is not supported."""
    found = problems(graph)
    if found:
        raise ModelImportError(
            f"load requires ops and types that are supported, got {len(found)} that "
            f"{'is' if len(found) == 1 else 'are'} not: {'; '.join(found)}",
            tuple(found),
        )


def built(
    graph: Graph,
    place: Device,
    narrow_int64: bool,
    trainable: bool | Sequence[str] | None,
) -> OnnxModule:
    """Return the module of a graph, whose weights are read here."""
    by_key = weights_of(graph)
    found = roles(graph)
    arrays = {k: w.read() for k, w in by_key.items() if found[k] == "host" and w.element.carrier}
    named = paths(key for key in by_key if found[key] != "host")
    trains = _Trainable(trainable)
    children: dict[str, Any] = {}
    for key, path in named.items():
        role: Role = "parameter" if trains.names(path) else found[key]
        _place(children, path, _tensor(by_key[key], role, place, narrow_int64, trains(path)))
    return OnnxModule(
        compiled(graph),
        {name: _grouped(child) for name, child in children.items()},
        paths=named,
        arrays=arrays,
        static=static_inputs(graph),
        device=place,
        narrow_int64=narrow_int64,
    )


def weights_of(graph: Graph) -> dict[str, Weight]:
    """Return the weights of a graph and its bodies by key."""
    found = {w.key: w for w in graph.weights.values()}
    for node in graph.nodes:
        for body in node.bodies:
            found.update(weights_of(body))
    return found


class _Trainable:
    """Which parameters train: all, none, or those whose path fits one of some patterns."""

    def __init__(self, asked: bool | Sequence[str] | None) -> None:
        self._default = asked is not False
        self._patterns = None if asked is None or isinstance(asked, bool) else tuple(asked)

    def names(self, path: str) -> bool:
        """Whether a pattern names the path."""
        return any(fnmatchcase(path, pattern) for pattern in self._patterns or ())

    def __call__(self, path: str) -> bool:
        """Whether a parameter at the path trains."""
        return self._default if self._patterns is None else self.names(path)


def _tensor(weight: Weight, role: Role, place: Device, narrow: bool, trains: bool) -> Tensor:
    array = weight.read()
    value = tensor(narrowed(array) if narrow else array, device=place)
    if role == "state":
        return State(value)
    return Parameter(value, trainable=trains) if role == "parameter" else value


def _place(tree: dict[str, Any], path: str, leaf: Tensor) -> None:
    *groups, name = path.split(".")
    for group in groups:
        tree = tree.setdefault(group, {})
    tree[name] = leaf


def _grouped(tree: Any) -> Any:
    if not isinstance(tree, dict):
        return tree
    return Weights({name: _grouped(child) for name, child in tree.items()})
