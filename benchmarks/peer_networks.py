"""What `peers.py` times of products, attention, recurrent layers and dropout."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from peer_cases import RANDOM, Case, Function, normal, size_of

from pyrite import nn
from pyrite.autodiff import value_and_grad
from pyrite.tensor.dropout import dropout as dropped_out
from pyrite.types import Array

# ---- products ----


def products(is_gpu: bool) -> Iterator[Case]:
    """Square products, and those of a layer."""
    for n in (64, 256, 1024, 2048, 4096) if is_gpu else (8, 16, 32, 48, 64, 128, 256, 512, 1024):
        x, y = normal(n, n), normal(n, n)
        product = lambda x, y: x @ y  # noqa: E731 - one rule for all three
        yield Case(f"product {n}", (x, y), product, product, product,
                   nbytes=3 * x.nbytes, operations=2.0 * n**3)  # fmt: skip
    for m, k, n in ((128, 784, 512), (32, 64, 64)):
        x, w, b = normal(m, k), normal(n, k), normal(n)
        nbytes, work = size_of(x, w, b) + 4 * m * n, 2.0 * m * k * n
        turned = lambda x, w: x @ w.T  # noqa: E731 - one rule for all three
        name = f"({m},{k})·({k},{n})ᵀ"
        yield Case(name, (x, w), turned, turned, turned, nbytes=nbytes, operations=work)
        yield Case(f"{name} + bias", (x, w, b), lambda x, w, b: x.linear(w, b), linear,
                   lambda x, w, b: x @ w.T + b, nbytes=nbytes, operations=work)  # fmt: skip


def linear(x: Any, w: Any, b: Any) -> Any:
    """Return PyTorch's linear layer."""
    import torch

    return torch.nn.functional.linear(x, w, b)


def depthwise(is_gpu: bool) -> Iterator[Case]:
    """Input gradients of strided depthwise convolutions, as of MobileNet."""
    for n, c, size, kernel in ((32 if is_gpu else 4, 96, 56, 3), (32 if is_gpu else 4, 144, 28, 5)):
        yield strided(n, c, size, kernel)


def strided(n: int, c: int, size: int, kernel: int) -> Case:
    """Return the input gradient of a depthwise convolution of stride 2."""
    padding, half = kernel // 2, size // 2
    g, w, x = normal(n, c, half, half), normal(c, 1, kernel, kernel), normal(n, c, size, size)

    def ours(g: Any, w: Any, _: Any) -> Any:
        return g._convolution_input_gradient(
            w, sizes=(size, size), stride=(2, 2), padding=((padding, padding),) * 2,
            dilation=(1, 1), groups=c,
        )  # fmt: skip

    def theirs(g: Any, w: Any, x: Any) -> Any:
        import torch

        return torch.ops.aten.convolution_backward(
            g, x, w, None, [2, 2], [padding] * 2, [1, 1], False, [0, 0], c, [True, False, False]
        )[0]

    def of_jax(g: Any, w: Any, x: Any) -> Any:
        import jax

        def forward(x: Any) -> Any:
            return jax.lax.conv_general_dilated(
                x, w, (2, 2), [(padding, padding)] * 2, feature_group_count=c
            )

        return jax.vjp(forward, x)[1](g)[0]

    return Case(f"depthwise {c}×{size}² by {kernel}, input", (g, w, x), ours, theirs, of_jax,
                nbytes=size_of(g, w, x), operations=2.0 * g.size * kernel**2)  # fmt: skip


# ---- attention ----


def attention(is_gpu: bool) -> Iterator[Case]:
    """Attention and its gradients, plain, causal, with a mask and with dropout."""
    for shape in [(8, 12, 1024, 64)] if is_gpu else [(2, 4, 512, 64), (3, 5, 384, 48)]:
        q, k, v = normal(*shape), normal(*shape), normal(*shape)
        mask = RANDOM.random((shape[2], shape[2])) < 0.9
        for kind, more, options in (
            ("plain", (), {}), ("causal", (), {"is_causal": True}), ("mask", (mask,), {}),
            ("dropout", (), {"dropout_p": 0.1}),
        ):  # fmt: skip
            yield from attend(f"attention {'×'.join(map(str, shape))} {kind}",
                              (q, k, v, *more), options)  # fmt: skip


def attend(name: str, inputs: tuple[Array, ...], options: dict[str, Any]) -> Iterator[Case]:
    """Yield attention forward, and with the gradients of query, key and value."""

    def ours(q: Any, k: Any, v: Any, *mask: Any) -> Any:
        return q.scaled_dot_product_attention(k, v, *mask, **options)

    def theirs(q: Any, k: Any, v: Any, *mask: Any) -> Any:
        import torch

        return torch.nn.functional.scaled_dot_product_attention(q, k, v, *mask, **options)

    def of_jax(q: Any, k: Any, v: Any, *mask: Any) -> Any:
        import jax

        q, k, v = (x.swapaxes(1, 2) for x in (q, k, v))
        return jax.nn.dot_product_attention(
            q, k, v, mask=mask[0][None, None] if mask else None,
            is_causal=options.get("is_causal", False),
        ).swapaxes(1, 2)  # fmt: skip

    q = inputs[0]
    part = 0.5 if options.get("is_causal") else 1.0
    work = 4.0 * q.size * q.shape[2] * part
    drops = "dropout_p" in options
    jaxs = None if drops else of_jax
    yield Case(f"{name}", inputs, ours, theirs, jaxs, nbytes=4 * q.nbytes, operations=work,
               checks=not drops)  # fmt: skip
    yield Case(f"{name}, step", inputs, our_step(ours, (0, 1, 2)), their_step(theirs, (0, 1, 2)),
               jaxs and jax_step(jaxs, (0, 1, 2)), nbytes=8 * q.nbytes, operations=3.5 * work,
               checks=not drops)  # fmt: skip


def our_step(function: Function, argnums: tuple[int, ...]) -> Function:
    """Return what gives a function's sum's gradients."""
    step = value_and_grad(lambda *inputs: function(*inputs).sum(), argnums)
    return lambda *inputs: step(*inputs)[1]


def their_step(function: Function, argnums: Sequence[int]) -> Function:
    """Return the same of PyTorch."""
    import torch

    def step(*inputs: Any) -> Any:
        tracked = list(inputs)
        for n in argnums:
            tracked[n] = inputs[n].detach().requires_grad_()
        return torch.autograd.grad(function(*tracked).sum(), [tracked[n] for n in argnums])

    return step


def jax_step(function: Function, argnums: tuple[int, ...]) -> Function:
    """Return the same of JAX."""

    def step(*inputs: Any) -> Any:
        import jax

        return jax.grad(lambda *inputs: function(*inputs).sum(), argnums)(*inputs)

    return step


# ---- recurrent layers, and dropout between linear ones ----


def recurrent(is_gpu: bool) -> Iterator[Case]:
    """LSTM, GRU and RNN, forward and with all gradients; on a host on PyTorch's tensors too."""
    sizes = ((2, 200, 35, 20), (1, 512, 50, 32))
    for count, features, steps, batch in sizes:
        for kind in ("LSTM", "GRU", "RNN"):
            for device in (None,) if is_gpu else (None, "torch:cpu"):
                yield from layers(kind, device, count, features, steps, batch)


def layers(
    kind: str, device: str | None, count: int, features: int, steps: int, batch: int
) -> Iterator[Case]:
    """Yield stacked layers, forward and with the gradients of input and weights."""
    import torch

    x = normal(steps, batch, features)
    theirs = getattr(torch.nn, kind)(features, features, count)
    made: dict[str, Any] = {}

    def ours(x: Any) -> Any:
        where = x.device.name
        if where not in made:
            made[where] = getattr(nn, kind)(
                features, features, count, batch_first=False, device=where
            )
        return made[where]

    def of_torch(x: Any) -> Any:
        return theirs.to(x.device)

    def forward(x: Any) -> Any:
        with torch.no_grad():
            return of_torch(x)(x)[0]

    def their_step(x: Any) -> Any:
        layer, x = of_torch(x), x.detach().requires_grad_()
        return torch.autograd.grad(layer(x)[0].sum(), [x, *layer.parameters()])

    step = value_and_grad(lambda layer, x: layer(x)[0].sum(), (0, 1))

    def our_step(x: Any) -> Any:
        layer = ours(x)
        grads, of_x = step(layer, x)[1]
        return [of_x, *(grads[p] for p in layer.parameters())]

    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[kind]
    work = 4.0 * count * gates * features**2 * steps * batch
    name = f"{'torch:cpu ' if device else ''}{kind} {count}×{features}, {steps}×{batch}"
    yield Case(name, (x,), lambda x: ours(x)(x)[0], forward, operations=work, checks=False,
               device=device)  # fmt: skip
    yield Case(f"{name}, step", (x,), our_step, their_step, operations=3 * work, checks=False,
               device=device)  # fmt: skip


def dropout(is_gpu: bool) -> Iterator[Case]:
    """A step of two linear layers with dropout between; on a host on PyTorch's tensors too."""
    for shape in ((64, 128), (256, 1024)):
        for device in (None,) if is_gpu else (None, "torch:cpu"):
            yield dropped(device, *shape)


def dropped(device: str | None, count: int, features: int) -> Case:
    """Return a step of two linear layers, ReLU and dropout of one half."""
    x, v, w = normal(count, features), normal(features, features), normal(features, features)

    def ours(x: Any, v: Any, w: Any) -> Any:
        return dropped_out((x @ v).relu(), 0.5) @ w

    def theirs(x: Any, v: Any, w: Any) -> Any:
        import torch

        return torch.dropout((x @ v).relu(), 0.5, True) @ w

    name = f"{'torch:cpu ' if device else ''}dropout {count}×{features}, step"
    return Case(name, (x, v, w), our_step(ours, (1, 2)), their_step(theirs, (1, 2)),
                operations=10.0 * x.size * features, checks=False, device=device)  # fmt: skip
