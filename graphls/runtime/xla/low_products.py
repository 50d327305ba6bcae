"""Products of low operands as such on GPUs with units for them, where a probe says that these are right."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import numpy as np

from graphls.ir.graph import Graph
from graphls.ir.types import DType, float32
from graphls.passes.rewriter import Rewritten
from graphls.primitives.scaled_matmul import BLOCKS, ScaledMatmul
from graphls.runtime.low_products import (
    Array,
    LowProduct,
    are_products,
    low_products,
    multiplies_float8,
    with_scaled_products,
)

FIRST_CARD, FIRST_OF_BLOCKS = (8, 9), (10, 0)
"""The first compute capabilities of NVIDIA's cards with units for float8, Ada, and for blocks, Blackwell."""


def with_low_products(jax: Any, graph: Graph, device: Any) -> Rewritten:
    """The graph for a device, which multiplies low operands as such if it has units for them."""
    card = capability(device)
    if card < FIRST_CARD:
        return Rewritten(graph)

    def is_native(product: LowProduct) -> bool:
        if product.obstacle:
            return card >= FIRST_OF_BLOCKS and not product.obstacle_of_blocks and are_blocks_right(jax, device)
        return is_right(jax, device)

    return with_scaled_products(graph, filter(is_native, low_products(graph)))


def capability(device: Any) -> tuple[int, int]:
    """The compute capability of a card of NVIDIA, a device of JAX; (0, 0) of another device."""
    version = re.fullmatch(r"(\d+)\.(\d+)", str(getattr(device, "compute_capability", "")))
    return (int(version[1]), int(version[2])) if device.platform == "gpu" and version is not None else (0, 0)


@cache
def is_right(jax: Any, device: Any) -> bool:
    """Whether products of float8 on a device are those of float32 up to the order of sums."""
    return multiplies_float8(lambda *operands: _product(jax, device, *operands), float32)


@cache
def are_blocks_right(jax: Any, device: Any) -> bool:
    """Whether JAX has products of blocks of MXFP8 and NVFP4, and they are right on a device."""
    return hasattr(jax.lax, "scaled_dot") and all(_is_block_right(jax, device, dtype) for dtype in BLOCKS)


def _is_block_right(jax: Any, device: Any, dtype: DType) -> bool:
    random, (scales, size), shapes = np.random.default_rng(0), BLOCKS[dtype], ((48, 2048), (272, 2048))
    a, b = (random.standard_normal(shape).astype(dtype.numpy) for shape in shapes)
    powers = (2.0 ** random.integers(-4, 4, (rows, n // size)) for rows, n in shapes)
    scale_a, scale_b = (each.astype(scales.numpy) for each in powers)
    scale_a[0, 0] = np.nan
    try:
        result = _product(jax, device, a, b, scale_a, scale_b)
    except Exception:  # errors of JAX and XLA have no common class
        return False
    wide = ((low.astype(np.float64), scale.astype(np.float64)) for low, scale in ((a, scale_a), (b, scale_b)))
    x, y = (low * np.repeat(scale, size, 1) for low, scale in wide)
    return are_products(result, x, y, float32)


def _product(jax: Any, device: Any, *operands: Array) -> Array:
    """a @ b.T of two operands and their scales on a device."""

    def rule(a: Any, b: Any, scale_a: Any, scale_b: Any) -> Any:
        return ScaledMatmul().xla(jax, a, b, scale_a, scale_b, transpose_b=True)

    return np.asarray(jax.jit(rule)(*jax.device_put(operands, device)))
