"""Models of Pyrite written as files of ONNX."""

from pyrite.onnx.exporter.model import export as export

__all__ = ["export"]
