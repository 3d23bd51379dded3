"""Models of ONNX: read as modules that run and train, and written.

Needs the extra: ``pip install 'pyrite[onnx]'``.
"""

from pyrite.errors import ModelExportError as ModelExportError
from pyrite.errors import ModelImportError as ModelImportError
from pyrite.errors import ModelRunError as ModelRunError
from pyrite.onnx.calling import operator as operator
from pyrite.onnx.exporter import export as export
from pyrite.onnx.loading import load as load
from pyrite.onnx.module import OnnxModule as OnnxModule
from pyrite.onnx.python import to_python as to_python

__all__ = [
    "ModelExportError",
    "ModelImportError",
    "ModelRunError",
    "OnnxModule",
    "export",
    "load",
    "operator",
    "to_python",
]
