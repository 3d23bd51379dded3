"""Models of ONNX: read as modules that run and train.

Needs the extra: ``pip install 'pyrite[onnx]'``.
"""

from pyrite.errors import ModelImportError as ModelImportError

__all__ = ["ModelImportError"]
