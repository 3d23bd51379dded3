"""Binding: what becomes of arguments before a backend sees them."""

from __future__ import annotations

import inspect
from pathlib import Path

import numpy as np
import pytest

from pyrite import op
from pyrite.autodiff import autodiff, grad, tape
from pyrite.errors import (
    ArgumentError,
    DeviceError,
    DTypeError,
    GradientError,
    PyriteError,
    ShapeError,
)
from pyrite.op import OPS, custom_op, primitive
from pyrite.op.arguments import Sorter, VariadicSorter
from pyrite.op.plan import attributes_form
from pyrite.op.signature import Signature
from pyrite.tensor.creation import tensor
from pyrite.tensor.tensor import Tensor
from pyrite.types import float16, float32, int8, int32


def test_numbers_take_the_dtype_of_the_tensor_they_meet():
    assert (tensor([1], dtype="int8") + 1).dtype is int8
    assert (tensor([1], dtype="int8") + 0.5).dtype is float32
    assert (tensor([1.0], dtype="float16") * 2).dtype is float16
    assert (2 - tensor([1])).dtype is int32
    assert (tensor([1]) + np.float64(0.5)).dtype is float32


def test_a_number_that_does_not_fit_says_so():
    with pytest.raises(DTypeError, match="a number between -128 and 127 beside int8, got 300"):
        tensor([1], dtype="int8") + 300


@pytest.mark.parametrize("other", [None, "1", [1.0], np.ones(2)], ids=repr)
def test_what_is_no_tensor_and_no_number_is_refused(other):
    with pytest.raises(DTypeError, match=r"add requires tensors or Python numbers, got"):
        tensor([1.0, 2.0]) + other
    with pytest.raises(DTypeError, match=r"add requires tensors or Python numbers, got"):
        other + tensor([1.0, 2.0])


def test_an_error_is_raised_at_the_users_line():
    with pytest.raises(ShapeError) as caught:
        tensor([1.0, 2.0]) + tensor([1.0, 2.0, 3.0])  # this line
    assert caught.value.location.startswith(f"{__file__}:")
    frames = caught.traceback
    assert (
        sum("pyrite" in str(frame.path) and "tests" not in str(frame.path) for frame in frames) <= 1
    )
    assert str(caught.value) == (
        "add requires sizes that are equal or 1 on every axis, got (2,) and (3,), which differ on "
        "axis -1"
    )


def test_two_calls_on_two_lines_name_their_own():
    lines = []
    for call in (
        lambda: tensor([1.0]) @ tensor([1.0, 2.0]),
        lambda: tensor([[1.0]]) @ tensor([1.0, 2.0]),
    ):
        with pytest.raises(PyriteError) as caught:
            call()
        lines.append(caught.value.location)
    assert all(line.startswith(f"{__file__}:") for line in lines)


def test_an_op_is_declared_once():
    with pytest.raises(TypeError, match="op exp is declared twice"):

        @primitive(scalar=lambda k, x: x)
        def exp(x, /):
            """Again."""

    with pytest.raises(TypeError, match="a primitive has a scalar rule or a reference"):

        @primitive()
        def nothing(x, /):
            """No rule."""


def test_nothing_in_the_core_names_an_op():
    """Records, binding, the tape and the decorators treat every op alike."""
    for file in (*Path(op.__file__).parent.glob("*.py"), Path(tape.__file__)):
        # But for what `op` exports under a name that an op has too.
        source = file.read_text().partition("__all__")[0]
        named = [n for n in OPS if len(n) > 3 and (f'"{n}"' in source or f"'{n}'" in source)]
        assert not named, f"{file.name} names {named}"


# ---- ops of an application ----


def same(x, *_, **__):
    return x


def doubled(body=lambda x: x * 2, **rules):
    """An op under the name of many."""

    @custom_op(infer=same, body=body, **rules)
    def twice(x, /):
        """2 x."""

    return twice


def test_an_op_of_an_application_is_not_in_the_table_and_may_be_declared_again():
    x = tensor([1.0, 2.0])

    assert doubled()(x).tolist() == [2.0, 4.0]
    assert doubled(lambda x: x + x + 1)(x).tolist() == [3.0, 5.0]
    assert "twice" not in OPS


def test_it_has_not_the_name_of_an_op_of_pyrite():
    with pytest.raises(TypeError, match="a name that no op of Pyrite has, got softmax; rename"):

        @custom_op(infer=same, body=lambda x: x)
        def softmax(x, /):
            """Not that one."""


@pytest.mark.parametrize(
    "rules",
    [
        {"reference": lambda x: np.multiply(x, 2, dtype=x.dtype)},
        {"scalar": lambda k, x: x * 2},
        {"body": lambda x: x * 2},
    ],
    ids=lambda r: next(iter(r)),
)
def test_its_meaning_is_a_body_a_rule_or_a_reference(rules):
    @custom_op(infer=None if "scalar" in rules else same, **rules)
    def twice(x, /):
        """2 x."""

    assert twice(tensor([1.0, 2.0])).tolist() == [2.0, 4.0]


def test_a_kept_derivative_is_used_and_without_one_the_body_is_differentiated():
    calls = []

    def vjp(g, _out, _x):
        calls.append(g)
        return (g * 2,)

    for twice, count in ((doubled(vjp=vjp), 1), (doubled(), 0)):
        calls.clear()
        assert grad(lambda x, op=twice: op(x).sum())(tensor([1.0, 2.0])).tolist() == [2.0, 2.0]
        assert len(calls) == count


@pytest.mark.parametrize(
    ("vjp", "got"),
    [
        (lambda g, _out, _x: g * 2, "got Tensor"),
        (lambda g, _out, _x: (g, g), "got 2 items"),
        (lambda g, _out, _x: (), "got 0 items"),
        (lambda g, _out, _x: (np.ones(2),), r"got a NumPy array; convert it: pyrite\.tensor\(\.\."),
        (lambda g, _out, _x: (2.0,), "got float"),
    ],
    ids=range(5),
)
def test_what_is_no_cotangent_for_each_input_is_refused_by_name(vjp, got):
    twice = doubled(vjp=vjp)

    with pytest.raises(GradientError, match=f"its vjp to return a tuple .* each of x, {got}"):
        grad(lambda x: twice(x).sum())(tensor([1.0, 2.0]))


@pytest.mark.parametrize(
    "vjp",
    [lambda g, _out, _x: (g.mT,), lambda g, _out, _x: (g.sum(),), lambda g, _out, _x: (g.sum(1),)],
)
def test_a_cotangent_of_another_shape_is_refused_by_name(vjp):
    """A transposed one has as many elements, and would be taken in the wrong order."""
    twice = doubled(vjp=vjp)

    with pytest.raises(
        GradientError, match=r"its vjp to return a cotangent .* \(2, 3\), .*, got \("
    ):
        grad(lambda x: (twice(x) * 3.0).sum())(tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]))


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ({"infer": same}, "has kernels, a scalar rule, a body or a reference"),
        ({"body": same, "reference": same, "infer": same}, "a body or a reference, not two"),
        ({"reference": same}, "has infer, which gives the type of its result"),
    ],
)
def test_a_declaration_that_says_too_little_or_too_much_is_refused(rules, message):
    with pytest.raises(TypeError, match=message):
        custom_op(**rules)


def test_an_op_that_cannot_run_on_a_device_says_so():
    class Nowhere:
        def runs_on(self, runtime):
            return False

        def results(self, op, arrays, attrs, out):
            return None

    @custom_op(infer=same, kernels=[Nowhere()])
    def kernels_only(x, /):
        """Nothing to run here."""

    with pytest.raises(DeviceError, match="kernels_only requires a kernel that runs on numpy"):
        kernels_only(tensor([1.0], device="numpy"))


@pytest.mark.parametrize("wrong", [None, (3,), "float32"], ids=repr)
def test_an_infer_that_gives_no_type_says_so(wrong):
    @custom_op(infer=lambda x: wrong, body=lambda x: x)
    def forgetful(x, /):
        """Its infer lacks a return."""

    with pytest.raises(ArgumentError, match="forgetful requires infer to return the type of each"):
        forgetful(tensor([1.0]))


# ---- plans ----


def test_a_call_like_one_before_gives_the_same_type_and_attributes():
    for shape in ((2, 3), (3, 2), (2, 3)):
        x = tensor(np.arange(6.0, dtype=np.float32).reshape(shape))
        assert x.sum(-1).tolist() == x.numpy().sum(-1).tolist()
        assert (x + 1).dtype is float32


def test_a_mistake_is_an_error_each_time():
    for _ in range(2):
        with pytest.raises(ShapeError, match="matmul requires"):
            tensor(np.ones((2, 3))) @ tensor(np.ones((2, 3)))


def test_equal_attributes_of_other_classes_are_not_taken_for_one_another():
    x = tensor([[1.0, 2.0]])
    assert x.sum(1).shape == (1,)
    with pytest.raises(PyriteError, match="sum requires an integer axis, got True"):
        x.sum(True)
    assert x.sum((0, 1)).shape == ()
    with pytest.raises(PyriteError, match="sum requires an integer axis, got True"):
        x.sum((0, True))


def test_an_integer_is_held_against_the_dtype_at_each_call():
    x = tensor([1], dtype="int8")
    assert (x + 3).tolist() == [4]
    with pytest.raises(DTypeError, match="a number between -128 and 127"):
        x + 300
    assert (x + 4).tolist() == [5]


def test_zeros_of_both_signs_are_told_apart():
    seen = []

    @custom_op(infer=lambda x, **_: x, body=lambda x, *, by: seen.append(str(by)) or x)
    def shifted(x, /, *, by): ...

    for by in (0.0, -0.0, 0.0):
        shifted(tensor([1.0]), by=by)
    assert seen == ["0.0", "-0.0", "0.0"]


def test_plans_do_not_pile_up():
    plans = OPS["broadcast_to"].plans
    for size in range(1, 1200):
        tensor(1.0).broadcast_to((size,))
    assert 0 < len(plans) <= 512


def test_an_attribute_without_a_hash_is_planned_each_time():
    assert tensor([[1.0, 2.0]]).sum([0, 1]).item() == 3.0


def test_ways_to_give_attributes_do_not_pile_up():
    sorter = Sorter(OPS["sum"], Signature.of(inspect.unwrap(Tensor.sum)))
    x = tensor(np.arange(6.0))
    for n in range(3000):
        assert sorter.sorted((x, (n, 1)), {})[1]["axis"] == (n, 1)

    assert 0 < len(sorter.known) <= 512


def test_attributes_are_the_same_however_they_are_given():
    x = tensor(np.arange(6.0).reshape(2, 3))

    for _ in range(2):
        found = [x.sum(1, keepdims=True), x.sum(axis=1, keepdims=True),
                 x.sum(keepdims=True, axis=1)]  # fmt: skip
        assert [t.numpy().tolist() for t in found] == [[[3.0], [12.0]]] * 3
        assert x.sum(1).shape == (2,)
        with pytest.raises(TypeError, match="multiple values for argument 'axis'"):
            x.sum(1, axis=1)
        with pytest.raises(TypeError, match="unexpected keyword argument 'axes'"):
            x.sum(axes=1)


def test_attributes_of_any_number_of_inputs_are_those_of_the_call():
    sorter = VariadicSorter(OPS["concat"], Signature.of(inspect.unwrap(Tensor._concat)))
    x, y = tensor([[1.0]]), tensor([[2.0]])

    for _ in range(2):
        for given in [(x,), (x, y), (y, x, y)]:
            for axis in (0, 1, True, 1.0, [1], None):
                inputs, attrs, form = sorter.sorted(given, {"axis": axis})
                assert tuple(inputs) == given
                assert attrs == {"axis": axis}
                assert attrs["axis"].__class__ is axis.__class__
                assert form == attributes_form(OPS["concat"], attrs)
        assert x._concat(y, axis=1).shape == (1, 2)
        with pytest.raises(TypeError, match="missing a required argument: 'axis'"):
            x._concat(y)
        with pytest.raises(TypeError, match="unexpected keyword argument 'axes'"):
            x._concat(y, axis=0, axes=1)


def test_many_returns_what_as_many_calls_return():
    x, y = tensor([1.0, 2.0]), tensor([[3]])
    found = op.many(Tensor.add, [(x, 1), (y, y), (x, x)])
    assert [f.tolist() for f in found] == [[2.0, 3.0], [[6]], [2.0, 4.0]]
    assert [f.dtype for f in found] == [float32, int32, float32]
    with pytest.raises(ShapeError, match="add requires") as caught:
        op.many(Tensor.add, [(x, 1), (x, tensor([1.0, 2.0, 3.0]))])
    assert Path(__file__).name in str(caught.value.location)


def test_many_takes_calls_of_several_devices():
    up = tensor([1.0], device=autodiff("numpy")).require_grad()
    found = op.many(Tensor.multiply, [(tensor([2.0]), 3), (up, 4)])
    assert [f.is_tracked for f in found] == [False, True]
    assert [f.item() for f in found] == [6.0, 4.0]


@pytest.mark.parametrize(
    ("meet", "name"),
    [
        (lambda x, y: x + y, "add"),
        (lambda x, y: grad(lambda x: (x * y).sum())(x), "multiply"),
        (lambda x, y: (x > 0)._where(x, y), "where"),
        (lambda x, y: op.many(Tensor.add, [(x, x), (x, y)]), "add"),
    ],
)
def test_tensors_of_two_devices_do_not_meet_in_an_op_that_is_named(meet, name):
    x, y = tensor([1.0], device="numpy"), tensor([1.0], device="cpu")
    with pytest.raises(
        DeviceError,
        match=rf"^{name} requires tensors of one device, got numpy and cpu; move one: y\.to\(x\.d",
    ) as caught:
        meet(x, y)
    assert caught.value.location.startswith(f"{__file__}:")


# ---- joint rules ----


def test_a_joint_rule_runs_where_several_inputs_are_tracked():
    ran = []

    def joint(g, _out, x, y, *, tracked):
        ran.append(tracked)
        return g * y, g * x

    rules = (lambda g, _out, _x, y: g * y, lambda g, _out, x: g * x)
    derivative = op.Derivative(rules, joint)
    assert derivative.needs((0,), 2) == ((0,), "nothing", (1,), ())
    assert derivative.needs((0, 1), 2) == ((0, 1), "nothing", (0, 1), ())
    saved = (None, tensor(2.0), tensor(3.0))
    alone = derivative(OPS["multiply"], tensor(1.0), saved, {}, (0,))
    assert alone[0].item() == 3.0
    assert ran == []
    both = derivative(OPS["multiply"], tensor(1.0), saved, {}, (0, 1))
    assert [both[0].item(), both[1].item()] == [3.0, 2.0]
    assert ran == [(0, 1)]
