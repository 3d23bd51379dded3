"""The cases in WGSL written by hand, run by wgpu-py alone.

Pipelines, buffers and bind groups are made once, so a run is what an application would do for each
frame: encode, submit, wait.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import wgpu
from kernel_cases import BINS, BODIES, CELLS, COUNT, FEATURES, PART, ROUNDS, ROWS, SIDE, WIDTH

PARTS, TILE, LANES, GROUPS = COUNT // PART, 16, 64, 16


@dataclass(frozen=True)
class Program:
    """WGSL, the workgroups of each of its entry points, and what it writes.

    ``spare`` elements lie between two entry points; what is ``cleared`` is added to by atomics.
    """

    code: str
    groups: Mapping[str, tuple[int, ...]]
    buffers: str = "f32"
    spare: int = 0
    cleared: bool = False
    shape: tuple[int, ...] = ()
    dtype: Any = np.float32


FORCES = """
@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3u) {
    let i = id.x;
    if (i >= BODIES) { return; }
    let p = vec3f(x0[3 * i], x0[3 * i + 1], x0[3 * i + 2]);
    var total = vec3f(0);
    for (var j = 0u; j < BODIES; j++) {
        let away = vec3f(x0[3 * j], x0[3 * j + 1], x0[3 * j + 2]) - p;
        let near = inverseSqrt(dot(away, away) + 1e-2);
        total += away * (near * near * near);
    }
    out[3 * i] = total.x; out[3 * i + 1] = total.y; out[3 * i + 2] = total.z;
}"""

GRAY_SCOTT = """
@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3u) {
    let i = id.x / CELLS; let j = id.x % CELLS;
    if (id.x >= CELLS * CELLS) { return; }
    let here = x0[id.x]; let v = x1[id.x];
    let around = x0[((i + CELLS - 1) % CELLS) * CELLS + j] + x0[((i + 1) % CELLS) * CELLS + j]
        + x0[i * CELLS + (j + CELLS - 1) % CELLS] + x0[i * CELLS + (j + 1) % CELLS];
    out[id.x] = here + 0.16 * (around - 4 * here) - here * v * v + 0.035 * (1 - here);
}"""

MANDELBROT = """
@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3u) {
    if (id.x >= WIDTH * WIDTH) { return; }
    let re = x0[2 * id.x]; let im = x0[2 * id.x + 1];
    var a = 0.0; var b = 0.0; var rounds = 0;
    while (a * a + b * b <= 4.0 && rounds < ROUNDS) {
        let next = a * a - b * b + re;
        b = 2.0 * a * b + im; a = next;
        rounds++;
    }
    out[id.x] = rounds;
}"""

HISTOGRAM = """
var<workgroup> bins: array<atomic<i32>, BINS>;
@compute @workgroup_size(64) fn main(
    @builtin(local_invocation_id) local: vec3u, @builtin(workgroup_id) group: vec3u
) {
    let part = group.x * (COUNT / GROUPS);
    for (var b = local.x; b < BINS; b += LANES) { atomicStore(&bins[b], 0); }
    workgroupBarrier();
    for (var n = part + local.x; n < part + COUNT / GROUPS; n += LANES) {
        atomicAdd(&bins[x0[n]], 1);
    }
    workgroupBarrier();
    for (var b = local.x; b < BINS; b += LANES) { atomicAdd(&out[b], atomicLoad(&bins[b])); }
}"""

PRODUCT = """
@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3u) {
    if (id.x >= SIDE * SIDE) { return; }
    let i = id.x / SIDE; let j = id.x % SIDE;
    var total = 0.0;
    for (var n = 0u; n < SIDE; n++) { total += x0[i * SIDE + n] * x1[n * SIDE + j]; }
    out[id.x] = total;
}"""

TILED = """
var<workgroup> left: array<f32, TILE * TILE>;
var<workgroup> right: array<f32, TILE * TILE>;
@compute @workgroup_size(16, 16) fn main(
    @builtin(local_invocation_id) at: vec3u, @builtin(workgroup_id) group: vec3u
) {
    let i = group.y * TILE + at.y; let j = group.x * TILE + at.x;
    var total = 0.0;
    for (var first = 0u; first < SIDE; first += TILE) {
        left[at.y * TILE + at.x] = x0[i * SIDE + first + at.x];
        right[at.y * TILE + at.x] = x1[(first + at.y) * SIDE + j];
        workgroupBarrier();
        for (var n = 0u; n < TILE; n++) { total += left[at.y * TILE + n] * right[n * TILE + at.x]; }
        workgroupBarrier();
    }
    out[i * SIDE + j] = total;
}"""

SCAN = """
var<workgroup> of_lane: array<i32, LANES>;
@compute @workgroup_size(64) fn sums(
    @builtin(local_invocation_id) at: vec3u, @builtin(workgroup_id) group: vec3u
) {
    var total = 0;
    for (var n = at.x; n < PART; n += LANES) { total += x0[group.x * PART + n]; }
    of_lane[at.x] = total;
    workgroupBarrier();
    if (at.x == 0) {
        for (var n = 1u; n < LANES; n++) { total += of_lane[n]; }
        spare[group.x] = total;
    }
}
@compute @workgroup_size(1) fn scan(@builtin(workgroup_id) group: vec3u) {
    var total = 0;
    for (var n = 0u; n < group.x; n++) { total += spare[n]; }
    for (var n = group.x * PART; n < (group.x + 1) * PART; n++) {
        total += x0[n];
        out[n] = total;
    }
}"""

ATTENTION = """
@compute @workgroup_size(16) fn main(@builtin(global_invocation_id) id: vec3u) {
    let i = id.x;
    var q: array<f32, FEATURES>;
    var total: array<f32, FEATURES>;
    for (var d = 0u; d < FEATURES; d++) { q[d] = x0[i * FEATURES + d]; }
    var most = -1e30; var weight = 0.0;
    for (var j = 0u; j < ROWS; j++) {
        var score = 0.0;
        for (var d = 0u; d < FEATURES; d++) { score += q[d] * x1[j * FEATURES + d]; }
        score = score * SCALE;
        let now = max(most, score);
        let old = exp(most - now); let new = exp(score - now);
        for (var d = 0u; d < FEATURES; d++) {
            total[d] = total[d] * old + x2[j * FEATURES + d] * new;
        }
        most = now; weight = weight * old + new;
    }
    for (var d = 0u; d < FEATURES; d++) { out[i * FEATURES + d] = total[d] / weight; }
}""".replace("new", "fresh")  # a reserved word

SQUARE: dict[str, tuple[int, ...]] = {"main": (SIDE * SIDE // 64,)}
PROGRAMS = {
    "n-body": Program(FORCES, {"main": (BODIES // 64,)}, shape=(BODIES, 3)),
    "gray-scott": Program(GRAY_SCOTT, {"main": (CELLS * CELLS // 64,)}, shape=(CELLS, CELLS)),
    "mandelbrot": Program(
        MANDELBROT, {"main": (WIDTH * WIDTH // 64,)}, shape=(WIDTH, WIDTH), dtype=np.int32
    ),
    "histogram": Program(
        HISTOGRAM, {"main": (GROUPS,)}, shape=(BINS,), dtype=np.int32, buffers="i32",
        cleared=True,
    ),
    "product": Program(PRODUCT, SQUARE, shape=(SIDE, SIDE)),
    "tiled product": Program(TILED, {"main": (SIDE // TILE, SIDE // TILE)}, shape=(SIDE, SIDE)),
    "scan": Program(
        SCAN, {"sums": (PARTS,), "scan": (PARTS,)}, shape=(COUNT,), dtype=np.int32, buffers="i32",
        spare=PARTS,
    ),
    "attention": Program(ATTENTION, {"main": (ROWS // 16,)}, shape=(ROWS, FEATURES)),
}  # fmt: skip

CONSTANTS = {
    "BODIES": BODIES, "CELLS": CELLS, "WIDTH": WIDTH, "BINS": BINS, "COUNT": COUNT, "SIDE": SIDE,
    "PART": PART, "FEATURES": FEATURES, "ROWS": ROWS, "TILE": TILE, "LANES": LANES,
    "GROUPS": GROUPS,
}  # fmt: skip

adapter = wgpu.gpu.request_adapter_sync(power_preference="high-performance")
gpu = adapter.request_device_sync()


def _wgsl(program: Program, inputs: int) -> str:
    """Return the text, with constants and the declarations of its buffers."""
    written = {np.float32: "f32", np.int32: "i32"}[program.dtype]
    element = f"atomic<{written}>" if program.cleared else written
    lines = [f"const {name} = {value}u;" for name, value in CONSTANTS.items()]
    lines += [f"const ROUNDS = {ROUNDS}; const SCALE = {FEATURES**-0.5};"]
    lines += [
        f"@group(0) @binding({n}) var<storage, read> x{n}: array<{program.buffers}>;"
        for n in range(inputs)
    ]
    lines += [f"@group(0) @binding({inputs}) var<storage, read_write> out: array<{element}>;"]
    if program.spare:
        lines += [f"@group(0) @binding({inputs + 1}) var<storage, read_write> spare: array<i32>;"]
    return "\n".join((*lines, program.code))


def prepared(device: str, name: str, inputs: Any) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """Return what computes a case and waits for it, and what returns its result."""
    program = PROGRAMS[name]
    usage = wgpu.BufferUsage.STORAGE | wgpu.BufferUsage.COPY_SRC | wgpu.BufferUsage.COPY_DST
    buffers = [gpu.create_buffer_with_data(data=x, usage=usage) for x in inputs]
    out = gpu.create_buffer(size=4 * int(np.prod(program.shape)), usage=usage)
    spare = [gpu.create_buffer(size=4 * program.spare, usage=usage)] if program.spare else []
    module = gpu.create_shader_module(code=_wgsl(program, len(inputs)))
    kinds = ["read-only-storage"] * len(inputs) + ["storage"] * (1 + len(spare))
    group_layout = gpu.create_bind_group_layout(
        entries=[
            {"binding": n, "visibility": wgpu.ShaderStage.COMPUTE, "buffer": {"type": kind}}
            for n, kind in enumerate(kinds)
        ]
    )
    layout = gpu.create_pipeline_layout(bind_group_layouts=[group_layout])
    stages = [
        (
            gpu.create_compute_pipeline(
                layout=layout, compute={"module": module, "entry_point": e}
            ),
            g,
        )
        for e, g in program.groups.items()
    ]
    bound = gpu.create_bind_group(
        layout=group_layout,
        entries=[
            {"binding": n, "resource": {"buffer": b}} for n, b in enumerate((*buffers, out, *spare))
        ],
    )

    def run() -> None:
        encoder = gpu.create_command_encoder()
        if program.cleared:
            encoder.clear_buffer(out)
        found = encoder.begin_compute_pass()
        found.set_bind_group(0, bound)
        for pipeline, groups in stages:
            found.set_pipeline(pipeline)
            found.dispatch_workgroups(*groups)
        found.end()
        gpu.queue.submit([encoder.finish()])
        gpu._poll_wait()  # on_submitted_work_done_sync raises TypeError in wgpu-py 0.32

    def result() -> Any:
        return np.frombuffer(gpu.queue.read_buffer(out), program.dtype).reshape(program.shape)

    return run, result
