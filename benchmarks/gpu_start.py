"""How soon a GPU is of use through wgpu: import, device, first kernel, first training steps, in ms.

    python benchmarks/gpu_start.py [device]

Each is a process of its own.  ``cold`` starts with no shader cache of the driver's, ``warm`` finds
the one that the cold process left: Mesa's and NVIDIA's lie where the environment says.  The step is
of a network 784-512-256-10 with AdamW on 128 images.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from itertools import pairwise
from pathlib import Path
from time import perf_counter

#: Steps that are timed.
STEPS = 40


def main() -> None:
    """Print the times of a cold and two warm processes."""
    device = sys.argv[1] if len(sys.argv) > 1 else "wgpu"
    with tempfile.TemporaryDirectory() as folder:
        for name in ("cold", "warm", "warm"):
            print(f"{name:5}", child(device, Path(folder)), flush=True)


def child(device: str, caches: Path) -> str:
    """Return what a process of its own measures, whose shader caches lie in that folder."""
    places = {
        "XDG_CACHE_HOME": "", "MESA_SHADER_CACHE_DIR": "mesa", "CUDA_CACHE_PATH": "cuda",
        "__GL_SHADER_DISK_CACHE_PATH": "gl",
    }  # fmt: skip
    environment = {**os.environ, **{name: str(caches / place) for name, place in places.items()}}
    environment |= {"__GL_SHADER_DISK_CACHE": "1"}
    command = [sys.executable, __file__, "--child", device]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def measure(device: str) -> None:
    """Print the times of this process."""
    marks = [("begin", perf_counter())]

    def mark(name: str) -> None:
        marks.append((name, perf_counter()))

    import numpy as np

    import pyrite
    from pyrite import nn

    mark("import")
    images = np.random.default_rng(0).standard_normal((128, 784), dtype=np.float32)
    x = pyrite.tensor(images, device=device)
    labels = pyrite.tensor(np.arange(128) % 10, device=device)
    x.numpy()
    mark("device")
    (x + 1).numpy()
    mark("first kernel")
    sizes = (784, 512, 256, 10)
    layers = [nn.Linear(a, b) for a, b in pairwise(sizes)]
    model = nn.Sequential(layers[0], nn.ReLU(), layers[1], nn.ReLU(), layers[2]).to(device)
    optimizer = pyrite.optim.AdamW(learning_rate=1e-3)

    def loss(model: nn.Module) -> pyrite.Tensor:
        return model(x).cross_entropy(labels)

    mark("model")
    times = []
    for _ in range(STEPS):
        begin = perf_counter()
        value, gradients = pyrite.value_and_grad(loss)(model)
        model = optimizer.step(model, gradients)
        value.item()
        times.append(perf_counter() - begin)
    found = [f"{name} {(end - start) * 1e3:.0f}" for (_, start), (name, end) in pairwise(marks)]
    steps = f"first step {times[0] * 1e3:.0f}  second {times[1] * 1e3:.1f}"
    later = statistics.median(times[10:]) * 1e3
    print("  ".join(found), f" {steps}  later {later:.2f} ms")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        measure(sys.argv[2])
    else:
        main()
