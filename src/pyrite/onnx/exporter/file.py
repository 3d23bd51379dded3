"""Files of models: checked, and written as a whole."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from onnx import (
    ModelProto,
    TensorProto,
    ValueInfoProto,
    checker,
    helper,
    numpy_helper,
    shape_inference,
)

from pyrite.errors import ModelExportError
from pyrite.onnx.exporter.call import onnx_dtype
from pyrite.onnx.exporter.size import ValueType
from pyrite.opening import PathLike
from pyrite.record import atomic_write
from pyrite.types import Array

#: A protobuf message holds less than 2 GiB; nodes and names need some of it.
MOST_INSIDE = 2**31 - 2**24

#: Arrays that stay inside, where shape inference reads sizes and axes.
_SMALL = 1024

#: Where arrays begin in a file of external data, so that they can be mapped to memory.
_ALIGNMENT = 4096


def data_path(path: PathLike) -> Path:
    """Return where the external data of a model lies: beside it."""
    return Path(f"{os.fspath(path)}.data")


def require_valid(
    model: ModelProto, arrays: Mapping[str, Array], types: Mapping[str, ValueType]
) -> None:
    """Note in a model the types that ONNX infers, which must be ours.

    Raises ModelExportError for a model that ONNX's checker or shape inference does not accept.
    Large arrays stand there as inputs: the checker looks at no values of theirs.
    """
    judged = ModelProto()
    judged.CopyFrom(model)
    for name, array in arrays.items():
        if array.nbytes < _SMALL:
            judged.graph.initializer.append(initializer(name, array))
        else:
            kind = helper.np_dtype_to_tensor_dtype(array.dtype)
            judged.graph.input.append(helper.make_tensor_value_info(name, kind, array.shape))
    try:
        checker.check_model(judged)
        inferred = shape_inference.infer_shapes(
            judged, check_type=True, strict_mode=True, data_prop=True
        )
    except (checker.ValidationError, shape_inference.InferenceError) as error:
        raise _faulty(str(error)) from error
    for info in inferred.graph.value_info:
        _require_type(info, types.get(info.name))
    model.graph.value_info.extend(_plain(info) for info in inferred.graph.value_info)


def _require_type(info: ValueInfoProto, type: ValueType | None) -> None:
    """Raise ModelExportError where ONNX infers another type than that of the op's result."""
    if type is None:
        return
    found = info.type.tensor_type
    sizes = [d.dim_value if d.HasField("dim_value") else None for d in found.shape.dim]
    wanted = type.shape if found.HasField("shape") else ()
    is_same = len(sizes) == len(wanted) and all(
        n is None or n == m for n, m in zip(sizes, wanted, strict=True)
    )
    if found.elem_type != onnx_dtype(type.dtype) or not is_same:
        raise _faulty(f"{info.name} of type {type}, inferred as {sizes} of {found.elem_type}")


def _faulty(problem: str) -> ModelExportError:
    return ModelExportError(
        f"export requires a model that ONNX's checker accepts, got: {problem}; this is a fault of "
        "Pyrite, please report it"
    )


def _plain(info: ValueInfoProto) -> ValueInfoProto:
    """Return a type without the names that inference makes up for sizes."""
    for size in info.type.tensor_type.shape.dim:
        if size.dim_param.startswith("unk__"):
            size.ClearField("dim_param")
    return info


def initializer(name: str, array: Array) -> TensorProto:
    """Return an array as an initializer, with its values."""
    return numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), name)


def save(
    path: PathLike, model: ModelProto, arrays: Mapping[str, Array], external_data: bool | None
) -> None:
    """Write a model with these initializers, its weights inside or in a file beside it.

    external_data: None puts them beside it where they are too large for one message.
    """
    large = sum(a.nbytes for a in arrays.values()) > MOST_INSIDE
    if external_data is False and large:
        raise ModelExportError(
            "export requires external_data for weights of 2 GiB and more, got external_data=False"
        )
    if external_data or (external_data is None and large):
        model.graph.initializer.extend(_save_beside(path, arrays))
    else:
        model.graph.initializer.extend(initializer(n, a) for n, a in arrays.items())
    with atomic_write(path) as file:
        file.write(model.SerializeToString(deterministic=True))


def _save_beside(path: PathLike, arrays: Mapping[str, Array]) -> Sequence[TensorProto]:
    """Write arrays to the file of external data; return initializers that point there."""
    found = []
    target = data_path(path)
    with atomic_write(target) as file:
        for name, array in arrays.items():
            if array.nbytes < _SMALL:
                found.append(initializer(name, array))
                continue
            file.write(b"\0" * (-file.tell() % _ALIGNMENT))
            found.append(_pointer(name, array, target.name, file.tell()))
            file.write(_bytes(array))
    return found


def _bytes(array: Array) -> bytes:
    """Return values as ONNX has them in files: little-endian."""
    return bytes(np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes())


def _pointer(name: str, array: Array, location: str, offset: int) -> TensorProto:
    made = TensorProto()
    made.name = name
    made.data_type = helper.np_dtype_to_tensor_dtype(array.dtype)
    made.dims.extend(array.shape)
    made.data_location = TensorProto.EXTERNAL
    for key, value in (("location", location), ("offset", offset), ("length", array.nbytes)):
        made.external_data.add(key=key, value=str(value))
    return made
