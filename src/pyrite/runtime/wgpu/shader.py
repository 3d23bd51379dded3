"""Shader modules, layouts and pipelines.

Pyrite's own kernels are **trusted**: their indices are judged before (docs/design/0020), so the
module is made without the bounds checks and loop counters that naga otherwise adds, which cost up
to a factor of two.  A user's WGSL is **checked**, as in a browser.
"""

from __future__ import annotations

from typing import Any

from pyrite.errors import KernelError
from pyrite.runtime.wgpu.adapter import Device
from pyrite.runtime.wgpu.native import NativeError, Pointer, captured, ffi, lib, text


def create_module(device: Device, name: str, source: str, *, is_trusted: bool) -> Pointer:
    """Return a shader module.  Raises KernelError, with the line of the WGSL that is wrong."""
    code, _code = text(source)
    label, _label = text(name)
    wgsl = ffi.new("WGPUShaderSourceWGSL *")
    wgsl.chain.sType = lib.WGPUSType_ShaderSourceWGSL
    wgsl.code = code
    descriptor = ffi.new("WGPUShaderModuleDescriptor *")
    descriptor.nextInChain = ffi.cast("WGPUChainedStruct *", wgsl)
    descriptor.label = label
    try:
        with captured():
            if is_trusted:
                module = lib.wgpuDeviceCreateShaderModuleTrusted(device.raw, descriptor, 0)
            else:
                module = lib.wgpuDeviceCreateShaderModule(device.raw, descriptor)
    except NativeError as error:
        raise KernelError(f"kernel '{name}' requires WGSL that compiles, got\n{error}") from None
    return ffi.gc(module, lib.wgpuShaderModuleRelease)


def create_pipeline(device: Device, name: str, module: Pointer, layout: BindingLayout) -> Pointer:
    """Return the compute pipeline of a module's entry point ``main``.

    Raises KernelError when it needs more than the device has: workgroup memory, invocations.
    """
    label, _label = text(name)
    entry_point, _entry_point = text("main")
    descriptor = ffi.new("WGPUComputePipelineDescriptor *")
    descriptor.label = label
    descriptor.layout = layout.pipeline_layout
    descriptor.compute.module = module
    descriptor.compute.entryPoint = entry_point
    try:
        with captured():
            pipeline = lib.wgpuDeviceCreateComputePipeline(device.raw, descriptor)
    except NativeError as error:
        raise KernelError(f"kernel '{name}' requires a pipeline of it, got\n{error}") from None
    return ffi.gc(pipeline, lib.wgpuComputePipelineRelease)


class BindingLayout:
    """What a kernel binds: storage buffers 0, 1, …, then its arguments.

    The arguments are ``immediate_size`` bytes that travel with the launch, or, where the device has
    none, ``uniform_size`` bytes of a uniform buffer, the last binding, with a dynamic offset.
    """

    def __init__(
        self, device: Device, writable: tuple[bool, ...], *, immediate_size: int, uniform_size: int
    ) -> None:
        self.writable = writable
        self.uniform_size = uniform_size
        self.has_arguments = immediate_size > 0 or uniform_size > 0
        self.group_layout = _group_layout(device, writable, uniform_size)
        self.pipeline_layout = _pipeline_layout(device, self.group_layout, immediate_size)

    def create_group(self, device: Device, ranges: list[tuple[Pointer, int, int]]) -> Pointer:
        """Return the bind group of (buffer, offset, size) for each binding.

        Raises NativeError when a buffer is destroyed, lacks the usage, or is too large to bind.
        """
        entries = ffi.new("WGPUBindGroupEntry[]", len(ranges))
        for number, (entry, (buffer, offset, size)) in enumerate(zip(entries, ranges, strict=True)):
            entry.binding, entry.buffer, entry.offset, entry.size = number, buffer, offset, size
        descriptor = ffi.new("WGPUBindGroupDescriptor *")
        descriptor.layout = self.group_layout
        descriptor.entryCount, descriptor.entries = len(ranges), entries
        with captured():
            group = lib.wgpuDeviceCreateBindGroup(device.raw, descriptor)
        return ffi.gc(group, lib.wgpuBindGroupRelease)


class Layouts:
    """The layouts of one device, one of each kind, so that kernels alike share bind groups."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self._layouts: dict[tuple[tuple[bool, ...], int, int], BindingLayout] = {}

    def get(
        self, writable: tuple[bool, ...], *, immediate_size: int, uniform_size: int
    ) -> BindingLayout:
        """Return the layout of that kind."""
        key = (writable, immediate_size, uniform_size)
        found = self._layouts.get(key)
        if found is None:
            found = self._layouts[key] = BindingLayout(
                self.device, writable, immediate_size=immediate_size, uniform_size=uniform_size
            )
        return found


def _group_layout(device: Device, writable: tuple[bool, ...], uniform_size: int) -> Pointer:
    types = [
        lib.WGPUBufferBindingType_Storage if w else lib.WGPUBufferBindingType_ReadOnlyStorage
        for w in writable
    ]
    if uniform_size:
        types.append(lib.WGPUBufferBindingType_Uniform)
    entries: Any = ffi.new("WGPUBindGroupLayoutEntry[]", len(types))
    for number, type in enumerate(types):
        entries[number].binding = number
        entries[number].visibility = lib.WGPUShaderStage_Compute
        entries[number].buffer.type = type
    if uniform_size:
        entries[len(writable)].buffer.hasDynamicOffset = True
    descriptor = ffi.new("WGPUBindGroupLayoutDescriptor *")
    descriptor.entryCount, descriptor.entries = len(types), entries
    with captured():
        layout = lib.wgpuDeviceCreateBindGroupLayout(device.raw, descriptor)
    return ffi.gc(layout, lib.wgpuBindGroupLayoutRelease)


def _pipeline_layout(device: Device, group_layout: Pointer, immediate_size: int) -> Pointer:
    descriptor = ffi.new("WGPUPipelineLayoutDescriptor *")
    layouts = ffi.new("WGPUBindGroupLayout[]", [group_layout])
    descriptor.bindGroupLayoutCount, descriptor.bindGroupLayouts = 1, layouts
    descriptor.immediateSize = immediate_size
    with captured():
        layout = lib.wgpuDeviceCreatePipelineLayout(device.raw, descriptor)
    return ffi.gc(layout, lib.wgpuPipelineLayoutRelease)
