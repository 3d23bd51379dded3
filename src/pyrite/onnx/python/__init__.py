"""A model of ONNX written as Python: `to_python`."""

from pyrite.onnx.python.writing import to_python as to_python

__all__ = ["to_python"]
