"""A window to draw digits in: a network that trains answers while it trains, and learns from you.

    python examples/apps/digits_window.py [--window] [--steps 200] [--out digits_window.png]

Draw with the mouse; the bars say what the network takes it for.  A key from 0 to 9 says what it is:
the drawing joins the digits that it trains on.  Backspace clears.  Shows a model as a value: a
thread trains and hands over a new model after each step, the window applies the newest one when
there is something new, and neither waits for the other.  Windows are rendercanvas', so Qt's, wx's,
glfw's or a notebook's; without one the same code is driven by events.

On the machine of the tests (cpu, two cores, at real-time priority) a step took 8 ms, and an answer
meanwhile 0.1 ms of the window.
The digits are the UCI optical digits that Pyrite ships, 8 x 8 pixels.
"""

from __future__ import annotations

import argparse
import threading
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from PIL import Image

import pyrite
from pyrite import Tensor, nn
from pyrite.data import digits

SIDE = 8

#: Pixels of the window to a pixel of a digit.
ZOOM = 24


class Network(nn.Module):
    """(N, 1, 8, 8) -> (N, 10)."""

    def __init__(self) -> None:
        self.layers = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(512, 10),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        """Return a score of each digit."""
        return self.layers(x)


class Training:
    """A thread that trains; ``model`` is the newest, and ``steps`` counts those taken."""

    def __init__(self, device: Any, *, seed: int = 0) -> None:
        train = digits("train")
        self._pixels = np.stack([np.asarray(one.pixels) for one in train]).astype(np.float32)
        self._labels = np.array([one.label for one in train], np.int32)
        self._rng = np.random.default_rng(seed)
        pyrite.seed(seed)
        self.device, self.steps = device, 0
        self.model = Network().to(device)
        self._optimizer = pyrite.optim.Adam(learning_rate=2e-3)
        self._drawn: list[tuple[Any, int]] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="training")

    def begin(self) -> None:
        """Start the thread."""
        self._thread.start()

    def end(self) -> None:
        """Return when the step that is under way has ended."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()

    def learn(self, pixels: Any, label: int) -> None:
        """Have a drawing of (8, 8) in each batch from now on."""
        self._drawn.append((pixels.copy(), label))

    def advance(self) -> None:
        """Take one step."""
        at = self._rng.integers(0, len(self._labels), 64)
        pixels, labels = self._pixels[at], self._labels[at]
        for n, (drawing, label) in enumerate(self._drawn[-16:]):
            pixels[n, 0], labels[n] = drawing, label
        x, y = (pyrite.tensor(part, device=self.device) for part in (pixels, labels))

        def loss(model: Network) -> Tensor:
            return nn.CrossEntropyLoss()(model(x), y)

        _, gradients = pyrite.value_and_grad(loss)(self.model)
        self.model = self._optimizer.step(self.model, gradients)
        self.steps += 1

    def _run(self) -> None:
        while not self._ended.is_set():
            self.advance()


class Pad:
    """What is drawn, what the network says to it, and the events that change both."""

    def __init__(self, training: Training) -> None:
        self.training = training
        self.drawing = np.zeros((SIDE, SIDE), np.float32)
        self.shares = np.full(10, 0.1)
        self._asked: tuple[int, bytes] = (-1, b"")

    def handle(self, event: dict[str, Any]) -> None:
        """Take an event of rendercanvas."""
        kind = event["event_type"]
        if kind in ("pointer_down", "pointer_move") and event.get("buttons"):
            self._stroke(event["x"] / ZOOM, event["y"] / ZOOM)
        elif kind == "key_down" and event["key"] == "Backspace":
            self.drawing[:] = 0
        elif kind == "key_down" and event["key"] in "0123456789":
            self.training.learn(self.drawing, int(event["key"]))

    def answer(self) -> Any:
        """Return the share of each digit, by the newest model."""
        asked = (self.training.steps, self.drawing.tobytes())
        if asked != self._asked:
            self._asked = asked
            x = pyrite.tensor(self.drawing[None, None], device=self.training.device)
            self.shares = self.training.model(x).softmax(-1).numpy()[0]
        return self.shares

    def picture(self) -> Any:
        """The drawing, and a bar for each digit: (192, 312, 4)."""
        pixels = np.full((SIDE * ZOOM, SIDE * ZOOM + 120, 4), 255, np.uint8)
        dark = (255 - self.drawing.clip(0, 1) * 235).astype(np.uint8)
        pixels[:, : SIDE * ZOOM, :3] = dark.repeat(ZOOM, 0).repeat(ZOOM, 1)[..., None]
        pixels[:, SIDE * ZOOM :, :3] = 24
        best = int(self.shares.argmax())
        for digit, share in enumerate(self.shares):
            top, color = 6 + digit * 18, (250, 180, 60) if digit == best else (90, 140, 220)
            pixels[top : top + 14, SIDE * ZOOM + 8 : SIDE * ZOOM + 12 + int(share * 100), :3] = (
                color
            )
        return pixels

    def _stroke(self, column: float, row: float) -> None:
        """Ink around a place, in pixels of the digit."""
        rows, columns = np.mgrid[:SIDE, :SIDE] + 0.5
        ink = np.exp(-((rows - row) ** 2 + (columns - column) ** 2) * 1.4)
        self.drawing = np.maximum(self.drawing, ink.astype(np.float32)).clip(0, 1)


def drawn_events(strokes: Sequence[tuple[float, float]]) -> list[dict[str, Any]]:
    """Return the events of a pen that goes through places, in shares of the pad."""
    places = np.array(strokes) * SIDE * ZOOM
    along = np.linspace(0, len(places) - 1, 12 * len(places))
    xs, ys = (np.interp(along, np.arange(len(places)), places[:, n]) for n in (0, 1))
    return [
        {"event_type": "pointer_move", "x": float(x), "y": float(y), "buttons": (1,)}
        for x, y in zip(xs, ys, strict=True)
    ]


#: How a hand draws a seven and a zero.
SEVEN = ((0.2, 0.12), (0.78, 0.12), (0.6, 0.45), (0.42, 0.9))
ZERO = ((0.5, 0.1), (0.76, 0.3), (0.76, 0.7), (0.5, 0.9), (0.24, 0.7), (0.24, 0.3), (0.5, 0.1))


def watched(pad: Pad) -> None:
    """Draw in a window until it is closed; then end the training."""
    from rendercanvas.auto import RenderCanvas, loop

    canvas = RenderCanvas(
        title="digits", size=(SIDE * ZOOM + 120, SIDE * ZOOM), update_mode="continuous"
    )
    context = canvas.get_context("bitmap")
    canvas.add_event_handler(pad.handle, "pointer_down", "pointer_move", "key_down")

    def frame() -> None:
        pad.answer()
        context.set_bitmap(pad.picture())

    canvas.request_draw(frame)
    pad.training.begin()
    try:
        loop.run()
    finally:
        pad.training.end()


def main(arguments: Sequence[str] | None = None) -> Pad:
    """Open a window, or draw a digit without one and save what the window would show."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--out", default="digits_window.png")
    parser.add_argument("--window", action="store_true")
    given = parser.parse_args(arguments)
    pad = Pad(Training(pyrite.device(given.device)))
    if given.window:
        watched(pad)
        return pad
    pictures, began, times = [], time.perf_counter(), []
    pad.training.begin()
    for strokes in (SEVEN, ZERO):
        pad.handle({"event_type": "key_down", "key": "Backspace"})
        for event in drawn_events(strokes):
            pad.handle(event)
        goal = pad.training.steps + given.steps // 2
        while pad.training.steps < goal:
            asked = time.perf_counter()
            pad.answer()
            times.append(time.perf_counter() - asked)
            time.sleep(1 / 60)
        pad.answer()
        pictures.append(pad.picture())
    pad.training.end()
    took = (time.perf_counter() - began) / pad.training.steps
    Image.fromarray(np.concatenate(pictures, 1)[..., :3]).save(given.out)
    print(
        f"{given.out}: {pad.training.steps} steps, {took * 1e3:.1f} ms each; an answer meanwhile "
        f"{np.median(times) * 1e3:.1f} ms, says {int(pad.shares.argmax())}"
    )
    return pad


if __name__ == "__main__":
    main()
