"""Patterns: several nodes of a graph that are one op of Pyrite, as data.

Exporters write as several nodes what their opset has no op for, or what they take apart.  A pattern
is a tree of terms (`term`), matched from its last node backwards against one view of the graph
(`view`); what is matched becomes one node (`rewriting`).  Loading uses the patterns of `LOADED`, so
that these ops run as one kernel; `to_python` uses those of `pyrite.onnx.python`, so that they are
written as one layer.
"""

from pyrite.onnx.pattern.selection import LOADED as LOADED
from pyrite.onnx.pattern.selection import WRITTEN as WRITTEN

__all__ = ["LOADED", "WRITTEN"]
