"""What recording costs Python: an op through Tensor, Autodiff and Fusion, and a parameter's update.

Each line is one call, made many times in a row and not read, as in a step that came before; printed
are the best and the median of the rounds, in microseconds of the processor, as a busy machine only
adds.  ``--native off`` leaves what machine code does to the Python that does the same.  With
``--count CASE`` a case is only run, 2,000 calls of it, for a tool that counts instructions.

    chrt -f 30 python benchmarks/recorder.py [--rounds 200] [--only linear] [--native off]
"""

from __future__ import annotations

import argparse
import gc
import statistics
from collections.abc import Callable
from time import thread_time
from typing import Any

import numpy as np
from fusion import Gpt

import pyrite
from pyrite import Tensor, nn
from pyrite.backend.device import Device
from pyrite.backend.fusion import Fusion

#: Calls between two flushes.
CALLS = 100

Call = Callable[[], Any]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--only", default="")
    parser.add_argument("--native", choices=("on", "off"), default="on")
    parser.add_argument("--count", help="a case that is only run")
    given = parser.parse_args()
    if given.native == "off":
        from pyrite.runtime.cpu import native_call

        native_call.native_function = lambda *_: None
    device = Device(Fusion(pyrite.device("cpu").backend.root))
    found = {name: call for name, call in cases(device).items() if given.only in name}
    if given.count is not None:
        _held = [found[given.count]() for _ in range(CALLS + 1)]
        device.synchronize()
        for _ in range(20):
            microseconds(found[given.count], CALLS, device.synchronize)
        return
    peers = torch_cases()
    for name, call in found.items():
        # Of a program that ran it is known which calls are to be noted with their lines, and calls
        # that begin as one are looked at until they came several times.
        for _ in range(4):
            _held = [call() for _ in range(CALLS + 1)]
            device.synchronize()
        times = [microseconds(call, CALLS, device.synchronize) for _ in range(given.rounds)]
        peer = peers.get(name)
        report(name, times, [] if peer is None else [
            microseconds(peer, CALLS, lambda: None) for _ in range(given.rounds)
        ])  # fmt: skip
    if given.only in "optimizer":
        words = pyrite.tensor(np.arange(4 * 64).reshape(4, 64) % 256, device=device)
        layers: Any = nn.Sequential(*[nn.Linear(16, 16) for _ in range(100)])
        report_steps("a GPT", Gpt(), words, device, given.rounds)
        report_steps(
            "100 layers", layers, pyrite.ones((2, 16), device=device), device, given.rounds
        )


def cases(device: Device) -> dict[str, Call]:
    """Return the calls by name."""
    tracked = pyrite.autodiff(device)
    x, y, w = (tensor(tracked, 32, 32).require_grad() for _ in range(3))
    b = tensor(tracked, 32).require_grad()
    u, v = tensor(device, 32, 32), tensor(device, 32, 32)
    targets = pyrite.tensor(np.arange(32) % 7, device=tracked)
    return {
        "u + v": lambda: u + v,
        "x + y": lambda: x + y,
        "x * 0.5": lambda: x * 0.5,
        "x.exp()": lambda: x.exp(),
        "x @ w": lambda: x @ w,
        "x.reshape(1024)": lambda: x.reshape(1024),
        "x.linear(w, b)": lambda: x.linear(w, b),
        "x.layer_norm(b, b)": lambda: x.layer_norm(b, b),
        "x.softmax(-1)": lambda: x.softmax(-1),
        "where(x > y, x, y)": lambda: pyrite.where(x > y, x, y),
        "x.split(16)": lambda: x.split(16),
        "x[0]": lambda: x[0],
        "x[:, 1:]": lambda: x[:, 1:],
        "concat([x, y])": lambda: pyrite.concat([x, y]),
        "stack([x, y])": lambda: pyrite.stack([x, y]),
        "x.mean(-1), x.var(-1)": lambda: (x.mean(-1), x.var(-1)),
        "x.batch_norm(b, b)": lambda: x.batch_norm(b, b),
        "dropout(x, 0.5)": lambda: pyrite.dropout(x, 0.5),
        "x.cross_entropy(targets)": lambda: x.cross_entropy(targets),
        "((x - y) ** 2).mean()": lambda: ((x - y) ** 2).mean(),
        "w.embedding(targets)": lambda: w.embedding(targets),
    }


def torch_cases() -> dict[str, Call]:
    """Return the same calls of PyTorch by name; none where it is not installed."""
    try:
        import torch
    except ImportError:
        return {}
    torch.set_num_threads(1)
    functional = torch.nn.functional

    def numbers(*shape: int) -> torch.Tensor:
        return torch.linspace(0.5, 2, int(np.prod(shape))).reshape(shape)

    x, y, w, b = (numbers(*s).requires_grad_() for s in ((32, 32), (32, 32), (32, 32), (32,)))
    u, v, targets = numbers(32, 32), numbers(32, 32), torch.arange(32) % 7
    return {
        "u + v": lambda: u + v,
        "x + y": lambda: x + y,
        "x * 0.5": lambda: x * 0.5,
        "x.exp()": lambda: x.exp(),
        "x @ w": lambda: x @ w,
        "x.reshape(1024)": lambda: x.reshape(1024),
        "x.linear(w, b)": lambda: functional.linear(x, w, b),
        "x.layer_norm(b, b)": lambda: functional.layer_norm(x, (32,), b, b),
        "x.softmax(-1)": lambda: x.softmax(-1),
        "where(x > y, x, y)": lambda: torch.where(x > y, x, y),
        "x.split(16)": lambda: x.split(16),
        "x[0]": lambda: x[0],
        "x[:, 1:]": lambda: x[:, 1:],
        "concat([x, y])": lambda: torch.cat([x, y]),
        "stack([x, y])": lambda: torch.stack([x, y]),
        "x.mean(-1), x.var(-1)": lambda: torch.var_mean(x, -1),
        "x.batch_norm(b, b)": lambda: functional.batch_norm(x, None, None, b, b, training=True),
        "dropout(x, 0.5)": lambda: functional.dropout(x, 0.5),
        "x.cross_entropy(targets)": lambda: functional.cross_entropy(x, targets),
        "((x - y) ** 2).mean()": lambda: ((x - y) ** 2).mean(),
        "w.embedding(targets)": lambda: functional.embedding(targets, w),
    }


def torch_steps(shapes: list[tuple[int, ...]], rounds: int) -> list[float]:
    """Return what a parameter takes in steps of PyTorch's fused Adam, which are computed too."""
    try:
        import torch
    except ImportError:
        return []
    given = [torch.zeros(shape, requires_grad=True) for shape in shapes]
    for parameter in given:
        parameter.grad = torch.ones_like(parameter)
    optimizer = torch.optim.Adam(given, fused=True)
    times = []
    for _ in range(rounds):
        start = thread_time()
        optimizer.step()
        times.append((thread_time() - start) * 1e6 / len(shapes))
    return times[3:]


def report_steps(name: str, model: Any, x: Tensor, device: Device, rounds: int) -> None:
    """Print what a parameter costs an optimiser, and the run of what was recorded apart from it."""
    model = model.to(device)
    optimizer = pyrite.optim.Adam(1e-3)
    step = pyrite.value_and_grad(lambda model: model(x).mean())
    backend: Any = device.backend
    flush = backend.flush
    times: list[tuple[float, float]] = []
    begun = [0.0]
    submitted: list[float] = []
    note_submissions(backend.inner.runtime.stream.executor, lambda: begun[0], submitted)
    for _ in range(rounds // 10):
        _, gradients = step(model)
        gc.disable()
        spent: list[float] = []

        def timed(spent: list[float] = spent) -> None:
            start = begun[0] = thread_time()
            flush()
            begun[0] = 0.0
            spent.append(thread_time() - start)

        backend.flush = timed
        start = thread_time()
        model = optimizer.step(model, gradients)
        whole = thread_time() - start
        del backend.flush
        gc.enable()
        device.synchronize()
        times.append((whole - sum(spent), sum(spent)))
    shapes = [parameter.shape for parameter in model.parameters()]
    count = len(shapes)
    peer = torch_steps(shapes, rounds // 10)
    report(f"Adam, of {count} parameters", [own * 1e6 / count for own, _ in times], peer)
    report(f"flush of a step of {name}", [flushed * 1e6 for _, flushed in times])
    report("of that until it is submitted", [time * 1e6 for time in submitted])


def note_submissions(executor: Any, begun: Callable[[], float], found: list[float]) -> None:
    """Have it noted how long after a flush began something was submitted, and threads woken."""

    def noted(submit: Callable[..., Any]) -> Callable[..., Any]:
        def submitted(*given: Any) -> Any:
            number = submit(*given)
            if begun():
                found.append(thread_time() - begun())
            return number

        return submitted

    for name in ("_submit", "_submit_aside", "_put_bytes", "_put_bytes_aside"):
        if hasattr(executor, name):
            setattr(executor, name, noted(getattr(executor, name)))


def tensor(device: Device, *shape: int) -> Tensor:
    """Return some numbers."""
    return pyrite.tensor(np.linspace(0.5, 2, int(np.prod(shape)), dtype=np.float32).reshape(shape),
                         device=device)  # fmt: skip


def microseconds(call: Call, count: int, wait: Call) -> float:
    """Return the time of a call behind such calls, for which it is waited later."""
    gc.disable()
    call()
    start = thread_time()
    for _ in range(count):
        call()
    found = (thread_time() - start) / count * 1e6
    gc.enable()
    wait()
    return found


def report(name: str, times: list[float], peer: list[float] | None = None) -> None:
    """Print a line."""
    line = f"{name:26} best {min(times):8.2f}  median {statistics.median(times):8.2f}"
    if peer:
        line += f"  torch: best {min(peer):8.2f}  median {statistics.median(peer):8.2f}"
    print(line, flush=True)


if __name__ == "__main__":
    main()
