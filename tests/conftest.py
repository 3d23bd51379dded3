"""What every test shares: sampling of large suites, and a closing word on what was left out.

A suite that multiplies (ops by dtypes by backends) marks itself with `@pytest.mark.sample`, so that
`make test` stays short; `--full` runs every case. The sample depends on the test's name alone:
the same cases run on every machine and in every worker, until the cases themselves change. With
`varies=True` it depends on the commit as well, so that in time every case has run; the closing word
says which seed that was, and PYRITE_TEST_SEED=... runs the same sample again. With
`of={"name": "wgpu"}` only the cases of that value are sampled: a device without hardware, which
compiles each kernel for 0.2 s, does not decide what the others run. `by=("name", "op")` samples the
cases of each pair of values.
"""

from __future__ import annotations

import gc
import os
import random
import signal
import subprocess
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

import hypothesis
import pytest

from pyrite.backend.means import OWN, means_chosen
from pyrite.config import config as settings
from pyrite.op import OPS

T = TypeVar("T")

#: Names the seed of samples that vary, to repeat one.
SEED = "PYRITE_TEST_SEED"

SAMPLED = pytest.StashKey[dict[str, tuple[int, int]]]()

# No deadline: a test never asserts a time. Derandomized: a failure seen once is seen again.
hypothesis.settings.register_profile("sample", deadline=None, derandomize=True, max_examples=50)
hypothesis.settings.register_profile("full", deadline=None, max_examples=1000)


@pytest.fixture(autouse=True)
def _composites_end_with_their_test() -> Iterator[None]:
    """Take back the names of composites that a test declares: suites go through Pyrite's own."""
    before = set(OPS)
    yield
    for name in OPS.keys() - before:
        if not getattr(OPS[name].body, "__module__", "pyrite").startswith("pyrite."):
            del OPS[name]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--full", action="store_true", help="run every case of the sampled suites")
    parser.addoption(
        "--update-golden", action="store_true", help="write goldens, for review as code"
    )


def pytest_configure(config: pytest.Config) -> None:
    config.stash[SAMPLED] = {}
    hypothesis.settings.load_profile("full" if config.getoption("--full") else "sample")
    in_main_thread = threading.current_thread() is threading.main_thread()
    if in_main_thread and signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A shell starts its background jobs deaf to Ctrl-C, and some tests send it.
        signal.signal(signal.SIGINT, signal.default_int_handler)


@cache
def seed_of_samples() -> str:
    """The seed of samples that vary: a setting, or else the commit."""
    if SEED in os.environ:
        return os.environ[SEED]
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "--short=12", "HEAD"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "no commit"


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> random.Random:
    """Random numbers of this test and of the seed of samples that vary."""
    return random.Random(f"{seed_of_samples()} {request.node.nodeid}")


@pytest.fixture(scope="session")
def full(pytestconfig: pytest.Config) -> bool:
    """Whether every case is wanted, for a test that loops over its cases itself."""
    return bool(pytestconfig.getoption("--full"))


@pytest.fixture
def quarter(rng: random.Random, full: bool) -> Callable[[Iterable[T]], list[T]]:
    """Return a quarter of the cases that a test loops over, which varies as samples do.

    At least two of them, and all in a full run.
    """

    def chosen(cases: Iterable[T]) -> list[T]:
        found = sorted(cases, key=repr)
        return found if full else rng.sample(found, min(len(found), max(2, len(found) // 4)))

    return chosen


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test of level_runtime on this processor, and on each level that it has."""
    if "level_runtime" in metafunc.fixturenames:
        names: list[str] = []
        if find_spec("llvmlite"):
            from pyrite.runtime.cpu.level import levels

            names = [level.name for level in levels()]
        metafunc.parametrize("level", ["host", *names], scope="module")


@pytest.fixture(scope="module")
def level_runtime(level: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The processors of this computer, as those of a level."""
    pytest.importorskip("llvmlite")
    from pyrite.runtime.cpu.host import host_target
    from pyrite.runtime.cpu.level import level_target
    from pyrite.runtime.cpu.runtime import CpuRuntime

    target = host_target() if level == "host" else level_target(level)
    runtime = CpuRuntime(target=target, threads=1, cache=tmp_path_factory.mktemp("cache"))
    yield runtime
    runtime.close()


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Compare a text with the file of that name in the folder `goldens` beside the test."""
    folder = request.path.parent / "goldens"

    def compare(name: str, text: str) -> None:
        file = folder / name
        if request.config.getoption("--update-golden"):
            folder.mkdir(exist_ok=True)
            file.write_text(text)
        assert file.exists(), f"{file} is missing; write it with --update-golden"
        assert text == file.read_text(), f"{file} differs; --update-golden writes it anew"

    return compare


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep what is collected out of garbage collections, of which a test may ask for many.

    To go through the objects of 46,000 tests took 1.7 s each time.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


# First: what comes after orders the items, and has a third of them left to order.
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--full"):
        return
    kept: set[pytest.Item] = set(items)
    for name, suite in suites_to_sample(items).items():
        chosen = sample(name, suite)
        kept.difference_update(set(suite) - set(chosen))
        config.stash[SAMPLED][name] = (len(chosen), len(suite))
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = [item for item in items if item in kept]


def suites_to_sample(items: Iterable[pytest.Item]) -> dict[str, list[pytest.Item]]:
    suites: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        # A case asked for by its own name runs, whatever the sample says.
        asked_for = item.nodeid in item.config.args
        if item.get_closest_marker("sample") and not asked_for:
            suites[item.nodeid.partition("[")[0]].append(item)
    return suites


def sample(name: str, suite: Sequence[pytest.Item]) -> list[pytest.Item]:
    marker = suite[0].get_closest_marker("sample")
    assert marker is not None
    count, by, of = marker.args[0], marker.kwargs.get("by"), marker.kwargs.get("of", {})
    groups: dict[Hashable, list[pytest.Item]] = defaultdict(list)
    chosen: list[pytest.Item] = []
    for item in suite:
        is_sampled = all(value_of(item, parameter) == value for parameter, value in of.items())
        (groups[values_of(item, by)] if is_sampled else chosen).append(item)
    for key, group in groups.items():
        seed = f" {seed_of_samples()}" if marker.kwargs.get("varies") else ""
        generator = random.Random(f"{name} {key}{seed}")
        chosen += generator.sample(group, min(count, len(group)))
    return chosen


def values_of(item: pytest.Item, parameters: str | tuple[str, ...] | None) -> Hashable:
    if isinstance(parameters, tuple):
        return tuple(value_of(item, parameter) for parameter in parameters)
    return None if parameters is None else value_of(item, parameters)


def value_of(item: pytest.Item, parameter: str) -> Hashable:
    first, *attributes = parameter.split(".")
    value = item.callspec.params[first]  # type: ignore[attr-defined]
    for attribute in attributes:
        value = getattr(value, attribute)
    # Of a function str has the address, which differs from worker to worker.
    return str(getattr(value, "name", None) or getattr(value, "__name__", value))


def pytest_sessionfinish(session: pytest.Session) -> None:
    # In a worker of xdist: send what was sampled to the controller, which collects nothing itself.
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["sampled"] = session.config.stash[SAMPLED]
        session.config.workeroutput["means"] = means_of_this_process()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: object) -> None:
    output = getattr(node, "workeroutput", {})
    node.config.stash[SAMPLED].update(output.get("sampled", {}))  # type: ignore[attr-defined]
    MEANS_OF_WORKERS.extend(output.get("means", ()))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    report_sampled(terminalreporter)
    report_means(terminalreporter)
    report_skipped(terminalreporter)


def report_sampled(terminal: pytest.TerminalReporter) -> None:
    sampled = terminal.config.stash[SAMPLED]
    if not sampled:
        return
    terminal.section("sampled (make test-all runs every case)")
    for name, (count, total) in sorted(sampled.items()):
        terminal.line(f"{count:6} of {total:<6} {name}")
    terminal.line(f"samples that vary: {SEED}={seed_of_samples()} repeats them")


#: What workers of xdist sent: device, op, means, and how many kernels were built.
MEANS_OF_WORKERS: list[tuple[str, str, str, int]] = []


def means_of_this_process() -> list[tuple[str, str, str, int]]:
    return [(*choice, chosen.kernels) for choice, chosen in means_chosen().items()]


def report_means(terminal: pytest.TerminalReporter) -> None:
    """Say by what ops ran, where only rules are to be used."""
    if not settings.rules_only:
        return
    terminal.section("by what ops ran")
    found = [*means_of_this_process(), *MEANS_OF_WORKERS]
    for device in sorted({device for device, *_ in found}):
        terminal.line(line_of_means(device, [rest for name, *rest in found if name == device]))


def line_of_means(device: str, found: list[list[Any]]) -> str:
    own = {op for op, means, _ in found if means == OWN}
    classed = {op for op in own if op in OPS and OPS[op].rule_class is not None}
    by_rule = {op for op, means, _ in found if means != OWN}
    kernels = sum(kernels for _, means, kernels in found if means != OWN)
    others = f"; what has no class: {', '.join(sorted(own - classed))}" if own - classed else ""
    return (
        f"{device:>12}  {len(by_rule)} ops by rules and bodies, {kernels} kernels; "
        f"{len(classed)} ops of a class by what was written for them alone{others}"
    )


def report_skipped(terminal: pytest.TerminalReporter) -> None:
    skipped = terminal.stats.get("skipped", [])
    if not skipped:
        return
    reasons: Counter[str] = Counter()
    files: dict[str, set[str]] = defaultdict(set)
    for report in skipped:
        reason = report.longrepr[2].removeprefix("Skipped: ")
        reasons[reason] += 1
        files[reason].add(report.nodeid.partition("::")[0])
    terminal.section(f"skipped: {reasons.total()} (a whole file counts as one)")
    for reason, count in reasons.most_common():
        terminal.line(f"{count:6}  {reason}: {', '.join(sorted(files[reason]))}")
