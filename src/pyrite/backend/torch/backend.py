"""The Torch backend: every op on PyTorch's tensors, on the host, CUDA or Apple's GPUs.

An op runs by its native implementation where one of the families has it, by its scalar rule on
PyTorch's functions, or by its body; none of the op table is left to the reference.  Dtypes are
pinned: float16 and bfloat16 are computed in float32 and rounded once per op.

A handle is a torch.Tensor that needs no gradient and that nobody writes to.  Nothing waits for the
device but `download` and `synchronize`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import torch

from pyrite.backend.evaluation import EVALUATORS, coordinates_for, evaluate
from pyrite.backend.fallback import note_fallback
from pyrite.backend.means import OWN, note_means
from pyrite.backend.numpy import NumPy
from pyrite.backend.torch.activation import Activation
from pyrite.backend.torch.arrays import TorchArrays
from pyrite.backend.torch.attention import Attention
from pyrite.backend.torch.contraction import Contraction
from pyrite.backend.torch.convolution import Convolution
from pyrite.backend.torch.dtype import (
    NARROW,
    PLAIN,
    PYRITE,
    TORCH,
    WIDE_UNSIGNED,
    Carrier,
    carried,
    carried_number,
    scalar,
    uncarried,
)
from pyrite.backend.torch.fault import Faults
from pyrite.backend.torch.gather import Gather
from pyrite.backend.torch.joint import alike, cached, joined
from pyrite.backend.torch.loss import Loss
from pyrite.backend.torch.memory import memory_error, within_memory
from pyrite.backend.torch.movement import Movement
from pyrite.backend.torch.native import Demand
from pyrite.backend.torch.normalization import Normalization
from pyrite.backend.torch.optimizer import Optimizer
from pyrite.backend.torch.order import Order
from pyrite.backend.torch.pooling import Pooling
from pyrite.backend.torch.recurrent import Recurrent
from pyrite.backend.torch.reduction import Reduction
from pyrite.backend.torch.unsigned import Unsigned
from pyrite.config import config
from pyrite.errors import DeviceError, DTypeError
from pyrite.op import Attributes, Constant, Op, Plan, Runner, require_reference
from pyrite.op.rule import Gather as GatherRule
from pyrite.op.rule import Writes
from pyrite.types import Array, DType, Shape, TensorType, float64

ARRAYS = TorchArrays()
ALGEBRA = ARRAYS.algebra
REFERENCE = NumPy()

#: Dtypes that a kind of device lacks.
_LACKING: dict[str, frozenset[DType]] = {"mps": frozenset({float64})}

#: An implementation and how it wants its inputs.
_Native = tuple[Callable[..., Any], Demand]


class Torch(
    Movement,
    Reduction,
    Order,
    Pooling,
    Gather,
    Contraction,
    Convolution,
    Activation,
    Normalization,
    Attention,
    Recurrent,
    Loss,
    Optimizer,
):
    """PyTorch as a backend, on one of its devices: ``Torch("cuda:1")``."""

    #: On the host.
    shares_with_numpy = True

    def __init__(self, device: str = "cpu") -> None:
        self.device = _working(device)
        self.shares_with_numpy = self.device.type == "cpu"  # type: ignore[misc]
        index = f":{self.device.index}" if self.device.index else ""
        self.name = f"torch:{self.device.type}{index}"
        self.faults = Faults()
        self.arrays = TorchArrays(self.faults)
        self._zeros = {}
        self._lacks = _LACKING.get(self.device.type, frozenset())
        self._natives = {
            op: (getattr(self, method), self._demands[method])
            for op, method in self._implementations.items()
        }

    @property
    def details(self) -> str:  # type: ignore[override]
        """The version of PyTorch, and the GPU, whose name takes a CUDA context: only when asked."""
        version = f"torch {torch.__version__}"
        if self.device.type != "cuda":
            return version
        return f"{version}, {torch.cuda.get_device_name(self.device)}"

    def keeps(self, op: Op, inputs: Sequence[Any]) -> bool:
        """Whether a composite has a native implementation that takes such inputs."""
        return self._native(op, inputs) is not None

    def _native(self, op: Op, inputs: Sequence[Any]) -> _Native | None:
        """Return what is for the op and such inputs, None where there is nothing."""
        if config.rules_only and op.is_classed:
            return None
        found = self._natives.get(op.name)
        if found is None or _has_wide_indices(op, inputs):
            return None
        return found if found[1].when is None or found[1].when(*inputs) else None

    def execute(self, op: Op, inputs: Sequence[Any], plan: Plan) -> Sequence[torch.Tensor] | None:
        """Execute one op as it was planned: what runs is chosen once, by the types."""
        run = plan.runners.get(self)
        if run is None:
            run = self._prepared(op, inputs, plan)
        try:
            return run(inputs)
        except RuntimeError as error:
            if beyond := memory_error(op.name, self.name, plan.out or (), error):
                raise beyond from None
            raise

    def _prepared(self, op: Op, inputs: Sequence[Any], plan: Plan) -> Runner:
        run: Runner = _expanded
        if op.body is None or self.keeps(op, inputs):
            run = self._runner(op, inputs, plan)
        if plan.is_kept:
            plan.runners[self] = run
        return run

    def _runner(
        self,
        op: Op,
        inputs: Sequence[Any],
        plan: Plan,
    ) -> Runner:
        """Return what executes an op on inputs of these types: it looks at no type again."""
        attrs, out = plan.attrs, plan.out
        if self._lacks:
            self._require_supported(op, out)
        native = self._native(op, inputs)
        note_means(self.name, op.name, OWN if native else op.rule_class or "reference")
        if native is not None:
            if plan.is_for_derivative and native[1].has_own_residuals:
                attrs = {**attrs, "is_for_derivative": True}
            return self._of_implementation(native, inputs, attrs, out)
        if op.scalar is not None:
            assert out is not None
            return self._of_rule(op, inputs, attrs, out[0])
        if op.rule is not None and type(op.rule) in EVALUATORS:
            assert out is not None
            return self._of_class(op, attrs, out)
        return lambda inputs: self._by_reference(op, inputs, attrs, out)

    def _of_class(self, op: Op, attrs: Attributes, out: tuple[TensorType, ...]) -> Runner:
        """Return what evaluates the rule of an op that is not elementwise."""

        def run(inputs: Sequence[Any]) -> Sequence[torch.Tensor]:
            values = [i if _is_plain(i) else self._here(_value(i)) for i in inputs]
            results = evaluate(self.arrays, op, values, attrs, out)
            return [
                _rounded(r.store() if r.__class__ is Unsigned else r, TORCH[type.dtype], "value")
                for r, type in zip(results, out, strict=True)
            ]

        return run

    def _here(self, value: Any) -> Any:
        """Return a value on this device: a number of the host has no elements to take."""
        if self.is_host or not isinstance(value, torch.Tensor | Unsigned):
            return value
        return self.arrays.moved_to(value, self.device)

    def _of_implementation(
        self,
        native: _Native,
        inputs: Sequence[Any],
        attrs: Attributes,
        out: tuple[TensorType, ...] | None,
    ) -> Runner:
        method, demand = native
        if demand.given == "columns":
            return lambda inputs: joined(method, [inputs], attrs)[0]
        if demand.given != "untouched" and not all(i is None or _is_plain(i) for i in inputs):
            method = self._taking(method, demand)
        call = functools.partial(method, **attrs) if attrs else method
        if out is None:
            return lambda inputs: _as_several(call(*inputs))
        wanted = [TORCH[type.dtype] for type in out]
        carrier = demand.carrier
        if len(wanted) > 1:
            return lambda inputs: [
                r if r.dtype is dtype else _rounded(r, dtype, carrier)
                for r, dtype in zip(call(*inputs), wanted, strict=True)
            ]
        only = wanted[0]

        def run(inputs: Sequence[Any]) -> Sequence[torch.Tensor]:
            result = call(*inputs)
            if result.__class__ is tuple:
                (result,) = result
            return (result if result.dtype is only else _rounded(result, only, carrier),)

        return run

    def _taking(self, method: Callable[..., Any], demand: Demand) -> Callable[..., Any]:
        """Return an implementation that takes its inputs as backends get them."""

        def taking(*inputs: Any, **attrs: Any) -> Any:
            return method(
                *[i if i is None or _is_plain(i) else self._operand(i, demand) for i in inputs],
                **attrs,
            )

        return taking

    def execute_many(
        self, op: Op, calls: Sequence[tuple[Sequence[Any], Plan]]
    ) -> Sequence[Sequence[torch.Tensor] | None]:
        """Execute an op on several lists of inputs, joined where its implementation takes many."""
        method, demand = self._natives.get(op.name, (None, None))
        if method is None or demand is None or demand.given != "columns":
            return super().execute_many(op, calls)
        found: list[Sequence[torch.Tensor] | None] = [None] * len(calls)
        kept = [
            (place, inputs)
            for place, (inputs, plan) in enumerate(calls)
            if (plan.runners.get(self) or self._prepared(op, inputs, plan)) is not _expanded
        ]
        for group in alike(kept):
            for part in cached(group) if self.is_host else (group,):
                results = joined(method, [inputs for _, inputs in part], calls[0][1].attrs)
                for (place, _), result in zip(part, results, strict=True):
                    found[place] = result
        return found

    def _operand(self, value: Any, demand: Demand) -> Any:
        """Return an input that is no plain tensor as an implementation wants it."""
        if isinstance(value, torch.Tensor):
            if value.dtype in WIDE_UNSIGNED:
                return carried(value, demand.carrier)
            return value if self._takes_narrow(demand) else value.float()
        if not isinstance(value, Constant):
            return value
        if demand.given == "numbers":
            return value.value
        narrow = self._takes_narrow(demand)
        number = carried_number(value.value, value.type.dtype, demand.carrier, narrow)
        return number.to(self.device)

    def _takes_narrow(self, demand: Demand) -> bool:
        return demand.narrow == "everywhere" or (demand.narrow == "cuda" and not self.is_host)

    def _of_rule(self, op: Op, inputs: Sequence[Any], attrs: Attributes, out: TensorType) -> Runner:
        assert op.scalar is not None
        rule = functools.partial(op.scalar, ALGEBRA, **attrs)
        if op.coordinates:
            rule = self._reading_coordinates(op, rule, out.shape)
        is_plain = all(_is_plain(i) for i in inputs)
        wanted, shape = TORCH[out.dtype], out.shape
        # Numbers are on the host, and so is what is made of them alone.
        is_far = not self.is_host and not any(isinstance(i, torch.Tensor) for i in inputs)

        def run(inputs: Sequence[Any]) -> Sequence[torch.Tensor]:
            values = inputs if is_plain else [i if _is_plain(i) else _value(i) for i in inputs]
            result = rule(*values)
            if result.__class__ is Unsigned:
                result = result.store()
            if is_far:
                result = result.to(self.device)
            if result.dtype is not wanted:
                result = _rounded(result, wanted, "value")
            return (result if result.shape == shape else result.expand(shape),)

        return run

    def _reading_coordinates(self, op: Op, rule: Callable[..., Any], shape: Shape) -> Any:
        """Return a scalar rule that is given where its elements lie."""

        def run(*values: Any) -> Any:
            like = self.zero(torch.float32)
            return rule(*values, **coordinates_for(op, ARRAYS, shape, like))

        return run

    def _by_reference(
        self,
        op: Op,
        inputs: Sequence[Any],
        attrs: Attributes,
        out: tuple[TensorType, ...] | None,
    ) -> Sequence[torch.Tensor]:
        """Execute an op that has only a NumPy reference, as a user's may: counted and named."""
        require_reference(op, self.name)
        note_fallback(self.name, op.name)
        arrays = [self.download(i) if isinstance(i, torch.Tensor) else i for i in inputs]
        return [self.upload(a) for a in REFERENCE.results(op, arrays, attrs, out)]

    def _require_supported(self, op: Op, out: tuple[TensorType, ...] | None) -> None:
        for type in out or ():
            self._require_dtype(op.name, type.dtype)

    def _require_dtype(self, op: str, dtype: DType) -> None:
        if dtype in self._lacks:
            has = ", ".join(d.name for d in TORCH if d not in self._lacks)
            raise DTypeError(
                f"{op} requires a dtype that {self.name} has, one of {has}, got {dtype.name}; "
                "cast it with astype"
            )

    def _require_known(self, dtype: torch.dtype) -> None:
        if dtype not in PYRITE:
            has = ", ".join(d.name for d in TORCH)
            raise DTypeError(f"from_torch requires one of {has}, got {dtype}; cast it with .to()")

    def supports(self, type: TensorType) -> bool:
        """Whether tensors of this dtype can live here."""
        return type.dtype not in self._lacks

    # ---- values ----

    @within_memory
    def upload(self, array: Array) -> torch.Tensor:
        """Return a copy of the array on the device."""
        copy = np.array(array, order="C")
        if copy.dtype == ml_dtypes.bfloat16:
            return torch.from_numpy(copy.view(np.int16)).view(torch.bfloat16).to(self.device)
        handle = torch.from_numpy(_known_to_torch(copy))
        if self._lacks:
            self._require_dtype("upload", PYRITE[handle.dtype])
        return handle.to(self.device)

    def adopt(self, array: Any) -> torch.Tensor | None:
        """Return a handle that shares the memory of an array on the host or of a torch.Tensor."""
        if isinstance(array, torch.Tensor):
            self._require_known(array.dtype)
            return array.detach() if array.device == self.device else None
        is_shareable = self.is_host and array.flags.writeable and min(array.strides, default=0) >= 0
        return torch.from_numpy(_known_to_torch(array)) if is_shareable else None

    @within_memory
    def download(self, handle: torch.Tensor) -> Array:
        """Return the values as a read-only array; on the host the memory itself.

        Raises IndexRangeError for an index that was outside its axis since the last read.
        """
        host = handle if self.is_host else handle.cpu()
        self.faults.raise_any()
        if host.dtype is torch.bfloat16:
            array: Array = host.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
        else:
            array = host.numpy()
        view = array.view()
        view.flags.writeable = False
        return view

    def type_of(self, handle: torch.Tensor) -> TensorType:
        """Return shape and dtype of the tensor."""
        return _type(handle.shape, handle.dtype)

    @within_memory
    def export(self, handle: torch.Tensor) -> torch.Tensor:
        """Return a torch.Tensor with the handle's memory; of a stretched one, a copy."""
        is_stretched = any(
            s == 0 and n > 1 for s, n in zip(handle.stride(), handle.shape, strict=True)
        )
        return handle.clone() if is_stretched or self.is_zero(handle) else handle.detach()

    def __repr__(self) -> str:
        return f"Torch({self.name.partition(':')[2]!r})"

    def is_ready(self, handle: Any) -> bool:
        """Return whether PyTorch's stream of this thread is idle; without one, True."""
        if self.device.type == "cuda":
            return bool(torch.cuda.current_stream(self.device).query())
        return True

    def wait(self, handle: Any) -> None:
        """Wait until all work that was submitted is done."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def synchronize(self) -> None:
        """Wait until all work that was submitted is done."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        elif self.device.type == "mps":
            torch.mps.synchronize()
        self.faults.raise_any()


def _has_wide_indices(op: Op, inputs: Sequence[Any]) -> bool:
    """Whether indices are uint64: carried in int64, the greatest would count from the end."""
    rule = op.rule
    return isinstance(rule, GatherRule | Writes) and any(
        isinstance(i, torch.Tensor) and i.dtype is torch.uint64 and rule.holds_indices(position)
        for position, i in enumerate(inputs)
    )


def _expanded(inputs: Sequence[Any]) -> None:
    """Run nothing: the op is to be expanded into its body."""


def _is_plain(value: Any) -> bool:
    """Whether an input is a tensor that is computed in the dtype in which it is kept."""
    return isinstance(value, torch.Tensor) and value.dtype in PLAIN


def _as_several(result: Any) -> Sequence[torch.Tensor]:
    return result if isinstance(result, tuple) else (result,)


@functools.lru_cache(maxsize=4096)
def _type(shape: torch.Size, dtype: torch.dtype) -> TensorType:
    return TensorType(tuple(shape), PYRITE[dtype])


def _value(value: Any) -> Any:
    """Return an input that is no plain tensor as a value of a rule; numbers stay on the host."""
    if isinstance(value, torch.Tensor):
        return Unsigned.load(value) if value.dtype in WIDE_UNSIGNED else value.float()
    if not isinstance(value, Constant):
        return value
    dtype = value.type.dtype
    if TORCH[dtype] in WIDE_UNSIGNED:
        return Unsigned.load(carried_number(value.value, dtype, "bits", False).view(TORCH[dtype]))
    return scalar(value.value, TORCH[dtype.compute])


def _rounded(x: torch.Tensor, wanted: torch.dtype, carrier: Carrier) -> torch.Tensor:
    """Return a result in the dtype that was inferred, from the one in which it was computed."""
    if wanted in WIDE_UNSIGNED:
        return uncarried(x, wanted, carrier)
    if wanted in NARROW:
        return x.to(wanted)
    assert x.dtype is wanted, f"an op inferred {wanted} and computed {x.dtype}"
    return x


def _working(name: str) -> torch.device:
    """Return a device of PyTorch's that works.  Raises DeviceError with what is missing."""
    try:
        device = torch.device(name)
    except RuntimeError:
        raise DeviceError(
            f"torch:{name} requires a device of PyTorch's, cpu, cuda, cuda:1 or mps, got {name!r}"
        ) from None
    if device.type == "cuda":
        return _working_cuda(device)
    if device.type == "mps" and not torch.backends.mps.is_available():
        raise DeviceError(
            "torch:mps requires an Apple GPU that PyTorch can use, got none "
            f"(torch {torch.__version__}); use torch:cpu"
        )
    return torch.device(device.type) if device.index in (None, 0) else device


def _known_to_torch(array: Array) -> Array:
    """Return an array under the dtype that PyTorch knows: of NumPy's two uint64 it knows one."""
    return array.view(np.uint64) if array.dtype == np.uint64 else array


def _working_cuda(device: torch.device) -> torch.device:
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    index = device.index or 0
    if index < count:
        return torch.device("cuda", index)
    built = torch.version.cuda or "no CUDA"
    raise DeviceError(
        f"torch:cuda requires a CUDA device {index} that PyTorch can use, got {count} of them "
        f"(torch {torch.__version__}, built for {built}); use torch:cpu, or install a driver and "
        "a PyTorch built for it"
    )
