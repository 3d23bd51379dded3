"""What ONNX's own native code says of a model: whether it is valid, and the types of its values.

That code is written in C++ and meets files of strangers, so by default it runs in a process of its
own, with limits of memory and time.  This file is that process's program too, and therefore imports
nothing of Pyrite's.  The model comes without its large weights, so the limits can be narrow.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Sequence

import onnx
import onnx.checker
import onnx.inliner
import onnx.shape_inference

#: Bytes of the child's address space, beside what the interpreter and ONNX take.
MEMORY = 2 << 30
#: Seconds that the child may live.
SECONDS = 60

#: Takes a model and the names of the functions of ONNX to keep; gives the model inferred.
Inspection = Callable[[bytes, Sequence[tuple[str, str]]], bytes]


class InspectionError(ValueError):
    """What the native code found wrong, in its words."""


def inspect_here(model: bytes, kept: Sequence[tuple[str, str]]) -> bytes:
    """Return the model checked, with functions expanded and types inferred, in this process."""
    try:
        proto = onnx.ModelProto.FromString(model)
        onnx.checker.check_model(proto)
        if proto.functions:
            proto = onnx.inliner.inline_local_functions(proto)
        proto = onnx.inliner.inline_selected_functions(
            proto, list(kept), exclude=True, inline_schema_functions=True
        )
        inferred = onnx.shape_inference.infer_shapes(proto, check_type=True, data_prop=True)
        found: bytes = inferred.SerializeToString()
    except MemoryError:
        raise InspectionError("its check requires too much memory, as if of huge sizes") from None
    except Exception as error:
        # The native code's exceptions have no common base.
        raise InspectionError(f"{type(error).__name__}: {error}") from None
    return found


def inspect_apart(model: bytes, kept: Sequence[tuple[str, str]]) -> bytes:
    """Return what `inspect_here` does, from a child with limits of memory and time."""
    header = json.dumps({"kept": list(kept), "memory": MEMORY, "seconds": SECONDS}).encode()
    command = [sys.executable, "-P", __file__]
    try:
        done = subprocess.run(
            command, input=header + b"\n" + model, capture_output=True, timeout=SECONDS
        )
    except subprocess.TimeoutExpired:
        raise InspectionError(f"its check took more than {SECONDS} s") from None
    if done.returncode == 0:
        return done.stdout
    said = done.stderr.decode(errors="replace").strip()
    if done.returncode == REFUSED:
        raise InspectionError(said)
    raise InspectionError(
        f"its check ended with status {done.returncode}: {said[-500:] or 'no memory, or a crash'}"
    )


#: The exit status of a child that found something wrong.
REFUSED = 3


def _main() -> int:
    header = json.loads(sys.stdin.buffer.readline())
    _limit(header["memory"], header["seconds"])
    try:
        found = inspect_here(sys.stdin.buffer.read(), [tuple(pair) for pair in header["kept"]])
    except InspectionError as error:
        sys.stderr.write(str(error))
        return REFUSED
    sys.stdout.buffer.write(found)
    return 0


def _limit(memory: int, seconds: int) -> None:
    try:
        import resource
    except ImportError:  # Windows has no such limits; the time is limited by the parent.
        return
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


if __name__ == "__main__":
    sys.exit(_main())
