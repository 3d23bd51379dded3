"""Deep learning in Python on any GPU, CPU or browser, from one small install.

>>> import pyrite
>>> x = pyrite.tensor([1.0, 2.0, 3.0])
>>> (x * x).sum().item()
14.0
"""

import typing as _typing
from importlib import import_module as _import_module

from pyrite._version import __version__ as __version__
from pyrite.autodiff import Autodiff as Autodiff
from pyrite.autodiff import Gradients as Gradients
from pyrite.autodiff import autodiff as autodiff
from pyrite.autodiff import checkpoint as checkpoint
from pyrite.autodiff import grad as grad
from pyrite.autodiff import no_grad as no_grad
from pyrite.autodiff import saved_bytes as saved_bytes
from pyrite.autodiff import training as training
from pyrite.autodiff import training_mode as training_mode
from pyrite.autodiff import value_and_grad as value_and_grad
from pyrite.backend import Backend as Backend
from pyrite.backend import Device as Device
from pyrite.backend import FallbackWarning as FallbackWarning
from pyrite.backend import PrecisionWarning as PrecisionWarning
from pyrite.backend import default_device as default_device
from pyrite.backend import device as device
from pyrite.backend import fallbacks as fallbacks
from pyrite.backend import implements as implements
from pyrite.backend import matmul_precision as matmul_precision
from pyrite.backend import set_default_device as set_default_device
from pyrite.config import config as config
from pyrite.op import composite as composite
from pyrite.op import custom_op as custom_op
from pyrite.op import primitive as primitive
from pyrite.synchronization import no_sync as no_sync
from pyrite.synchronization import sync_count as sync_count
from pyrite.tensor import functions as _functions
from pyrite.tensor.einops import declare_to_einops as _declare_to_einops
from pyrite.tensor.functions import *  # noqa: F403 - its __all__ is repeated below
from pyrite.tensor.parameter import Parameter as Parameter
from pyrite.tensor.parameter import State as State
from pyrite.tensor.stream import random_state as random_state
from pyrite.tensor.stream import random_stream as random_stream
from pyrite.tensor.stream import seed as seed
from pyrite.tensor.stream import set_random_state as set_random_state
from pyrite.tensor.tensor import Tensor as Tensor
from pyrite.tensor.transaction import read as read
from pyrite.tensor.transaction import read_async as read_async
from pyrite.types import DType as DType
from pyrite.types import bfloat16 as bfloat16
from pyrite.types import bool_ as bool
from pyrite.types import dtype as dtype
from pyrite.types import float16 as float16
from pyrite.types import float32 as float32
from pyrite.types import float64 as float64
from pyrite.types import int8 as int8
from pyrite.types import int16 as int16
from pyrite.types import int32 as int32
from pyrite.types import int64 as int64
from pyrite.types import uint8 as uint8
from pyrite.types import uint16 as uint16
from pyrite.types import uint32 as uint32
from pyrite.types import uint64 as uint64

__all__ = [
    "Autodiff",
    "Backend",
    "CacheWarning",
    "DType",
    "Device",
    "Explanation",
    "FallbackWarning",
    "Fusion",
    "Gradients",
    "MemorySummary",
    "Parameter",
    "PrecisionWarning",
    "QuarantineWarning",
    "State",
    "Tensor",
    "__version__",
    "activations",
    "autodiff",
    "bfloat16",
    "bool",
    "checkpoint",
    "composite",
    "config",
    "custom_op",
    "data",
    "default_device",
    "device",
    "dtype",
    "explain",
    "fallbacks",
    "float16",
    "float32",
    "float64",
    "fusion",
    "grad",
    "implements",
    "int8",
    "int16",
    "int32",
    "int64",
    "matmul_precision",
    "memory_budget",
    "memory_report",
    "nn",
    "no_grad",
    "no_sync",
    "optim",
    "prepare",
    "primitive",
    "random_state",
    "random_stream",
    "read",
    "read_async",
    "saved_bytes",
    "seed",
    "set_default_device",
    "set_random_state",
    "sync_count",
    "training",
    "training_mode",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "value_and_grad",
]
__all__ += _functions.__all__

_declare_to_einops()

# What a script may not use is imported when it is first named: an import of pyrite takes as long as
# what is read.
if _typing.TYPE_CHECKING:
    from pyrite import data as data
    from pyrite import extension as extension
    from pyrite import nn as nn
    from pyrite import onnx as onnx
    from pyrite import optim as optim
    from pyrite import wgpu as wgpu
    from pyrite.backend.budget import memory_budget as memory_budget
    from pyrite.backend.explanation.memory import MemorySummary as MemorySummary
    from pyrite.backend.explanation.memory import memory_report as memory_report
    from pyrite.backend.explanation.report import Explanation as Explanation
    from pyrite.backend.explanation.report import explain as explain
    from pyrite.backend.fusion import Fusion as Fusion
    from pyrite.backend.fusion import fusion as fusion
    from pyrite.backend.fusion.check import QuarantineWarning as QuarantineWarning
    from pyrite.compiled import Compiled as Compiled
    from pyrite.compiled import compile as compile
    from pyrite.compiled import prepare as prepare
    from pyrite.nn.observation import activations as activations
    from pyrite.runtime.cache import CacheWarning as CacheWarning
    from pyrite.testing.bisection import Bisection as Bisection
    from pyrite.testing.bisection import Divergence as Divergence
    from pyrite.testing.bisection import bisect as bisect
else:
    _PACKAGES = ("data", "extension", "nn", "onnx", "optim", "wgpu")
    _HOMES = {
        "Bisection": "pyrite.testing.bisection",
        "CacheWarning": "pyrite.runtime.cache",
        "Compiled": "pyrite.compiled",
        "Divergence": "pyrite.testing.bisection",
        "Explanation": "pyrite.backend.explanation.report",
        "Fusion": "pyrite.backend.fusion",
        "MemorySummary": "pyrite.backend.explanation.memory",
        "QuarantineWarning": "pyrite.backend.fusion.check",
        "activations": "pyrite.nn.observation",
        "bisect": "pyrite.testing.bisection",
        "compile": "pyrite.compiled",
        "explain": "pyrite.backend.explanation.report",
        "fusion": "pyrite.backend.fusion",
        "memory_budget": "pyrite.backend.budget",
        "memory_report": "pyrite.backend.explanation.memory",
        "prepare": "pyrite.compiled",
    }

    def __getattr__(name):
        """Import what is not there from the beginning."""
        if name in _PACKAGES:
            return _import_module(f"pyrite.{name}")
        if name in _HOMES:
            return getattr(_import_module(_HOMES[name]), name)
        if name.startswith("__"):
            raise AttributeError(f"module 'pyrite' has no attribute {name!r}")
        from pyrite.tensor.function_names import instead

        use = instead(name, _functions)
        raise AttributeError(f"module 'pyrite' has no attribute {name!r}{use}")

    def __dir__():
        """Return all names, for completion also those that are imported when first named."""
        return sorted({*globals(), *_PACKAGES, *_HOMES})
