"""Which patterns are looked for: where a model is loaded, and where it is written as Python."""

from __future__ import annotations

from pyrite.onnx.pattern.activation import GELU, GELU_TANH, SILU
from pyrite.onnx.pattern.attention import HEADS, SCORES
from pyrite.onnx.pattern.batch_norm import BATCH_NORM
from pyrite.onnx.pattern.linear import BIASED, GEMM, GEMM_BIASED, TURNED
from pyrite.onnx.pattern.norm import LAYER_NORM
from pyrite.onnx.pattern.rewriting import Pattern

#: What is one kernel here, and several in a file.
LOADED: tuple[Pattern, ...] = (BIASED, SCORES, GELU, GELU_TANH, SILU, LAYER_NORM)

#: What is one op less, of weights that are no longer the file's.
INFERENCE: tuple[Pattern, ...] = (BATCH_NORM,)

#: What is one layer or method here; beside `pyrite.onnx.python.recurrence.RECURRENT`.
WRITTEN: tuple[Pattern, ...] = (
    BIASED, GEMM_BIASED, GEMM, TURNED, HEADS, GELU, GELU_TANH, SILU, LAYER_NORM,
)  # fmt: skip
