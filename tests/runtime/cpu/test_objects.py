"""Objects by several threads at once, and what is wrong with a module."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

pytest.importorskip("llvmlite")

from pyrite.errors import KernelError
from pyrite.runtime.cpu.host import host_target
from pyrite.runtime.cpu.objects import ObjectMaker

maker = ObjectMaker(host_target())


def module(n: int) -> str:
    """Return a module whose function has a loop, and some work for LLVM."""
    terms = "\n".join(
        f"  %x{i + 1} = mul i64 %x{i}, {n + i}\n  %y{i + 1} = xor i64 %x{i + 1}, %y{i}"
        for i in range(200)
    )
    return f"""
target triple = "{host_target().triple}"
define i64 @f(i64 %x0, i64 %y0) {{
{terms}
  ret i64 %y200
}}"""


def test_objects_made_at_once_are_those_made_one_by_one() -> None:
    texts = [module(n) for n in range(40)]
    alone = [maker.make(text) for text in texts]

    with ThreadPoolExecutor(4) as pool:
        together = [*pool.map(maker.make, texts * 3)]

    assert len(set(alone)) == len(alone)
    assert together == alone * 3


def test_each_thread_has_a_machine_of_its_own() -> None:
    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(maker.machine).result()

    assert maker.machine() is maker.machine()
    assert other is not maker.machine()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("define i64 @f(i64 %x) { ret i64 %y }", "use of undefined value"),
        ("define i64 @f(i64 %x) { ret i32 0 }", "value doesn't match"),
        ("no module", "expected top-level entity"),
    ],
)
def test_what_is_wrong_with_a_module_is_said(text: str, why: str) -> None:
    for _ in range(3):
        with pytest.raises(KernelError, match=why):
            maker.make(text)

    assert maker.make(module(1)) == maker.make(module(1))
