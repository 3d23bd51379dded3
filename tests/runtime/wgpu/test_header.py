"""Types of wgpu's header are read once, and are what cffi reads one by one."""

from __future__ import annotations

from collections.abc import Callable

import pytest

pytest.importorskip("wgpu")

from pyrite.runtime.wgpu.header import NAMES
from pyrite.runtime.wgpu.native import ffi


@pytest.mark.parametrize("name", [n for n in NAMES if "[" in n or "(" in n] + ["void *"])
def test_a_type_is_the_one_that_cffi_reads(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = ffi._parsed_types[name]
    monkeypatch.setattr(ffi, "_parsed_types", {})

    with ffi._lock:
        assert ffi._typeof_locked(name) == found


def test_until_the_first_result_no_other_types_are_read(program: Callable[[str], str]) -> None:
    printed = program(
        """
        from cffi.cparser import Parser
        parse, read = Parser.parse_type, []
        Parser.parse_type = lambda self, name: (read.append(name), parse(self, name))[1]
        runtime = WgpuRuntime(open_device())
        x, y = runtime.upload(ones), runtime.allocate(256)
        runtime.launch(runtime.compile(scale()), [x, y, 64, 2.0], [1])
        print(read, runtime.read(y, float32, (64,)).sum())
        """
    )

    assert printed.strip() == "[] 128.0"
