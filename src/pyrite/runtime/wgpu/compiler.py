"""From a kernel in IR, or an application's WGSL, to an executable of one device."""

from __future__ import annotations

from pyrite.kernel.ir import Kernel
from pyrite.kernel.passes.legalize import WEBGPU, Capabilities
from pyrite.kernel.passes.split_buffers import split_buffers
from pyrite.kernel.target.wgsl import lowered, to_wgsl
from pyrite.kernel.verify import verify
from pyrite.recent import KERNELS, Recent
from pyrite.runtime.wgpu.adapter import DTYPE_FEATURES, Device
from pyrite.runtime.wgpu.demand import check_kernel, demands_named
from pyrite.runtime.wgpu.executable import Executable, Form, Signature
from pyrite.runtime.wgpu.shader import Layouts


class Compiler:
    """Compiles for the device of a runtime called ``name``.  Its caller holds the lock.

    Compiled kernels are remembered while they are asked for; who holds one can always launch it.
    """

    def __init__(self, layouts: Layouts, name: str) -> None:
        self._layouts = layouts
        self._device = layouts.device
        self._capabilities = _capabilities(name, self._device)
        self._executables: Recent[str, Executable] = Recent(KERNELS)

    def __len__(self) -> int:
        return len(self._executables)

    def compile(self, kernel: Kernel) -> Executable:
        """Return the kernel compiled; the same one again for an equal kernel.

        Raises KernelError if it is not legal or does not compile here, DTypeError if the device
        lacks a dtype that it needs.
        """
        found = self._executables.get(kernel.digest)
        if found is None:
            found = self._compile(kernel)
            self._executables.put(kernel.digest, found)
        return found

    def compile_wgsl(self, source: str, signature: Signature) -> Executable:
        """Return a user's WGSL compiled, with the checks that a browser makes.

        Raises KernelError with the line that is wrong, UnsupportedKernelError where the device
        lacks what the text asks for.
        """
        with demands_named(signature.name, source, self._device):
            return Executable(self._layouts, signature, lambda _: source, is_trusted=False)

    def source(self, kernel: Kernel) -> str:
        """Return the WGSL of a kernel, as it is where its buffers are bound whole."""
        return to_wgsl(lowered(verify(kernel), self._capabilities), self._device.features)

    def _compile(self, kernel: Kernel) -> Executable:
        legal = lowered(verify(kernel), self._capabilities)
        check_kernel(legal, self._device)
        largest, features = self._device.max_binding, self._device.features

        def text(form: Form) -> str:
            parts = form.parts
            return to_wgsl(
                split_buffers(legal, parts, largest) if parts else legal,
                features,
                all_writable=form.all_writable,
                is_folded=form.is_folded,
                has_immediates=form.has_immediates,
            )

        return Executable(
            self._layouts, Signature.of(legal), text, is_trusted=True, kernel=kernel, legal=legal
        )


def _capabilities(name: str, device: Device) -> Capabilities:
    """Return what kernels have in registers and in memory on the device."""
    more = {dtype for dtype, feature in DTYPE_FEATURES.items() if feature in device.features}
    lacking = device.lacking if device.is_external else {}
    return Capabilities(name, WEBGPU.computes | more, WEBGPU.stores | more, lacking)
