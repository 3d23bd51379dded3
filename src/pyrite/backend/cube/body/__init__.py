"""Composites by their bodies: a graph of ops becomes as few kernels as its folds allow."""

from pyrite.backend.cube.body.body import graph_of as graph_of
from pyrite.backend.cube.body.body import is_classed as is_classed
from pyrite.backend.cube.body.body import run_body as run_body
from pyrite.backend.cube.body.graph_run import GraphRun as GraphRun

__all__ = ["GraphRun", "graph_of", "is_classed", "run_body"]
