"""Writes docs/pytorch-ops.md: which entries of PyTorch's op database are written how in Pyrite.

    python scripts/pytorch_ops.py            writes the page
    python scripts/pytorch_ops.py --check    says whether it is out of date, and exits with 1

It needs PyTorch and expecttest.  The names stand in tests/op_database/table.py; what a sample uses
that Pyrite has not is found by calling each on NumPy.
"""

from __future__ import annotations

import importlib.util
import sys
import textwrap
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch

import pyrite

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "pytorch-ops.md"

#: What an entry has no name here for, by how its name begins, in this order.
FAMILIES = {
    "fft.": "Fourier transforms: there are no complex numbers",
    "linalg.": "Linear algebra",
    "special.": "Special functions",
    "signal.": "Windows of signals",
    "masked.": "Reductions of masked tensors: `where` before",
    "sparse.": "Sparse tensors",
    "nn.functional.": "Networks",
    "jiterator_": "Compiled strings of CUDA: kernels of one's own are `pyrite.extension`",
    "torch.": "Names below PyTorch's interface",
    "_": "Names below PyTorch's interface",
    "": "Others",
}


def main(arguments: list[str]) -> int:
    """Write the page, or check it; return the exit status."""
    text = page()
    if PAGE.exists() and PAGE.read_text() == text:
        return 0
    if "--check" in arguments:
        print(f"{PAGE.relative_to(ROOT)} is out of date; run scripts/pytorch_ops.py")
        return 1
    PAGE.write_text(text)
    print(f"wrote {PAGE.relative_to(ROOT)}")
    return 0


def loaded(name: str) -> ModuleType:
    """Return a file of tests/op_database as a module."""
    file = ROOT / "tests" / "op_database" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"op_database_{name}", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def page() -> str:
    """Return the text of the page."""
    table, samples = loaded("table"), loaded("samples")
    names = sorted(samples.database())
    written = {key.partition("/")[0] for key in table.OURS} | table.SAME
    otherwise = sorted(written - table.SAME)
    missing = [n for n in names if n not in written and n not in table.DIFFERENT]
    version = ".".join(torch.__version__.partition("+")[0].split(".")[:2])
    parts = [
        "# PyTorch's ops in Pyrite's names",
        "<!-- made by scripts/pytorch_ops.py -->",
        wrapped(
            f"PyTorch {version} tests its ops with a database of {len(names)} names. "
            f"{len(written)} of them are compared with Pyrite, values and first gradients, on each "
            "device (`tests/op_database`, all of them by `make test-all`); "
            f"{len(table.DIFFERENT)} mean something else, and {len(missing)} have no name here."
        ),
        "## Written as in PyTorch",
        wrapped("`dim` is `axis`, and `keepdim` is `keepdims`."),
        listed(sorted(table.SAME)),
        "## Written in another way",
        wrapped("How, stands in `tests/op_database/table.py`."),
        listed(otherwise),
        "## What of these is lacking, or means otherwise",
        "\n".join(lines(table, samples, sorted(written))),
        "## Compared in their values only",
        "\n".join(f"- `{name}`: {why}" for name, why in sorted(table.GRADIENTS.items())),
        "## Not compared",
        "\n".join(f"- `{name}`: {why}" for name, why in sorted(table.DIFFERENT.items())),
        "## Without a name here",
        *families(missing),
    ]
    return "\n\n".join(parts) + "\n"


def lines(table: ModuleType, samples: ModuleType, names: list[str]) -> Iterator[str]:
    """Give a line for each entry of which some sample is left out, with the reasons."""
    for name in names:
        found: set[str] = set()
        for variant, entry in samples.variants_of(name):
            call = table.call_of(name, variant)
            for sample in samples.samples_of(entry, "numpy"):
                found |= lacking(table, samples, call, sample)
        if found:
            yield f"- `{name}`: {'; '.join(sorted(found))}"


def lacking(table: ModuleType, samples: ModuleType, call: Any, sample: Any) -> set[str]:
    """Return why a sample is left out, if it is."""

    def taken(value: Any, is_constant: bool) -> Any:
        if isinstance(value, torch.dtype):
            return str(value).removeprefix("torch.")
        return pyrite.tensor(value.detach().numpy(), device="numpy")

    args, kwargs = samples.arguments(sample, taken)
    try:
        call(*args, **kwargs)
    except table.Lacking as lack:
        return {str(lack)}
    return set()


def families(names: list[str]) -> Iterator[str]:
    """Give a heading and a list for each family of names."""
    rest = list(names)
    found: dict[str, list[str]] = {}
    for begin, title in FAMILIES.items():
        found.setdefault(title, []).extend(n for n in rest if n.startswith(begin))
        rest = [n for n in rest if not n.startswith(begin)]
    for title, members in found.items():
        if members:
            yield f"### {title}"
            yield listed(sorted(members))


def listed(names: list[str]) -> str:
    """Return names as one paragraph."""
    return wrapped(", ".join(f"`{name}`" for name in names))


def wrapped(text: str) -> str:
    """Return text in lines of at most 100 columns."""
    return textwrap.fill(text, 100, break_long_words=False, break_on_hyphens=False)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    pyrite.set_default_device("numpy")
    sys.exit(main(sys.argv[1:]))
