"""Products of float8 as such on GPUs with units for them, where a probe says that these are right."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import numpy as np

from graphls.ir.graph import Graph
from graphls.ir.types import float32
from graphls.passes.rewriter import Rewritten
from graphls.primitives.scaled_matmul import ScaledMatmul
from graphls.runtime.low_products import Array, low_products, multiplies_float8, with_scaled_products

FIRST_CARD = (8, 9)
"""The first compute capability of NVIDIA's cards with units for float8: Ada."""


def with_float8_products(jax: Any, graph: Graph, device: Any) -> Rewritten:
    """The graph for a device, which multiplies float8 as such if it has units for it."""
    if not has_units(device):
        return Rewritten(graph)
    reasons = {product.node: product.obstacle for product in low_products(graph)}
    is_native = not all(reasons.values()) and is_right(jax, device)
    return with_scaled_products(graph, reasons) if is_native else Rewritten(graph)


def has_units(device: Any) -> bool:
    """Whether a device of JAX is a card of NVIDIA with units for float8."""
    version = re.fullmatch(r"(\d+)\.(\d+)", str(getattr(device, "compute_capability", "")))
    return device.platform == "gpu" and version is not None and (int(version[1]), int(version[2])) >= FIRST_CARD


@cache
def is_right(jax: Any, device: Any) -> bool:
    """Whether products of float8 on a device are those of float32 up to the order of sums."""

    def rule(a: Any, b: Any, scale_a: Any, scale_b: Any) -> Any:
        return ScaledMatmul().xla(jax, a, b, scale_a, scale_b, transpose_b=True)

    def multiply(*operands: Array) -> Array:
        return np.asarray(jax.jit(rule)(*jax.device_put(operands, device)))

    return multiplies_float8(multiply, float32)
