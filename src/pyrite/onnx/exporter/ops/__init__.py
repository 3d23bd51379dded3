"""How each op is written, by family: importing this fills the table of exporters."""

from pyrite.onnx.exporter.ops import activation as activation
from pyrite.onnx.exporter.ops import adaptive as adaptive
from pyrite.onnx.exporter.ops import attention as attention
from pyrite.onnx.exporter.ops import contraction as contraction
from pyrite.onnx.exporter.ops import creation as creation
from pyrite.onnx.exporter.ops import elementwise as elementwise
from pyrite.onnx.exporter.ops import indexing as indexing
from pyrite.onnx.exporter.ops import movement as movement
from pyrite.onnx.exporter.ops import normalization as normalization
from pyrite.onnx.exporter.ops import recurrent as recurrent
from pyrite.onnx.exporter.ops import reduction as reduction
from pyrite.onnx.exporter.ops import resizing as resizing
from pyrite.onnx.exporter.ops import running as running
from pyrite.onnx.exporter.ops import searching as searching
from pyrite.onnx.exporter.ops import window as window
