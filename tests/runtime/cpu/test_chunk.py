"""Pieces of memory in huge pages: apart, touched before they are used, and given back."""

from __future__ import annotations

import ctypes
import sys
from itertools import pairwise

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from pyrite.runtime.cpu import memory
from pyrite.runtime.cpu.chunk import AHEAD, CHUNK, HUGE_PAGE, LARGEST, SMALLEST, Chunk, drop
from pyrite.runtime.cpu.memory import Allocator
from pyrite.runtime.cpu.pages import PAGE, has_pages
from pyrite.types import Array

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="asks Linux about pages")


def resident(address: int, nbytes: int) -> list[bool]:
    """Return of each page whether the system gave it memory."""
    found = (ctypes.c_ubyte * (nbytes // PAGE))()
    failed = ctypes.CDLL(None).mincore(ctypes.c_void_p(address), ctypes.c_size_t(nbytes), found)
    assert not failed
    return [bool(page & 1) for page in found]


def test_pieces_are_apart_and_begin_a_page() -> None:
    chunk, sizes = Chunk(), [SMALLEST, SMALLEST + 1, 3 * SMALLEST, LARGEST]
    pieces = [chunk.piece(n) for n in sizes]

    spans = [(p.ctypes.data, p.ctypes.data + len(p)) for p in pieces if p is not None]
    assert [end - start for start, end in spans] == sizes
    assert all(end < start and start % PAGE == 0 for (_, end), (start, _) in pairwise(spans))


def test_a_chunk_has_no_more_than_its_bytes() -> None:
    chunk = Chunk()
    count = 0
    while chunk.piece(LARGEST) is not None:
        count += 1

    assert count == CHUNK // (LARGEST + PAGE)
    assert chunk.piece(SMALLEST) is not None


@on_linux
def test_what_comes_next_is_touched_and_what_is_used_stays() -> None:
    chunk = Chunk()
    first = chunk.piece(SMALLEST)
    assert first is not None
    touching = chunk.touching()
    assert touching is not None
    first[:] = 7
    touching()

    assert (first == 7).all()
    assert all(resident(first.ctypes.data, AHEAD))
    assert first.ctypes.data % HUGE_PAGE == 0
    assert chunk.touching() is None  # until half of it is used


@on_linux
def test_each_page_of_a_chunk_is_touched_in_its_turn() -> None:
    chunk = Chunk()
    pieces: list[Array] = []
    while (piece := chunk.piece(LARGEST)) is not None:
        pieces.append(piece)
        # The first one is used at once, so what is touched begins behind it.
        assert len(pieces) == 1 or all(resident(piece.ctypes.data, len(piece)))
        if (touching := chunk.touching()) is not None:
            touching()

    assert len(pieces) > 2 * AHEAD // LARGEST


@on_linux
def test_a_dropped_piece_gives_its_pages_back_and_no_others() -> None:
    chunk = Chunk()
    before, piece, after = (chunk.piece(SMALLEST + 100) for _ in range(3))
    assert before is not None
    assert piece is not None
    assert after is not None
    for each in (before, piece, after):
        each[:] = 7
    drop(piece)

    assert (before == 7).all()
    assert (after == 7).all()
    assert not piece[:SMALLEST].any()


@pytest.mark.skipif(not has_pages(), reason="blocks are no pieces here")
def test_an_allocator_goes_on_with_another_chunk_and_touches_ahead() -> None:
    touched: list[object] = []
    allocator = Allocator(lambda: 1, lambda: 1, later=touched.append)
    buffers = [allocator.allocate(LARGEST) for _ in range(2 * CHUNK // LARGEST)]
    for n, buffer in enumerate(buffers):
        buffer.bytes()[:] = n

    assert all((buffer.bytes() == n).all() for n, buffer in enumerate(buffers))
    assert len(touched) >= 2 * CHUNK // AHEAD
    starts = np.sort([buffer.address for buffer in buffers])
    assert (np.diff(starts) >= LARGEST).all()


def test_a_block_that_no_chunk_has_room_for_has_memory_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def too_much() -> Chunk:
        raise MemoryError

    monkeypatch.setattr(memory, "Chunk", too_much)
    allocator = Allocator(lambda: 1, lambda: 1)
    buffer = allocator.allocate(SMALLEST)
    buffer.bytes()[:] = 7
    assert (buffer.bytes() == 7).all()
    del buffer
    allocator.trim()
    assert allocator.report().reserved == 0


@on_linux
def test_what_an_allocator_trims_is_the_systems_again() -> None:
    allocator = Allocator(lambda: 1, lambda: 1)
    kept, freed = allocator.allocate(LARGEST), allocator.allocate(LARGEST)
    kept.bytes()[:] = 7
    freed.bytes()[:] = 7
    address = freed.address
    del freed
    allocator.trim()

    assert allocator.report().reserved == LARGEST
    assert not any(resident(address, LARGEST))  # which is its chunk's still, as that is in use
    assert (kept.bytes() == 7).all()
