"""What a function that is compiled draws: see `pyrite.backend.capture`."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Self

from pyrite.op import HostScalar
from pyrite.tensor.stream import DRAWS, Stream, current_stream
from pyrite.tensor.tensor import Tensor


class DrawsEffect:
    """What a captured call draws of a stream: see `pyrite.backend.capture`.

    Its sources of host scalars are ``(offset, position)``: a word of the draw after so many others.
    """

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self._first = stream.next_draw

    def words(self, draw: int) -> Any:
        """Return the words of a draw as host scalars."""
        offset = draw - self._first
        return tuple([
            HostScalar.source(word, DRAWS, offset, position)
            for position, word in enumerate(self.stream.words(draw))
        ])  # fmt: skip

    def before(self) -> dict[Hashable, Tensor]:
        """Return no tensors."""
        return {}

    after = before

    @property
    def form(self) -> int:
        """How many draws there were."""
        return self.stream.next_draw - self._first

    def restore(self) -> None:
        """Let the draws be made again."""
        self.stream.next_draw = self._first

    def plan(self) -> DrawsReplay | None:
        """Return what draws as many; None where there were none."""
        return DrawsReplay(self.form) if self.form else None


class DrawsReplay:
    """So many draws of whatever stream a thread draws from when it replays."""

    def __init__(self, count: int) -> None:
        self._count = count

    def held(self) -> ReservedDraws:
        """Give the draws of a call.  One that raises has drawn nothing."""
        return ReservedDraws(current_stream(), self._count)


class ReservedDraws:
    """The draws of one call, reserved at once when the first word is asked for.

    As a context it gives them back where its block raises.
    """

    def __init__(self, stream: Stream, count: int) -> None:
        self._stream = stream
        self._count = count
        self._first: int | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: object, _: object) -> None:
        if kind is not None:
            self.give_back()

    def fits(self, leaves: Sequence[Tensor]) -> bool:
        """Whatever the stream is, it has draws."""
        return True

    def number(self, name: tuple[Any, ...]) -> int:
        """Return a word, by the number of its draw and its position."""
        offset, position = name
        return self._stream.words(self._reserved() + offset)[position]

    def _reserved(self) -> int:
        if self._first is None:
            self._first = self._stream.skip(self._count)
        return self._first

    def give_back(self) -> None:
        """Have the stream give the draws again, unless others have drawn from it since."""
        if self._first is not None:
            self._stream.give_back(self._first, self._count)
            self._first = None

    def tensors(self, names: Sequence[Hashable]) -> Sequence[Tensor]:
        """Raise KeyError: there are numbers only."""
        raise KeyError(*names)

    def commit(self, renewed: Mapping[Hashable, Any], versions: Mapping[int, int]) -> None:
        """Reserve the draws, if no number did."""
        self._reserved()
