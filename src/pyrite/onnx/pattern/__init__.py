"""Patterns: several nodes of a graph that are one op of Pyrite, as data.

Exporters write as several nodes what their opset has no op for, or what they take apart.  A pattern
is a tree of terms (`term`), matched from its last node backwards against one view of the graph
(`view`); what is matched becomes one node (`rewriting`).  A loaded model has those of `LOADED` as
one kernel each, and those of `INFERENCE` on request; `to_python` writes those of `WRITTEN` as one
layer.
"""

from pyrite.onnx.pattern.selection import INFERENCE as INFERENCE
from pyrite.onnx.pattern.selection import LOADED as LOADED
from pyrite.onnx.pattern.selection import WRITTEN as WRITTEN

__all__ = ["INFERENCE", "LOADED", "WRITTEN"]
