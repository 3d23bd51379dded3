"""Damaged models, one after the other, in a process with limits: `test_mutations.py` starts it.

    python mutation.py FOLDER SEED BEGIN END

Each mutation of the models in the folder is loaded, and run where it can be; a line of JSON says
what became of it.  The same seed and number are the same mutation.
"""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from google.protobuf.message import DecodeError
from onnx import AttributeProto, ModelProto, TensorProto
from onnx.checker import ValidationError

from pyrite.errors import PyriteError
from pyrite.onnx import bound, inspection
from pyrite.onnx.graph import ValueType
from pyrite.onnx.inspection import InspectionError, inspect_here
from pyrite.onnx.loading import load_with

#: Of the address space: more than what is bounded takes, so that a peak is seen and not refused.
MEMORY = 8 << 30
#: Of one mutation.
SECONDS = 20
#: Elements of the largest input that a mutated model is run on.
MOST_INPUT = 1 << 16

SIZES = (
    *(0, 1, -1, 2, 7, 1 << 16, 1 << 20, 1 << 27, 3 << 27, 1 << 31, (1 << 31) - 1, 1 << 40),
    *((1 << 63) - 1, -(1 << 63)),
)
Change = Callable[[ModelProto, random.Random], None]


class OvertimeError(BaseException):
    """A mutation took too long; no code of a library catches it."""


# ---- what is damaged in the bytes ----


def damaged(content: bytes, other: bytes, rng: random.Random) -> bytes:
    """Return bytes with some changed, cut, left out, or taken from another model."""
    found = bytearray(content)
    kind = rng.randrange(5)
    if kind < 2:
        for _ in range(rng.choice((1, 1, 2, 8, 64))):
            found[rng.randrange(len(found))] = rng.randrange(256)
    elif kind == 2:
        del found[rng.randrange(len(found)) :]
    elif kind == 3:
        at = rng.randrange(len(found))
        del found[at : at + rng.choice((1, 4, 40))]
    else:
        at, begin = rng.randrange(len(found)), rng.randrange(len(other))
        found[at : at + rng.choice((0, 8, 80))] = other[begin : begin + rng.choice((8, 80, 800))]
    return bytes(found)


# ---- what is damaged in the graph ----


def graphs(model: ModelProto) -> Iterator[Any]:
    """Give the graph, the bodies in it, and those of functions, which have nodes too."""
    pending: list[Any] = [model.graph, *model.functions]
    while pending:
        graph = pending.pop()
        yield graph
        for node in graph.node:
            pending += [a.g for a in node.attribute if a.type == AttributeProto.GRAPH]


def a_node(model: ModelProto, rng: random.Random) -> Any:
    return rng.choice([node for graph in graphs(model) for node in graph.node])


def a_tensor(model: ModelProto, rng: random.Random) -> Any:
    found = [t for graph in graphs(model) for t in getattr(graph, "initializer", ())]
    found += [a.t for g in graphs(model) for n in g.node for a in n.attribute if a.HasField("t")]
    return rng.choice(found) if found else model.graph.initializer.add(data_type=1)


def names(model: ModelProto) -> list[str]:
    found = [name for g in graphs(model) for n in g.node for name in (*n.input, *n.output)]
    return [*found, *(t.name for t in model.graph.initializer), "", "\x1b[31m", "x" * 999]


def other_op(model: ModelProto, rng: random.Random) -> None:
    node = a_node(model, rng)
    node.op_type = rng.choice(sorted(s.name for s in onnx.defs.get_all_schemas() if not s.domain))


def other_input(model: ModelProto, rng: random.Random) -> None:
    node = a_node(model, rng)
    if node.input:
        node.input[rng.randrange(len(node.input))] = rng.choice(names(model))


def other_output(model: ModelProto, rng: random.Random) -> None:
    node = a_node(model, rng)
    if node.output:
        node.output[rng.randrange(len(node.output))] = rng.choice(names(model))


def cycle(model: ModelProto, rng: random.Random) -> None:
    nodes = model.graph.node
    first = rng.randrange(len(nodes))
    later = rng.randrange(first, len(nodes))
    if nodes[first].input and nodes[later].output:
        nodes[first].input[0] = nodes[later].output[0]


def fewer_or_more_operands(model: ModelProto, rng: random.Random) -> None:
    node = a_node(model, rng)
    operands = rng.choice((node.input, node.output))
    if operands and rng.random() < 0.5:
        operands.pop()
    else:
        operands.append(rng.choice(names(model)))


def twice_or_never(model: ModelProto, rng: random.Random) -> None:
    graph = rng.choice(list(graphs(model)))
    position = rng.randrange(len(graph.node)) if graph.node else None
    if position is None:
        return
    if rng.random() < 0.5:
        graph.node.append(graph.node[position])
    else:
        del graph.node[position]


def other_attribute(model: ModelProto, rng: random.Random) -> None:
    with_attributes = [n for g in graphs(model) for n in g.node if n.attribute]
    if not with_attributes:
        return
    attribute = rng.choice(rng.choice(with_attributes).attribute)
    kind = rng.randrange(5)
    if kind == 0 and attribute.ints:
        attribute.ints[rng.randrange(len(attribute.ints))] = rng.choice(SIZES)
    elif kind == 0:
        attribute.i = rng.choice(SIZES)
    elif kind == 1:
        attribute.type = rng.choice(list(AttributeProto.AttributeType.values()))
    elif kind == 2:
        attribute.name = rng.choice(("axis", "to", "body", "value", "x" * 99, ""))
    elif kind == 3:
        attribute.f = rng.choice((float("nan"), float("inf"), -1.0, 1e38))
    else:
        attribute.s = rng.choice((b"", b"\xff\xfe", b"SAME_UPPER", b"x" * 1000))


def other_sizes(model: ModelProto, rng: random.Random) -> None:
    tensor = a_tensor(model, rng)
    if tensor.dims and rng.random() < 0.8:
        tensor.dims[rng.randrange(len(tensor.dims))] = rng.choice(SIZES)
    else:
        tensor.dims.append(rng.choice(SIZES))


def other_integers(model: ModelProto, rng: random.Random) -> None:
    """Sizes, axes and counts that are not what they were."""
    found = [t for g in graphs(model) for t in getattr(g, "initializer", ())]
    found += [a.t for g in graphs(model) for n in g.node for a in n.attribute if a.HasField("t")]
    integers = [t for t in found if t.data_type == TensorProto.INT64]
    if not integers:
        return
    tensor = rng.choice(integers)
    values = onnx.numpy_helper.to_array(tensor).copy().reshape(-1)
    if values.size:
        values[rng.randrange(values.size)] = rng.choice(SIZES)
        tensor.CopyFrom(
            onnx.numpy_helper.from_array(values.reshape(tuple(tensor.dims)), tensor.name)
        )


def other_type(model: ModelProto, rng: random.Random) -> None:
    a_tensor(model, rng).data_type = rng.randrange(-1, 30)


def external(model: ModelProto, rng: random.Random) -> None:
    tensor = a_tensor(model, rng)
    tensor.data_location = TensorProto.EXTERNAL
    place = rng.choice(("/etc/passwd", "../x", "model.onnx", "", "link", "/dev/zero", "a/../../b"))
    tensor.external_data.add(key="location", value=place)
    tensor.external_data.add(key="length", value=rng.choice(("1", "-1", "9" * 30, "x")))


def other_interface(model: ModelProto, rng: random.Random) -> None:
    value = rng.choice([*model.graph.input, *model.graph.output])
    kind = rng.randrange(4)
    if kind == 0:
        value.name = rng.choice(names(model))
    elif kind == 1:
        value.type.tensor_type.elem_type = rng.randrange(-1, 30)
    elif kind == 2:
        value.type.tensor_type.shape.dim.add(dim_value=rng.choice(SIZES))
    elif value.type.tensor_type.shape.dim:
        rng.choice(value.type.tensor_type.shape.dim).dim_value = rng.choice(SIZES)


def nested(model: ModelProto, rng: random.Random) -> None:
    """The graph within bodies of bodies."""
    for _ in range(rng.choice((1, 3, 20, 120))):
        inner = onnx.GraphProto()
        inner.CopyFrom(model.graph)
        del inner.input[:]
        node = onnx.helper.make_node(
            "If", ["condition"], [o.name for o in inner.output], then_branch=inner,
            else_branch=inner if rng.random() < 0.1 else onnx.GraphProto(name="empty"),
        )  # fmt: skip
        if node.ByteSize() > 1 << 20:
            return
        del model.graph.node[:]
        model.graph.node.append(node)


def recursive(model: ModelProto, rng: random.Random) -> None:
    """A function that calls itself, or another that calls it."""
    first = rng.choice(("f", "g"))
    for name, called in (("f", first), ("g", "f")):
        node = onnx.helper.make_node(called, ["a"], ["b"], domain="own")
        imports = [onnx.helper.make_opsetid("own", 1)]
        model.functions.append(
            onnx.helper.make_function("own", name, ["a"], ["b"], [node], imports)
        )
    model.opset_import.add(domain="own", version=1)
    node = a_node(model, rng)
    node.op_type, node.domain = "f", "own"
    del node.attribute[:]


def other_opset(model: ModelProto, rng: random.Random) -> None:
    imported = rng.choice(model.opset_import)
    if rng.random() < 0.3:
        imported.domain = rng.choice(("", "ai.onnx.ml", "com.microsoft", "pyrite.pattern", "x"))
    imported.version = rng.choice((-1, 0, 1, 5, 9, 13, 17, 21, 25, 28, 1 << 40))


CHANGES: tuple[Change, ...] = (
    other_op, other_input, other_output, cycle, fewer_or_more_operands, twice_or_never,
    other_attribute, other_sizes, other_integers, other_integers, other_type, external,
    other_interface, nested, recursive, other_opset,
)  # fmt: skip


#: What was changed before may leave nothing to change, or what protobuf and onnx refuse to.
_NOTHING_TO_CHANGE = (ValueError, TypeError, IndexError, DecodeError, ValidationError)


def mutation(contents: list[bytes], seed: str, number: int) -> tuple[str, bytes]:
    """Return a mutated model, and what was done to it."""
    rng = random.Random(f"{seed} {number}")
    content, other = rng.choice(contents), rng.choice(contents)
    if rng.random() < 0.4:
        return "bytes", damaged(content, other, rng)
    model = ModelProto.FromString(content)
    changes = rng.choices(CHANGES, k=rng.choice((1, 1, 1, 2, 3)))
    done = []
    for change in changes:
        try:
            change(model, rng)
        except _NOTHING_TO_CHANGE:
            continue
        done.append(change.__name__)
    return "+".join(done), model.SerializeToString()


# ---- what becomes of one ----


def inspect_forked(content: bytes, kept: Sequence[tuple[str, str]]) -> bytes:
    """Return what `inspection.inspect_apart` does, by a fork: it takes milliseconds."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        resource.setrlimit(resource.RLIMIT_AS, (inspection.MEMORY, inspection.MEMORY))
        signal.alarm(0)
        with os.fdopen(writer, "wb") as file:
            try:
                file.write(b"+" + inspect_here(content, kept))
            except InspectionError as error:
                file.write(b"-" + str(error).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as file:
        found = file.read()
    _, status = os.waitpid(child, 0)
    if status or found[:1] != b"+":
        said = found[1:].decode(errors="replace")
        raise InspectionError(said or f"its check ended with status {status}")
    return found[1:]


def outcome(content: bytes) -> str:
    """Return what becomes of a model: it ran, it has inputs too large, or the error's name."""
    try:
        model = load_with(content, inspect_forked, device="numpy")
        inputs = {name: drawn(of) for name, of in model.inputs.items()}
        if any(x is None for x in inputs.values()):
            return "not run"
        model(**inputs)
    except PyriteError as error:
        if not str(error).strip() or "\n\n\n" in str(error):
            return f"no message: {error!r}"
        return type(error).__name__
    except OvertimeError:
        return "overtime"
    except Exception as error:
        return f"not Pyrite's: {type(error).__name__}: {error}"
    return "ran"


def drawn(of: ValueType) -> Any:
    """Return an input of a type; None where it would be too large."""
    if of.kind != "tensor" or of.element is None or of.element.carrier is None:
        return None
    shape = [2 if not isinstance(size, int) else size for size in of.shape or ()]
    if any(size < 0 for size in shape) or np.prod(shape, dtype=float) > MOST_INPUT:
        return None
    return np.ones(shape, of.element.carrier.numpy)


def main() -> None:
    folder, seed, begin, end = sys.argv[1:]
    contents = [path.read_bytes() for path in sorted(Path(folder).glob("*.onnx"))]
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGALRM, overtime)
    warnings.simplefilter("ignore")
    bound.MOST_STEPS = 1 << 8
    for number in range(int(begin), int(end)):
        print(json.dumps({"begins": number}), flush=True)
        what, content = mutation(contents, seed, number)
        started = time.perf_counter()
        signal.alarm(SECONDS)
        became = outcome(content)
        signal.alarm(0)
        took = time.perf_counter() - started
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
        line = {"number": number, "what": what, "became": became, "seconds": took, "peak": peak}
        print(json.dumps(line), flush=True)


def overtime(*_: object) -> None:
    raise OvertimeError


if __name__ == "__main__":
    main()
