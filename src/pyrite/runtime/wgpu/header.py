"""The C types that opening a device and running kernels take, read from wgpu's header at once.

cffi reads a type where it is first named, and for that tells its parser all 430 names of the header
anew: 10 to 25 ms a type, so that half of the time to the first result went there.  Here one reading
of a function with all of them as parameters is shared out to cffi's cache of types by name.  A type
that is not listed is read as ever.
"""

from __future__ import annotations

from typing import Any

#: As wgpu-py and this package spell them: a name that differs by a space is another one.
NAMES = (
    "WGPUAdapterInfo *", "WGPUAdapter[]", "WGPUBindGroupDescriptor *", "WGPUBindGroupEntry[]",
    "WGPUBindGroupLayoutDescriptor *", "WGPUBindGroupLayoutEntry[]", "WGPUBindGroupLayout[]",
    "WGPUBufferDescriptor *", "WGPUBufferMapCallbackInfo *", "WGPUChainedStruct *",
    "WGPUChainedStruct * ", "WGPUCommandBufferDescriptor *", "WGPUCommandBuffer[1]",
    "WGPUCommandEncoderDescriptor *", "WGPUComputePassDescriptor *",
    "WGPUComputePipelineDescriptor *", "WGPUDeviceDescriptor *", "WGPUDeviceExtras *",
    "WGPUDeviceLostCallbackInfo *", "WGPUFeatureName[]", "WGPUInstanceDescriptor *",
    "WGPULimits *", "WGPUNativeLimits *", "WGPUPipelineLayoutDescriptor *",
    "WGPUQueueDescriptor *", "WGPUQueueWorkDoneCallbackInfo *", "WGPURequestDeviceCallbackInfo *",
    "WGPUShaderModuleDescriptor *", "WGPUShaderSourceWGSL *", "WGPUStringView *",
    "WGPUUncapturedErrorCallbackInfo *", "char []", "char[]", "uint32_t[1]", "uintptr_t", "void *",
    "void(WGPUDevice const *, WGPUDeviceLostReason, WGPUStringView, void *, void *)",
    "void(WGPUDevice const *, WGPUErrorType, WGPUStringView, void *, void *)",
    "void(WGPUMapAsyncStatus, WGPUStringView, void *, void *)",
    "void(WGPUQueueWorkDoneStatus, WGPUStringView, void *, void *)",
    "void(WGPURequestDeviceStatus, WGPUDevice, WGPUStringView, void *, void *)",
)  # fmt: skip


def read_types(ffi: Any) -> None:
    """Give cffi the types of these names."""
    parameters = ffi.typeof(f"void(*)({', '.join(map(_as_parameter, NAMES))})").args
    for name, type in zip(NAMES, parameters, strict=True):
        is_function, is_array = "(" in name, "[" in name
        ffi._parsed_types.setdefault(name, (type.item if is_array else type, is_function))


def _as_parameter(name: str) -> str:
    """A parameter that is an array would be a pointer to its first element."""
    element, bracket, size = name.partition("[")
    return f"{element}(*){bracket}{size}" if bracket else name
