"""Which tiles are chosen: some fit every device, and those that were measured as fast are."""

from __future__ import annotations

import pytest

from pyrite.kernel.machine import Machine
from pyrite.kernel.template.operand import row_major_map
from pyrite.kernel.template.product import Product
from pyrite.kernel.template.tiled_config import TiledConfig, candidates, select, workgroups
from pyrite.types import float32

#: An NVIDIA H200.
LARGE = Machine.gpu(49152, 1024)


def product(m: int, n: int, k: int) -> Product:
    x, y, out = (row_major_map(float32, (), *size) for size in ((m, k), (k, n), (m, n)))
    return Product(x, y, out)


def test_some_config_fits_the_default_limits_of_webgpu_and_all_fit_what_they_are_offered() -> None:
    of = product(512, 512, 512)
    for machine in (Machine.gpu(workgroups=64), LARGE):
        found = candidates(of, machine)
        assert found
        assert all(c.is_legal() and c.fits(machine, 4) for c in found)
        assert select(of, machine) in found


def test_large_products_take_large_tiles_and_few_tiles_are_split() -> None:
    large = select(product(2048, 2048, 8), LARGE)
    assert (large.block_m, large.block_n) == (128, 128)
    assert select(product(32, 32, 4096), LARGE).split_k > 1


@pytest.mark.parametrize(
    ("size", "config"),
    [
        ((4096, 4096, 4096), TiledConfig(128, 128, 8, 16, 8, stages=1, pad=4)),
        ((2048, 2048, 2048), TiledConfig(128, 128, 8, 16, 8, stages=1, pad=4)),
        ((8192, 3072, 768), TiledConfig(128, 128, 8, 16, 8, stages=1, pad=4)),
        ((8192, 768, 768), TiledConfig(128, 128, 16, 8, 8, stages=1, pad=4)),
        ((8192, 50257, 768), TiledConfig(128, 128, 16, 8, 8, stages=1, pad=4)),
        ((8192, 768, 50257), TiledConfig(128, 128, 16, 8, 8, stages=1, pad=4, split_k=2)),
        ((8192, 768, 3072), TiledConfig(128, 128, 8, 16, 8, stages=1, pad=4, split_k=2)),
        ((3072, 3072, 1024), TiledConfig(128, 128, 16, 8, 8, stages=1, pad=4)),
        ((1024, 1024, 1024), TiledConfig(128, 64, 16, 8, 4, stages=1, pad=4)),
    ],
)
def test_what_is_fastest_on_an_h200_is_chosen(
    size: tuple[int, int, int], config: TiledConfig
) -> None:
    assert select(product(*size), LARGE) == config


def test_what_finishes_its_sums_by_an_epilogue_has_fewer_of_them() -> None:
    of = product(8192, 3072, 768)
    assert select(of, LARGE).thread_m == 16
    assert select(of, LARGE, is_finished=True).thread_m == 8
    split = select(product(8192, 768, 3072), LARGE, is_finished=True)
    assert (split.thread_m, split.split_k) == (16, 2)


@pytest.mark.parametrize("k", [8, 129, 193, 777, 1040, 4096, 50257])
def test_no_part_of_a_split_product_is_empty(k: int) -> None:
    for size in ((32, 32, k), (768, 3072, k), (130, 5, k)):
        for config in candidates(product(*size), LARGE):
            steps = -(-k // config.block_k)
            each = -(-steps // config.split_k)
            assert (config.split_k - 1) * each < steps, config


def test_a_split_nearly_fills_the_device_a_whole_number_of_times() -> None:
    of = product(768, 3072, 8192)
    assert workgroups(of, select(of, LARGE)) / LARGE.workgroups % 1 > 0.9
