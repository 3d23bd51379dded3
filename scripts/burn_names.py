"""Write docs/burn-names.json: what Burn offers at one commit, and docs/burn-coverage.md answers.

    python scripts/burn_names.py CLONE_OF_BURN COMMIT

Only names are read: crates, and the structs that configure modules, optimisers and schedules.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

OUT = Path(__file__).parent.parent / "docs" / "burn-names.json"

#: From a kind of names to the folder that declares them, and the ending that its structs have.
KINDS = {
    "modules": ("crates/burn-nn/src", "Config"),
    "optimisers": ("crates/burn-optim/src/optim", "Config"),
    "schedules": ("crates/burn-optim/src/lr_scheduler", "LrSchedulerConfig"),
}


def main(clone: str, commit: str) -> None:
    def git(*arguments: str) -> str:
        command = ["git", "-C", clone, *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    names: dict[str, object] = {
        "commit": git("rev-list", "-1", commit).strip(),
        "version": re.findall(r'^version = "(.*)"', git("show", f"{commit}:Cargo.toml"), re.M)[0],
        "crates": sorted(
            Path(line).name for line in git("ls-tree", "--name-only", commit, "crates/").split()
        ),
    }
    for kind, (folder, ending) in KINDS.items():
        pattern = rf"^pub struct [A-Za-z0-9]+{ending}\b"
        found = git("grep", "-hoE", pattern, commit, "--", folder).splitlines()
        names[kind] = sorted({line.split()[-1].removesuffix(ending) for line in found})
    OUT.write_text(json.dumps(names, indent=1) + "\n", encoding="utf-8")
    print(f"wrote {OUT}")


if __name__ == "__main__":
    main(*sys.argv[1:])
