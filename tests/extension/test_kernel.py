"""A kernel in Python runs on every runtime, once compiled for each set of types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pyrite
from pyrite import Tensor, custom_op
from pyrite.backend.cube import CubeBackend
from pyrite.backend.device import Device, device_problem
from pyrite.errors import DeviceError, DTypeError, KernelError, UnsupportedKernelError
from pyrite.extension import KernelScope, PythonKernel, TensorArgument, kernel
from pyrite.runtime.wgpu import WgpuRuntime
from pyrite.runtime.wgpu.adapter import open_device
from pyrite.types import FLOATS, DType, TensorType, float32
from pyrite.wgpu import WGSLKernel
from pyrite.wgpu import kernel as wgsl_kernel

Op = Callable[..., Any]


def same(*types: TensorType, **_: Any) -> TensorType:
    return types[0]


@kernel
def scaled(k: KernelScope, x: TensorArgument, out: TensorArgument, *, factor: float) -> None:
    """Out = x * factor."""
    out[k.at] = x[k.at] * factor


@custom_op(infer=same, kernels=[scaled])
def scale(x: Tensor, /, *, factor: float = 2.0) -> Tensor:
    """X * factor."""
    ...


def op_of(made: PythonKernel, infer: Any = same) -> Op:
    @custom_op(infer=infer, kernels=[made])
    def op(x: Tensor, /) -> Tensor:
        """An op of that kernel."""
        ...

    return op


def runtime_of(device: Device) -> Any:
    backend: Any = device.backend.root
    return backend.runtime


# ---- values ----


@pytest.mark.parametrize("shape", [(), (1,), (7,), (64,), (3, 5), (2, 3, 4), (0, 3), (1000,)])
def test_it_runs_once_for_each_element(device: Device, shape: tuple[int, ...]) -> None:
    array = np.random.default_rng(0).normal(size=shape).astype(np.float32)

    assert np.array_equal(scale(pyrite.tensor(array, device=device)).numpy(), array * 2)


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda d: d.name)
def test_narrow_floats_are_computed_in_float32(device: Device, dtype: DType) -> None:
    x = pyrite.tensor([0.1, -2.0, 3.0], dtype=dtype, device=device)

    got = scale(x, factor=0.5)

    assert got.dtype is dtype
    assert got.tolist() == [v / 2 for v in x.tolist()]


def test_a_view_is_read_where_it_lies(device: Device) -> None:
    array = np.arange(24, dtype=np.float32).reshape(4, 6)
    x = pyrite.tensor(array, device=device)

    assert np.array_equal(scale(x.mT[1:, ::2]).numpy(), array.T[1:, ::2] * 2)


def test_a_number_is_a_tensor_of_no_axes(device: Device) -> None:
    @kernel
    def shifted(k: KernelScope, x: TensorArgument, y: TensorArgument, out: TensorArgument) -> None:
        out[k.at] = x[k.at] + y[()]

    @custom_op(infer=same, kernels=[shifted])
    def shift(x: Tensor, y: float, /) -> Tensor:
        """X + y."""
        ...

    assert shift(pyrite.tensor([1.0, 2.0], device=device), 0.5).tolist() == [1.5, 2.5]


def test_an_input_may_be_left_out(device: Device) -> None:
    @kernel
    def maybe(k: KernelScope, x: TensorArgument, y: Any, out: TensorArgument) -> None:
        out[k.at] = x[k.at] if y is None else x[k.at] + y[k.at]

    @custom_op(infer=same, kernels=[maybe])
    def add_maybe(x: Tensor, y: Tensor | None = None, /) -> Tensor:
        """X + y, or x."""
        ...

    x = pyrite.tensor([1.0, 2.0], device=device)
    assert add_maybe(x).tolist() == [1.0, 2.0]
    assert add_maybe(x, x).tolist() == [2.0, 4.0]


def test_it_may_have_several_outputs(device: Device) -> None:
    @kernel
    def split(
        k: KernelScope, x: TensorArgument, whole: TensorArgument, rest: TensorArgument
    ) -> None:
        whole[k.at] = k.floor(x[k.at])
        rest[k.at] = x[k.at] - k.floor(x[k.at])

    @custom_op(infer=lambda x: (x, x), kernels=[split])
    def divmod_one(x: Tensor, /) -> tuple[Tensor, Tensor]:
        """The whole part and the rest."""
        ...

    whole, rest = divmod_one(pyrite.tensor([1.25, -0.5], device=device))
    assert (whole.tolist(), rest.tolist()) == ([1.0, -1.0], [0.25, 0.5])


def test_mathematics_is_that_of_every_device(device: Device) -> None:
    @kernel
    def gelu(k: KernelScope, x: TensorArgument, out: TensorArgument) -> None:
        value = x[k.at]
        out[k.at] = value * (k.math.erf(value / 2**0.5) + 1.0) / 2.0

    x = pyrite.tensor(np.linspace(-4, 4, 99).astype(np.float32), device=device)

    np.testing.assert_allclose(op_of(gelu)(x).numpy(), x.gelu().numpy(), rtol=1e-5, atol=1e-6)


# ---- workgroups of one's own ----


@kernel(workgroup_size=32, grid=lambda x, out: (x.shape[0],))
def row_sum(k: KernelScope, x: TensorArgument, out: TensorArgument) -> None:
    """A workgroup sums a row: each invocation every 32nd element, then by halves."""
    lane, row = k.local_id(), k.workgroup_id()
    with k.for_(0, -(-x.shape[1] // 32), carried=[k.const(0.0, float32)]) as loop:
        loop.yield_(loop.carried[0] + x.get(row, loop.index * 32 + lane))
    partial = k.shared(float32, 32)
    partial[lane] = loop.results[0]
    k.barrier()
    for half in (16, 8, 4, 2, 1):
        with k.if_(lane < half):
            partial[lane] = partial[lane] + partial[lane + half]
        k.barrier()
    with k.if_(lane == 0):
        out[row] = partial[0]


@pytest.mark.parametrize("columns", [1, 31, 32, 100])
def test_workgroups_share_memory(device: Device, columns: int) -> None:
    array = np.random.default_rng(0).normal(size=(5, columns)).astype(np.float32)
    sums = op_of(row_sum, lambda x: TensorType(x.shape[:1], x.dtype))

    got = sums(pyrite.tensor(array, device=device)).numpy()

    np.testing.assert_allclose(got, array.sum(1), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("counts", [(), (1, 1, 1, 1), (-1,), (0,), (1.5,), 1, 0, None, "1"])
def test_a_grid_has_one_to_three_counts(interpreter: Device, counts: Any) -> None:
    made = kernel(workgroup_size=4, grid=lambda x, out: counts)(row_sum.function)

    with pytest.raises(KernelError, match=r"'row_sum' requires a grid of one to three counts.* got"
    ) as caught:  # fmt: skip
        op_of(made)(pyrite.ones((2,), device=interpreter))

    assert str(caught.value).endswith("got 1; return (1,)") is (counts == 1)
    assert str(caught.value.location).startswith(__file__)


@pytest.mark.parametrize("counts", [(1,), 1, [2, 3]])
def test_a_grid_is_a_function(counts: Any) -> None:
    with pytest.raises(KernelError, match=r"'row_sum' requires a function as grid, .*: \(.*\d,?\)$"
    ) as caught:  # fmt: skip
        kernel(workgroup_size=4, grid=counts)(row_sum.function)

    assert str(caught.value.location).startswith(__file__)


def test_a_grid_takes_types_and_attributes(interpreter: Device) -> None:
    def broken(x: TensorType, out: TensorType) -> tuple[int, ...]:
        return (len(x),)  # type: ignore[arg-type]

    given = pyrite.ones((2,), device=interpreter)

    with pytest.raises(KernelError, match=r"takes 1 .*; write grid=lambda x, out: \.\.\.$"):
        op_of(kernel(grid=lambda x: (1,))(row_sum.function))(given)
    with pytest.raises(TypeError, match="'TensorType' has no len"):
        op_of(kernel(grid=broken)(row_sum.function))(given)


def test_workgroups_of_several_axes_have_a_grid() -> None:
    with pytest.raises(KernelError, match=r"'row_sum' requires a grid for workgroups of several"):
        kernel(workgroup_size=(8, 8))(row_sum.function)
    with pytest.raises(KernelError, match="requires one to three sizes of a workgroup, got"):
        kernel(workgroup_size=())(row_sum.function)


# ---- what is compiled, and when ----


def kernels_of(device: Device) -> int:
    count: int = runtime_of(device).report()["kernels"]
    return count


def test_numbers_and_sizes_compile_nothing_and_dtypes_and_ranks_do(interpreter: Device) -> None:
    def compiled(array: Any, **attrs: Any) -> int:
        before = kernels_of(interpreter)
        x = pyrite.tensor(array, device=interpreter)
        assert np.array_equal(scale(x, **attrs).numpy(), array * attrs["factor"])
        return kernels_of(interpreter) - before

    ones = [np.ones(n, np.float32) for n in range(300)]

    assert compiled(ones[4], factor=3.0) == 1
    assert compiled(ones[4], factor=4.0) == 0
    # The first sizes are built in, all others have one kernel.
    assert compiled(ones[5], factor=4.0) == 1
    # Also where there are several workgroups, and where there is one again.
    assert [compiled(ones[n], factor=float(n)) for n in (6, 7, 8, 65, 299, 9, 4)] == [0] * 7
    assert compiled(ones[6].astype(np.float64), factor=0.5) == 1
    assert compiled(np.ones((4, 2), np.float32), factor=0.5) == 1


@kernel
def shifted(k: KernelScope, x: TensorArgument, out: TensorArgument, *, by: Any, times: Any) -> None:
    (i,) = k.at
    total = 0.0
    for n in range(times):
        total += x.get(i + by * n)
    out[i] = total * 0.5 if by > 0 else total


@custom_op(infer=same, kernels=[shifted])
def shift_sum(x: Tensor, /, *, by: int, times: int = 3) -> Tensor:
    """The sum of some elements that are so far apart."""
    ...


def test_a_number_is_what_it_is_at_each_call(device: Device) -> None:
    array = np.arange(1, 9, dtype=np.float32)
    x, before = pyrite.tensor(array, device=device), kernels_of(device)

    def wanted(by: int, times: int) -> np.ndarray:
        padded = np.concatenate([np.zeros(40), array, np.zeros(40)])
        total = sum(padded[40 + by * n : 48 + by * n] for n in range(times))
        return total * (0.5 if by > 0 else 1.0) + np.zeros(8)

    for by in (1, 2, 5, 0, -1, -3):
        for times in (0, 1, 2, 3, 7):
            assert np.array_equal(shift_sum(x, by=by, times=times).numpy(), wanted(by, times))

    # One for each answer to what Python asks: by > 0.
    assert kernels_of(device) - before <= 2


def test_a_number_that_python_wants_is_built_in(device: Device) -> None:
    @kernel
    def asking(k: KernelScope, x: TensorArgument, out: TensorArgument, *, at: Any) -> None:
        weights = (1.0, 10.0, 100.0)
        tile = k.private(float32, at + 1)
        tile[at] = x[k.at] * weights[at] + 2**at + abs(at) + (at << 1) + (at & 1)
        out[k.at] = tile[at]

    @custom_op(infer=same, kernels=[asking])
    def op(x: Tensor, /, *, at: int) -> Tensor:
        """An op of that kernel."""
        ...

    x = pyrite.tensor([1.0, 2.0], device=device)
    for at, weight in ((0, 1), (1, 10), (2, 100), (1, 10)):
        rest = 2**at + at + 2 * at + (at & 1)
        assert op(x, at=at).tolist() == [weight + rest, 2 * weight + rest]


@pytest.mark.parametrize("static", [(), ("factor",)])
def test_zeros_infinities_and_bools_are_told_apart(device: Device, static: Any) -> None:
    @kernel(static=static)
    def inverse(k: KernelScope, x: TensorArgument, out: TensorArgument, *, factor: Any) -> None:
        out[k.at] = x[k.at] / factor if factor is not True else x[k.at] + 5.0

    @custom_op(infer=same, kernels=[inverse])
    def op(x: Tensor, /, *, factor: Any) -> Tensor:
        """An op of that kernel."""
        ...

    # WGSL may assume that no infinity is there: the signs tell zeros apart.
    x, inf = pyrite.tensor([0.0], device=device), float("inf")
    signs = {1.0: 1, -2.0: -1, inf: 1, -inf: -1, 3: 1, -7: -1}
    for factor, sign in signs.items():
        assert np.copysign(1, op(x, factor=factor).item()) == sign
    assert op(x, factor=True).item() == 5.0
    assert op(x, factor=1).item() == 0.0


@pytest.mark.parametrize(("value", "name"), [(2.5, "float"), (2**31, "int")])
def test_a_number_that_does_not_fit_is_an_error_at_each_call(
    interpreter: Device, value: Any, name: str
) -> None:
    @kernel
    def plus(k: KernelScope, x: TensorArgument, out: TensorArgument, *, value: Any) -> None:
        out[k.at] = x[k.at] + value

    @custom_op(infer=same, kernels=[plus])
    def op(x: Tensor, /, *, value: Any) -> Tensor:
        """An op of that kernel."""
        ...

    x = pyrite.tensor([1], dtype="int32", device=interpreter)
    for _ in range(2):
        with pytest.raises(KernelError, match="requires a whole number between") as caught:
            op(x, value=value)
        assert str(caught.value.location).startswith(__file__)
        assert op(x, value=type(value)(3)).item() == 4


def test_what_is_static_is_a_number_of_python(interpreter: Device) -> None:
    @kernel(static=["factor"])
    def times(k: KernelScope, x: TensorArgument, out: TensorArgument, *, factor: Any) -> None:
        out[k.at] = x[k.at] * (factor if type(factor) is float else -1.0)

    @custom_op(infer=same, kernels=[times])
    def op(x: Tensor, /, *, factor: Any) -> Tensor:
        """An op of that kernel."""
        ...

    x, before = pyrite.ones((4,), device=interpreter), kernels_of(interpreter)
    for factor in (2.0, 3.0, 2.0):
        assert op(x, factor=factor).tolist() == [factor] * 4
    assert kernels_of(interpreter) - before == 2

    with pytest.raises(
        KernelError, match=r"static= to name attributes of op, got size; it has none"
    ):
        op_of(kernel(static="size")(scaled.function))(x)


def test_an_op_that_is_declared_anew_has_the_new_kernel(interpreter: Device) -> None:
    """As in a notebook."""
    x, results = pyrite.ones((2,), device=interpreter), []
    for number in (2.0, 3.0):

        @kernel
        def times(k: KernelScope, x: TensorArgument, out: TensorArgument) -> None:
            out[k.at] = x[k.at] * number  # noqa: B023 - called before the next round

        results.append(op_of(times)(x).tolist())

    assert results == [[2.0, 2.0], [3.0, 3.0]]


# ---- mistakes ----


def test_a_parameter_too_few_is_an_error(interpreter: Device) -> None:
    @kernel
    def lonely(k: KernelScope, x: TensorArgument) -> None: ...

    with pytest.raises(KernelError, match=r"a parameter for the scope, 1 for the inputs .* got 2"):
        op_of(lonely)(pyrite.ones((2,), device=interpreter))


@pytest.mark.parametrize("where", ["numpy", "cpu"])
def test_the_attributes_of_a_kernel_are_those_of_its_op(where: str) -> None:
    @kernel
    def none(k: Any, x: Any, out: Any) -> None:
        out[k.at] = x[k.at]

    @kernel
    def another(k: Any, x: Any, out: Any, *, by: float, to: float = 1.0, of: float) -> None:
        out[k.at] = x[k.at]

    x = pyrite.ones((3,), device=where)
    for one, message in (
        (none, r"none for by; write it behind \*: def none\(k, x, out, \*, by\)"),
        (another, "none called of"),
    ):

        @custom_op(infer=lambda x, *, by: x, kernels=[one])
        def called(x: Tensor, /, *, by: float) -> Tensor:
            """By a number."""
            ...

        with pytest.raises(KernelError, match=message):
            called(x, by=2.0)


@pytest.mark.parametrize("size", [0, 1.5, (1, 1, 1, 1)])
def test_a_workgroup_has_one_to_three_sizes(size: Any) -> None:
    with pytest.raises(KernelError, match="a kernel requires one to three sizes of a workgroup"):
        kernel(workgroup_size=size)(scaled.function)


def test_an_output_that_is_not_written_is_an_error(interpreter: Device) -> None:
    @kernel
    def forgetful(k: KernelScope, x: TensorArgument, out: TensorArgument) -> None:
        x[k.at]

    with pytest.raises(KernelError, match=r"'forgetful' requires every output .* no write to out;"):
        op_of(forgetful)(pyrite.ones((2,), device=interpreter))


def test_a_mistake_in_it_shows_its_line_and_the_call(interpreter: Device) -> None:
    @kernel
    def wrong(k: KernelScope, x: TensorArgument, out: TensorArgument) -> None:
        out[k.at] = x[k.at, 0]

    with pytest.raises(KernelError, match=r"x\[...\] requires 1 coordinates of shape \(2,\), got 2"
    ) as caught:  # fmt: skip
        op_of(wrong)(pyrite.ones((2,), device=interpreter))

    assert str(caught.value.location).startswith(__file__)
    assert "wrong" in [entry.name for entry in caught.traceback]


def test_without_a_body_python_runs_it_on_numpy() -> None:
    x = pyrite.tensor([0.1, -2.0], dtype="float16", device="numpy")

    assert scale(x).dtype is x.dtype
    assert scale(x).tolist() == (x * 2).tolist()


def test_without_a_body_it_is_an_error_on_a_device_without_kernels() -> None:
    if problem := device_problem("torch:cpu"):
        pytest.skip(problem)

    with pytest.raises(DeviceError, match="scale requires a kernel that runs on torch"):
        scale(pyrite.ones((2,), device="torch:cpu"))


# ---- the first that the device can run ----


def with_subgroups(k: KernelScope, x: TensorArgument, out: TensorArgument) -> None:
    out[k.global_id()] = k.subgroup_broadcast(x[k.global_id()]) * 0.0 + 1.0


def with_much_memory(k: KernelScope, x: TensorArgument, out: TensorArgument) -> None:
    tile = k.shared(float32, 2**20)
    tile[k.local_id()] = x[k.global_id()]
    k.barrier()
    out[k.global_id()] = tile[k.local_id()] * 0.0 + 1.0


def with_float64(k: KernelScope, x: TensorArgument, out: TensorArgument) -> None:
    i = k.global_id()
    out[i] = k.cast(k.cast(x[i], "float64") * 0.0 + 1.0, "float32")


def with_guard(k: KernelScope, x: TensorArgument, out: TensorArgument) -> None:
    i = k.global_id()
    if i < x.size:
        out[i] = x[i] * 0.0 + 1.0


def by_groups(k: KernelScope, x: TensorArgument, out: TensorArgument) -> None:
    i = k.workgroup_id()
    if k.local_id(2) == 0:
        out[i] = x[i] * 0.0 + 1.0


def portable(k: KernelScope, x: TensorArgument, out: TensorArgument) -> None:
    out[k.global_id()] = x[k.global_id()] * 0.0 + 2.0


@pytest.fixture(scope="module")
def bare() -> Device:
    """A wgpu device with the limits of WebGPU and no feature, as a browser grants."""
    if problem := device_problem("wgpu"):
        pytest.skip(problem)
    return Device(CubeBackend(WgpuRuntime(open_device(limits="default"), name="wgpu:bare")))


#: Of four invocations in a workgroup, one for each element.
FOUR: dict[str, Any] = {"workgroup_size": 4, "grid": lambda x, out: (x.size // 4,)}


def in_wgsl(expression: str, size: int = 4) -> WGSLKernel:
    """A kernel of text, which gives 1."""
    return wgsl_kernel(
        f"""@compute @workgroup_size(workgroup_size_x)
        fn main(@builtin(global_invocation_id) id: vec3u) {{
            let i = id.x;
            if (i < out_size) {{ out[i] = f32({expression}) * 0.0 + 1.0; }}  // not subgroups, f64
        }}""",
        workgroup_size=size,
    )


#: Kernels that give 1, where a device has what they ask for.
SPECIAL: dict[str, Callable[[], Any]] = {
    "subgroups": lambda: kernel(**FOUR)(with_subgroups),
    "memory": lambda: kernel(**FOUR)(with_much_memory),
    "float64": lambda: kernel(**FOUR)(with_float64),
    "invocations": lambda: kernel(workgroup_size=512, grid=lambda *_: (1,))(with_guard),
    "a deep workgroup": lambda: kernel(workgroup_size=(1, 1, 128), grid=lambda *_: (8,))(by_groups),
    "subgroups of WGSL": lambda: in_wgsl("subgroupAdd(x[i])"),
    "f64 of WGSL": lambda: in_wgsl("f64(x[i])"),
    "i64 of WGSL": lambda: in_wgsl("i64(x[i])"),
    "invocations of WGSL": lambda: in_wgsl("x[i]", size=512),
}


@pytest.mark.parametrize("first", SPECIAL)
@pytest.mark.parametrize("has_body", [False, True])
def test_a_kernel_that_a_device_cannot_run_leaves_it_to_the_next(
    bare: Device, first: str, has_body: bool
) -> None:
    special, general = SPECIAL[first](), kernel(**FOUR)(portable)
    body = (lambda x: x * 0.0 + 3.0) if has_body else None

    @custom_op(infer=same, kernels=[special, general], body=body)
    def op(x: Tensor, /) -> Tensor:
        """Which of them is it?"""
        ...

    @custom_op(infer=same, kernels=[special], body=body)
    def alone(x: Tensor, /) -> Tensor:
        """It, or the body."""
        ...

    x = pyrite.ones((8,), device=bare)
    for _ in range(2):
        assert op(x).tolist() == [2.0] * 8
    assert [*special.refusals()] == ["wgpu:bare"]
    assert "requires" in special.refusals()["wgpu:bare"]
    assert not general.refusals()
    if has_body:
        assert alone(x).tolist() == [3.0] * 8
    else:
        with pytest.raises(UnsupportedKernelError):
            alone(x)


def test_more_buffers_than_a_device_binds_are_left_to_the_next(bare: Device) -> None:
    @kernel
    def at_once(  # type: ignore[no-untyped-def]
        k, a, b, c, d, e, f, g, h, out
    ) -> None:
        out[k.at] = a[k.at] + b[k.at] + c[k.at] + d[k.at] + e[k.at] + f[k.at] + g[k.at] + h[k.at]

    @custom_op(infer=lambda *types: types[0], kernels=[at_once], body=lambda *xs: xs[0] * 3.0)
    def op(  # type: ignore[no-untyped-def]
        a, b, c, d, e, f, g, h, /
    ):
        """The sum of all, or three times the first."""
        ...

    assert op(*[pyrite.ones((8,), device=bare)] * 8).tolist() == [3.0] * 8
    assert "at most 8 buffers on this device, got" in at_once.refusals()["wgpu:bare"]


def test_a_mistake_in_wgsl_is_not_left_to_the_next(bare: Device) -> None:
    @custom_op(infer=same, kernels=[in_wgsl("subgruopAdd(x[i])"), kernel(**FOUR)(portable)])
    def op(x: Tensor, /) -> Tensor:
        """A mistake."""
        ...

    with pytest.raises(KernelError, match="subgruopAdd") as caught:
        op(pyrite.ones((8,), device=bare))
    assert not isinstance(caught.value, UnsupportedKernelError)


def with_subgroups_of_some(k: KernelScope, x: TensorArgument, out: TensorArgument) -> None:
    i = k.global_id()
    out[i] = 1.0
    if x[i] > 0.0:
        out[i] = k.subgroup_broadcast(x[i]) * 0.0 + 1.0


def test_subgroups_that_only_some_come_by_are_left_to_the_next_on_the_cpu() -> None:
    special, general = kernel(**FOUR)(with_subgroups_of_some), kernel(**FOUR)(portable)

    @custom_op(infer=same, kernels=[special, general])
    def op(x: Tensor, /) -> Tensor:
        """Which of them is it?"""
        ...

    assert op(pyrite.ones((8,), device="cpu")).tolist() == [2.0] * 8
    assert [*special.refusals()] == ["cpu"]


def with_a_loop_by_hand(k: KernelScope, x: TensorArgument, out: TensorArgument) -> None:
    with k.for_(0, 1) as loop:
        out[k.global_id()] = loop.index * 0.0 + 1.0


@pytest.mark.parametrize("function", [with_subgroups, with_subgroups_of_some, with_a_loop_by_hand])
def test_what_python_cannot_run_is_left_to_the_next_on_numpy(function: Any) -> None:
    special, general = kernel(**FOUR)(function), kernel(**FOUR)(portable)

    @custom_op(infer=same, kernels=[special, general])
    def op(x: Tensor, /) -> Tensor:
        """Which of them is it?"""
        ...

    @custom_op(infer=same, kernels=[special])
    def alone(x: Tensor, /) -> Tensor:
        """There is no other."""
        ...

    x = pyrite.ones((8,), device="numpy")
    assert op(x).tolist() == [2.0] * 8
    assert [*special.refusals()] == ["numpy"]
    with pytest.raises(UnsupportedKernelError, match="recorded for a device"):
        alone(x)


def test_a_name_that_no_kernel_knows_is_not_left_to_the_next_on_numpy() -> None:
    @kernel(**FOUR)
    def wrong(k: KernelScope, x: TensorArgument, out: TensorArgument) -> None:
        out[k.global_id()] = k.exp(x[k.global_id()])

    @custom_op(infer=same, kernels=[wrong, kernel(**FOUR)(portable)])
    def op(x: Tensor, /) -> Tensor:
        """A mistake."""
        ...

    with pytest.raises(AttributeError, match=r"use k\.math\.exp"):
        op(pyrite.ones((8,), device="numpy"))


def test_a_mistake_is_not_left_to_the_next(interpreter: Device) -> None:
    @kernel
    def wrong(k: KernelScope, x: TensorArgument, out: TensorArgument) -> None:
        out[k.at] = k.cast(x[k.at], "float33")

    @custom_op(infer=same, kernels=[wrong, scaled])
    def op(x: Tensor, /) -> Tensor:
        """A mistake."""
        ...

    with pytest.raises(DTypeError):
        op(pyrite.ones((8,), device=interpreter))
