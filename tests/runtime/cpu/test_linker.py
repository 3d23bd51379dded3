"""Objects in memory: as many as there are, few mappings, few JITs, and an error where none is left.

What a process has of mappings and memory is looked at in a process of its own.
"""

from __future__ import annotations

import subprocess
import sys
import weakref
from pathlib import Path

import pytest

pytest.importorskip("llvmlite")

from pyrite.runtime.cache import DiskCache
from pyrite.runtime.cpu.host import host_target
from pyrite.runtime.cpu.linker import LIBRARIES, Code
from pyrite.runtime.cpu.module import Compiler

_COMPILER = """
import ctypes, mmap
from itertools import count
from pathlib import Path
from pyrite.errors import OutOfMemoryError
from pyrite.runtime.cache import DiskCache
from pyrite.runtime.cpu.host import host_target
from pyrite.runtime.cpu.module import Compiler
from pyrite.runtime.cpu.pages import Pages

compiler = Compiler(host_target(), DiskCache(None))
numbers = count()
function = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_int64)

def make():
    n = next(numbers)
    return n, compiler.load(compiler.compile(f'''
target triple = "{compiler.target.triple}"
@row = private constant [4 x double] [double 0.5, double 1.5, double 2.5, double {n}.25]
define double @f(i64 %at) {{
  %place = getelementptr double, ptr @row, i64 %at
  %value = load double, ptr %place
  %sum = fadd double %value, 0.1
  ret double %sum
}}
'''), "f")

def value(made, at=3):
    return function(made[1].addresses["f"])(at) - 0.1

def mappings():
    return len(Path("/proc/self/maps").read_bytes().splitlines())

def refusal():
    '''Return what is said in place of code, which says it again at the next try.'''
    for _ in range(2):
        try:
            make()
        except OutOfMemoryError as error:
            found = str(error)
        else:
            return "none"
    return found
"""

_MANY = """
make()
before = mappings()
held = [make() for _ in range(200)]
assert all(round(value(made), 6) == made[0] + 0.25 for made in held)
print(mappings() - before)
del held[::2]
held += [make() for _ in range(100)]
assert all(round(value(made), 6) == made[0] + 0.25 for made in held)
print(mappings() - before)
"""

_NO_MAPPINGS = """
make()
pages = []
while True:
    try:
        pages.append(Pages(mmap.PAGESIZE))
    except MemoryError:
        break
# Python's own needs some: so few are left that a link fails.
for page in pages[-2:]:
    page.release()
print(refusal())
for page in pages:
    page.release()
print(value(make(), 1))
"""

_NO_MEMORY = """
import resource
make()
taken = int(Path("/proc/self/statm").read_text().split()[0]) * mmap.PAGESIZE
_, hard = resource.getrlimit(resource.RLIMIT_AS)
resource.setrlimit(resource.RLIMIT_AS, (taken + (1 << 20), hard))
print(refusal())
resource.setrlimit(resource.RLIMIT_AS, (hard, hard))
print(value(make(), 1))
"""

linux = pytest.mark.skipif(sys.platform != "linux", reason="asks Linux for its mappings")


def printed(program: str) -> list[str]:
    """Return the lines that a program of `_COMPILER` prints."""
    command = [sys.executable, "-c", _COMPILER + program]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@linux
def test_many_libraries_are_few_mappings() -> None:
    """With a mapping for code and one for constants they would be 400."""
    made, replaced = map(int, printed(_MANY))

    assert made < 100
    assert replaced < 100


@linux
@pytest.mark.parametrize("program", [_NO_MAPPINGS, _NO_MEMORY], ids=["mappings", "memory"])
def test_where_the_system_refuses_room_there_is_an_error_and_code_when_there_is_some(
    program: str,
) -> None:
    limit = int(Path("/proc/sys/vm/max_map_count").read_text())
    if program is _NO_MAPPINGS and limit > 100_000:
        pytest.skip(f"it would take too long to make {limit} mappings")
    refused, then = printed(program)

    assert refused.startswith("cpu requires room for the code of a kernel, got none: ")
    assert "raise the limits (ulimit -v, vm.max_map_count)" in refused
    assert then == "1.5"


def test_what_llvm_keeps_of_unloaded_libraries_goes_with_their_jit() -> None:
    compiler = Compiler(host_target(), DiskCache(None))
    blob = compiler.compile(
        f'target triple = "{compiler.target.triple}"\ndefine void @f() {{ ret void }}\n'
    )
    jits: list[weakref.ref[object]] = []
    held: Code | None = None
    for n in range(2 * LIBRARIES + 1):
        code = compiler.load(blob, "f")
        held = code if n == LIBRARIES else held
        if n % LIBRARIES == 0:
            jits.append(weakref.ref(code._jit))
        del code

    assert [jit() is not None for jit in jits] == [False, True, True]
    del held
    assert [jit() is not None for jit in jits] == [False, False, True]
