"""Nothing of an application's process changes by importing Pyrite or by computing with it.

Each device is tried in a process of its own, in which a thread computes with PyTorch all the while:
what a program can set is looked at before, after the import, after an op and after a step.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from pyrite.backend.device import device_names, device_problem

WORKING = [n for n in device_names() if device_problem(n) is None]

PROGRAM = """
import ctypes, json, locale, os, resource, signal, sys, threading, time, warnings

import numpy as np

try:
    import torch
except ImportError:
    torch = None

device, failures = sys.argv[1], []


def rounding():
    # Halves of the least normal number are 0 where subnormal numbers are flushed.
    tiny = np.array([np.finfo(np.float32).tiny], np.float32)
    half = (tiny * np.float32(0.5)).tobytes().hex()
    # The last bit of a third tells how is rounded.
    return [half, (np.float32([1]) / np.float32([3])).tobytes().hex(),
            (np.float32([-1]) / np.float32([3])).tobytes().hex(),
            ctypes.CDLL(None).fegetround()]


def switches():
    if torch is None:
        return {}
    b = torch.backends
    return {
        "matmul precision": torch.get_float32_matmul_precision(),
        "threads": [torch.get_num_threads(), torch.get_num_interop_threads()],
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "default dtype": str(torch.get_default_dtype()),
        "grad": torch.is_grad_enabled(),
        "tf32": [b.cuda.matmul.allow_tf32, b.cudnn.allow_tf32],
        "reduced sums": [b.cuda.matmul.allow_fp16_reduced_precision_reduction,
                         b.cuda.matmul.allow_bf16_reduced_precision_reduction],
        "cudnn": [b.cudnn.enabled, b.cudnn.benchmark, b.cudnn.deterministic],
        "mkldnn": b.mkldnn.enabled,
        "flush": torch.tensor([2.0 ** -126]).mul(0.5).item(),
        "seed": torch.initial_seed(),
    }


def state():
    return {
        "environment": dict(os.environ),
        "locale": locale.setlocale(locale.LC_ALL),
        "signals": [str(signal.getsignal(n)) for n in sorted(signal.valid_signals())],
        "warnings": [str(f) for f in warnings.filters],
        "showwarning": str(warnings.showwarning),
        "errstate": np.geterr(),
        "print options": str(np.get_printoptions()),
        "random state": str(np.random.get_state()[1][:4]),
        "rounding": rounding(),
        "hooks": [str(h) for h in (sys.excepthook, threading.excepthook, sys.displayhook,
                                   sys.unraisablehook, sys.breakpointhook)],
        "trace": [str(sys.gettrace()), str(sys.getprofile())],
        "recursion": sys.getrecursionlimit(),
        "switch interval": sys.getswitchinterval(),
        "streams": [id(sys.stdin), id(sys.stdout), id(sys.stderr)],
        "directory": os.getcwd(),
        "umask": (lambda old: (os.umask(old), old)[1])(os.umask(0o22)),
        "affinity": sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else [],
        "priority": os.getpriority(os.PRIO_PROCESS, 0),
        "limits": [resource.getrlimit(n) for n in (resource.RLIMIT_NOFILE, resource.RLIMIT_STACK,
                                                    resource.RLIMIT_CORE)],
        "garbage": __import__("gc").get_threshold(),
        "torch": switches(),
    }


before, stop, torch_results, in_thread = state(), threading.Event(), set(), []


def beside():
    # Subnormal and inexact numbers, and a product in float32.
    x = np.linspace(-1, 1, 64, dtype=np.float32).reshape(8, 8)
    while not stop.is_set():
        found = (torch.from_numpy(x) @ torch.from_numpy(x)) if torch else x @ x
        torch_results.add(bytes(np.asarray(found).tobytes()))
        in_thread.append(json.dumps([rounding(), switches(), np.geterr()]))
        time.sleep(0.002)


thread = threading.Thread(target=beside)
thread.start()


def look(when):
    found = state()
    failures.extend(f"{when}: {k} was {before[k]}, is {found[k]}" for k in before
                    if found[k] != before[k])


try:
    import pyrite
    look("after the import")
    x = pyrite.tensor(np.ones((4, 4), np.float32), device=device)
    (x @ x).exp().sum().item()
    (x / 0).sqrt().numpy(), x.astype("float16").softmax(-1).numpy(), x.sort(0).numpy()
    look("after ops")

    from pyrite import nn, optim
    model, optimizer = nn.Linear(4, 2).to(device), optim.AdamW(1e-3)
    loss, grads = pyrite.value_and_grad(lambda m: (m(x) ** 2).mean())(model)
    model = optimizer.step(model, grads)
    loss.item()
    look("after a step")
finally:
    stop.set()
    thread.join()
if len(torch_results) > 1:
    failures.append("the thread beside computed one product in several ways")
if len(set(in_thread)) > 1:
    failures.append(f"the thread beside saw changes: {sorted(set(in_thread))}")
assert in_thread
print(json.dumps(failures))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="looks at what Linux lets a process set")
@pytest.mark.sample(2)
@pytest.mark.parametrize("device", WORKING)
def test_nothing_of_the_process_changes(device: str) -> None:
    environment = {**os.environ, "PYTHONWARNINGS": "default"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, device],
        capture_output=True, text=True, timeout=300, env=environment, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads(done.stdout.splitlines()[-1]) == []
