"""One kernel for each rule that can be broken."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from pyrite.errors import KernelError
from pyrite.kernel import Kernel, KernelBuilder, verify
from pyrite.kernel.ir import BOOL, Node, Region, scalar, vector
from pyrite.testing.kernels import KernelExample, examples_of_kernels
from pyrite.testing.random_kernels import random_kernel
from pyrite.types import float16, float32, float64, int8, int16, int32, uint32

I32, F32 = scalar(int32), scalar(float32)
BUFFER = Node("buffer", F32, (), (0, "x", "read_write"))
WORDS = Node("buffer", scalar(uint32), (), (1, "words", "atomic"))
READ = Node("buffer", F32, (), (2, "r", "read"))
ZERO, ONE, HALF = (Node("const", t, (), v) for t, v in ((I32, 0), (F32, 1.0), (F32, 0.5)))
TRUE, CODE = Node("const", BOOL, (), True), Node("const", scalar(uint32), (), 3)
PAIR = Node("const", vector(float32, 2), (), 0.5)
BASE = (ZERO, ONE, HALF, TRUE, CODE, PAIR)


def kernel(
    *nodes: Node, parameters: Sequence[Node] = (BUFFER, WORDS, READ), **other: Any
) -> Kernel:
    return Kernel("broken", tuple(parameters), Region((), (*BASE, *nodes)), **other)


def region(*body: Node, yields: Sequence[Node] = (), parameters: Sequence[Node] = ()) -> Region:
    return Region(tuple(parameters), tuple(body), tuple(yields))


LANE = Node("builtin", I32, (), ("local_id", 0))
SMALL = Node("alu", BOOL, (LANE, ZERO), "lt")
COUNTER = Node("parameter", I32, (), 0)
CARRIED = Node("parameter", F32, (), 1)
INNER = Node("alu", F32, (ONE, ONE), "add")
ALLOC = Node("alloc", F32, (), ("shared", 4, "read_write"))

BROKEN: dict[str, tuple[Kernel, str]] = {
    "a number of another kind": (kernel(Node("const", I32, (), 1.0)), "of int32 is of int"),
    "a number too large": (kernel(Node("const", scalar(int8), (), 200)), "200 fits in int8"),
    "too few numbers": (
        kernel(Node("const", vector(int32, 4), (), (1, 2))), "one number or 4, not 2"),
    "an unknown opcode": (kernel(Node("alu", F32, (ONE,), "exp")), "'exp' is no opcode"),
    "an operand too few": (kernel(Node("alu", F32, (ONE,), "add")), "add takes 2 operands, not 1"),
    "operands that differ": (
        kernel(Node("alu", F32, (ONE, ZERO), "add")), "one type, not float32, int32"),
    "bits of floats": (
        kernel(Node("alu", F32, (ONE, ONE), "xor")), "takes bits operands, not float32"),
    "a wrong result": (kernel(Node("alu", F32, (ONE, ONE), "lt")), "lt of float32 gives bool"),
    "arithmetic of float16": (
        kernel(h := Node("cast", scalar(float16), (ONE,)),
               Node("alu", scalar(float16), (h, h), "add")), "not float16"),
    "a cast to bool": (kernel(Node("cast", BOOL, (ONE,))), "no cast to bool"),
    "a cast to a vector": (kernel(Node("cast", vector(int32, 2), (ONE,))), "keeps the width"),
    "a bitcast that grows": (kernel(Node("bitcast", scalar(float64), (ONE,))), "keeps width and"),
    "a bitcast of bool": (kernel(Node("bitcast", scalar(int8), (TRUE,))), "a bool has no bits"),
    "a number as condition": (kernel(Node("select", F32, (ONE, ONE, ONE))), "condition is a bool"),
    "choices that differ": (
        kernel(Node("select", F32, (TRUE, ONE, ZERO))), "both choices have the type"),
    "a splat of a vector": (kernel(Node("splat", PAIR.type, (PAIR,))), "splat repeats a scalar"),
    "a make of too few": (kernel(Node("make", vector(float32, 4), (ONE, ONE))), "takes 4 scalars"),
    "an element outside": (kernel(Node("extract", F32, (PAIR,), 2)), "not 2 of float32x2"),
    "an unknown builtin": (kernel(Node("builtin", I32, (), ("lane", 0))), "a builtin is one of"),
    "a builtin of float": (kernel(Node("builtin", F32, (), ("local_id", 0))), "the index dtype"),
    "a load that only writes": (
        kernel(Node("load", scalar(uint32), (WORDS, ZERO), True)), "needs access read"),
    "a load of another dtype": (
        kernel(Node("load", scalar(int16), (BUFFER, ZERO), True)), "load gives float32"),
    "an index of float": (
        kernel(Node("load", F32, (BUFFER, ONE), True)), "an index has dtype int32, not float32"),
    "indices too many": (
        kernel(v := Node("splat", vector(int32, 4), (ZERO,)),
               Node("load", PAIR.type, (BUFFER, v), False)), "an index is a scalar or has 2"),
    "aligned indices": (
        kernel(w := Node("splat", vector(int32, 2), (ZERO,)),
               Node("load", PAIR.type, (BUFFER, w), True)), "only an access with a scalar index"),
    "a mask without other": (
        kernel(Node("load", F32, (BUFFER, ZERO, TRUE), True)), "memory, index, and maybe mask"),
    "a mask of floats": (
        kernel(Node("load", F32, (BUFFER, ZERO, ONE, ONE), True)), "the mask is a bool"),
    "a store to what is read": (
        kernel(Node("store", None, (READ, ZERO, ONE), True)), "store needs access write"),
    "a store of another dtype": (
        kernel(Node("store", None, (BUFFER, ZERO, ZERO), True)), "store of int32 into float32"),
    "a memory as value": (
        kernel(Node("alu", F32, (ONE, BUFFER), "add")), "and no other, is a memory"),
    "a value as memory": (
        kernel(Node("load", F32, (ONE, ZERO), True)), "the first input of a memory access"),
    "an atomic on plain memory": (
        kernel(Node("atomic", F32, (BUFFER, ZERO, ONE), ("add", False))), "needs access atomic"),
    "an unknown atomic": (
        kernel(Node("atomic", WORDS.type, (WORDS, ZERO, CODE), ("mul", False))), "one of load,"),
    "an atomic of too few": (
        kernel(Node("atomic", WORDS.type, (WORDS, ZERO, CODE), ("exchange_equal", False))),
        "exchange_equal takes 4 inputs, not 3"),
    "an error word of float": (
        kernel(Node("error", None, (BUFFER, TRUE, CODE))), "an atomic buffer of uint32"),
    "an error without a test": (
        kernel(Node("error", None, (WORDS, ONE, CODE))), "error takes bools"),
    "an alloc inside": (
        kernel(Node("if", None, (TRUE,), None, (region(ALLOC), region()))), "at the top of the"),
    "an empty alloc": (
        kernel(Node("alloc", F32, (), ("shared", 0, "read_write"))), "at least 1 element"),
    "private atomics": (
        kernel(Node("alloc", I32, (), ("private", 1, "atomic"))), "private memory needs no"),
    "floats for atomics": (
        kernel(Node("alloc", F32, (), ("shared", 1, "atomic"))), "of integers of 32 or 64"),
    "an input from below": (kernel(Node("alu", F32, (INNER, ONE), "add"), INNER), "stand before"),
    "an input from inside": (
        kernel(Node("if", None, (TRUE,), None, (region(INNER), region())),
               Node("alu", F32, (INNER, ONE), "add")), "in its region or one around it"),
    "a node in two places": (
        kernel(INNER, Node("if", None, (TRUE,), None, (region(INNER), region()))), "in one place"),
    "a yield from elsewhere": (
        kernel(Node("if", None, (TRUE,), None, (region(yields=[INNER]), region(yields=[ONE])))),
        "what is yielded is in scope"),
    "a result of a value": (kernel(Node("result", F32, (ONE,), 0)), "result is of for, while or"),
    "a result too many": (
        kernel(c := Node("if", None, (TRUE,), None, (region(), region())),
               Node("result", F32, (c,), 0)), "has 0 results, not a number 0"),
    "a result of another type": (
        kernel(d := Node("if", None, (TRUE,), None, (region(yields=[ONE]), region(yields=[ONE]))),
               Node("result", I32, (d,), 0)), "has the type yielded"),
    "parts that yield unlike": (
        kernel(Node("if", None, (TRUE,), None, (region(yields=[ONE]), region()))), "same number"),
    "parts of other types": (
        kernel(Node("if", None, (TRUE,), None, (region(yields=[ONE]), region(yields=[ZERO])))),
        "keeps its type, not float32, int32"),
    "an if of numbers": (
        kernel(Node("if", None, (ZERO,), None, (region(), region()))), "takes a scalar bool"),
    "a loop downwards": (
        kernel(Node("for", None, (ZERO, ZERO), (-1, False, False),
                    (region(parameters=[COUNTER]),))),
        "counts upwards"),
    "a loop of floats": (
        kernel(Node("for", None, (ONE, ONE), (1, False, False), (region(parameters=[COUNTER]),))),
        "counts upwards in int32"),
    "an unknown number of copies": (
        kernel(LANE, Node("for", None, (LANE, LANE), (1, True, False),
                          (region(parameters=[COUNTER]),))),
        "has constant bounds"),
    "a loop that forgets": (
        kernel(Node("for", None, (ZERO, ZERO, ONE), (1, False, False),
                    (region(parameters=[COUNTER, CARRIED]),))), "same number of values"),
    "a loop that changes type": (
        kernel(Node("for", None, (ZERO, ZERO, ONE), (1, False, False),
                    (region(parameters=[COUNTER, CARRIED], yields=[ZERO]),))), "keeps its type"),
    "a condition of numbers": (
        kernel(Node("while", None, (), None, (region(yields=[ONE]), region()))),
        "the condition of a while is a scalar bool"),
    "a barrier for some": (
        kernel(LANE, SMALL, Node("if", None, (SMALL,), None,
               (region(Node("barrier", None, (), "workgroup")), region()))), "together"),
    "a barrier of the grid": (kernel(Node("barrier", None, (), "grid")), "workgroup or storage"),
    "an unknown reduction": (
        kernel(Node("subgroup_reduce", F32, (ONE,), "sub")), "a reduction is one of"),
    "a shuffle of floats": (
        kernel(Node("subgroup_shuffle", F32, (ONE, ONE), "up")), "a lane has type int32"),
    "a shuffle sideways": (
        kernel(Node("subgroup_shuffle", F32, (ONE, ZERO), "left")), "by index, xor, up or down"),
    "a ballot of numbers": (
        kernel(Node("subgroup_ballot", vector(uint32, 4), (ONE,))), "a ballot takes a bool"),
    "a buffer in the body": (kernel(READ), "a body holds no parameters"),
    "two names alike": (
        kernel(parameters=[BUFFER, Node("buffer", F32, (), (1, "x", "read"))]), "names of param"),
    "parameters out of order": (kernel(parameters=[WORDS]), "numbered in order"),
    "an unknown access": (
        kernel(parameters=[Node("buffer", F32, (), (0, "x", "append"))]), "access is one of"),
    "a vector as argument": (
        kernel(parameters=[Node("argument", PAIR.type, (), (0, "v"))]), "an argument is a scalar"),
    "a grid of four axes": (kernel(grid=4), "a grid has 1 to 3 axes"),
    "an index of 16 bits": (kernel(index=int16), "index is int32, uint32 or int64"),
}  # fmt: skip


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_rule_is_named(what: str) -> None:
    kernel, message = BROKEN[what]

    with pytest.raises(KernelError) as error:
        verify(kernel)

    assert message in str(error.value)


def test_the_nodes_of_these_tests_are_legal_themselves() -> None:
    verify(kernel(LANE, SMALL, ALLOC, INNER))


@pytest.mark.parametrize("example", examples_of_kernels(), ids=lambda e: e.kernel.name)
def test_hand_written_kernels_are_legal(example: KernelExample) -> None:
    assert verify(example.kernel) is example.kernel


@pytest.mark.parametrize("seed", range(20))
def test_random_kernels_are_legal(seed: int) -> None:
    verify(random_kernel(seed).kernel)


def test_a_message_names_the_node_as_the_text_does_and_shows_the_text() -> None:
    b = KernelBuilder("scale")
    x = b.buffer("x", float32, "read")
    i = b.global_id()
    b.emit("store", None, (x.node, i.node, x[i].node), True)

    with pytest.raises(KernelError) as error:
        verify(b.build())

    assert "kernel 'scale' breaks a rule of store True" in str(error.value)
    assert "store x, %3, %4" in str(error.value)


def test_a_body_yields_nothing() -> None:
    whole = kernel()

    with pytest.raises(KernelError, match="a body has no parameters and yields nothing"):
        verify(replace(whole, body=Region((), whole.body.body, (ONE,))))


def test_a_uniform_barrier_in_a_loop_is_legal() -> None:
    b = KernelBuilder("rounds", workgroup_size=4)
    with b.for_(0, b.workgroup_id()), b.if_(b.workgroup_id() > 2):
        b.barrier()

    verify(b.build())


def test_parameters_of_a_region_are_numbered() -> None:
    wrong = Node("parameter", I32, (), 3)
    loop = Node("for", None, (ZERO, ZERO), (1, False, False), (region(parameters=[wrong]),))

    with pytest.raises(KernelError, match="typed and numbered in order"):
        verify(kernel(loop))
