"""The converters, by family.  Importing them files them in the table."""

from pyrite.onnx.ops import (
    attention,
    control,
    gather,
    math,
    ml,
    nn,
    padding,
    pattern,
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
    "attention", "control", "gather", "math", "ml", "nn", "padding", "pattern", "quantize",
    "random", "reduction", "resize", "rnn", "sequence", "shape", "signal", "vision", "window",
]  # fmt: skip
