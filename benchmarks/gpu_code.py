"""What NVIDIA's driver made of kernels: the machine code in its shader cache, in numbers.

    mkdir cache
    __GL_SHADER_DISK_CACHE_PATH=cache python benchmarks/gpu_matmul.py --all
    python benchmarks/gpu_code.py cache [--nvdisasm PATH] [--code FOLDER]

Kernels are in the order in which they were compiled first.  Of each stand the registers, whether
some are spilled to memory, and of its longest loop: its instructions, by kind; and how many of its
multiply-adds read two registers, or three, of one bank (those of even and of odd numbers) that were
not kept from the instruction before: they wait.  ``--code`` writes the code itself, as text.

It needs ``nvdisasm`` of CUDA, which the wheel nvidia-cuda-nvdisasm has, and ``zstd``; no GPU.
Source of the cache's format: github.com/therontarigo/nvcachetools.
"""

from __future__ import annotations

import argparse
import re
import struct
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

#: Bytes of the header of the table of contents, of its entries, and of an object's.
TABLE, ENTRY, OBJECT = 0x20, 0x18, 0x24
#: The architecture of an H200.
ARCHITECTURE = "SM90"

INSTRUCTION = re.compile(r"^\s*/\*([0-9a-f]{4,})\*/\s+(?:@!?U?P\w+\s+)?([A-Z][^;]*);")
REGISTER = re.compile(r"\bR(\d+)\b")
SOURCE = re.compile(r"[-|]*R(\d+)\|?(\.reuse)?")


def main() -> None:
    """Print a block for each kernel."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cache", type=Path)
    parser.add_argument("--nvdisasm", default="nvdisasm")
    parser.add_argument("--code", type=Path, help="a folder for the code of each")
    given = parser.parse_args()
    for number, code in enumerate(kernels(given.cache)):
        text = disassembled(code, given.nvdisasm)
        if given.code:
            given.code.mkdir(exist_ok=True)
            (given.code / f"{number:03}.sass").write_text(text)
        print(f"{number:3}  {described(read(text))}")


def kernels(cache: Path) -> Iterator[bytes]:
    """Yield the machine code of each kernel under a folder."""
    for contents in sorted(cache.rglob("*.toc")):
        table, data = contents.read_bytes(), contents.with_suffix(".bin").read_bytes()
        for start in range(TABLE, len(table), ENTRY):
            offset, size = struct.unpack_from("<2I", table, start + 16)
            packed = data[offset + OBJECT : offset + OBJECT + size - 4]
            found = subprocess.run(["zstd", "-dc"], input=packed, capture_output=True, check=False)
            if b"NVuc" in found.stdout[:16]:
                yield largest_section(found.stdout[found.stdout.index(b"NVuc") :])


def largest_section(archive: bytes) -> bytes:
    """Return the section of an archive that is the code."""
    count = struct.unpack_from("<H", archive, 8)[0]
    sections = [struct.unpack_from("<3I", archive, 32 * (n + 1)) for n in range(count)]
    _, size, offset = max(sections, key=lambda section: section[1])
    return archive[offset : offset + size]


def disassembled(code: bytes, nvdisasm: str) -> str:
    """Return code as text."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(code)
        file.flush()
        command = [nvdisasm, "--binary", ARCHITECTURE, file.name]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def read(text: str) -> list[tuple[int, str]]:
    """Return the address and the text of each instruction."""
    found = (INSTRUCTION.match(line) for line in text.splitlines())
    return [(int(m[1], 16), m[2].strip()) for m in found if m]


def described(code: Sequence[tuple[int, str]]) -> str:
    """Return what stands in the table of a kernel."""
    registers = {int(r) for _, line in code for r in REGISTER.findall(line)}
    spills = any(line.startswith(("LDL", "STL")) for _, line in code)
    loop = longest_loop(code)
    kinds = Counter(line.split()[0].split(".")[0] for line in loop)
    waits = asked_at_once(loop)
    return (
        f"{max(registers, default=0) + 1} registers{', spilled' if spills else ''}; "
        f"{len(loop)} of {len(code)} instructions in a loop: "
        + ", ".join(f"{kind} {n}" for kind, n in kinds.most_common(8))
        + (f"; {waits[2]} and {waits[3]} read two and three of a bank" if kinds["FFMA"] else "")
    )


def longest_loop(code: Sequence[tuple[int, str]]) -> list[str]:
    """Return the instructions of the longest stretch that ends with a jump to its begin."""
    best: list[str] = []
    for end, (address, line) in enumerate(code):
        target = re.match(r"BRA\S*\s.*?0x([0-9a-f]+)", line)
        if target and int(target[1], 16) < address:
            loop = [text for at, text in code[: end + 1] if at >= int(target[1], 16)]
            best = max(best, loop, key=len)
    return best


def asked_at_once(code: Sequence[str]) -> Counter[int]:
    """Return how many multiply-adds read so many registers of one bank, the most of both banks."""
    counts: Counter[int] = Counter()
    kept: dict[int, int] = {}
    for line in code:
        name, _, operands = line.partition(" ")
        before, kept = kept, {}
        if name.split(".")[0] != "FFMA":
            continue
        asked = set()
        for place, operand in enumerate(operands.split(",")[1:4]):
            source = SOURCE.fullmatch(operand.strip())
            if source is None:
                continue
            register = int(source[1])
            if before.get(place) != register:
                asked.add(register)
            if source[2]:
                kept[place] = register
        even = sum(register % 2 == 0 for register in asked)
        counts[max(even, len(asked) - even)] += 1
    return counts


if __name__ == "__main__":
    main()
