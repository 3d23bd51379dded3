"""Probabilities and cotangents of scores, which are kept: all gradients are products of these.

The kernel sums nothing over queries, so that a tile of keys is shared by several workgroups, each
with a run of queries; see `tiled_gradient`.
"""

from __future__ import annotations

from typing import Final

from pyrite.backend.cube.skeleton.attention.of_keys import KeyPairs, KeyTiles
from pyrite.backend.cube.skeleton.attention.problem import Attention
from pyrite.backend.cube.skeleton.attention.row_tile import placed
from pyrite.backend.cube.skeleton.attention.tiled_gradient import Stages, TiledGradient
from pyrite.backend.cube.skeleton.attention.workgroup import Copy, fetched_of
from pyrite.kernel import Value
from pyrite.kernel.template.index import least, pieces, plus

#: Queries of a workgroup, a multiple of all tiles' columns.
RUN: Final = 256


class _OfScores(KeyTiles):
    @staticmethod
    def sizes(problem: Attention) -> tuple[int, ...]:
        return ()

    @staticmethod
    def runs(problem: Attention) -> int:
        return pieces(problem.queries, RUN)

    def write(self, number: Value) -> None:
        b, problem, config = self.b, self.problem, self.config
        assert RUN % config.columns == 0, config
        runs = self.runs(problem)
        head, part = placed(problem, number, pieces(problem.keys, config.rows) * runs)
        self.place(head, part // runs)
        start = part % runs * RUN
        end = least(b, plus(start, RUN), problem.queries)
        fetched = fetched_of(self.copies(start)[0])
        with b.for_(start, end, step=config.columns, carried=fetched, is_entered=True) as loop:
            loop.yield_(*self.step(loop.index, list(loop.carried)))

    def copies(self, first: Value) -> list[list[Copy]]:
        """Return what a tile of queries, from the first on, has in shared memory in turn."""
        head = self.b.index(0)
        return [*self.scored(head, first), *self.valued(head, first)]

    def step(self, first: Value, fetched: list[Value]) -> list[Value]:
        """Write what a tile of queries gives, whose first copy is fetched; return the next one."""
        problem, config, head = self.problem, self.config, self.b.index(0)
        pairs = [KeyPairs(self, head, first, v) for v in range(config.own_vectors)]
        words = self.words(pairs)
        following = self.copies(first + config.columns)[0]
        stages = Stages(self.b, [*self.copies(first), following], fetched)
        weights, slopes = self.probabilities(self.products(stages, problem.size), pairs)
        dropped = map(self.scores.dropped, weights, words)
        self.keep("weights", head, pairs, list(dropped))
        products = self.products(stages, problem.value_size)
        cotangents = self.cotangents(weights, slopes, products, pairs, words)
        self.keep("slopes", head, pairs, cotangents, problem.scoring.scale)
        return stages.fetched


OF_SCORES: Final = TiledGradient("tiled attention gradient of scores", _OfScores)
