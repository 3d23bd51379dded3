"""Nodes whose operands the file decides: they run while the Python is written."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pyrite.errors import PyriteError
from pyrite.onnx.converter import Converter
from pyrite.onnx.graph import Graph, Node
from pyrite.onnx.program import HOST, HOST_LIMIT, Context, compiled, run
from pyrite.onnx.python.value import Fixed, Value
from pyrite.onnx.static import GROWING
from pyrite.tensor.tensor import Tensor

#: Ops whose results differ from call to call, or are no arrays.
_NOT_FOLDED = {
    "Bernoulli", "Dropout", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform",
    "RandomUniformLike", "SequenceConstruct", "SequenceEmpty", "Optional", "SplitToSequence",
}  # fmt: skip


def folded(node: Node, found: Converter, values: Sequence[Value | None]) -> Sequence[Value] | None:
    """Return the outputs of a node whose operands are all known arrays of the host, else None."""
    known = {n: v.array for n, v in zip(node.inputs, values, strict=True) if isinstance(v, Fixed)}
    is_known = all(v is None or isinstance(v, Fixed) for v in values)
    if not known or not is_known or node.op in _NOT_FOLDED or "value" in found.operands[1:]:
        return None
    if node.op in GROWING and _may_be_large(node):
        return None
    try:
        program = compiled(Graph("", tuple(known), node.outputs, (node,), {}, {}))
        made = run(program, list(known.values()), {}, Context(HOST, {}))
    except PyriteError:
        return None  # an error of its own, when it runs
    arrays = [m.numpy() if isinstance(m, Tensor) else m for m in made]
    if not all(isinstance(a, np.ndarray) and a.size <= HOST_LIMIT for a in arrays):
        return None
    return [Fixed(a) for a in arrays]


def _may_be_large(node: Node) -> bool:
    """Whether a result is large, or of a size that the file does not say."""
    count = 1
    for of in node.output_types:
        for size in of.shape if of.shape is not None else (None,):
            if not isinstance(size, int):
                return True
            count *= size
    return count > HOST_LIMIT
