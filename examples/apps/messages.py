"""A user interface and its compute tasks, which talk by messages and end in order.

    python examples/apps/messages.py [--device cpu] [--requests 40] [--out messages.png]

Shows the structure of an application whose window never waits.  The interface has an event loop and
sends requests; tasks on threads of their own compute and answer; a model that trains in one task is
a value, which another applies meanwhile.  A request may be given up, an error is an answer, and at
the end what was asked for is answered before the tasks and then the loop stop.  The picture shows
the loss, and the frames of the interface: how late each came beside its 60 Hz.

On the machine of the tests (cpu, two cores, at real-time priority) 400 steps of training and 40
answers took 1.1 s, of which frames were late by 18 ms at p99, and 2.0 s and 53 ms the first time,
while kernels were compiled.  What brings that to 4 ms is in `benchmarks/window.py`.
"""

from __future__ import annotations

import argparse
import asyncio
import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from PIL import Image

import pyrite
from pyrite import Tensor, nn

#: Seconds between two frames of the interface.
FRAME = 1 / 60


@dataclass(frozen=True)
class Train:
    """Take so many steps."""

    steps: int


@dataclass(frozen=True)
class Predict:
    """Apply the newest model to (N, 2) numbers."""

    x: Any


Message = Train | Predict


@dataclass
class Request:
    """A message, and where its answer goes: a future of the interface's loop."""

    message: Message
    answer: asyncio.Future[Any]


class Task:
    """A thread that answers requests one after the other."""

    def __init__(self, name: str, answer: Callable[[Any], Any]) -> None:
        self._answer = answer
        self._requests: queue.Queue[Request | None] = queue.Queue()
        self._thread = threading.Thread(target=self._run, name=name)
        self._thread.start()

    def send(self, message: Message) -> asyncio.Future[Any]:
        """Have a message answered; called in the interface's loop, which gets the answer."""
        future = asyncio.get_running_loop().create_future()
        self._requests.put(Request(message, future))
        return future

    async def end(self) -> None:
        """Return when everything that was asked for is answered, and the thread has ended."""
        self._requests.put(None)
        while self._thread.is_alive():
            await asyncio.sleep(FRAME / 4)

    def _run(self) -> None:
        while (request := self._requests.get()) is not None:
            if request.answer.cancelled():
                continue
            try:
                found, failed = self._answer(request.message), None
            except Exception as error:  # the interface's business, not the thread's
                found, failed = None, error
            request.answer.get_loop().call_soon_threadsafe(_settle, request.answer, found, failed)


def _settle(answer: asyncio.Future[Any], found: Any, failed: Exception | None) -> None:
    if answer.cancelled():
        return
    if failed is not None:
        answer.set_exception(failed)
    else:
        answer.set_result(found)


class Rings(nn.Module):
    """Which of two rings a point lies in: (N, 2) -> (N,), above 0 for the outer."""

    def __init__(self) -> None:
        self.layers = nn.Sequential(
            nn.Linear(2, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1)
        )

    def forward(self, x: Tensor) -> Tensor:
        """Return a score for each point."""
        return self.layers(x).squeeze(-1)


class Learning:
    """A model that one task trains, and that another may take at any time."""

    def __init__(self, device: Any, *, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        radius, angle = rng.uniform(0, 2, 512), rng.uniform(0, 2 * np.pi, 512)
        points = np.stack([radius * np.cos(angle), radius * np.sin(angle)], -1)
        pyrite.seed(seed)
        self.device = device
        self.x = pyrite.tensor(points.astype("f4"), device=device)
        self.y = pyrite.tensor((radius > 1).astype("f4"), device=device)
        self.model = Rings().to(device)
        self._optimizer = pyrite.optim.Adam(learning_rate=1e-2)

    def train(self, message: Train) -> float:
        """Take the steps; return the last loss."""

        def loss(model: Rings) -> Tensor:
            return nn.BCEWithLogitsLoss()(model(self.x), self.y)

        for _ in range(message.steps):
            value, gradients = pyrite.value_and_grad(loss)(self.model)
            # A new model: who has the old one goes on with it.
            self.model = self._optimizer.step(self.model, gradients)
        return float(value.item())

    def predict(self, message: Predict) -> Any:
        """Return whether points are in the outer ring."""
        x = pyrite.tensor(np.asarray(message.x, np.float32), device=self.device)
        return self.model(x).numpy() > 0


@dataclass
class Interface:
    """What a user would see: losses, answers, and how late each frame came, in seconds."""

    learning: Learning
    losses: list[float] = field(default_factory=list)
    shares: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    late: list[float] = field(default_factory=list)

    async def run(self, requests: int) -> None:
        """Send requests while frames are drawn; then end the tasks, then the frames."""
        trainer, answerer = (
            Task("train", self.learning.train),
            Task("answer", self.learning.predict),
        )
        frames = asyncio.create_task(self._frames())
        try:
            await self._ask(trainer, answerer, requests)
        finally:
            await trainer.end()
            await answerer.end()
            frames.cancel()

    async def _ask(self, trainer: Task, answerer: Task, requests: int) -> None:
        truth = self.learning.y.numpy() > 0.5
        points = self.learning.x.numpy()
        for _ in range(requests):
            training, answer = trainer.send(Train(10)), answerer.send(Predict(points))
            given_up = answerer.send(Predict(points))
            given_up.cancel()
            self.shares.append(float((await answer == truth).mean()))
            self.losses.append(await training)
        try:
            await answerer.send(Predict(points[:, :1]))
        except pyrite.errors.PyriteError as error:
            self.errors.append(str(error).splitlines()[0])

    async def _frames(self) -> None:
        due = time.perf_counter()
        while True:
            due += FRAME
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            self.late.append(time.perf_counter() - due)
            due = max(due, time.perf_counter() - FRAME)


def picture(interface: Interface, height: int = 120, width: int = 480) -> Any:
    """Losses above, white; below each frame, in red where it came more than 5 ms late."""
    pixels = np.full((2 * height, width, 3), 16, np.uint8)
    losses = np.interp(
        np.linspace(0, len(interface.losses) - 1, width), np.arange(len(interface.losses)),
        interface.losses,
    )  # fmt: skip
    rows = ((1 - losses / losses.max()) * (height - 3)).astype(int)
    for thick in range(3):
        pixels[rows + thick, np.arange(width)] = 240
    late = np.array(interface.late)[-width:] * 1e3
    for column, milliseconds in enumerate(late):
        tall = int(min(milliseconds * 4 + 2, height))
        color = (220, 60, 50) if milliseconds > 5 else (70, 170, 110)
        pixels[2 * height - tall :, column] = color
    return pixels


def main(arguments: Sequence[str] | None = None) -> Interface:
    """Run the application without a window, and save a picture of what it did."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--requests", type=int, default=40)
    parser.add_argument("--out", default="messages.png")
    given = parser.parse_args(arguments)
    interface = Interface(Learning(pyrite.device(given.device)))
    began = time.perf_counter()
    asyncio.run(interface.run(given.requests))
    took = time.perf_counter() - began
    Image.fromarray(picture(interface)).save(given.out)
    late = np.percentile(interface.late, 99) * 1e3
    print(
        f"{given.out}: {given.requests} requests in {took:.1f} s, right "
        f"{interface.shares[-1]:.0%}, frames late {late:.1f} ms at p99"
    )
    return interface


if __name__ == "__main__":
    main()
