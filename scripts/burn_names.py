"""Write docs/burn-names.json: what Burn offers at one commit, and docs/burn-coverage.md answers.

    python scripts/burn_names.py CLONE_OF_BURN COMMIT

Only names are read: crates, methods of `Tensor`, the structs of modules, optimisers, schedules,
datasets and metrics, and what other crates offer.  RELEASED has what a later release adds whose
repository could not be had, by the pages that say so.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

OUT = Path(__file__).parent.parent / "docs" / "burn-names.json"

#: Burn 0.22.1, of 20 October 2026, by its pages: its commit is in no copy of the repository here.
RELEASED = {
    "version": "0.22.1",
    "pages": [
        "https://docs.rs/crate/burn-optim/0.22.1",
        "https://docs.rs/crate/burn-dataset/0.22.1",
        "https://docs.rs/crate/burn-train/0.22.1/source/README.md",
        "https://docs.rs/crate/burn-nn/0.22.0/source/src/lib.rs",
        "https://docs.rs/crate/burn-nn/0.22.0/source/src/loss/mod.rs",
        "https://docs.rs/crate/burn-nn/0.22.0/source/src/modules/mod.rs",
    ],
    "optimisers": ["Adafactor", "Lamb", "Lion"],
}

#: From a kind of names to the folder and the pattern of what declares them.
KINDS = {
    "modules": ("crates/burn-nn/src", r"^pub struct [A-Za-z0-9]+", "Config"),
    "optimisers": ("crates/burn-optim/src/optim", r"^pub struct [A-Za-z0-9]+Config\b", "Config"),
    "schedules": (
        "crates/burn-optim/src/lr_scheduler",
        r"^pub struct [A-Za-z0-9]+LrSchedulerConfig\b",
        "LrSchedulerConfig",
    ),
    "datasets": ("crates/burn-dataset/src", r"^pub struct [A-Za-z0-9]+", ""),
    "metrics": ("crates/burn-train/src/metric", r"^impl(<.*>)? Metric for [A-Za-z0-9]+", ""),
}

#: What else rows may name, by crate.
CRATES = ("core", "nn", "remote", "rl", "std", "store", "train", "vision")
ITEM = r"^pub (struct|trait|enum|fn|type) [A-Za-z0-9_]+"

INITIALISERS = ("crates/burn-core/src/module/initializer.rs", "Initializer")

Git = Callable[..., str]


def main(clone: str, commit: str) -> None:
    def git(*arguments: str) -> str:
        command = ["git", "-C", clone, *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    names: dict[str, object] = {
        "commit": git("rev-list", "-1", commit).strip(),
        "version": re.findall(r'^version = "(.*)"', git("show", f"{commit}:Cargo.toml"), re.M)[0],
        "released": RELEASED,
        "crates": sorted(
            Path(line).name for line in git("ls-tree", "--name-only", commit, "crates/").split()
        ),
        "tensor": tensor_methods(git, commit),
        "functions": free_functions(git, commit),
    }
    for kind, (folder, pattern, ending) in KINDS.items():
        found = last_words(git, commit, pattern, folder)
        names[kind] = sorted({name.removesuffix(ending) for name in found})
    names["initialisers"] = variants(git, commit, INITIALISERS)
    names["items"] = {
        f"burn-{crate}": " ".join(last_words(git, commit, ITEM, f"crates/burn-{crate}/src"))
        for crate in CRATES
    }
    OUT.write_text(json.dumps(names, indent=1) + "\n", encoding="utf-8")
    print(f"wrote {OUT}")


def last_words(git: Git, commit: str, pattern: str, folder: str) -> list[str]:
    """Return the last word of each line that a pattern finds, once each."""
    found = git("grep", "-hoE", pattern, commit, "--", folder).splitlines()
    return sorted({line.split()[-1] for line in found})


def variants(git: Git, commit: str, enum: tuple[str, str]) -> list[str]:
    """Return the variants of the enum (path, name)."""
    path, name = enum
    (body,) = re.findall(
        rf"^pub enum {name} {{(.*?)^}}", git("show", f"{commit}:{path}"), re.S | re.M
    )
    return sorted(re.findall(r"^    ([A-Z]\w*)", body, re.M))


def tensor_files(git: Git, commit: str) -> dict[str, str]:
    """Return the files of Burn's tensor by their paths, without their tests."""
    paths = git("ls-tree", "-r", "--name-only", commit, "crates/burn-tensor/src/tensor").split()
    return {path: git("show", f"{commit}:{path}").split("#[cfg(test)]")[0] for path in paths}


def free_functions(git: Git, commit: str) -> list[str]:
    """Return the public functions of tensors that are no methods."""
    texts = [text for path, text in tensor_files(git, commit).items() if "/api/" not in path]
    return sorted({name for text in texts for name in re.findall(r"^pub fn (\w+)", text, re.M)})


def tensor_methods(git: Git, commit: str) -> list[str]:
    """Return the public functions in blocks `impl Tensor`."""
    methods: set[str] = set()
    for text in tensor_files(git, commit).values():
        for block in re.findall(r"^impl(?:<[^{]*?>)?\s+Tensor\b.*?\n}", text, re.S | re.M):
            methods |= {*re.findall(r"^    pub (?:async |const )*fn (\w+)", block, re.M)}
    return sorted(methods)


if __name__ == "__main__":
    main(*sys.argv[1:])
