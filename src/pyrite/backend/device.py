"""Devices by name: where tensors live and who computes there.

A name is that of a backend, and where it has several devices a colon and which of them:
``"numpy"``, the reference, everywhere; ``"cpu"``; ``"wgpu"``, ``"wgpu:1"``; ``"torch:cuda"``.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from pyrite.backend.protocol import Backend
from pyrite.config import config
from pyrite.errors import DeviceError
from pyrite.op import Attributes, located, prepares


class Entry(NamedTuple):
    """A backend that names may mean.  Its module is imported when one of them is first used."""

    #: Module and class.
    path: str
    #: Its kinds of device: "cuda" of "torch:cuda".  A backend with only one has no name for it.
    kinds: tuple[str, ...] = ("",)
    #: The kinds that a number may follow: "torch:cuda:1", "wgpu:1".
    numbered: tuple[str, ...] = ()
    #: The module that it needs, what pip is to install for it, and where that can be had, if not
    #: everywhere.
    needs: str | None = None
    install: str | None = None
    only: str = ""
    #: Whether `pyrite.config.fusion` is for it.
    fuses: bool = False

    def load(self) -> type[Backend]:
        """Return the class.  Raises ModuleNotFoundError when its package is missing."""
        module, _, cls = self.path.partition(":")
        found: type[Backend] = getattr(import_module(module), cls)
        return found

    def has(self, which: str) -> bool:
        """Whether what follows the backend's name may mean a device of it."""
        kind, _, number = which.rpartition(":")
        return which in self.kinds or (kind in self.numbered and number.isdecimal())


#: Every backend by the first part of its devices' names.
BACKENDS: dict[str, Entry] = {
    "numpy": Entry("pyrite.backend.numpy:NumPy"),
    "cpu": Entry("pyrite.backend.cube.cpu:Cpu", needs="llvmlite", install="llvmlite", fuses=True),
    "wgpu": Entry(
        "pyrite.backend.cube.wgpu:Wgpu", numbered=("",), needs="wgpu", install="wgpu", fuses=True
    ),
    "torch": Entry(
        "pyrite.backend.torch:Torch",
        ("cpu", "cuda", "mps"),
        numbered=("cuda", "mps"),
        needs="torch",
        install="'pyrite[torch]'",
    ),
    "candle": Entry(
        "pyrite.backend.candle:Candle",
        needs="candle",
        install="'pyrite[candle]'",
        only="on x86-64 Linux",
    ),
}


#: What decorates the backends that fuse.
_FUSION = Entry("pyrite.backend.fusion:Fusion")


@dataclass(frozen=True, slots=True, eq=False)
class Device:
    """A backend seen as a place.  Equality ignores the autodiff level: it is the same memory."""

    backend: Backend

    @property
    def name(self) -> str:
        """Its name, as given to ``pyrite.device``."""
        return self.backend.root.name

    @property
    def level(self) -> int:
        """How many times gradients are taken here; 0 on a plain device."""
        return self.backend.level

    def synchronize(self) -> None:
        """Wait until all work submitted to this device is done."""
        self.backend.synchronize()

    async def synchronize_async(self) -> None:
        """Wait as `synchronize` does, awaited: the event loop goes on meanwhile."""
        await self.backend.synchronize_async()

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str):
            return self.name == other
        return isinstance(other, Device) and self.backend.root is other.backend.root

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return f"Device({self.name!r})" if not self.level else f"Device({self.name!r}, +grad)"

    def __str__(self) -> str:
        return self.name


DeviceLike = Device | Backend | str | None

#: What elsewhere is the name of a GPU, which here is one of WebGPU's, or PyTorch's.
_GPUS = ("cuda", "gpu", "hip", "metal", "mps", "rocm", "vulkan", "webgpu", "xpu")

# Taken again by a package that uses Pyrite while it is imported: a program named torch.py, say.
_lock = threading.RLock()
_opened: dict[str, Backend] = {}
_default: Device | None = None
#: The default of a block, as that in which a model is recorded.
_default_here: ContextVar[Device | None] = ContextVar("pyrite_default_device", default=None)


def device(of: DeviceLike = None) -> Device:
    """Return the device that is meant: a name, a backend, a Device, or None for the default.

    Raises DeviceError for an unknown name, or when the device does not work here.

    >>> device("numpy")
    Device('numpy')
    """
    if isinstance(of, Device):
        return of
    if of is None:
        return default_device()
    if isinstance(of, str):
        # What is open by that name needs no look at the name; Backend is abstract, slow to ask for.
        return Device(_opened.get(of) or _open(of))
    if not isinstance(of, Backend):
        raise located(
            DeviceError(
                f"device requires a name, as 'torch:cpu', a Device or a Backend, got {of!r}"
                f"{_named(of)}"
            )
        )
    return Device(of)


def default_device() -> Device:
    """Return the default device: as set, else as PYRITE_DEVICE says, else the best that works."""
    if (here := _default_here.get()) is not None:
        return here
    if _default is not None:
        return _default
    return device(config.device or _best())


def _best() -> str:
    # Imported here for its weight, 50 ms: a program that names its device needs none of it.
    from pyrite.backend.default import best_device

    return best_device(tuple(BACKENDS))


def set_default_device(of: DeviceLike) -> None:
    """Make a device the default of this process; None goes back to the automatic choice."""
    global _default
    _default = None if of is None else device(of)


@contextmanager
def default_device_here(of: DeviceLike) -> Iterator[None]:
    """Make a device the default in the block, in this thread and task alone."""
    token = _default_here.set(device(of))
    try:
        yield
    finally:
        _default_here.reset(token)


@prepares
def _prepare(
    method: Callable[..., Any], inputs: Sequence[Any], attributes: Attributes, on: DeviceLike
) -> None:
    # Few programs prepare calls: what does is imported by the first.
    from pyrite.backend.preparation import prepare

    prepare(device(on).backend.root, method, inputs, attributes)


def opened() -> list[Backend]:
    """Return the backends of the devices that were used so far."""
    return [*dict.fromkeys(_opened.values())]


def device_names() -> list[str]:
    """Return the names of all devices that Pyrite knows, whether or not they work here."""
    return [
        f"{name}:{kind}" if kind else name
        for name, entry in BACKENDS.items()
        for kind in entry.kinds
    ]


def device_problem(name: str) -> str | None:
    """Return why a device does not work here, in one line; None when it does.

    It works when it gives back what was sent there: a broken driver may fail in any way.

    >>> device_problem("numpy")
    """
    sent = np.arange(6.0, dtype=np.float32)
    try:
        backend = _open(name)
        back = backend.download(backend.upload(sent))
    except DeviceError as error:
        return str(error)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None if np.array_equal(sent, back) else f"{name} gave back other values than it was sent"


def _open(name: str) -> Backend:
    head, _, which = name.partition(":")
    entry = BACKENDS.get(head)
    if entry is None or not entry.has(which) or name.endswith(":"):
        known = ", ".join(device_names())
        meant = " or ".join(map(repr, _meant(name)))
        raise located(
            DeviceError(
                f"device requires one of {known}, got {name!r}; try "
                f"{meant or repr('pyrite devices')}"
            )
        )
    with _lock:
        if name not in _opened:
            make: Callable[..., Backend] = _load(name, entry)
            backend = make(which) if which else make()
            if entry.fuses and config.fusion:
                # By name: Fusion stands above devices.
                fused: Callable[..., Backend] = _FUSION.load()
                backend = fused(backend, after=config.fusion_after)
            # A device may have several names: torch:cuda and torch:cuda:0 are one.
            _opened[name] = _opened.setdefault(backend.name, backend)
        return _opened[name]


def _meant(name: str) -> list[str]:
    """Return the devices that another library, or another spelling, calls by a name.

    >>> _meant("cuda:0"), _meant("CPU"), _meant("abacus")
    (['torch:cuda', 'wgpu'], ['cpu', 'torch:cpu'], [])
    """
    head = name.lower().partition(":")[0]
    found = [known for known in device_names() if head in known.split(":")]
    return [*found, "wgpu"] if head in _GPUS else found


def _named(of: object) -> str:
    """Return the end of an error: how Pyrite names a device of wgpu-py or of PyTorch."""
    match type(of).__module__.partition(".")[0], type(of).__name__:
        case "wgpu", "GPUDevice":
            return "; make it one of Pyrite's: pyrite.wgpu.init_device(device)"
        case "torch", "device":
            return f"; say 'torch:{of}'"
    return ""


def _load(name: str, entry: Entry) -> type[Backend]:
    try:
        return entry.load()
    except (ImportError, OSError) as error:
        missing = getattr(error, "name", None) or ""
        if entry.needs is None or missing.partition(".")[0] == "pyrite":
            raise
        where = f" ({entry.only} only)" if entry.only else ""
        if isinstance(error, ModuleNotFoundError) and missing == entry.needs:
            raise DeviceError(
                f"{name} requires the package {entry.needs}, which is not installed here; "
                f"pip install {entry.install}{where}"
            ) from None
        # A library that it links to is missing, or another project's package has its name.
        raise DeviceError(
            f"{name} requires a package {entry.needs} that can be imported, got "
            f"{type(error).__name__}: {error}; "
            f"pip install --force-reinstall {entry.install}{where}"
        ) from error
