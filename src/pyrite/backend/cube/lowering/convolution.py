"""Convolutions and their gradients: products through windows, or direct kernels.

These are for most windows on CPUs (`direct`), and on GPUs for few channels (`depthwise`).

What is decided here is which schedule runs a convolution, and of which convolutions a gradient of
the input consists.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from math import prod
from typing import Final

from pyrite.backend.cube.epilogue import Epilogue
from pyrite.backend.cube.launcher import Launcher
from pyrite.backend.cube.layout import row_major
from pyrite.backend.cube.lowering import convolution_border as border
from pyrite.backend.cube.lowering import convolution_terms as terms
from pyrite.backend.cube.operand import bindings_of
from pyrite.backend.cube.operand import layout_of as tensor_layout_of
from pyrite.backend.cube.skeleton.contraction import depthwise, layout_of
from pyrite.backend.cube.skeleton.contraction.direct import DIRECT, DirectConvolution
from pyrite.backend.cube.skeleton.contraction.gradient import (
    WEIGHT_GRADIENT,
    AnyParts,
    GradientConfig,
    WeightGradient,
    select_shared,
)
from pyrite.backend.cube.skeleton.contraction.matrices import lanes_of
from pyrite.backend.cube.skeleton.contraction.product import SUM, contract
from pyrite.backend.cube.skeleton.contraction.windowed import WindowedProduct, contract_windows
from pyrite.backend.cube.skeleton.elementwise import map_elements
from pyrite.backend.cube.skeleton.finish import ALONE, Around, bindings_around
from pyrite.backend.cube.skeleton.protocol import Fused, foresee, launch
from pyrite.backend.cube.tensor import CubeTensor, unstored
from pyrite.kernel.choice import chosen
from pyrite.kernel.machine import Machine
from pyrite.kernel.template import direct_config as direct
from pyrite.kernel.template import polyphase, size_class
from pyrite.kernel.template.direct_config import DirectConfig
from pyrite.kernel.template.implicit_gemm import OperandLayout, Windows, patches_gradient
from pyrite.kernel.template.operand import accumulator_of
from pyrite.kernel.template.packed_images import PackedImages
from pyrite.kernel.template.polyphase import Polyphase
from pyrite.kernel.template.size_class import class_of
from pyrite.op import Attributes, Constant
from pyrite.types import Shape, TensorType


def windows_of(x: Shape, weight: Shape, counts: Shape, attrs: Attributes) -> Windows:
    """Return the geometry of a layer, from the shapes of its three tensors."""
    groups: int = attrs["groups"]
    return Windows(
        x[0], groups, weight[1], weight[0] // groups, x[2:], weight[2:], counts, attrs["stride"],
        tuple(before for before, _ in attrs["padding"]), attrs["dilation"],
    )  # fmt: skip


# ---- a convolution ----


def windowed(
    w: Windows, weight: CubeTensor, x: CubeTensor, out: CubeTensor, machine: Machine, *,
    is_transposed: bool = False,
) -> WindowedProduct:  # fmt: skip
    """Return a convolution as a product; ``is_transposed`` is as in `weight_map`."""
    lanes = lanes_of(machine, w.outputs, w.counts[-1], x.dtype.compute.itemsize)
    left, right, target = _layouts(machine, weight, x, out)
    return WindowedProduct(w, left, right, target, lanes, is_transposed)


def _layouts(machine: Machine, *tensors: CubeTensor) -> Iterator[OperandLayout]:
    return (layout_of(t, machine if machine.kind == "gpu" else None) for t in tensors)


#: The share of a copy that windows use: with less a product is faster.
_LEAST_USED: Final = 0.55
#: The same of a transposed one with few outputs, which is a product for each of its phases.
_LEAST_OF_PHASES: Final = 0.32
_FEW_OUTPUTS: Final = 8


def is_direct(p: Polyphase, machine: Machine) -> bool:
    """Whether a convolution is run directly, and not as a product.

    A window of one element shares nothing that a copy would keep, and of small images too much of
    a copy is between the rows.
    """
    if machine.kind == "gpu" or prod(p.kernel_size) == 1:
        return False
    return direct.is_written_out(p) and _is_used(p.windows, len(p.parts) > 1)


@chosen(4096)
def _is_used(w: Windows, has_phases: bool) -> bool:
    """Whether windows use enough of a copy, for the class of their sizes."""
    w = class_of(w)
    least = _LEAST_OF_PHASES if has_phases and w.outputs <= _FEW_OUTPUTS else _LEAST_USED
    return prod(w.counts) / PackedImages(w, 1, w.counts[0], 1).image_size >= least


def convolve_directly(
    launcher: Launcher, p: Polyphase, weight: CubeTensor, x: CubeTensor, target: CubeTensor,
    config: DirectConfig | None = None, *, is_transposed: bool = False, around: Around = ALONE,
) -> None:  # fmt: skip
    """Write convolutions of x to the target by one kernel; ``is_transposed`` as in `weight_map`.

    Or write to the outputs of what is ``around`` them.  Without a config the first sizes get the
    best one, all others share one.
    """
    problem = _direct_problem(p, weight, x, target, is_transposed=is_transposed)
    first, machine = launcher.first_of(problem.with_batch(0)), launcher.machine
    problem = replace(problem, is_first=launcher.is_like_first(problem.with_batch(0)))
    if config is None and problem.is_first:
        _foresee_direct(launcher, problem, around.fused)
    elif config is None:
        of_first = first.with_batch(p.windows.batch).convolution
        config = direct.select_shared(p, of_first, x.dtype, machine)
    bindings = [*bindings_of(weight), *bindings_of(x)]
    bindings += bindings_around(around.sources, around.outputs or (target,))
    launch(launcher, DIRECT, problem, bindings, config=config, fused=around.fused)


def _direct_problem(
    p: Polyphase, weight: CubeTensor, x: CubeTensor, target: CubeTensor, *,
    is_transposed: bool = False,
) -> DirectConvolution:  # fmt: skip
    of = layout_of(weight)
    known = (of.dtype, of.strides, of.offset)
    return DirectConvolution(p, known, layout_of(x), layout_of(target), is_transposed)


def is_new_layer(
    launcher: Launcher, p: Polyphase, w: Windows, weight: CubeTensor, x: CubeTensor,
    target: CubeTensor, *, is_transposed: bool = False,
) -> bool:  # fmt: skip
    """Whether a layer comes with its first sizes; no kernel has later ones built in.

    Small images may be run as a product where others are run directly: which came first is noted
    for both ways.
    """
    left, right, out = _layouts(launcher.machine, weight, x, target)
    layer = WindowedProduct(w, left, right, out, is_transposed=is_transposed)
    if launcher.machine.kind == "cpu" and direct.is_written_out(p):
        problem = _direct_problem(p, weight, x, target, is_transposed=is_transposed)
        with suppress(LookupError):  # a rehearsal notes nothing
            launcher.first_of(problem.with_batch(0))
    return launcher.is_first(layer.with_batch(0))


def _foresee_direct(launcher: Launcher, first: DirectConvolution, fused: Fused) -> None:
    """Have the kernels compiled ahead that serve other sizes than the first."""

    def compile(launcher: Launcher) -> None:
        p = first.convolution
        config = direct.select_shared(p, p, first.x.dtype, launcher.machine)
        others = replace(first, is_first=False)
        for cut in direct.other_cuts(p, config):
            foresee(launcher, DIRECT, others, cut, fused)
        for batch in size_class.BATCHES:  # of each class the search takes 20 ms, once
            of = first.with_batch(batch).convolution
            direct.select_shared(of, of, first.x.dtype, launcher.machine)

    launcher.compile_ahead((first.with_batch(0), fused), compile)


def finish_forward(
    launcher: Launcher, w: Windows, x: CubeTensor, weight: CubeTensor,
    biases: Sequence[CubeTensor], type: TensorType, epilogue: Epilogue,
) -> bool:  # fmt: skip
    """Write what an epilogue makes of a convolution, where its border needs no look at the sums."""
    machine = launcher.machine
    is_depthwise = depthwise.takes(polyphase.single(w), machine)
    if not is_depthwise and not border.takes_epilogue(machine, terms.Forward(w), weight):
        return False
    convolve(launcher, w, x, weight, biases, unstored(type), epilogue)
    return True


def convolve(
    launcher: Launcher, w: Windows, x: CubeTensor, weight: CubeTensor,
    biases: Sequence[CubeTensor], target: CubeTensor, epilogue: Epilogue | None = None,
) -> None:  # fmt: skip
    """Write the weight times the windows of x and biases, or what follows it.

    Biases have the axes of the target.
    """
    whole = polyphase.single(w)
    if depthwise.takes(whole, launcher.machine):
        around = Around.of(launcher, biases, epilogue, tensor_layout_of)
        depthwise.convolve(launcher, whole, weight, x, target, around=around)
        return
    is_new = is_new_layer(launcher, whole, w, weight, x, target)
    if is_direct(whole, launcher.machine):
        around = around_directly(launcher, biases, epilogue)
        convolve_directly(launcher, whole, weight, x, target, around=around)
    else:
        problem = windowed(w, weight, x, target, launcher.machine)
        around = Around.of(launcher, biases, epilogue, layout_of)
        contract_windows(
            launcher, problem, weight, x, target,
            fused=around.fused, sources=around.sources, outputs=around.outputs, knows_first=is_new,
        )  # fmt: skip
    around = Around.of(launcher, biases, epilogue, tensor_layout_of)
    border.mend(launcher, terms.Forward(w), x, weight, target, around)


def around_directly(
    launcher: Launcher, biases: Sequence[CubeTensor], epilogue: Epilogue | None
) -> Around:
    """Return what is fused onto a direct convolution: sources lie by coordinates, as outputs do."""
    around = Around.of(launcher, biases, epilogue, tensor_layout_of)
    outputs = tuple([layout_of(t) for t in around.outputs])
    return replace(around, fused=replace(around.fused, outputs=outputs))


# ---- the gradient of x ----


def input_gradient(
    launcher: Launcher, w: Windows, g: CubeTensor, weight: CubeTensor, target: CubeTensor
) -> None:
    """Write convolutions of g by the transposed weight, for each phase of x."""
    is_cpu = launcher.machine.kind == "cpu"
    if is_cpu and is_of_patches(w) and not direct.writes_patches_out(w):
        write_patches(launcher, w, weight, g, target)
        return  # the phases, one for each tap, are of no matter
    whole = polyphase.joined(w)
    if depthwise.takes(whole, launcher.machine):
        depthwise.convolve(launcher, whole, weight, g, target, is_transposed=True)
        return  # padding was multiplied by nothing
    is_new = is_new_layer(launcher, whole, w, weight, g, target, is_transposed=True)
    if is_direct(whole, launcher.machine):
        convolve_directly(launcher, whole, weight, g, target, is_transposed=True)
    elif is_of_patches(w):
        write_patches(launcher, w, weight, g, target)
        return  # every window is inside: no padding was multiplied
    else:
        convolve_by_phases(launcher, w, weight, g, target, knows_first=is_new)
    border.mend(launcher, terms.InputGradient(w), g, weight, target)


def finish_input_gradient(
    launcher: Launcher, w: Windows, g: CubeTensor, weight: CubeTensor, type: TensorType,
    epilogue: Epilogue,
) -> bool:  # fmt: skip
    """Write what an epilogue makes of the gradient of x, where one kernel makes all of it."""
    whole, sums = polyphase.joined(w), terms.InputGradient(w)
    machine = launcher.machine
    if depthwise.takes(whole, machine):
        around, target = Around.of(launcher, (), epilogue, tensor_layout_of), unstored(type)
        depthwise.convolve(launcher, whole, weight, g, target, is_transposed=True, around=around)
        return True
    if not (is_direct(whole, machine) and border.takes_epilogue(machine, sums, weight)):
        return False
    around, target = around_directly(launcher, (), epilogue), unstored(type)
    convolve_directly(launcher, whole, weight, g, target, is_transposed=True, around=around)
    around = Around.of(launcher, (), epilogue, tensor_layout_of)
    border.mend(launcher, sums, g, weight, target, around)
    return True


def is_of_patches(w: Windows) -> bool:
    """Whether windows are of several elements, do not overlap, and lie inside of x."""
    axes = zip(w.kernel_size, w.dilation, w.stride, w.counts, w.sizes, strict=True)
    reach = [(1 + (k - 1) * d, step, count, n) for k, d, step, count, n in axes]
    return (
        prod(w.kernel_size) > 1
        and not any(w.padding)
        and all(far <= step and (count - 1) * step + far <= n for far, step, count, n in reach)
    )


def write_patches(
    launcher: Launcher, w: Windows, weight: CubeTensor, g: CubeTensor, target: CubeTensor
) -> None:
    """Write the gradient of x by one product, and zeros before that where no window was."""
    if w.groups * w.channels * prod(w.kernel_size) * w.batch * prod(w.counts) < target.type.size:
        zero = Constant(0, TensorType((), target.dtype))
        map_elements(launcher, "copy", "", lambda _, x: x, [zero], target)
    product = patches_gradient(w, *(layout_of(t) for t in (g, weight, target)))
    contract(launcher, product, weight, g, target)


def convolve_by_phases(
    launcher: Launcher, w: Windows, weight: CubeTensor, g: CubeTensor, target: CubeTensor, *,
    knows_first: bool = True,
) -> None:  # fmt: skip
    """Write the gradient of x, a product for each of its phases."""
    type = target.type
    for phase in polyphase.input_gradient(w):
        windows = phase.windows
        part = target.sliced(
            (0, 0, *phase.start), (*type.shape[:2], *windows.counts), (1, 1, *w.stride)
        )
        if 0 in windows.kernel_size:
            zero = Constant(0, TensorType((), type.dtype))
            map_elements(launcher, "copy", "", lambda _, x: x, [zero], part)
            continue
        taps = weight.sliced(
            (0, 0, *phase.first_tap), (*weight.shape[:2], *windows.kernel_size),
            (1, 1, *phase.tap_step),
        )  # fmt: skip
        problem = windowed(windows, taps, g, part, launcher.machine, is_transposed=True)
        contract_windows(launcher, problem, taps, g, part, knows_first=knows_first)


# ---- the gradient of the weight ----


def gradient_product(problem: WeightGradient) -> WindowedProduct:
    """Return the product that the gradient is."""
    w, x = problem.windows, problem.x
    out = OperandLayout(x.dtype, row_major((w.groups * w.outputs, w.channels, *w.kernel_size)))
    return WindowedProduct(w, problem.g, x, out, is_gradient=True)


def weight_gradient(
    launcher: Launcher, w: Windows, x: CubeTensor, g: CubeTensor, target: CubeTensor
) -> None:
    """Write the gradient g times the windows of x, summed over all positions and images."""
    problem = WeightGradient(w, layout_of(x), layout_of(g))
    if launcher.machine.kind == "cpu":
        sum_over_positions(launcher, problem, x, g, target)
    else:
        contract_windows(launcher, gradient_product(problem), g, x, target)
    border.mend(launcher, terms.WeightGradient(w), x, g, target)


def finish_weight_gradient(
    launcher: Launcher, w: Windows, x: CubeTensor, g: CubeTensor, type: TensorType,
    epilogue: Epilogue,
) -> bool:  # fmt: skip
    """Leave an epilogue to another kernel: sums of parts of the positions are joined by a last."""
    return False


def gradient_config(
    problem: WeightGradient, first: WeightGradient, machine: Machine
) -> GradientConfig:
    """Return the best config for the first sizes, and for all others one that they share."""
    if problem.is_first:
        return WEIGHT_GRADIENT.select(problem, machine)
    w = problem.windows
    of_first = first.with_batch(w.batch).windows
    return select_shared(w, of_first, problem.x.dtype, machine)


def sum_over_positions(
    launcher: Launcher, problem: WeightGradient, x: CubeTensor, g: CubeTensor, target: CubeTensor,
    config: GradientConfig | None = None,
) -> None:  # fmt: skip
    """Write the gradient by one of the kernels that read x and g where they lie."""
    first = launcher.first_of(problem.with_batch(0))
    problem = replace(problem, is_first=launcher.is_like_first(problem.with_batch(0)))
    if problem.is_first and config is None:
        _foresee_gradient(launcher, problem)
    chosen = config or gradient_config(problem, first, launcher.machine)
    bindings = [*bindings_of(x), *bindings_of(g)]
    if chosen.parts == 1:
        launch(launcher, WEIGHT_GRADIENT, problem, [*bindings, target.buffer], config=chosen)
        return
    count = chosen.parts * target.type.size
    sums = launcher.allocate(count * accumulator_of(problem.x.dtype).itemsize)
    launch(launcher, WEIGHT_GRADIENT, problem, [*bindings, sums], config=chosen)
    parts = AnyParts(gradient_product(problem).product, chosen.parts)
    launch(launcher, SUM, parts, [sums, target.buffer], config=0)


def _foresee_gradient(launcher: Launcher, first: WeightGradient) -> None:
    """Have the kernel compiled ahead that serves other sizes than the first."""

    def compile(launcher: Launcher) -> None:
        others = replace(first, is_first=False)
        config = gradient_config(others, first, launcher.machine)
        foresee(launcher, WEIGHT_GRADIENT, others, config)

    launcher.compile_ahead(first.with_batch(0), compile)


#: What writes the gradient of x (role 0) or of the weight (role 1), of windows and its two inputs.
GRADIENTS: Final = (input_gradient, weight_gradient)
#: And what writes what an epilogue makes of it, if it can.
FINISHING_GRADIENTS: Final = (finish_input_gradient, finish_weight_gradient)
