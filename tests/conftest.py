"""What every test shares: sampling of large suites, and a closing word on what was left out.

A suite that multiplies (ops by dtypes by backends) marks itself with `@pytest.mark.sample`, so that
`make test` stays short; `--full` runs every case. The sample depends on the test's name and on the
commit, so that in time every case has run: it is the same on every machine and in every worker.
What hypothesis draws, and what a test draws from `rng`, depends on the commit too. The closing word
says which seed that was, and PYRITE_TEST_SEED=... runs the same cases again. With
`of={"name": "wgpu"}` only the cases of that value are sampled: a device without hardware, which
compiles each kernel for 0.2 s, does not decide what the others run. `by=("name", "op")` samples the
cases of each pair of values.
"""

from __future__ import annotations

import contextlib
import gc
import os
import random
import signal
import subprocess
import sys
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

import hypothesis
import numpy as np
import pytest

import pyrite
from pyrite.backend.cube import CubeBackend
from pyrite.backend.device import _opened
from pyrite.backend.means import OWN, means_chosen
from pyrite.config import config as settings
from pyrite.errors import PyriteError
from pyrite.op import OPS
from pyrite.testing import all_records

T = TypeVar("T")

#: Names the seed of samples, to repeat one.
SEED = "PYRITE_TEST_SEED"

SAMPLED = pytest.StashKey[dict[str, tuple[int, int]]]()

# No deadline, and no complaint of slow draws: a test never asserts a time. No database: what is
# drawn depends on the seed alone.
for profile, examples in (("sample", 50), ("full", 1000)):
    hypothesis.settings.register_profile(
        profile, deadline=None, database=None, max_examples=examples,
        suppress_health_check=[hypothesis.HealthCheck.too_slow],
    )  # fmt: skip


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Begin all draws anew, also for the fixtures of the module that this test is first to ask for.

    What a test draws is not of who drew before it in its process, which xdist decides by time.
    """
    begin_draws(getattr(item, "module", None))


@pytest.fixture(autouse=True)
def _draws_begin_with_the_test(request: pytest.FixtureRequest) -> None:
    """Begin them once more: fixtures of the module have drawn before the first test alone."""
    begin_draws(getattr(request, "module", None))


def begin_draws(module: ModuleType | None) -> None:
    """Put Pyrite's streams, PyTorch's and the generators of a module at their beginning."""
    pyrite.seed(0)
    if torch := sys.modules.get("torch"):
        torch.default_generator.manual_seed(0)
    for generator, state in () if module is None else generators_of(module):
        generator.bit_generator.state = state


@cache
def generators_of(module: ModuleType) -> list[tuple[np.random.Generator, Any]]:
    """Return the generators of a module with their states: asked first before its first test."""
    found = [x for x in vars(module).values() if isinstance(x, np.random.Generator)]
    return [(generator, generator.bit_generator.state) for generator in found]


@pytest.fixture(autouse=True)
def _failures_end_with_their_test() -> Iterator[None]:
    """Look at launches that a test did not read: what failed would be raised by the next one."""
    yield
    for backend in {opened.root for opened in list(_opened.values())}:
        if isinstance(backend, CubeBackend):
            look = backend.launcher.faults.look_at_all()
            if look.words:
                with contextlib.suppress(PyriteError):
                    look.take(backend.runtime.read_all(look.wanted))


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


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    config.stash[SAMPLED] = {}
    if config.getoption("hypothesis_seed", None) is None:
        # Hypothesis' own plugin reads it, after this.
        config.option.hypothesis_seed = seed_of_samples()
    hypothesis.settings.load_profile("full" if config.getoption("--full") else "sample")
    if "PYRITE_AHEAD" not in os.environ:
        # What a thread compiles in pauses would be among the kernels, objects and bytes that a test
        # counts, or not, as fast as the machine is.  Its own tests turn it on.
        settings.ahead = False
    in_main_thread = threading.current_thread() is threading.main_thread()
    if in_main_thread and signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A shell starts its background jobs deaf to Ctrl-C, and some tests send it.
        signal.signal(signal.SIGINT, signal.default_int_handler)


@cache
def seed_of_samples() -> str:
    """The seed of samples: a setting, or else the commit."""
    if SEED in os.environ:
        return os.environ[SEED]
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "--short=12", "HEAD"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "no commit"


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> random.Random:
    """Random numbers of this test and of the seed of samples."""
    return random.Random(f"{seed_of_samples()} {request.node.nodeid}")


@pytest.fixture(scope="session")
def rng_of_session() -> random.Random:
    """Random numbers of the seed of samples: for what several tests share."""
    return random.Random(seed_of_samples())


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


@pytest.hookimpl(wrapper=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> Generator[None, object, object]:
    """Run a test of level_runtime on this processor, and on each level that it has; sample suites.

    A case that is not in the sample becomes no item: those of 100,000 took each worker 8 s.
    """
    if "level_runtime" in metafunc.fixturenames:
        names: list[str] = []
        if find_spec("llvmlite"):
            from pyrite.runtime.cpu.level import levels

            names = [level.name for level in levels()]
        metafunc.parametrize("level", ["host", *names], scope="module")
    result = yield
    if not metafunc.config.getoption("--full"):
        keep_sample(metafunc)
    return result


def keep_sample(metafunc: pytest.Metafunc) -> None:
    name = metafunc.definition.nodeid
    if any(asked.startswith(f"{name}[") for asked in metafunc.config.args):
        return  # a case asked for by its own name runs, whatever the sample says
    cases = metafunc._calls  # pytest has no public name for them
    own = metafunc.definition.get_closest_marker("sample")
    marked = {
        number: marker
        for number, case in enumerate(cases)
        if (marker := own or marker_of(case.marks)) is not None
    }
    if not marked:
        return
    suite = {number: cases[number].params for number in marked}
    chosen = sample(name, next(iter(marked.values())), suite)
    metafunc.config.stash[SAMPLED][name] = (len(chosen), len(suite))
    left_out = suite.keys() - chosen
    cases[:] = [case for number, case in enumerate(cases) if number not in left_out]


def marker_of(marks: Iterable[Any]) -> pytest.Mark | None:
    """Return the marker of a case whose parameter has one."""
    return next((mark for mark in marks if mark.name == "sample"), None)


def sample(name: str, marker: pytest.Mark, suite: Mapping[int, Mapping[str, object]]) -> set[int]:
    """Return the numbers of the cases that run, of those of a suite by their numbers."""
    count, by, of = marker.args[0], marker.kwargs.get("by"), marker.kwargs.get("of", {})
    groups: dict[Hashable, list[int]] = defaultdict(list)
    chosen: set[int] = set()
    for number, case in suite.items():
        if all(value_of(case, parameter) == value for parameter, value in of.items()):
            groups[values_of(case, by)].append(number)
        else:
            chosen.add(number)
    for key, group in groups.items():
        generator = random.Random(f"{name} {key} {seed_of_samples()}")
        chosen.update(generator.sample(group, min(count, len(group))))
    return chosen


def values_of(case: Mapping[str, object], parameters: str | tuple[str, ...] | None) -> Hashable:
    if isinstance(parameters, tuple):
        return tuple(value_of(case, parameter) for parameter in parameters)
    return None if parameters is None else value_of(case, parameters)


def value_of(case: Mapping[str, object], parameter: str) -> Hashable:
    first, *attributes = parameter.split(".")
    value = case[first]
    for attribute in attributes:
        value = getattr(value, attribute)
    # Of a function str has the address, which differs from worker to worker.
    return str(getattr(value, "name", None) or getattr(value, "__name__", value))


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
        # Not at each 700th object: those of tests that build kernels took 4 % of a run.
        gc.set_threshold(10_000, 20, 20)
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(
    item: pytest.Item, nextitem: pytest.Item | None
) -> Generator[None, object, object]:
    """Keep what a module of tests leaves out of the collections that later tests ask for.

    Kernels and code stay in caches: late in a run a collection took seconds, and 80 tests ask.
    """
    result = yield
    if nextitem is None or nextitem.path != item.path:
        gc.collect()
        gc.freeze()
    return result


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
    terminal.section("sampled (make test-all runs every case)")
    for name, (count, total) in sorted(sampled.items()):
        terminal.line(f"{count:6} of {total:<6} {name}")
    terminal.line(f"{SEED}={seed_of_samples()} repeats these samples, and what tests draw")


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
    classed = {name for name, op in all_records().items() if name in own and op.is_classed}
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
