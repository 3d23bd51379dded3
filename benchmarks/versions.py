"""Whether this checkout became slower than another version: the same calls, in turns, as ratios.

    python benchmarks/versions.py [HEAD~3 | ../checkout] [--device cpu] [--only step] [--pairs 9]

The other is a revision of git, by default the last commit, or the folder of a checkout.

Each version runs in a process of its own, which waits while the other is timed, so that both see
the same weather; a round times each once, the first by turns.  Where a process's memory lies makes
a call up to a tenth faster or slower for as long as the process lives, so pairs of processes are
started anew, and the median of a pair's rounds counts as one ratio (this by the other: above 1 this
one is the slower).  Printed are medians in microseconds, the median of the pairs' ratios, and the
interval that holds the true median with 95 %, by order statistics, so no distribution is assumed.
Cases whose whole interval lies above 1.03 are named at the end, and the exit status is then 1.
``host`` cases are tensors so small that only Python is timed.
"""

from __future__ import annotations

import argparse
import math
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent.parent
#: What a ratio may be.
BOUND = 1.03
#: Seconds that one sample takes at least.
SAMPLE = 0.02

Call = Callable[[], Any]
#: Seconds of this version and of the other, in each round.
Times = list[tuple[float, float]]


def main() -> int:
    """Print the table; return 1 where something became slower."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("other", nargs="?", default="HEAD")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--pairs", type=int, default=9, help="6 are the fewest that show 95 %%")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        serve(given.device)
        return 0
    with TemporaryDirectory() as scratch:
        roots = [HERE, checkout(given.other, Path(scratch))]
        found: dict[str, list[Times]] = {}
        with suppress(KeyboardInterrupt):  # what is timed until then is shown
            time_pairs(roots, given, found)
    print(f"{'case':32} {'this':>10} {'other':>10} {'ratio':>7}   95 % of the median")
    slower = [name for name, times in found.items() if show(name, times) > BOUND]
    print(f"slower than {BOUND} with 95 %: {', '.join(slower) or 'none'}")
    return 1 if slower else 0


def time_pairs(roots: list[Path], given: argparse.Namespace, found: dict[str, list[Times]]) -> None:
    """Time the cases in pairs of processes; add to what is found of each."""
    for pair in range(given.pairs):
        sides = [Side(root, given.device) for root in roots]
        for name in (name for name in sides[0].names if chosen(name, given.only)):
            found.setdefault(name, []).append(compare(name, sides, given.rounds))
        for side in sides:
            side.end()
        print(f"pair {pair + 1} of {given.pairs} is timed", file=sys.stderr)


def checkout(name: str, scratch: Path) -> Path:
    """Return the folder of a version: the one that is named, or a copy of a revision's sources."""
    if Path(name).is_dir():
        return Path(name).resolve()
    packed = subprocess.run(
        ["git", "-C", HERE, "archive", name, "src"], check=True, stdout=subprocess.PIPE
    )
    subprocess.run(["tar", "x", "-C", scratch], input=packed.stdout, check=True)
    return scratch


def chosen(name: str, only: list[str]) -> bool:
    """Whether a case is asked for."""
    return not only or any(part in name for part in only)


def compare(name: str, sides: list[Side], rounds: int) -> Times:
    """Return the seconds of both in each round; nothing where a version cannot run a case."""
    times: Times = []
    problems = [problem for side in sides if (problem := side.prepare(name))]
    if problems:
        print(f"{name}: {'; '.join(problems)}", file=sys.stderr)
        return times
    for number in range(rounds):
        first = number % 2
        found = {side: sides[side].time() for side in (first, 1 - first)}
        times.append((found[0], found[1]))
    return times


def show(name: str, pairs: list[Times]) -> float:
    """Print a line for a case; return the lower end of its ratio's interval."""
    timed = [times for times in pairs if times]
    if not timed:
        return 0.0
    ratios = sorted(median(this / other for this, other in times) for times in timed)
    low, high = interval(ratios)
    this, other = (median(t[side] for times in timed for t in times) * 1e6 for side in (0, 1))
    print(f"{name:32} {this:10.2f} {other:10.2f} {median(ratios):7.3f}   {low:.3f} to {high:.3f}")
    return low


def interval(ordered: list[float]) -> tuple[float, float]:
    """Return two of the ordered values that hold the true median with at least 95 %.

    The count of values below the median is binomial with p = 1/2.
    """
    n, cut, tail = len(ordered), 0, 0.5 ** len(ordered)
    while cut < n // 2 and tail + math.comb(n, cut + 1) * 0.5**n <= 0.025:
        cut += 1
        tail += math.comb(n, cut) * 0.5**n
    return ordered[cut], ordered[n - 1 - cut]


class Side:
    """A version, in a process that times what it is asked for."""

    def __init__(self, root: Path, device: str) -> None:
        self.root = root
        command = [sys.executable, __file__, "--serve", "--device", device]
        # What is imported from elsewhere, on a machine without a venv, stays behind the version.
        path = os.pathsep.join(filter(None, [str(root / "src"), os.environ.get("PYTHONPATH")]))
        environment = {**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": "0"}
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            command, env=environment, stdin=pipe, stdout=pipe, text=True, bufsize=1,
            start_new_session=True,  # Ctrl-C is for the table
        )  # fmt: skip
        self.names = self._answer().split(";")

    def prepare(self, name: str) -> str:
        """Make a case ready; return why it cannot run, if it cannot."""
        return self._ask(name)

    def time(self) -> float:
        """Return the seconds of a call of the case that is ready."""
        return float(self._ask("time"))

    def end(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    def _ask(self, line: str) -> str:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        return self._answer()

    def _answer(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().rstrip("\n")


def serve(device: str) -> None:
    """Answer the names of all cases, then each line: a case to make ready, or ``time``."""
    sys.path.insert(0, os.environ["PYTHONPATH"].split(os.pathsep)[0])
    made = {name: make for family in FAMILIES for name, make in family(device)}
    print(";".join(made), flush=True)
    call: Call = int
    count = 1
    for line in sys.stdin:
        if line.strip() == "time":
            print(seconds(call, count, device), flush=True)
            continue
        try:
            call = made[line.strip()]()
            count = calls_in(SAMPLE, call, device)
        except Exception as error:  # a version may lack what a case needs
            print(f"{type(error).__name__}: {error}".splitlines()[0], flush=True)
        else:
            print(flush=True)


def calls_in(least: float, call: Call, device: str) -> int:
    """Return how many calls take so many seconds, after a few that compile and fill caches."""
    for _ in range(3):
        seconds(call, 1, device)
    count = 1
    while (taken := seconds(call, count, device) * count) < least:
        count = max(2 * count, int(count * least / max(taken, 1e-6)))
    return count


def seconds(call: Call, count: int, device: str) -> float:
    """Return the time of a call, of so many that are waited for once."""
    import pyrite  # the version that this process is of

    wait = pyrite.device(device).synchronize
    wait()
    start = perf_counter()
    for _ in range(count):
        call()
    wait()
    return (perf_counter() - start) / count


# ---- cases: each is made when it is asked for ----

Case = tuple[str, Callable[[], Call]]


def normal(device: Any, *shape: int) -> Any:
    """Normal numbers."""
    import pyrite

    array = np.random.default_rng(0).standard_normal(shape, np.float32)
    return pyrite.tensor(array, device=device)


def host(device: str) -> Iterator[Case]:
    """What Python costs: plain, tracked, views, attributes."""
    import pyrite

    def case(of: Callable[[Any, Any], Any], *, tracked: bool = False) -> Callable[[], Call]:
        def make() -> Call:
            x, y = (normal(pyrite.autodiff(device) if tracked else device, 8, 8) for _ in "xy")
            if tracked:
                x, y = x.require_grad(), y.require_grad()
            return lambda: of(x, y)

        return make

    for kind, tracked in (("host ", False), ("host tracked ", True)):
        yield kind + "x + y", case(lambda x, y: x + y, tracked=tracked)
        yield kind + "x * 0.5", case(lambda x, y: x * 0.5, tracked=tracked)
        yield kind + "sum", case(lambda x, y: x.sum(1), tracked=tracked)
        yield kind + "softmax", case(lambda x, y: x.softmax(-1), tracked=tracked)
        yield kind + "matmul", case(lambda x, y: x @ y, tracked=tracked)
        yield kind + "reshape", case(lambda x, y: x.reshape((4, 16)), tracked=tracked)
    yield "host index", case(lambda x, y: x[2:5, ::2])
    yield "host item", case(lambda x, y: x[0, 0].item())
    yield "host upload", lambda: lambda: pyrite.tensor([1.0, 2.0, 3.0], device=device)


def kernels(device: str) -> Iterator[Case]:
    """Maps, rows, folds, products, windows, gathers."""

    def unary(of: Callable[[Any], Any], *shape: int) -> Callable[[], Call]:
        def make() -> Call:
            x = normal(device, *shape)
            return lambda: of(x)

        return make

    def binary(of: Callable[[Any, Any], Any], a: tuple[int, ...], b: tuple[int, ...]) -> Any:
        def make() -> Call:
            x, y = normal(device, *a), normal(device, *b)
            return lambda: of(x, y)

        return make

    yield "add 64K", binary(lambda x, y: x + y, (1 << 16,), (1 << 16,))
    yield "add 1M", binary(lambda x, y: x + y, (1 << 20,), (1 << 20,))
    yield "add transposed 1M", binary(lambda x, y: x + y.mT, (1024, 1024), (1024, 1024))
    yield "gelu 1M", unary(lambda x: x.gelu(), 1 << 20)
    yield "exp bfloat16 1M", unary(lambda x: x.astype("bfloat16").exp(), 1 << 20)
    yield "softmax 1024²", unary(lambda x: x.softmax(-1), 1024, 1024)
    yield "softmax axis 0", unary(lambda x: x.softmax(0), 1024, 1024)
    yield "softmax of short columns", unary(lambda x: x.softmax(0), 128, 100)
    yield "log_softmax of columns", unary(lambda x: x.log_softmax(0), 1000, 300)
    yield "softmax of channels last", unary(lambda x: x.mT.softmax(1), 8, 784, 64)
    for channels in (3, 10, 16):
        case = unary(lambda x: x.mT.softmax(1), 8, 784, channels)
        yield f"softmax of {channels} channels last", case
    yield "softmax of 5000 x 10, axis 0", unary(lambda x: x.softmax(0), 5000, 10)
    yield "softmax of transposed columns", unary(lambda x: x.mT.softmax(0), 1000, 1000)
    yield "softmax of transposed rows", unary(lambda x: x.mT.softmax(1), 1000, 1000)
    yield "sum of channels last", unary(lambda x: x.mT.sum(1), 8, 784, 64)
    yield "sum of transposed rows", unary(lambda x: x.mT.sum(1), 512, 512)
    yield "sum of transposed columns", unary(lambda x: x.mT.sum(0), 1024, 1024)
    yield "sum of 4096 transposed columns", unary(lambda x: x.mT.sum(0), 4096, 1024)
    yield "sum of 512² transposed columns", unary(lambda x: x.mT.sum(0), 512, 512)
    for size in (2, 3, 4):
        yield f"sum of {size} across memory", unary(lambda x: x.mT.sum(1), size, 65536)
    yield "sum of every second", unary(lambda x: x[:, ::2].sum(1), 512, 1024)
    yield "max of every second", unary(lambda x: x[:, ::2].max(0), 512, 1024)
    yield "subtract a row of 100", binary(lambda x, y: x - y, (1000, 100), (100,))
    yield "sum axis 0", unary(lambda x: x.sum(0), 2048, 1024)
    yield "sum axis 1", unary(lambda x: x.sum(1), 2048, 1024)
    yield "max axis 1", unary(lambda x: x.max(1), 2048, 1024)
    yield "var", unary(lambda x: x.var(1), 2048, 1024)
    yield "cumsum", unary(lambda x: x.cumsum(1), 1024, 1024)
    yield "sort", unary(lambda x: x.sort(axis=1), 256, 1024)
    yield "matmul 64", binary(lambda x, y: x @ y, (64, 64), (64, 64))
    for n in (256, 500, 512, 1024):
        yield f"matmul {n}", binary(lambda x, y: x @ y, (n, n), (n, n))
    yield (
        "matmul bfloat16 257",
        binary(lambda x, y: x.astype("bfloat16") @ y.astype("bfloat16"), (257, 257), (257, 257)),
    )
    yield "conv2d 3×3", binary(lambda x, w: x.conv2d(w, padding=1), (8, 32, 28, 28), (64, 32, 3, 3))
    yield "conv2d small", binary(lambda x, w: x.conv2d(w, padding=1), (32, 8, 8, 8), (16, 8, 3, 3))
    yield (
        "conv2d depthwise",
        binary(lambda x, w: x.conv2d(w, padding=1, groups=64), (8, 64, 28, 28), (64, 1, 3, 3)),
    )
    yield (
        "conv_transpose2d",
        binary(
            lambda x, w: x.conv_transpose2d(w, stride=2, padding=1),
            (8, 64, 14, 14),
            (64, 32, 4, 4),
        ),
    )
    yield "exp of masked scores", unary(lambda x: (x * 1e3 - 1e4).exp(), 512, 1024)
    yield "sin 1M", unary(lambda x: x.sin(), 1 << 20)
    yield "max_pool2d", unary(lambda x: x.max_pool2d(2), 16, 32, 32, 32)
    yield "avg_pool2d", unary(lambda x: x.avg_pool2d(2), 16, 32, 32, 32)
    yield "group norm", unary(lambda x: x.group_norm(num_groups=8), 8, 64, 32, 32)
    yield "interpolate", unary(lambda x: x.interpolate(scale_factor=2), 4, 16, 32, 32)
    yield (
        "attention",
        unary(lambda x: x.scaled_dot_product_attention(x, x, is_causal=True), 2, 4, 256, 64),
    )
    yield "take", unary(lambda x: x[[3, 1, 4, 1, 5]], 1024, 1024)
    yield from indexed(device)


def indexed(device: str) -> Iterator[Case]:
    """Reads and writes by index tensors, of floats and of integers."""
    import pyrite

    def case(of: Callable[[Any, Any], Any], *shape: int) -> Callable[[], Call]:
        def make() -> Call:
            numbers = np.random.default_rng(0).integers(0, 1000, shape, np.int32)
            x, i = normal(device, 1000, *shape[1:]), pyrite.tensor(numbers, device=device)
            return lambda: of(x, i)

        return make

    yield "gather_nd", case(lambda x, i: x.gather_nd(i), 4096, 1)
    yield "take_along_axis", case(lambda x, i: x.take_along_axis(i, 0), 512, 256)
    yield "scatter add", case(lambda x, i: x.scatter(0, i, 1.0, reduction="add"), 512, 256)
    yield "bincount", case(lambda _, i: i.bincount(size=1000), 1 << 18)
    yield "add at integers", case(lambda _, i: i.at[i].add(i), 1 << 16)


def gradients(device: str) -> Iterator[Case]:
    """Whole backward passes of single layers."""
    import pyrite

    def case(of: Callable[[Any], Any], *shape: int) -> Callable[[], Call]:
        def make() -> Call:
            x, slope = normal(device, *shape), pyrite.grad(lambda x: of(x))
            return lambda: slope(x)

        return make

    weights = normal(device, 64, 32, 3, 3)
    yield (
        "grad conv2d",
        case(lambda x: (x.conv2d(weights, padding=1) ** 2).sum(), 8, 32, 28, 28),
    )
    small = normal(device, 16, 8, 3, 3)
    yield (
        "grad conv2d small",
        case(lambda x: (x.conv2d(small, padding=1) ** 2).sum(), 32, 8, 8, 8),
    )
    yield "grad softmax", case(lambda x: (x.softmax(-1) ** 2).sum(), 512, 512)
    yield "grad group norm", case(lambda x: (x.group_norm(num_groups=8) ** 2).sum(), 8, 64, 16, 16)
    yield "grad group norm mean", case(lambda x: x.group_norm(num_groups=8).mean(), 8, 64, 16, 16)
    yield "grad avg_pool mean", case(lambda x: x.avg_pool2d(2).mean(), 16, 32, 32, 32)
    yield (
        "grad interpolate mean",
        case(lambda x: x.interpolate(scale_factor=2).mean(), 4, 16, 16, 16),
    )


def steps(device: str) -> Iterator[Case]:
    """Training steps of four small networks."""
    yield "step mlp", lambda: mlp_step(device)
    yield "step digits", lambda: digits_step(device)
    yield "step transformer", lambda: transformer_step(device)
    yield "step lstm", lambda: lstm_step(device)


def mlp_step(device: str) -> Call:
    """784-512-256-10, a batch of 128, AdamW."""
    from pyrite import nn

    net = nn.Sequential(
        nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 10)
    )
    return step_of(net.to(device), normal(device, 128, 784), lambda net, x: (net(x) ** 2).mean())


def digits_step(device: str) -> Call:
    """The network of ``pyrite train digits``, a batch of 32."""
    from pyrite.cli.digits import DigitNet

    net = DigitNet().to(device)
    return step_of(net, normal(device, 32, 1, 8, 8), lambda net, x: (net(x) ** 2).mean())


def transformer_step(device: str) -> Call:
    """Two layers of 64 features, 4 heads, 32 long, a batch of 8."""
    from pyrite import nn

    net = nn.TransformerEncoder(64, 4, 128, 2, dropout=0.0).to(device)
    return step_of(net, normal(device, 8, 32, 64), lambda net, x: (net(x) ** 2).mean())


def lstm_step(device: str) -> Call:
    """64 to 128 features, 20 long, a batch of 16."""
    from pyrite import nn

    net = nn.LSTM(64, 128).to(device)
    return step_of(net, normal(device, 16, 20, 64), lambda net, x: (net(x)[0] ** 2).mean())


def step_of(model: Any, x: Any, loss: Callable[[Any, Any], Any]) -> Call:
    """A step of AdamW, of which nothing is read."""
    import pyrite

    optimizer, differentiate = pyrite.optim.AdamW(1e-3), pyrite.value_and_grad(loss)

    def step() -> Any:
        nonlocal model
        value, grads = differentiate(model, x)
        model = optimizer.step(model, grads)
        return value

    return step


FAMILIES: list[Callable[[str], Iterator[Case]]] = [host, kernels, gradients, steps]

if __name__ == "__main__":
    sys.exit(main())
