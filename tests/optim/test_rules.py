"""Every rule against PyTorch, or against the paper's algorithm written a second time in NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from pyrite import optim
from pyrite.errors import ArgumentError, ShapeError
from pyrite.tensor.creation import full, tensor

torch = pytest.importorskip("torch")

STEPS = 50

RULES = {
    "sgd": (optim.SGD(0.1), lambda p: torch.optim.SGD(p, 0.1)),
    "sgd-decay": (
        optim.SGD(0.1, weight_decay=0.05),
        lambda p: torch.optim.SGD(p, 0.1, weight_decay=0.05),
    ),
    "sgd-momentum": (
        optim.SGD(0.05, momentum=0.9, dampening=0.3, weight_decay=0.01),
        lambda p: torch.optim.SGD(p, 0.05, momentum=0.9, dampening=0.3, weight_decay=0.01),
    ),
    "sgd-nesterov": (
        optim.SGD(0.05, momentum=0.9, nesterov=True),
        lambda p: torch.optim.SGD(p, 0.05, momentum=0.9, nesterov=True),
    ),
    "adam": (optim.Adam(0.01), lambda p: torch.optim.Adam(p, 0.01)),
    "adam-amsgrad": (
        optim.Adam(0.01, beta1=0.8, beta2=0.95, eps=1e-6, weight_decay=0.1, amsgrad=True),
        lambda p: torch.optim.Adam(
            p, 0.01, betas=(0.8, 0.95), eps=1e-6, weight_decay=0.1, amsgrad=True
        ),
    ),
    "adamw": (optim.AdamW(0.01), lambda p: torch.optim.AdamW(p, 0.01)),
    "adamw-amsgrad": (
        optim.AdamW(0.02, weight_decay=0.3, amsgrad=True),
        lambda p: torch.optim.AdamW(p, 0.02, weight_decay=0.3, amsgrad=True),
    ),
    "adagrad": (optim.Adagrad(0.1), lambda p: torch.optim.Adagrad(p, 0.1)),
    "adagrad-decay": (
        optim.Adagrad(0.1, lr_decay=0.1, weight_decay=0.01, initial_accumulator_value=0.5),
        lambda p: torch.optim.Adagrad(
            p, 0.1, lr_decay=0.1, weight_decay=0.01, initial_accumulator_value=0.5
        ),
    ),
    "adadelta": (optim.Adadelta(), torch.optim.Adadelta),
    "adadelta-decay": (
        optim.Adadelta(0.5, rho=0.8, eps=1e-4, weight_decay=0.1),
        lambda p: torch.optim.Adadelta(p, 0.5, rho=0.8, eps=1e-4, weight_decay=0.1),
    ),
    "adafactor": (optim.Adafactor(), torch.optim.Adafactor),
    "adafactor-all": (
        optim.Adafactor(0.3, beta2_decay=-0.5, eps1=1e-3, eps2=0.1, clip=2.0, weight_decay=0.1),
        lambda p: torch.optim.Adafactor(
            p, 0.3, beta2_decay=-0.5, eps=(1e-3, 0.1), d=2.0, weight_decay=0.1
        ),
    ),
    "radam": (optim.RAdam(0.01), lambda p: torch.optim.RAdam(p, 0.01)),
    "radam-decay": (
        optim.RAdam(0.05, beta1=0.8, beta2=0.9, weight_decay=0.1),
        lambda p: torch.optim.RAdam(p, 0.05, betas=(0.8, 0.9), weight_decay=0.1),
    ),
    "radam-decoupled": (
        optim.RAdam(0.01, weight_decay=0.1, decoupled_weight_decay=True),
        lambda p: torch.optim.RAdam(p, 0.01, weight_decay=0.1, decoupled_weight_decay=True),
    ),
    "rprop": (optim.Rprop(), torch.optim.Rprop),
    "rprop-all": (
        optim.Rprop(0.1, eta_minus=0.7, eta_plus=1.5, min_step=1e-3, max_step=0.2),
        lambda p: torch.optim.Rprop(p, 0.1, etas=(0.7, 1.5), step_sizes=(1e-3, 0.2)),
    ),
    "rmsprop": (optim.RMSprop(0.01), lambda p: torch.optim.RMSprop(p, 0.01)),
    "rmsprop-all": (
        optim.RMSprop(0.005, alpha=0.9, momentum=0.5, centered=True, weight_decay=0.01, eps=1e-2),
        lambda p: torch.optim.RMSprop(
            p, 0.005, alpha=0.9, momentum=0.5, centered=True, weight_decay=0.01, eps=1e-2
        ),
    ),
}


@pytest.mark.parametrize("name", RULES)
@pytest.mark.sample(14)
def test_a_rule_follows_pytorch_over_fifty_steps(name, problem, agree):
    ours, theirs = RULES[name]
    optimizer = ours.with_clipping(value=1e9)  # a copy of its own; the limit is never reached
    agree(problem.train(optimizer, STEPS), problem.train_torch(theirs, STEPS))


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (optim.SGD(), torch.optim.SGD),
        (optim.Adam(), torch.optim.Adam),
        (optim.AdamW(), torch.optim.AdamW),
        (optim.Adagrad(), torch.optim.Adagrad),
        (optim.RMSprop(), torch.optim.RMSprop),
        (optim.Adadelta(), torch.optim.Adadelta),
        (optim.NAdam(), torch.optim.NAdam),
        (optim.RAdam(), torch.optim.RAdam),
        (optim.Muon(), torch.optim.Muon),
    ],
    ids=lambda x: getattr(x, "__name__", ""),
)
def test_defaults_are_those_of_pytorch(ours, theirs):
    defaults = theirs([torch.zeros(2, 2, requires_grad=True)]).defaults
    assert ours.learning_rate == defaults["lr"]
    if "betas" in defaults:
        assert (ours.beta1, ours.beta2) == defaults["betas"]
    same = set(defaults) & set(vars(ours))
    assert len(same) >= 3
    assert {name: getattr(ours, name) for name in same} == {n: defaults[n] for n in same}


# ---- rules that PyTorch lacks: transcriptions of the papers, in NumPy ----


def lion(p, g, state, *, rate, beta1, beta2, decay, **_):
    m = state.setdefault("m", np.zeros_like(p))
    p = p - rate * (np.sign(beta1 * m + (1 - beta1) * g) + decay * p)
    state["m"] = beta2 * m + (1 - beta2) * g
    return p


def adan(p, g, state, *, rate, beta1, beta2, beta3, eps, decay, no_prox, step):
    m, v, n = (state.setdefault(k, np.zeros_like(p)) for k in "mvn")
    diff = g - state.get("g", g)
    state["g"] = g
    state["m"] = m = beta1 * m + (1 - beta1) * g
    state["v"] = v = beta2 * v + (1 - beta2) * diff
    state["n"] = n = beta3 * n + (1 - beta3) * (g + beta2 * diff) ** 2
    m, v, n = m / (1 - beta1**step), v / (1 - beta2**step), n / (1 - beta3**step)
    move = rate * (m + beta2 * v) / (np.sqrt(n) + eps)
    return p * (1 - rate * decay) - move if no_prox else (p - move) / (1 + rate * decay)


def cautious_adamw(p, g, state, *, rate, decay, step, **_):
    m, v = (state.setdefault(k, np.zeros_like(p)) for k in "mv")
    state["m"] = m = 0.9 * m + 0.1 * g
    state["v"] = v = 0.999 * v + 0.001 * g * g
    u = m / (1 - 0.9**step) / (np.sqrt(v / (1 - 0.999**step)) + 1e-8)
    return p - rate * (u + decay * (u * p >= 0) * p)


def muon(p, g, state, *, rate, decay, momentum, nesterov, adjust, **_):
    m = state["m"] = momentum * state.get("m", np.zeros_like(p)) + (1 - momentum) * g
    x = (1 - momentum) * g + momentum * m if nesterov else m
    # Odd polynomials act on singular values, so the iteration is one on numbers.
    u, s, vt = np.linalg.svd(x, full_matrices=False)
    s = s / max(np.sqrt((s**2).sum()), 1e-7)
    for _ in range(5):
        s = 3.4445 * s - 4.7750 * s**3 + 2.0315 * s**5
    rows, columns = p.shape
    ratio = 0.2 * max(rows, columns) ** 0.5 if adjust else max(1, rows / columns) ** 0.5
    return p * (1 - rate * decay) - rate * ratio * (u * s) @ vt


PAPERS = {
    "lion": (
        optim.Lion(0.003, beta1=0.8, beta2=0.95, weight_decay=0.1),
        lion,
        {"rate": 0.003, "beta1": 0.8, "beta2": 0.95, "decay": 0.1},
    ),
    "adan": (
        optim.Adan(0.01, weight_decay=0.02),
        adan,
        {"rate": 0.01, "beta1": 0.98, "beta2": 0.92, "beta3": 0.99, "eps": 1e-8, "decay": 0.02,
         "no_prox": False},
    ),
    "adan-no-prox": (
        optim.Adan(0.01, beta3=0.9, eps=1e-3, weight_decay=0.2, no_prox=True),
        adan,
        {"rate": 0.01, "beta1": 0.98, "beta2": 0.92, "beta3": 0.9, "eps": 1e-3, "decay": 0.2,
         "no_prox": True},
    ),
    "adamw-cautious": (
        optim.AdamW(0.01, weight_decay=0.5, cautious_weight_decay=True),
        cautious_adamw,
        {"rate": 0.01, "decay": 0.5},
    ),
    "muon": (
        optim.Muon(0.02, weight_decay=0.05),
        muon,
        {"rate": 0.02, "decay": 0.05, "momentum": 0.95, "nesterov": True, "adjust": False},
    ),
    "muon-matched": (
        optim.Muon(0.02, momentum=0.9, nesterov=False, adjust_lr="match_rms_adamw"),
        muon,
        {"rate": 0.02, "decay": 0.1, "momentum": 0.9, "nesterov": False, "adjust": True},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PAPERS)
def test_a_rule_follows_its_paper_over_fifty_steps(name, problem, agree):
    rule, paper, settings = PAPERS[name]
    optimizer, net = rule.with_clipping(value=1e9), problem.net
    if name.startswith("muon"):
        net = net.freeze("*.bias")
    arrays = [p.numpy().astype(np.float64) for p in net.parameters()]
    states = [{} for _ in arrays]
    signs = name == "lion"
    for step in range(1, STEPS + 1):
        gradients = problem.gradients(net)
        if signs and problem.dtype == "float32":
            # A sign updates on the last bit; judge each step by itself.
            arrays = [p.numpy().astype(np.float64) for p in net.parameters()]
        for i, parameter in enumerate(net.parameters()):
            if parameter.trainable:
                g = gradients[parameter].numpy().astype(np.float64)
                arrays[i] = paper(arrays[i], g, states[i], step=step, **settings)
        net = optimizer.step(net, gradients)
        for ours, theirs in zip(net.parameters(), arrays, strict=True):
            is_double = problem.dtype == "float64"
            tolerance = {"rtol": 1e-7, "atol": 1e-9} if is_double else {"rtol": 1e-3, "atol": 1e-4}
            np.testing.assert_allclose(ours.numpy(), theirs, **tolerance)


def test_muon_follows_pytorch_as_far_as_its_bfloat16_goes(problem64):
    net = problem64.net.freeze("*.bias")
    ours = optim.Muon(0.02, weight_decay=0.0)
    weights = [torch.tensor(p.numpy().copy()) for p in net.parameters() if p.trainable]
    theirs = torch.optim.Muon([w.requires_grad_() for w in weights], 0.02, weight_decay=0.0)
    for _ in range(5):
        gradients = problem64.gradients(net)
        trained = [p for p in net.parameters() if p.trainable]
        for w, p in zip(weights, trained, strict=True):
            w.grad = torch.tensor(gradients[p].numpy())
        net = ours.step(net, gradients)
        theirs.step()
    for w, p in zip(weights, [p for p in net.parameters() if p.trainable], strict=True):
        np.testing.assert_allclose(p.numpy(), w.detach().numpy(), atol=5 * 0.02 * 0.05)


def test_newton_schulz_brings_singular_values_near_one():
    x = np.random.default_rng(0).normal(size=(5, 9))
    for matrix in (x, x.T):
        made = optim.muon.newton_schulz(
            tensor(matrix), coefficients=optim.muon.COEFFICIENTS, steps=5, eps=1e-7
        ).numpy()
        singular = np.linalg.svd(made, compute_uv=False)
        assert 0.6 < singular.min() <= singular.max() < 1.25
        u, _, vt = np.linalg.svd(matrix, full_matrices=False)
        assert np.abs(u.T @ made @ vt.T - np.diag(np.diag(u.T @ made @ vt.T))).max() < 1e-10


def test_muon_names_the_parameter_that_is_no_matrix(problem64):
    with pytest.raises(ShapeError, match=r"two axes, got shape \(8,\)") as e:
        problem64.train(optim.Muon(), 1)
    assert e.value.__notes__ == ["for parameter 'hidden.bias'"]
    optimizer = optim.Muon(0.1).with_group("*.bias", optimizer=optim.AdamW(0.1))
    start = float(problem64.loss(problem64.net))
    assert float(problem64.loss(problem64.train(optimizer, 50))) < 0.7 * start


def test_centered_rmsprop_survives_a_variance_that_rounds_below_zero():
    gradient, parameter = full((100,), 0.1), full((100,), 1.0)
    rule = optim.RMSprop(centered=True)
    state = rule.init(parameter)
    for step in range(1, 3000, 1):
        parameter, state = rule.update(gradient, parameter, state, learning_rate=0.0, step=step)
    assert np.isfinite(parameter.numpy()).all()


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: optim.SGD(-1.0), "SGD requires learning_rate >= 0, got learning_rate=-1.0"),
        (lambda: optim.SGD(nesterov=True), "SGD requires momentum > 0 and dampening == 0"),
        (lambda: optim.Adam(beta1=1.0), "Adam requires 0 <= beta1 < 1, got beta1=1.0"),
        (lambda: optim.AdamW(weight_decay=-0.1), "AdamW requires weight_decay >= 0"),
        (lambda: optim.Adagrad(eps=-1.0), "Adagrad requires eps >= 0"),
        (lambda: optim.RMSprop(alpha=2.0), "RMSprop requires 0 <= alpha < 1"),
        (lambda: optim.Adan(beta3=1.5), "Adan requires 0 <= beta3 < 1"),
        (lambda: optim.Muon(adjust_lr="other"), "Muon requires adjust_lr 'original' or"),
        (lambda: optim.Muon(ns_steps=0), "Muon requires ns_steps > 0"),
        (lambda: optim.Lion(beta2=-0.1), "Lion requires 0 <= beta2 < 1"),
        (lambda: optim.LBFGS(line_search="armijo"), "LBFGS requires line_search None or"),
    ],
)
def test_settings_out_of_range_are_named(make, text):
    with pytest.raises(ArgumentError, match=text):
        make()


NADAMS = {
    "nadam": (optim.NAdam(0.01), lambda p: torch.optim.NAdam(p, 0.01)),
    "nadam-decay": (
        optim.NAdam(0.01, beta1=0.8, weight_decay=0.1, momentum_decay=0.1),
        lambda p: torch.optim.NAdam(
            p, 0.01, betas=(0.8, 0.999), weight_decay=0.1, momentum_decay=0.1
        ),
    ),
    "nadam-decoupled": (
        optim.NAdam(0.01, weight_decay=0.1, decoupled_weight_decay=True),
        lambda p: torch.optim.NAdam(p, 0.01, weight_decay=0.1, decoupled_weight_decay=True),
    ),
}


@pytest.mark.parametrize("name", NADAMS)
def test_nadam_follows_pytorch_whose_product_of_momenta_is_float32(name, problem64):
    ours, theirs = NADAMS[name]
    net = problem64.train(ours.with_clipping(value=1e9), STEPS)
    for got, want in zip(net.parameters(), problem64.train_torch(theirs, STEPS), strict=True):
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-6, atol=1e-8)


def lamb_in_numpy(arrays, gradients_of, steps, rate, decay, beta1=0.9, beta2=0.999, eps=1e-6):
    """Algorithm 2 of arXiv:1904.00962, line by line, with phi(x) = x."""
    xs = [a.astype(np.float64) for a in arrays]
    ms, vs = [0 * x for x in xs], [0 * x for x in xs]
    for t in range(1, steps + 1):
        for i, g in enumerate(gradients_of(xs)):
            ms[i] = beta1 * ms[i] + (1 - beta1) * g
            vs[i] = beta2 * vs[i] + (1 - beta2) * g**2
            r = ms[i] / (1 - beta1**t) / (np.sqrt(vs[i] / (1 - beta2**t)) + eps)
            r = r + decay * xs[i]
            norms = np.linalg.norm(xs[i]), np.linalg.norm(r)
            ratio = norms[0] / norms[1] if min(norms) > 0 else 1.0
            xs[i] = xs[i] - rate * ratio * r
    return xs


def test_lamb_is_algorithm_2_of_the_paper(problem64, agree):
    # A bias that is 0 has no size to be scaled by.
    net = problem64.net.at["out.bias"].apply(lambda b: b * 0)

    def gradients_of(xs):
        values = iter(xs)
        placed = net.map(lambda p: tensor(next(values)))
        return [problem64.gradients(placed)[p].numpy() for p in placed.parameters()]

    arrays = [p.numpy() for p in net.parameters()]
    want = lamb_in_numpy(arrays, gradients_of, 20, 0.02, 0.1)
    agree(problem64.train(optim.LAMB(0.02, weight_decay=0.1), 20, net), want)


def test_adafactor_keeps_rows_and_columns_and_steps_batches_of_matrices():
    state = optim.Adafactor().init(full((2, 3, 4), 1.0))
    assert {name: t.shape for name, t in state.items()} == {"rows": (2, 3, 1), "columns": (2, 1, 4)}
    start = np.random.default_rng(0).normal(size=(2, 3, 4))
    theirs = torch.tensor(start, requires_grad=True)
    optimizer = torch.optim.Adafactor([theirs], 0.1)
    ours, rule = tensor(start), optim.Adafactor(0.1)
    state = rule.init(ours)
    for step in range(1, 6):
        theirs.grad = theirs.detach().sin()
        optimizer.step()
        ours, state = rule.update(ours.sin(), ours, state, learning_rate=0.1, step=step)
    np.testing.assert_allclose(ours.numpy(), theirs.detach().numpy(), rtol=1e-12)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: optim.Adadelta(rho=1.0), "Adadelta requires 0 <= rho < 1, got rho=1.0"),
        (lambda: optim.Rprop(eta_plus=0.9), "Rprop requires eta_minus < 1 < eta_plus, got"),
        (lambda: optim.Adafactor(beta2_decay=0.5), "beta2_decay <= 0, got beta2_decay=0.5"),
        (lambda: optim.Adafactor(eps1=-1.0), "eps1 >= 0 or None, got eps1=-1.0"),
        (lambda: optim.LAMB(weight_decay=-1.0), "LAMB requires weight_decay >= 0"),
        (lambda: optim.NAdam(beta2=1.0), "NAdam requires 0 <= beta2 < 1"),
        (lambda: optim.RAdam(eps=-1.0), "RAdam requires eps >= 0"),
    ],
)
def test_settings_of_the_newer_rules_are_checked(make, message):
    with pytest.raises(ArgumentError, match=message):
        make()
