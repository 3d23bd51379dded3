from __future__ import annotations

import copy
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pyrite.errors import KernelError
from pyrite.kernel import Kernel, KernelBuilder
from pyrite.kernel.arithmetic import ALU
from pyrite.kernel.ir import EFFECTS, OPCODES, Kind, Node, scalar, vector
from pyrite.testing.kernels import examples_of_kernels
from pyrite.types import Number, float32, int32

DIGEST = """
from pyrite.testing.kernels import examples_of_kernels
print(*[e.kernel.digest for e in examples_of_kernels()])
"""


def test_types_are_unique_also_through_copies() -> None:
    type = vector(float32, 4)

    assert copy.deepcopy(type) is copy.copy(type) is type
    assert type.element is scalar(float32)
    assert type.with_dtype(int32).with_width(1) is scalar(int32)


def test_a_width_that_no_machine_has_is_refused() -> None:
    with pytest.raises(KernelError, match=r"a width in .*, got 3"):
        vector(float32, 3)


def test_the_digest_is_the_same_in_every_process() -> None:
    source = str(Path(__file__).parents[2] / "src")
    digests = {
        subprocess.run(
            [sys.executable, "-c", DIGEST],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": source},
            capture_output=True, text=True, check=True,
        ).stdout.strip()
        for seed in ("1", "2")
    }  # fmt: skip

    assert digests == {" ".join(e.kernel.digest for e in examples_of_kernels())}


def scaled(name: str = "k", by: Number = 2.0, buffer: str = "x", size: int = 8) -> Kernel:
    b = KernelBuilder(name, workgroup_size=size)
    x = b.buffer(buffer, float32, "read_write")
    x[b.global_id()] = x[b.global_id()] * by
    return b.build()


def test_the_digest_does_not_depend_on_names() -> None:
    assert scaled().digest == scaled("other", buffer="y").digest


@pytest.mark.parametrize("other", [scaled(by=3.0), scaled(by=0.0), scaled(size=16)])
def test_the_digest_depends_on_all_else(other: Kernel) -> None:
    assert other.digest != scaled(by=-0.0).digest


def test_every_kind_has_an_effect_and_every_opcode_a_meaning() -> None:
    assert set(EFFECTS) == set(Kind.__args__)  # type: ignore[attr-defined]
    assert set(ALU) == set(OPCODES)


def test_the_same_inputs_give_the_same_node() -> None:
    one = Node("const", scalar(int32), (), 1)
    node = Node("alu", scalar(int32), (one, one), "add")

    assert node.with_inputs((one, one)) is node
