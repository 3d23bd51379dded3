"""The converters, by family.  Importing them files them in the table."""

from pyrite.onnx.ops import (
    attention,
    control,
    fused,
    gather,
    math,
    ml,
    nn,
    padding,
    quantize,
    random,
    reduction,
    resize,
    rnn,
    sequence,
    shape,
    signal,
    vision,
    window,
)

__all__ = [
    "attention", "control", "fused", "gather", "math", "ml", "nn", "padding", "quantize", "random",
    "reduction", "resize", "rnn", "sequence", "shape", "signal", "vision", "window",
]  # fmt: skip
