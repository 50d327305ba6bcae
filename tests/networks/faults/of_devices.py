"""Faults of a device or a runtime: a 16-bit operator rounds in another way, or not at all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from onnx import NodeProto

from graphls.runtime.lowering.protos import operators
from graphls.runtime.lowering.target import EXACT
from tests.networks.agreement import Prepared
from tests.networks.evaluator import HALVES, Array, Rounding, declared, to_nearest
from tests.networks.faults.fault import Faulty, Generator, one


def _otherwise(prepared: Prepared, rng: Generator, of: Callable[[NodeProto], bool], rounding: Rounding) -> Faulty:
    """One operator with a 16-bit result rounds in another way; the zeros and nans of a check are never rounded."""
    lowered = prepared.lowered("cuda")
    kinds, exact = declared(lowered.model), {n for n, node in lowered.origins.items() if node.primitive.half == "exact"}
    halves = (n for n in operators(lowered.model.graph.node) if kinds[n.output[0]] in HALVES and n.name not in exact)
    name = one(rng, filter(of, halves)).name

    def rounded(operator: NodeProto, wide: Array, dtype: Any) -> Array:
        return (rounding if operator.name == name else to_nearest)(operator, wide, dtype)

    return Faulty(name, lowered, rounded)


def _not_at_all(operator: NodeProto, wide: Array, dtype: Any) -> Array:
    return wide


def _towards_zero(operator: NodeProto, wide: Array, dtype: Any) -> Array:
    near = wide.astype(dtype)
    return np.where(np.abs(near.astype(np.float32)) > np.abs(wide), np.nextafter(near, dtype.type(0)), near)


def _at_most_the_largest(operator: NodeProto, wide: Array, dtype: Any) -> Array:
    largest = np.float32(65504)
    return np.where(np.isinf(wide), wide, np.clip(wide, -largest, largest)).astype(dtype)


def _nothing_small(operator: NodeProto, wide: Array, dtype: Any) -> Array:
    return np.where(np.abs(wide) < np.float32(2.0**-14), np.copysign(np.float32(0), wide), wide).astype(dtype)


def operator_is_not_rounded(prepared: Prepared, rng: Generator) -> Faulty:
    """A runtime has fused it with the next one."""
    return _otherwise(prepared, rng, lambda n: n.op_type not in EXACT, _not_at_all)


def cast_is_dropped(prepared: Prepared, rng: Generator) -> Faulty:
    """A runtime has taken the cast of a float32 tensor to 16 bits away."""
    return _otherwise(prepared, rng, lambda n: n.op_type == "Cast", _not_at_all)


def operator_rounds_towards_zero(prepared: Prepared, rng: Generator) -> Faulty:
    """The last digit is cut off."""
    return _otherwise(prepared, rng, lambda n: n.op_type not in EXACT, _towards_zero)


def overflow_saturates(prepared: Prepared, rng: Generator) -> Faulty:
    """A device has no infinities."""
    return Faulty("everywhere", prepared.lowered("cuda"), _at_most_the_largest)


def small_numbers_are_zeros(prepared: Prepared, rng: Generator) -> Faulty:
    """A device flushes denormal numbers."""
    return Faulty("everywhere", prepared.lowered("cuda"), _nothing_small)
