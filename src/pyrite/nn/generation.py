"""Generation of sequences, token by token, over a cache: greedy, by chance, and by beams.

What generates has ``decode(tokens, caches) -> logits, caches``: logits (N, T, V) of the token after
each of the next tokens (N, T).  Caches are a tree of tensors with the batch as their first axis, or
none.  With caches of a fixed size (`FixedKeyValueCache`) the prompt is one computation and each
token another, the same for all, so that nothing is compiled while it generates.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from pyrite.errors import ArgumentError, DTypeError, ShapeError
from pyrite.op import located, public
from pyrite.tensor.comparison import where
from pyrite.tensor.creation import arange, full
from pyrite.tensor.joining import concat, stack
from pyrite.tensor.random import categorical
from pyrite.tensor.tensor import Tensor
from pyrite.tensor.tree import tree_map

#: After how many tokens it is looked whether all sequences have stopped: to look is to wait.
_LOOK_EVERY = 16


class Generator(Protocol):
    """What generates tokens."""

    def caches(self, batch: int, length: int) -> Any:
        """Return caches of no tokens, with room for ``length`` in each of ``batch`` sequences."""

    def decode(self, tokens: Tensor, caches: Any) -> tuple[Tensor, Any]:
        """Return logits (N, T, V) for the next tokens (N, T), and the caches that include them."""


@public
def generate(
    model: Generator,
    prompt: Tensor,
    tokens: int,
    *,
    temperature: float = 0.0,
    top_k: int | None = None,
    top_p: float | None = None,
    stop: int | Sequence[int] = (),
    pad: int | None = None,
    caches: Any = None,
) -> Tensor:
    """Return a prompt and the tokens that a model puts behind it: (N, P) -> (N, P + tokens).

    temperature: what divides the logits before a token is drawn; 0 takes the likeliest.
    top_k: draw among so many of the likeliest, and those equal to the last of them.
    top_p: draw among the fewest likeliest whose probabilities add up to as much.
    stop: tokens that end a sequence; behind one stands ``pad``, by default that token itself.
    caches: what the model remembers already; by default ``model.caches(N, P + tokens)``.

    Draws are those of the current stream: the same after `pyrite.seed` on every device.

    Raises ShapeError, DTypeError and ArgumentError for what is no prompt or setting.
    Source: top-k, Fan et al. 2018, arXiv:1805.04833; top-p, Holtzman et al. 2019, arXiv:1904.09751.
    """
    _require_prompt("generate", prompt, tokens)
    choose = _chooser(temperature, top_k, top_p)
    stops = _Stops(stop, pad, prompt)
    logits, caches = _started("generate", model, prompt, tokens, caches)
    found = [prompt]
    while len(found) <= tokens:
        token = stops.next(choose(logits))
        found.append(token.expand_dims(1))
        if len(found) % _LOOK_EVERY == 0 and stops.all_stopped():
            break
        if len(found) <= tokens:
            logits, caches = _decoded(model, found[-1], caches)
    missing = tokens + 1 - len(found)
    if missing:
        found.append(stops.padding(missing))
    return concat(found, axis=1)


class Beams(NamedTuple):
    """What `beam_search` found for each prompt, the best first."""

    #: The prompt and what is behind it: (N, beams, P + tokens).
    tokens: Tensor
    #: Log-probability of what is behind the prompt, by its length to the power of the penalty.
    scores: Tensor


@public
def beam_search(
    model: Generator,
    prompt: Tensor,
    tokens: int,
    *,
    beams: int = 4,
    stop: int | Sequence[int] = (),
    pad: int | None = None,
    length_penalty: float = 1.0,
    caches: Any = None,
) -> Beams:
    """Return the likeliest continuations found by beams: (N, P) -> (N, beams, P + tokens).

    After each token the ``beams`` likeliest of all continuations of those before go on; one that
    came to a ``stop`` token stays as it is.  Scores are log-probabilities divided by the number of
    tokens, the stop included, to the power of ``length_penalty``: 0 ranks by probability alone.
    Other arguments as of `generate`.

    Source: Graves 2012, arXiv:1211.3711, section 3; penalty: Wu et al. 2016, arXiv:1609.08144,
    equation 14, without its constant.
    """
    _require_prompt("beam_search", prompt, tokens)
    if beams < 1:
        raise ArgumentError(f"beam_search requires beams >= 1, got {beams}")
    batch = prompt.shape[0]
    logits, caches = _started("beam_search", model, prompt, tokens, caches)
    classes = logits.shape[-1]
    search = _Search(beams, classes, _Stops(stop, pad, prompt, beams), logits)
    caches = tree_map(lambda t: t.repeat(beams, 0) if t.ndim else t, caches)
    logits = logits.repeat(beams, 0)
    for step in range(tokens):
        search.advance(logits.reshape((batch, beams, classes)))
        if step % _LOOK_EVERY == _LOOK_EVERY - 1 and search.stops.all_stopped():
            search.fill(tokens - step - 1)
            break
        if step + 1 < tokens:
            rows = search.rows()
            caches = tree_map(lambda t, r=rows: t.take(r, 0) if t.ndim else t, caches)  # type: ignore[misc]
            logits, caches = _decoded(model, search.last().reshape((-1, 1)), caches)
    return search.ranked(prompt, length_penalty)


# ---- the model ----


def _require_prompt(op: str, prompt: Tensor, tokens: int) -> None:
    if prompt.ndim != 2 or not prompt.shape[1]:
        raise ShapeError(f"{op} requires a prompt (N, P) of at least one token, got {prompt.shape}")
    if not prompt.dtype.is_integer:
        raise DTypeError(f"{op} requires a prompt of integers, got {prompt.dtype.name}")
    if tokens < 0:
        raise ArgumentError(f"{op} requires tokens >= 0, got {tokens}")


def _started(op: str, model: Any, prompt: Tensor, tokens: int, caches: Any) -> tuple[Tensor, Any]:
    """Return the logits after the prompt (N, V), and the caches that include it."""
    lacks = [name for name in ("decode", "caches") if not hasattr(model, name)]
    if lacks and not (lacks == ["caches"] and caches is not None):
        raise located(
            ArgumentError(
                f"{op} requires a model with caches(batch, length) and decode(tokens, caches), got "
                f"{type(model).__name__} without {' and '.join(lacks)}; docs/guide/generation.md "
                "has one"
            )
        )
    batch, length = prompt.shape
    return _decoded(
        model, prompt, model.caches(batch, length + tokens) if caches is None else caches
    )


def _decoded(model: Any, tokens: Tensor, caches: Any) -> tuple[Tensor, Any]:
    logits, caches = model.decode(tokens, caches)
    return logits[:, -1].astype(logits.dtype.compute), caches


# ---- the choice of a token ----


def _chooser(temperature: float, top_k: int | None, top_p: float | None) -> Any:
    """Return the function from logits (N, V) to tokens (N,)."""
    if not temperature >= 0:
        raise ArgumentError(f"generate requires temperature >= 0, got {temperature}")
    if top_k is not None and top_k < 1:
        raise ArgumentError(f"generate requires top_k >= 1, got {top_k}")
    if top_p is not None and not 0 < top_p <= 1:
        raise ArgumentError(f"generate requires 0 < top_p <= 1, got {top_p}")
    if temperature == 0:
        return lambda logits: logits.argmax(-1)
    return lambda logits: categorical(_likely(logits / temperature, top_k, top_p))


def _likely(logits: Tensor, top_k: int | None, top_p: float | None) -> Tensor:
    """Return logits in which what is not likely enough is -inf."""
    if top_k is not None and top_k < logits.shape[-1]:
        least = logits.topk(top_k)[0][..., -1:]
        logits = logits.where(logits >= least, -math.inf)
    if top_p is not None and top_p < 1:
        ordered = logits.sort(-1, descending=True)
        before = ordered.softmax(-1).cumulative_sum(-1) - ordered.softmax(-1)
        least = ordered.where(before < top_p, math.inf).min(-1, keepdims=True)
        logits = logits.where(logits >= least, -math.inf)
    return logits


class _Stops:
    """Which sequences have come to a token that ends them."""

    def __init__(
        self, stop: int | Sequence[int], pad: int | None, prompt: Tensor, beams: int | None = None
    ) -> None:
        self.tokens = (stop,) if isinstance(stop, int) else tuple(stop)
        self.pad = pad if pad is not None else self.tokens[0] if self.tokens else 0
        self.shape = (prompt.shape[0],) if beams is None else (prompt.shape[0], beams)
        self.dtype, self.device = prompt.dtype, prompt.device
        self.stopped = full(self.shape, False, device=prompt.device)

    def next(self, token: Tensor) -> Tensor:
        """Return tokens, padding where a sequence has stopped, and note which stop now."""
        token = token.astype(self.dtype)
        if not self.tokens:
            return token
        token = token.where(~self.stopped, self.pad)
        for stop in self.tokens:
            self.stopped = self.stopped | (token == stop)
        return token

    def all_stopped(self) -> bool:
        """Whether all sequences have stopped; waits for the device if any can."""
        return bool(self.tokens) and bool(self.stopped.all().item())

    def padding(self, count: int) -> Tensor:
        """Return so many tokens of padding."""
        return full((*self.shape, count), self.pad, dtype=self.dtype, device=self.device)


# ---- beams ----


class _Search:
    """The beams of all prompts, and how each came from one before."""

    def __init__(self, beams: int, classes: int, stops: _Stops, logits: Tensor) -> None:
        self.beams, self.classes, self.stops = beams, classes, stops
        batch = logits.shape[0]
        # At first all beams are one: the others may not go on.
        is_first = arange(beams, device=logits.device) == 0
        nothing = full((batch, beams), 0.0, dtype=logits.dtype, device=logits.device)
        self.scores = nothing + where(is_first, 0.0, -math.inf).astype(logits.dtype)
        self.lengths = nothing
        self.steps: list[tuple[Tensor, Tensor]] = []

    def advance(self, logits: Tensor) -> None:
        """Go on by one token: logits (N, beams, V)."""
        stopped = self.stops.stopped
        # A beam that has stopped has one continuation, which costs nothing.
        is_first = arange(self.classes, device=logits.device) == 0
        stays = where(is_first, 0.0, -math.inf).astype(logits.dtype)
        each = where(stopped.expand_dims(-1), stays, logits.log_softmax(-1))
        each = each + self.scores.expand_dims(-1)
        batch = each.shape[0]
        self.scores, place = each.reshape((batch, -1)).topk_with_indices(self.beams)
        parent = place // self.classes
        self.stops.stopped = stopped.take_along_axis(parent, 1)
        going = ~self.stops.stopped
        self.lengths = self.lengths.take_along_axis(parent, 1) + going.astype(each.dtype)
        self.steps.append((self.stops.next(place % self.classes), parent))

    def rows(self) -> Tensor:
        """Return from which row of the batch times beams each beam came: (N * beams,)."""
        parent = self.steps[-1][1]
        first = arange(parent.shape[0], dtype=parent.dtype, device=parent.device) * self.beams
        return (parent + first.expand_dims(1)).flatten()

    def last(self) -> Tensor:
        """Return the last token of each beam: (N, beams)."""
        return self.steps[-1][0]

    def fill(self, count: int) -> None:
        """Put padding behind all beams."""
        same = arange(self.beams, dtype=self.steps[-1][1].dtype, device=self.stops.device)
        same = same.broadcast_to(self.stops.shape)
        pad = self.stops.padding(1)[..., 0]
        self.steps.extend([(pad, same)] * count)

    def ranked(self, prompt: Tensor, length_penalty: float) -> Beams:
        """Return the beams with their tokens, in the order of their scores."""
        scores = self.scores / self.lengths.maximum(1.0) ** length_penalty
        order = scores.argsort(-1, descending=True)
        found, place = [], order
        for token, parent in reversed(self.steps):
            found.append(token.take_along_axis(place, 1))
            place = parent.take_along_axis(place, 1)
        batch, length = prompt.shape
        before = prompt.expand_dims(1).broadcast_to((batch, self.beams, length))
        parts = [before, stack(found[::-1], axis=-1)] if found else [before]
        return Beams(concat(parts, axis=-1), scores.take_along_axis(order, 1))
