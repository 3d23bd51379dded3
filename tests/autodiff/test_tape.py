"""The tape: what it keeps, what it lets go, and levels on levels."""

from __future__ import annotations

import gc
import threading

import numpy as np
import pytest

from pyrite.autodiff import autodiff, grad, no_grad, value_and_grad
from pyrite.backend.device import Device
from pyrite.backend.numpy import NumPy
from pyrite.config import config
from pyrite.errors import DeviceError, GradientError, ShapeError
from pyrite.tensor.creation import full, tensor
from pyrite.tensor.parameter import Parameter, State


def leaf(values: object) -> object:
    return tensor(values, device=autodiff()).require_grad()


def test_backward_gives_the_gradient_of_each_leaf():
    x, y = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    grads = (x * y + x).sum().backward()
    np.testing.assert_array_equal(grads[x].numpy(), [4.0, 5.0])
    np.testing.assert_array_equal(grads[y].numpy(), [1.0, 2.0])


def test_a_leaf_used_twice_sums_its_cotangents():
    x = leaf(3.0)
    assert (x * x * x).backward()[x].item() == 27.0


def test_broadcasting_is_undone():
    x, y = leaf([[1.0], [2.0]]), leaf([1.0, 10.0, 100.0])
    grads = (x * y).sum().backward()
    np.testing.assert_array_equal(grads[x].numpy(), [[111.0], [111.0]])
    np.testing.assert_array_equal(grads[y].numpy(), [3.0, 3.0, 3.0])


def test_gradients_live_one_level_down():
    x = leaf([1.0])
    g = (x * 2).sum().backward()[x]
    assert g.device.level == 0
    assert x.device.level == 1
    assert g.device == x.device


def memory_of(x):
    """Its array, or the buffer of a device that has some."""
    primitive = x.primitive()
    return primitive.handle.buffer if hasattr(primitive, "handle") else primitive


def test_detach_cuts_the_graph_and_shares_the_memory():
    x = leaf([1.0, 2.0])
    cut = (x * x).detach()
    assert not cut.is_tracked
    assert memory_of(x.detach()) is memory_of(x)
    np.testing.assert_array_equal((cut * x).sum().backward()[x].numpy(), [1.0, 4.0])


def test_a_tensor_that_the_loss_does_not_depend_on_has_no_gradient():
    x, y = leaf(1.0), leaf(2.0)
    grads = (x * 2).backward()
    assert y not in grads
    with pytest.raises(GradientError, match=r"a tracked tensor that the loss depends on"):
        grads[y]


def test_backward_of_an_untracked_loss_says_what_to_do():
    with pytest.raises(GradientError, match="call require_grad"):
        tensor(1.0, device=autodiff()).backward()


def test_backward_on_a_plain_device_names_the_way():
    with pytest.raises(GradientError, match=r"pyrite\.autodiff\('numpy'\)"):
        tensor(1.0, device="numpy").backward()


def test_backward_of_a_vector_is_a_shape_error():
    with pytest.raises(ShapeError, match=r"backward requires a scalar, got shape \(2,\)"):
        leaf([1.0, 2.0]).backward()


def test_integers_cannot_be_tracked():
    with pytest.raises(GradientError, match="float dtype, got int32"):
        leaf([1, 2])


def test_no_grad_records_nothing():
    x = leaf(2.0)
    with no_grad():
        y = x * x
    assert not y.is_tracked
    assert (x * x).is_tracked


def test_no_grad_of_one_level_leaves_the_others_alone():
    inner = autodiff()
    x = tensor(2.0, device=inner).require_grad().to(autodiff(inner)).require_grad()
    with no_grad(2):
        y = x * x
    assert not y.is_tracked
    assert y.inner().is_tracked


def test_a_lower_level_is_lifted_as_a_constant():
    x = leaf(2.0)
    constant = tensor(5.0)
    assert (x * constant).backward()[x].item() == 5.0
    assert (constant * x).backward()[x].item() == 5.0


def test_two_separate_levels_of_one_device_meet():
    x = tensor(2.0, device=autodiff()).require_grad()
    y = tensor(3.0, device=autodiff()).require_grad()
    assert (x * y).backward()[y].item() == 2.0


def test_tensors_of_two_devices_do_not_meet():
    from pyrite.backend.numpy import NumPy

    with pytest.raises(DeviceError, match="one device"):
        tensor(1.0, device=NumPy()) + tensor(1.0, device=NumPy())


def test_a_foreign_leaf_of_the_same_level_is_an_error_and_not_a_wrong_gradient():
    w = leaf(np.array(2.0))
    with pytest.raises(GradientError, match="got another leaf, float64"):
        grad(lambda x: w * x * x)(tensor(np.array(3.0)))
    x = tensor(np.array(3.0), device=w.device)
    slope = grad(lambda x: w * x * x)(x)
    assert slope.backward()[w].item() == 6.0
    assert grad(lambda x: w.detach() * x * x)(tensor(np.array(3.0))).item() == 12.0


def test_third_derivatives():
    x = tensor(np.array(1.3))
    third = grad(grad(grad(lambda x: x**5)))
    assert third(x).item() == pytest.approx(60 * 1.3**2)


def test_an_inner_gradient_inside_an_outer_loss():
    """The gradient penalty of WGAN-GP (Gulrajani et al. 2017), for a critic w·x²."""

    def penalty(w):
        x = tensor(np.array([0.5, -1.5]))
        slope = grad(lambda x: (w * x * x).sum())(x)
        norm = ((slope * slope).sum()) ** 0.5
        return (norm - 1) ** 2

    w = np.array([0.7, 0.3])
    got = grad(penalty)(tensor(w)).numpy()
    step = 1e-6
    want = [
        (penalty(tensor(w + step * e)).item() - penalty(tensor(w - step * e)).item()) / (2 * step)
        for e in np.eye(2)
    ]
    np.testing.assert_allclose(got, want, rtol=1e-6)


def test_an_outer_variable_inside_an_inner_gradient_is_not_confused_with_it():
    """d/dx [x · d/dy (x + y)] = 1: the classical test for perturbation confusion."""
    got = grad(lambda x: x * grad(lambda y: x + y)(tensor(1.0)))(tensor(1.0))
    assert got.item() == 1.0


@pytest.mark.skipif(config.guard is not None, reason="guarded mode keeps freed blocks a while")
def test_forward_passes_without_backward_leave_nothing_behind():
    x = leaf(np.ones(4))
    for n in range(1000):  # Fusion makes programs of what came back often
        y = (x * x + x).sum()
        if n % 100 == 0:
            y.item()
    grown = []
    for _ in range(3):
        gc.collect()
        before = len(gc.get_objects())
        for n in range(10_000):
            y = (x * x + x).sum()
            if n % 100 == 0:
                y.item()  # a device keeps blocks for as many as were in flight at once
        gc.collect()
        grown.append(len(gc.get_objects()) - before)
    # Less than one for ten passes.  Another thread may look at the package's files, an object each.
    assert min(grown) < 1000, grown


def test_a_long_graph_is_freed_and_walked_without_recursion():
    x = leaf(1.0)
    y = x
    for _ in range(20_000):
        y = y + x
    assert y.backward()[x].item() == 20_001.0
    del y


def test_threads_record_apart():
    x = leaf(np.arange(3.0))
    found: dict[int, np.ndarray] = {}

    def work(k: int) -> None:
        found[k] = (x * float(k)).sum().backward()[x].numpy()

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for k in range(8):
        np.testing.assert_array_equal(found[k], np.full(3, float(k)))


def test_parameters_are_found_by_id_before_and_after_lifting():
    p = Parameter(full((2,), 3.0))
    _, grads = value_and_grad(lambda p: (p * p).sum())(p)
    np.testing.assert_array_equal(grads[p].numpy(), [6.0, 6.0])


def test_gradients_of_an_older_version_are_stale():
    p = Parameter(full((2,), 3.0))
    _, grads = value_and_grad(lambda p: (p * p).sum())(p)
    newer = p.with_value(full((2,), 2.0), version=p.version + 1)
    with pytest.raises(GradientError, match="version 1 for gradients of version 0"):
        grads[newer]


def test_a_frozen_parameter_has_no_gradient():
    p, q = Parameter(full((2,), 3.0)), Parameter(full((2,), 2.0)).frozen()
    _, grads = value_and_grad(lambda m: (m[0] * m[1]).sum())([p, q])
    assert p in grads
    assert q not in grads


def test_a_state_is_emitted_with_the_loss_and_not_changed():
    state = State(full((), 0.0))

    def loss(x):
        y = state.emit(x.sum(), through=x * 2)
        return y.sum()

    x = Parameter(tensor([1.0, 2.0]))
    _, grads = value_and_grad(loss)(x)
    assert grads.updates[state.id].item() == 3.0
    assert grads.updates[state.id].device.level == 0
    assert state.item() == 0.0


def test_a_state_is_emitted_where_nothing_needs_a_gradient():
    state = State(full((), 0.0))
    frozen = Parameter(tensor([1.0, 2.0])).frozen()

    def loss(p):
        return state.emit(p.sum(), through=p * 2).sum()

    _, grads = value_and_grad(loss)(frozen)
    assert grads.updates[state.id].item() == 3.0
    assert len(grads) == 0


def test_outputs_that_are_integers_are_not_tracked():
    x = leaf([1.0, 2.0])
    assert not (x == 1.0).is_tracked
    assert not x.astype("int32").is_tracked


def test_the_argument_number_is_checked():
    with pytest.raises(ValueError, match="0 <= argnums < 1"):
        value_and_grad(lambda x: x, argnums=1)(tensor(1.0))


def test_trees_of_tensors_get_trees_of_gradients():
    tree = {"a": [tensor(2.0), tensor(3.0)], "b": tensor(5.0)}
    _, g = value_and_grad(lambda t: t["a"][0] * t["a"][1])(tree)
    assert g["a"][0].item() == 3.0
    assert g["a"][1].item() == 2.0
    assert g["b"].item() == 0.0


def test_aux_is_lowered_with_the_value():
    (value, aux), _ = value_and_grad(lambda x: (x * x, {"twice": x * 2}), has_aux=True)(tensor(3.0))
    assert value.item() == 9.0
    assert aux["twice"].device.level == 0


def test_a_tape_asks_for_residuals_only_where_it_notes_the_op_and_no_tape_is_below():
    class Spy(NumPy):
        def execute(self, op, inputs, plan):
            if op.name == "lstm":
                asked.append(plan.attrs["keeps_gates"])
            return super().execute(op, inputs, plan)

    asked: list[bool] = []
    backend = Spy()
    rng = np.random.default_rng(0)
    shapes = [(3, 2, 4), (20, 4), (20, 5), (20,), (20,), (2, 5), (2, 5)]
    x, *rest = (tensor(rng.normal(size=s), device=Device(backend)) for s in shapes)

    def loss(x):
        results = x._lstm(*rest)
        assert len(results) == 3
        return (results[0] ** 2).sum()

    def asked_by(run):
        asked.clear()
        run()
        return set(asked)

    tracked = x.to(autodiff(Device(backend))).require_grad()
    assert asked_by(lambda: loss(x)) == {False}
    assert asked_by(lambda: loss(tracked)) == {True}
    with no_grad():
        assert asked_by(lambda: loss(tracked)) == {False}
    # The outer tape of two is not asked for gradients of what it keeps; the inner one might be.
    assert asked_by(lambda: loss(x.to(autodiff(autodiff(Device(backend)))).require_grad())) == {
        False
    }
    of_first = grad(lambda x: (grad(loss)(x) ** 2).sum())(x)
    direction = tensor(rng.normal(size=shapes[0]), device=Device(backend))
    ends = [(grad(loss)(x + s * direction) ** 2).sum().item() for s in (1e-6, -1e-6)]
    assert (of_first * direction).sum().item() == pytest.approx(
        (ends[0] - ends[1]) / 2e-6, rel=1e-6
    )
