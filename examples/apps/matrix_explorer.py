"""A matrix explorer: products and decompositions as they come, each with its time.

    python examples/apps/matrix_explorer.py [--device cpu] [--size 512] [--out matrices.png]

Shows results that arrive while others are computed: every answer is an asynchronous generator, so a
terminal or a window shows the singular values as they settle, and stays awake.  Products are told
with their speed; the singular value decomposition is by subspace iteration, and ends when its
values settle.  The picture shows a photograph and its nearest matrices of two ranks.

On the machine of the tests (cpu, two cores, at real-time priority) twelve rounds of rank 24 and
seven of rank 6 took 0.7 s together, and 8 s the first time, for their kernels are compiled then;
products of 384 x 384 ran at 50 GFLOP/s.
Source: Halko, Martinsson & Tropp, Finding structure with randomness, arXiv:0909.4061, algorithm
4.4; twice is enough: Parlett, The symmetric eigenvalue problem, 6.9.
"""

from __future__ import annotations

import argparse
import asyncio
import queue
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image
from rich.console import Console
from rich.table import Table
from sklearn.datasets import load_sample_image

import pyrite
from pyrite import Tensor


@dataclass(frozen=True)
class Answer:
    """What was found, in how many seconds, and a picture of it, if there is one."""

    name: str
    found: str
    seconds: float
    picture: Tensor | None = None


async def product(name: str, x: Tensor, y: Tensor) -> AsyncIterator[Answer]:
    """Multiply two matrices."""
    (x @ y).sum()  # compiled before it is timed
    await x.device.synchronize_async()
    ready: queue.SimpleQueue[float] = queue.SimpleQueue()
    began = time.perf_counter()
    z = x @ y
    # Told on another thread: this one goes on with other questions before it looks.
    z.when_ready(lambda _: ready.put(time.perf_counter()))
    while ready.empty():
        await asyncio.sleep(0.001)
    took = ready.get() - began
    speed = 2 * x.shape[0] * x.shape[1] * y.shape[1] / took / 1e9
    yield Answer(name, f"{z.shape[0]} x {z.shape[1]}, {speed:.1f} GFLOP/s", took, z)


def orthonormal(x: Tensor) -> Tensor:
    """Return an orthonormal basis of the columns of (M, K), by Gram and Schmidt's method.

    Each column is freed of the others twice, which is enough in floating point.
    """
    basis, eye = x * 0.0, pyrite.eye(x.shape[1], device=x.device)
    for n in range(x.shape[1]):
        column = x[:, n : n + 1]
        for _ in range(2):
            column = column - basis @ (basis.mT @ column)
        column = column / (column**2).sum().sqrt()
        basis = basis + column * eye[n]  # one kernel for all columns, where `at` has one for each
    return basis


async def singular_values(
    name: str, x: Tensor, rank: int, *, rounds: int = 12, enough: float = 1e-4
) -> AsyncIterator[Answer]:
    """Find the largest singular values of (M, N), round by round, until they settle.

    The picture is the matrix of that rank that is nearest to x.
    """
    began, before = time.perf_counter(), np.zeros(rank)
    basis = orthonormal(x @ pyrite.normal((x.shape[1], rank), device=x.device))
    for n in range(1, rounds + 1):
        basis = orthonormal(x @ orthonormal(x.mT @ basis))
        part = basis.mT @ x
        energies = (part @ part.mT) * pyrite.eye(rank, device=x.device)
        values = np.sqrt(np.sort((await energies.sum(0).to_numpy_async()).clip(0))[::-1])
        change = float(np.abs(values - before).max() / max(values.max(), 1e-30))
        largest = ", ".join(f"{value:.1f}" for value in values[:3])
        took = time.perf_counter() - began
        yield Answer(name, f"round {n}: {largest}, ... {change:.0e} moved", took, basis @ part)
        before = values
        if change < enough:
            return


Question = Callable[[], AsyncIterator[Answer]]


async def explored(
    questions: Sequence[Question], show: Callable[[Answer], None]
) -> dict[str, Answer]:
    """Ask all at once, show each answer when it comes, return the last of each name."""
    last: dict[str, Answer] = {}

    async def ask(question: Question) -> None:
        async for answer in question():
            last[answer.name] = answer
            show(answer)

    await asyncio.gather(*(ask(question) for question in questions))
    return last


def questions_of(x: Tensor, rank: int) -> list[Question]:
    """Return what is asked of a matrix."""
    return [
        lambda: product("x @ x.T", x, x.mT),
        lambda: product("x.T @ x", x.mT, x),
        lambda: singular_values(f"rank {rank}", x, rank),
        lambda: singular_values(f"rank {rank // 4}", x, rank // 4),
    ]


def picture(x: Tensor, answers: Sequence[Answer]) -> Any:
    """Matrices side by side, from their least (dark) to their most."""
    shown = [x, *(answer.picture for answer in answers if answer.picture is not None)]
    panels = []
    for matrix in (one.numpy() for one in shown if one.shape == x.shape):
        low, high = np.percentile(matrix, (1, 99))
        panels.append(((matrix - low) / max(high - low, 1e-9)).clip(0, 1) * 255)
    return np.concatenate(panels, 1).astype(np.uint8)


def main(arguments: Sequence[str] | None = None) -> dict[str, Answer]:
    """Explore a photograph as a matrix; save a picture."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--device", default=None)
    parser.add_argument("--size", type=int, default=384)
    parser.add_argument("--rank", type=int, default=24)
    parser.add_argument("--out", default="matrix_explorer.png")
    given = parser.parse_args(arguments)
    image = Image.fromarray(load_sample_image("china.jpg")).convert("L")
    grey = np.asarray(image.resize((given.size, given.size)), np.float32) / 255.0
    x = pyrite.tensor(grey, device=pyrite.device(given.device))
    pyrite.seed(0)
    console = Console()

    def show(answer: Answer) -> None:
        console.print(f"{answer.seconds * 1e3:8.1f} ms  {answer.name:10} {answer.found}")

    answers = asyncio.run(explored(questions_of(x, given.rank), show))
    table = Table("matrix", "found", "ms")
    for one in answers.values():
        table.add_row(one.name, one.found, f"{one.seconds * 1e3:.1f}")
    console.print(table)
    ranks = [one for name, one in sorted(answers.items()) if name.startswith("rank")]
    Image.fromarray(picture(x, ranks)).save(given.out)
    return answers


if __name__ == "__main__":
    main()
