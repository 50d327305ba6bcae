"""Mixtures of experts and linear attention give what ONNX Runtime's kernels give, or NumPy by their definition."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import graphls
import graphls.onnx
from tests.onnx.contrib_cases import RECENT, Operator
from tests.onnx.node_tests import Case, check_gradient

DRAW = np.random.default_rng(3)
EXPERTS, TOKENS, WIDTH, INNER = 4, 6, 8, 16


def floats(*shape: int) -> Any:
    return (0.5 * DRAW.normal(size=shape)).astype(np.float32)


def sizes(fused: bool) -> list[Any]:
    """Tokens, scores of the router, and the weights and biases of experts."""
    rows = 2 * INNER if fused else INNER
    return [floats(2, TOKENS // 2, WIDTH), floats(TOKENS, EXPERTS), floats(EXPERTS, rows, WIDTH),
            floats(EXPERTS, rows), floats(EXPERTS, WIDTH, INNER), floats(EXPERTS, WIDTH)]  # fmt: skip


def mixtures() -> Iterator[Operator]:
    for kind in ("relu", "gelu", "silu", "identity"):
        yield Operator("MoE", sizes(False), {"k": 2, "activation_type": kind}, is_float=True)
    operands = sizes(False)
    operands[3] = operands[5] = None
    yield Operator("MoE", operands, {"k": 1, "normalize_routing_weights": 1}, is_float=True)
    gate = {"activation_type": "swiglu", "swiglu_fusion": 1, "activation_alpha": 1.7, "activation_beta": 1.0}
    for more in ({}, {"swiglu_limit": 0.4}):
        shares = {"k": 3, "normalize_routing_weights": 1}
        yield Operator("MoE", sizes(True), {**gate, **shares, **more}, is_float=True)


def packed(bits: int, *shape: int) -> Any:
    return DRAW.integers(0, 256, (*shape[:-1], shape[-1] * bits // 8)).astype(np.uint8)


def quantized() -> Iterator[Operator]:
    for bits, block, has_zeros in ((4, 0, False), (8, 0, True), (4, 16, False), (4, 16, True)):
        width = 32
        blocks = [(n // block,) if block else () for n in (width, INNER)]
        operands = [
            floats(TOKENS, width), floats(TOKENS, EXPERTS), packed(bits, EXPERTS, 2 * INNER, width),
            np.abs(floats(EXPERTS, 2 * INNER, *blocks[0])) / 20, None, packed(bits, EXPERTS, width, INNER),
            np.abs(floats(EXPERTS, width, *blocks[1])) / 20, None, None, None, None,
        ]  # fmt: skip
        if has_zeros:
            for count in ((2 * INNER, *blocks[0]), (width, *blocks[1])):
                zeros = (*count[:-1], -(-count[-1] * bits // 8))
                operands.append(DRAW.integers(0, 256, (EXPERTS, *zeros)).astype(np.uint8))
        attributes = {"k": 2, "activation_type": "swiglu", "swiglu_fusion": 1, "expert_weight_bits": bits}
        attributes["normalize_routing_weights"] = 1  # as the kernel for CPUs always does
        constants = [i for i, a in enumerate(operands) if i > 1 and a is not None]
        attributes |= {"block_size": block} if block else {}
        yield Operator("QMoE", operands, attributes, constants=constants, is_float=True)


def attentions() -> Iterator[Operator]:
    for number, rule in enumerate(("linear", "gated", "delta", "gated_delta", "gated_delta")):
        heads, groups, size = (4, 2, 4) if number % 2 else (2, 2, 4)
        key = floats(2, 5, groups, size)
        key /= np.linalg.norm(key, axis=-1, keepdims=True)
        decay = -np.abs(floats(2, 5, groups * (size if number == 3 else 1))) if "gated" in rule else None
        beta = np.abs(floats(2, 5, groups)) if "delta" in rule else None
        past = floats(2, groups, size, 3) if number != 2 else None
        operands = [
            floats(2, 5, heads * size), key.reshape(2, 5, -1), floats(2, 5, groups * 3), past, decay, beta
        ]  # fmt: skip
        attributes = {"q_num_heads": heads, "kv_num_heads": groups, "update_rule": rule}
        attributes |= {"scale": 0.7} if number == 4 else {}
        yield Operator("LinearAttention", operands, attributes, outputs=(True, True), is_float=True)


def results(case: Operator) -> list[Any]:
    arrays = list(case.inputs.values())
    found = graphls.compile(graphls.onnx.load(case.model()), *arrays)(*arrays)
    return [y.asnumpy() for y in (found if isinstance(found, tuple) else (found,))]


@pytest.mark.skipif(not RECENT, reason="the release has no such kernels")
@pytest.mark.parametrize("case", [*mixtures(), *quantized(), *attentions()], ids=str)
def test_kernels_of_onnx_runtime(case: Operator) -> None:
    for found, expected in zip(results(case), case.expected(), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("case", [*list(mixtures())[1::2], *list(attentions())[2:4]], ids=str)
def test_gradients(case: Operator) -> None:
    assert not check_gradient(Case(case.kind, case.model(), [(list(case.inputs.values()), [])]))


def test_layouts_of_gates_that_only_gpus_have_are_the_same_function() -> None:
    """Gate and value interleaved, one after the other, and as products of their own."""
    case = list(mixtures())[-2]
    x, router, fc1, bias1, fc2, bias2 = case.arrays
    halves = [np.concatenate([a[:, 0::2], a[:, 1::2]], 1) for a in (fc1, bias1)]
    second = replace(case, arrays=[x, router, *halves, fc2, bias2], attributes={**case.attributes, "swiglu_fusion": 2})
    apart = [x, router, fc1[:, 0::2], bias1[:, 0::2], fc2, bias2, fc1[:, 1::2], bias1[:, 1::2]]
    third = replace(case, arrays=apart, attributes={**case.attributes, "swiglu_fusion": 0})
    for other in (second, third):
        np.testing.assert_allclose(results(other)[0], results(case)[0], rtol=1e-5, atol=1e-6)


def test_what_only_gpus_have_is_refused_with_a_way_out() -> None:
    for attributes, text in (
        ({"use_sparse_mixer": 1}, "use_sparse_mixer exists on GPUs only; export the model without it"),
        ({"activation_type": "tanh"}, "the activation 'tanh' of experts is not known"),
        ({"activation_type": "swiglu"}, "swiglu without fusion needs the weights of a third product"),
    ):
        with pytest.raises(ValueError, match=text):
            results(Operator("MoE", sizes(False), attributes, is_float=True))
