"""Attention with caches, groups of heads and rotations gives what ONNX Runtime's kernels give, and gradients."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import pytest

import graphls
import graphls.onnx
from tests.onnx.contrib_cases import RECENT, Operator
from tests.onnx.node_tests import Case, check_gradient

DRAW = np.random.default_rng(11)
LONGEST = 8


def floats(*shape: int) -> Any:
    return DRAW.normal(size=shape).astype(np.float32)


def tables(size: int) -> list[Any]:
    angles = np.arange(LONGEST)[:, None] * 0.3 ** np.arange(size // 2)
    return [np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)]


def grouped() -> Iterator[Operator]:
    """Prompts and further tokens, right-padded batches, packed tensors, rotations, windows and sinks."""
    heads, groups, size = 4, 2, 16
    base = {"num_heads": heads, "kv_num_heads": groups}
    options: list[dict[str, Any]] = [
        {}, {"do_rotary": 1}, {"do_rotary": 1, "rotary_interleaved": 1}, {"local_window_size": 2}, {"softcap": 1.5},
        {"smooth_softmax": 1}, {"scale": 0.2}, {"causal": 0}, {"do_rotary": 1, "local_window_size": 3, "softcap": 2.0},
    ]  # fmt: skip
    for count, held, total in ((3, 0, 3), (1, 4, 5), (1, 6, 5), (2, 3, 5)):
        ends = np.array([total - 1, total - 1], np.int32)
        shorter = np.array([total - 1, total - 2], np.int32)
        batch = 1 if count > 1 and held else 2  # as ONNX Runtime requires
        for attributes, packed, last in product(options, (False, True), (ends[:batch], shorter[:batch])):
            q, k, v = (floats(batch, count, n * size) for n in (heads, groups, groups))
            operands = [np.concatenate((q, k, v), -1), None, None] if packed else [q, k, v]
            past = [floats(batch, groups, held, size) for _ in range(2)] if held else [None, None]
            turns = tables(size) if attributes.get("do_rotary") else []
            yield Operator(
                "GroupQueryAttention", [*operands, *past, last, np.array([total], np.int32), *turns],
                {**base, **attributes}, (True, True, True), constants=(6,),
            )  # fmt: skip
    q, k, v = floats(2, 3, 64), floats(2, 3, 32), floats(2, 3, 32)
    first = [q, k, v, None, None, np.array([2, 2], np.int32), np.array([3], np.int32)]
    none = (True, True, True)
    yield Operator("GroupQueryAttention", [*first, None, None, None, floats(1, 4, 3, 3)], base, none, constants=(6,))
    yield Operator("GroupQueryAttention", [*first, *[None] * 4, floats(4)], base, none, constants=(6,))
    at = np.array([[0, 2, 3], [1, 2, 5]])
    yield Operator("GroupQueryAttention", [*first, *tables(16), at], {**base, "do_rotary": 1}, none, constants=(6,))


def masked_decoders() -> Iterator[Operator]:
    heads, size, batch = 2, 4, 2
    for biased, masked in product((False, True), (False, True)):
        q, k, v = (floats(batch, 1, heads * size) for _ in range(3))
        past = [floats(batch, heads, 6, size) for _ in range(2)]
        mask = np.ones((batch, 4), np.int32) if masked else None
        if mask is not None:
            mask[1, 1] = 0
        operands = [q, k, v, mask, None, *past, np.array([3], np.int32), None, None]
        bias = floats(3 * heads * size) if biased else None
        attributes = {"num_heads": heads, "past_present_share_buffer": 1}
        yield Operator("DecoderMaskedMultiHeadAttention", [*operands, bias], attributes, (True, True, True))
    keys = [floats(batch, heads, 5, size) for _ in range(2)]
    yield Operator("DecoderMaskedMultiHeadAttention", [floats(batch, 1, heads * size), *keys], {"num_heads": heads})


def many_heads() -> Iterator[Operator]:
    heads, size, batch = 2, 4, 2
    masks = (None, np.array([2, 3], np.int32), np.array([[1, 0, 1], [1, 1, 1]], np.int32))
    for mask, biased, causal, scale in product(masks, (False, True), (0, 1), (None, 0.3)):
        attributes = {"num_heads": heads, "unidirectional": causal, **({} if scale is None else {"scale": scale})}
        bias = floats(3 * heads * size) if biased else None
        q, k, v = floats(batch, 3, 8), floats(batch, 3, 8), floats(batch, 3, 8)
        yield Operator("MultiHeadAttention", [q, k, v, bias, mask], attributes)
        added = floats(1, heads, 3, 3)
        yield Operator("MultiHeadAttention", [q, k, v, bias, None, added], attributes)
        if mask is None:
            past = [floats(batch, heads, 2, size) for _ in range(2)]
            yield Operator("MultiHeadAttention", [q, k, v, bias, None, None, *past], attributes, (True, True, True))
            keys = [floats(batch, heads, 5, size) for _ in range(2)]
            yield Operator("MultiHeadAttention", [q, *keys], {"num_heads": heads})
            if not causal:
                yield Operator("MultiHeadAttention", [q, k, v], attributes, (True, False, False, True), is_float=True)
    masks = (None, np.array([2, 3], np.int32), np.array([[1, 0, 1], [1, 1, 1]], np.int32),
             np.array([2, 3, 1, 0], np.int32), (floats(2, 3, 3) > 0).astype(np.int32) | np.eye(3, dtype=np.int32))
    for mask, has_past, causal in product(masks, (False, True), (0, 1)):
        if has_past and mask is not None:
            continue
        past = floats(2, batch, heads, 2, size) if has_past else None
        operands = [floats(batch, 3, 6), floats(6, 24), floats(24), mask, past]
        attributes = {"num_heads": heads, "unidirectional": causal}
        yield Operator("Attention", operands, attributes, (True, True) if has_past else (True,))
        if not has_past:
            yield Operator("Attention", [*operands, floats(batch, heads, 3, 3)], attributes)
    sizes = {"num_heads": heads, "qkv_hidden_sizes": [8, 8, 12]}
    yield Operator("Attention", [floats(batch, 3, 6), floats(6, 28), floats(28)], sizes)


def rotations() -> Iterator[Operator]:
    for interleaved, shape in product((0, 1), ((2, 3, 8), (2, 2, 3, 4))):
        for at in (np.array([1]), np.array([[0, 1, 2], [2, 3, 5]])):
            yield Operator("RotaryEmbedding", [floats(*shape), at, *tables(4)], {"interleaved": interleaved})
        part = {"interleaved": interleaved, "num_heads": 2, "rotary_embedding_dim": 2}
        yield Operator("RotaryEmbedding", [floats(*shape), np.array([0]), *tables(2)], part)


CASES = {"grouped": grouped, "masked_decoders": masked_decoders, "many_heads": many_heads, "rotations": rotations}


def check(case: Operator, tolerance: float = 2e-5) -> str:
    """How a result differs from ONNX Runtime's; empty where it does not."""
    expected = case.expected()
    net, arrays = graphls.onnx.load(case.model()), list(case.inputs.values())
    results = graphls.compile(net, *arrays, backend="numpy")(*arrays)
    found = [y.asnumpy() for y in (results if isinstance(results, tuple) else (results,))]
    found = [y for y, used in zip(found, [u for u in case.outputs if u], strict=True) if used]
    for number, (y, wanted) in enumerate(zip(found, expected, strict=True)):
        if case.kind == "GroupQueryAttention" and not number:  # nor are results behind the ends of a prompt
            is_prompt = case.arrays[3] is None
            rows = np.arange(y.shape[1])[:, None] <= case.arrays[5].reshape(-1, 1, 1) if is_prompt else True
            y, wanted = (np.where(rows, a, 0) for a in (y, wanted))
        if y.shape != wanted.shape:
            return f"{case} {number}: {y.shape}, not {wanted.shape}"
        if case.kind == "GroupQueryAttention" and number:  # caches are not set behind the ends
            ends = case.arrays[5] + 1
            is_set = np.arange(y.shape[2])[:, None] < ends.reshape(-1, 1, 1, 1)
            y, wanted = (np.where(is_set, a, 0) for a in (y, wanted))
        if not np.allclose(y, wanted, 5 * tolerance, tolerance):
            return f"{case} {number}: {abs(y - wanted).max()} apart"
    return ""


@pytest.mark.parametrize("name", CASES)
@pytest.mark.skipif(not RECENT, reason="the kernels of this release differ")
def test_operators_give_what_onnx_runtime_gives(name: str) -> None:
    wrong = []
    halves = [case.in_half() for case in CASES[name]()] if name in ("grouped", "rotations") else []
    for case in (*CASES[name](), *halves):
        try:
            wrong.append(check(case, 4e-3 if case in halves else 2e-5))
        except Exception as error:
            wrong.append(f"{case}: {type(error).__name__}: {str(error)[:300]}")
    assert not any(wrong), "\n".join(filter(None, wrong))


@pytest.mark.parametrize("name", CASES)
def test_gradients(name: str) -> None:
    cases = list(CASES[name]())
    for case in cases[:: max(len(cases) // 3, 1)]:
        assert not check_gradient(Case(case.kind, case.model(), [(list(case.inputs.values()), [])]))


def test_tensors_that_are_packed_give_what_separate_ones_give() -> None:
    """ONNX Runtime packs query, key and value for GPUs only."""
    q, k, v = (floats(2, 3, 8) for _ in range(3))
    attributes = {"num_heads": 2, "unidirectional": 1}
    (expected,) = Operator("MultiHeadAttention", [q, k, v], attributes).expected()
    pair = np.stack([x.reshape(2, 3, 2, 4) for x in (k, v)], 3)
    whole = np.concatenate((q.reshape(2, 3, 2, 1, 4), pair), 3)
    for operands in ([q, pair], [whole]):
        net = graphls.onnx.load(Operator("MultiHeadAttention", operands, attributes).model())
        found = net(*map(graphls.Tensor, operands))
        np.testing.assert_allclose(found.asnumpy(), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("kind", "attribute"), [("Attention", "do_rotary"), ("GroupQueryAttention", "qk_output")])
def test_what_is_not_computed_is_said(kind: str, attribute: str) -> None:
    operands: list[Any] = [floats(2, 3, 6), floats(6, 24)]
    if kind == "GroupQueryAttention":
        operands = [floats(2, 3, 24), None, None, None, None, np.array([2, 2], np.int32), np.array([3], np.int32)]
    heads = {"num_heads": 2, "kv_num_heads": 2} if kind == "GroupQueryAttention" else {"num_heads": 2}
    case = Operator(kind, operands, {**heads, attribute: 1}, constants=(6,) if len(operands) > 6 else ())
    with pytest.raises(graphls.GraphlsError, match=f"its attribute {attribute}=1 is not computed, only 0"):
        graphls.onnx.load(case.model())(*map(graphls.Tensor, case.inputs.values()))


@pytest.mark.skipif(not RECENT, reason="the kernels of this release differ")
def test_queries_and_keys_are_normalised_by_head() -> None:
    """ONNX Runtime does that on GPUs only."""
    q, k, v, weights = floats(2, 3, 64), floats(2, 3, 32), floats(2, 3, 32), (floats(16), floats(16))
    rest = [None, None, np.array([2, 2], np.int32), np.array([3], np.int32)]
    attributes = {"num_heads": 4, "kv_num_heads": 2}
    normalised = []
    for x, weight in zip((q, k), weights, strict=True):
        heads = x.reshape(2, 3, -1, 16)
        spread = np.sqrt((heads**2).mean(-1, keepdims=True) + 1e-3)
        normalised.append((heads / spread * weight).reshape(x.shape))
    expected = Operator("GroupQueryAttention", [*normalised, v, *rest], attributes, constants=(6,)).expected()[0]
    operands = [q, k, v, *rest, *[None] * 7, *weights]
    case = Operator("GroupQueryAttention", operands, {**attributes, "qk_norm_epsilon": 1e-3}, constants=(6,))
    found = graphls.onnx.load(case.model())(*map(graphls.Tensor, case.inputs.values()))
    np.testing.assert_allclose(found.asnumpy(), expected, rtol=1e-4, atol=1e-5)
