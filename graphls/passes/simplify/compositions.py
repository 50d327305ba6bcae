"""Table of primitive compositions that are one ONNX operator: a pattern and a builder for each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from graphls.ir.build import Builder
from graphls.ir.graph import Node, Value
from graphls.ir.types import float32
from graphls.passes.patterns.matching import Match
from graphls.primitives.primitive import normalise_axes
from graphls.primitives.windows import Geometry, attributes


@dataclass(frozen=True)
class Operator:
    """An operator of ONNX: its name, the first opset that has it, its operands and its attributes."""

    name: str
    since: int
    inputs: tuple[Value, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)


Rule = Callable[[Builder, Node, Match], Operator | None]
"""`rule(e, node, match)`: the operator for a match whose last node is `node`; None where the match does not fit."""

RULES: list[tuple[str, Rule]] = []
"""Patterns with their rules; of several that match, the first one counts."""

SUMS: list[tuple[str, Rule]] = []
"""Patterns of a sum after a product, which are tried after later sums have been folded into it."""


def _composes(*texts: str, rules: list[tuple[str, Rule]] = RULES) -> Callable[[Rule], Rule]:
    def add(rule: Rule) -> Rule:
        rules.extend((text, rule) for text in texts)
        return rule

    return add


def _simple(
    text: str, name: str, since: int, attributes_of: Callable[[Match], Mapping[str, Any]] = lambda match: {},
    **fixed: Any,
) -> None:  # fmt: skip
    """An operator of one operand, `x`, whose attributes are fixed or numbers of the pattern."""
    RULES.append((text, lambda e, node, match: Operator(name, since, (match["x"],), {**fixed, **attributes_of(match)})))


_simple("mul(mul(x, 0.5), add(erf(mul(x, 0.7071067811865476)), 1.0))", "Gelu", 20)
_simple(
    "mul(x, sigmoid(mul(x, add(mul(minimum(mul(x, x), 144.0, ...), 0.07135481282553), 1.5957691216057308))))",
    "Gelu", 20, approximate="tanh",
)  # fmt: skip
_simple("mul(maximum(x, -3.0, ...), mul(minimum(6.0, relu(add(x, 3.0)), ...), 0.16666666666666666))", "HardSwish", 14)
_simple(
    "mul(minimum(6.0, relu(add(x, 3.0)), ...), 0.16666666666666666)", "HardSigmoid", 6, alpha=1 / 6, beta=0.5
)  # fmt: skip
_simple("where(greater(x, 0.0), x, expm1(where(greater(x, 0.0), 0.0, x)))", "Elu", 6, alpha=1.0)
_simple("mul(x, tanh(softplus(x)))", "Mish", 18)
_simple(
    "where(greater(x, 0.0), mul(x, GAMMA), mul(expm1(where(greater(x, 0.0), 0.0, x)), PRODUCT))",
    "Selu", 6, lambda match: {"alpha": match["PRODUCT"] / match["GAMMA"], "gamma": match["GAMMA"]},
)  # fmt: skip
_simple("where(greater(x, 0.0), x, mul(x, SLOPE))", "LeakyRelu", 6, lambda match: {"alpha": match["SLOPE"]})


@_composes("where(greater(x, 0.0), x, mul(x, slope))")
def _p_relu(e: Builder, node: Node, match: Match) -> Operator | None:
    x, slope = match["x"], match["slope"]
    return Operator("PRelu", 16, (x, slope)) if slope.type.rank <= x.type.rank else None


@_composes("minimum(relu(x), HIGH, ...)", "minimum(maximum(x, LOW, ...), HIGH, ...)")
def _clip(e: Builder, node: Node, match: Match) -> Operator:
    low, high = match.numbers.get("LOW", 0.0), match["HIGH"]
    return Operator("Clip", 13, (match["x"], e.constant(low, float32), e.constant(high, float32)))


CENTRED = "sub(x, mean(x, axis=AXES, keepdims=True))"
NORMALISED = f"mul({CENTRED}, rsqrt(add(mean(square({CENTRED}), axis=AXES, keepdims=True), EPSILON)))"


@_composes(f"add(mul({NORMALISED}, gamma), beta)", f"mul({NORMALISED}, gamma)", NORMALISED)
def _layer_norm(e: Builder, node: Node, match: Match) -> Operator | None:
    x = match["x"].type
    axes = normalise_axes(match["AXES"], x.rank)
    if "gamma" not in match.values and x.rank > 2 and axes == tuple(range(2, x.rank)):
        return _instance_norm(e, match)
    if axes != tuple(range(axes[0], x.rank)):
        return None
    inner = x.shape[axes[0] :]
    gamma = match.values.get("gamma") or e.constant(np.ones(inner, np.float32))
    operands = (match["x"], gamma, *([match["beta"]] if "beta" in match.values else []))
    if any(v.type.shape != inner for v in operands[1:]):
        return None
    return Operator("LayerNormalization", 17, operands, {"axis": axes[0] - x.rank, "epsilon": match["EPSILON"]})


def _instance_norm(e: Builder, match: Match) -> Operator:
    """Normalisation of each channel over all axes from the third one on, without learned factors."""
    channels = match["x"].type.shape[1]
    scale, shift = (e.constant(np.full(channels, number, np.float32)) for number in (1, 0))
    return Operator("InstanceNormalization", 6, (match["x"], scale, shift), {"epsilon": match["EPSILON"]})


_IN_GROUPS = NORMALISED.replace("sub(x,", "sub(reshape(x, ...),").replace("mean(x,", "mean(reshape(x, ...),")


@_composes(f"add(mul(reshape({_IN_GROUPS}, ...), reshape(gamma, ...)), reshape(beta, ...))")
def _each_channel(e: Builder, node: Node, match: Match) -> Operator | None:
    # Groups of several channels are rows that are normalised in the same way, with factors and sums by channel after
    # it. GroupNormalization is not a rule: ONNX Runtime takes the mean of squares less the square of the mean for their
    # variance, which loses all digits where the mean is a thousand times the deviation, and needs twice the time.
    x = match["x"].type
    grouped = next(n for n in match.nodes if n.primitive.name == "reshape" and n.inputs[0] is match["x"]).output.type
    learned = (match["gamma"], match["beta"])
    fits = grouped.shape[:-1] == x.shape[:2] and normalise_axes(match["AXES"], grouped.rank) == (2,)
    if not fits or node.output.type != x or any(v.type.shape != (x.shape[1],) for v in learned):
        return None
    return Operator("InstanceNormalization", 6, (match["x"], *learned), {"epsilon": match["EPSILON"]})


_MEAN_SQUARE = "rsqrt(add(mean(square(x), axis=AXES, keepdims=True), EPSILON))"


@_composes(f"mul(mul(x, {_MEAN_SQUARE}), gamma)")
def _rms_norm(e: Builder, node: Node, match: Match) -> Operator | None:
    x, gamma = match["x"].type, match["gamma"]
    axes = normalise_axes(match["AXES"], x.rank)
    if axes != tuple(range(axes[0], x.rank)) or gamma.type.shape != x.shape[axes[0] :]:
        return None
    options = {"axis": axes[0] - x.rank, "epsilon": match["EPSILON"]}
    return Operator("RMSNormalization", 23, (match["x"], gamma), options)


@_composes("max_pool(x, ..., kernel=KERNEL)")
def _max_pool(e: Builder, node: Node, match: Match) -> Operator:
    kernel, geometry = match["KERNEL"], {name: value for name, value in node.attrs.items() if name != "kernel"}
    return Operator("MaxPool", 12, (match["x"],), attributes(kernel, Geometry.over(kernel, **geometry)))


@_composes("mean(x, axis=AXES, keepdims=True)")
def _global_average(e: Builder, node: Node, match: Match) -> Operator | None:
    x = match["x"].type
    every = x.rank > 3 and normalise_axes(match["AXES"], x.rank) == tuple(range(2, x.rank))
    return Operator("GlobalAveragePool", 1, (match["x"],)) if every else None


@_composes("add(convolution(x, w, ...), reshape(b, ...))", rules=SUMS)
def _convolution(e: Builder, node: Node, match: Match) -> Operator | None:
    w, b = match["w"].type, match["b"]
    convolution = next(n for n in match.nodes if n.primitive.is_convolution)
    reshaped = next(n for n in match.nodes if n.primitive.name == "reshape").output.type.shape
    if b.type.shape != w.shape[:1] or reshaped[1:] != (w.shape[0], *[1] * (w.rank - 2)):
        return None
    at = Geometry.over(w.shape[2:], **convolution.attrs)
    options = {**attributes(w.shape[2:], at), "group": at.groups}
    return Operator("Conv", 11, (match["x"], match["w"], b), options)


@_composes("add(matmul(x, w, transpose_a=A, transpose_b=B), b)", rules=SUMS)
def _affine(e: Builder, node: Node, match: Match) -> Operator | None:
    x, w, b = match["x"], match["w"], match["b"]
    fits = x.type.rank == w.type.rank == 2 and b.is_state and b.type.shape in ((1,), node.output.type.shape[1:])
    options = {"transA": int(match["A"] or 0), "transB": int(match["B"] or 0)}
    return Operator("Gemm", 13, (x, w, b), options) if fits else None


@_composes(
    "add(mul(sub(x, reshape(mean, ...)), mul(rsqrt(add(reshape(variance, ...), EPSILON)), reshape(gamma, ...))), "
    "reshape(beta, ...))",
    rules=SUMS,
)
def _batch_norm(e: Builder, node: Node, match: Match) -> Operator | None:
    x, learned = match["x"], tuple(match[name] for name in ("gamma", "beta", "mean", "variance"))
    shapes = {node.output.type.shape for node in match.nodes if node.primitive.name == "reshape"}
    fits = x.type.rank > 1 and shapes == {(1, x.type.shape[1], *[1] * (x.type.rank - 2))}
    if not fits or any(v.type.shape != x.type.shape[1:2] for v in learned):
        return None
    return Operator("BatchNormalization", 15, (x, *learned), {"epsilon": match["EPSILON"]})
