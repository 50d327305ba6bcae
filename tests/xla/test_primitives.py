"""Every primitive that XLA takes gives what the interpreter gives, by the same rule."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graphls.inspect.testing.samples import assert_close, draw, in_dtype, single
from graphls.ir import DType, interpret
from graphls.ir.graph import Graph
from graphls.ir.registry import operations
from graphls.ir.types import bfloat16, bool_, float16, float32, float64, int32
from graphls.runtime.xla.tracing import takes, traced

jax = pytest.importorskip("jax")

PRIMITIVES: list[Any] = [p for p in operations() if type(p).__module__.startswith("graphls.primitives") and p.samples]
DTYPES = (float32, float64, float16, bfloat16, int32, bool_)
ON_HOST = {"random_bernoulli", "random_integers", "random_normal", "random_permutation", "random_uniform"}


def cases(primitive: Any) -> list[tuple[Graph, list[Any], DType]]:
    """The distinct samples of a primitive in all dtypes, each with its graph."""
    graphs: dict[tuple[object, ...], tuple[Graph, list[Any], DType]] = {}
    for dtype in DTYPES:
        for number, sample in enumerate(primitive.samples):
            try:
                types = in_dtype(sample, dtype)
                key = (number, *map(str, types))
                if key not in graphs:
                    graphs[key] = single(primitive, sample, types), draw(sample, types), dtype
            except Exception:  # a dtype that the type rule refuses
                continue
    return list(graphs.values())


@pytest.mark.parametrize("primitive", PRIMITIVES, ids=lambda p: p.name)
def test_a_rule_gives_in_xla_what_it_gives_in_numpy(primitive: Any) -> None:
    """All samples in one program, as each compilation takes a tenth of a second."""
    every = cases(primitive)
    taken = [(graph, arrays, dtype) for graph, arrays, dtype in every if all(map(takes, graph.nodes))]
    assert bool(taken) == (primitive.name not in ON_HOST)
    with jax.enable_x64(True):
        program = jax.jit(lambda several: [traced(jax, g, a)[0] for (g, _, _), a in zip(taken, several, strict=True)])
        options = {"xla_allow_excess_precision": False}
        found = program.lower([a for _, a, _ in taken]).compile(options)([a for _, a, _ in taken])
    for (graph, arrays, dtype), results in zip(taken, found, strict=True):
        for result, expected in zip(results, interpret(graph, arrays)[0], strict=True):
            assert result.dtype == expected.dtype
            assert result.shape == expected.shape
            assert_close(np.asarray(result), expected, dtype)
