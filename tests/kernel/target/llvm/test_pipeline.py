from __future__ import annotations

import numpy as np

from pyrite.kernel import KernelBuilder, verify
from pyrite.kernel.interpret import interpret
from pyrite.kernel.ir import Node, scalar
from pyrite.kernel.target.llvm import LLVMTarget, lowered
from pyrite.types import float32, int32

AVX2 = LLVMTarget("x86_64-unknown-linux-gnu", vector_bytes=32)


def test_neighbours_in_a_row_of_any_length_are_read_together() -> None:
    """Which columns there are is said at a launch, so where a row ends is asked for each vector."""
    b = KernelBuilder("rows", workgroup_size=64)
    x, out = b.buffer("x", float32, "read"), b.buffer("out", float32, "write")
    columns = Node("argument", scalar(int32), (), (2, "columns", 1))
    b._parameters.append(columns)
    n, at = b.of(columns), b.global_id()
    i, j = at.apply("div", at, n), at.apply("rem", at, n)
    out.store(at, x[i * (n + 3) + j] * 2.0)
    kernel = b.build()
    after = verify(lowered(kernel, AVX2))

    loads = [node for node in after.walk() if node.kind == "load"]
    assert {node.inputs[1].value_type.width for node in loads} == {1, 8}  # together, or each
    divisions = [n for n in after.walk() if n.kind == "alu" and n.attr in ("div", "rem")]
    assert not any(n.value_type.dtype is int32 for n in divisions)
    for count in (1, 5, 8, 13, 64, 100):
        rows = 128 // count + 1
        values = np.random.default_rng(0).normal(size=rows * (count + 3)).astype(np.float32)
        wanted, got = np.zeros(128, np.float32), np.zeros(128, np.float32)
        interpret(kernel, 2, values, wanted, count)
        interpret(after, 2, values, got, count)
        flat = values.reshape(rows, -1)[:, :count].ravel()[:128] * 2
        assert (wanted == flat).all()
        assert (got == wanted).all()
