"""Mixtures of experts and linear attention of com.microsoft, which ONNX Runtime's model builders write."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from graphls import ops
from graphls.base.errors import GraphValueError
from graphls.frontend.tensors.tensor import Array, Tensor
from graphls.onnx.operators.contrib_weights import unpacked
from graphls.onnx.table import MICROSOFT, operator
from graphls.onnx.values import Input, OptionalInput
from graphls.ops.operands import tensor_of

_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": ops.relu,
    "relu2": lambda x: ops.square(ops.relu(x)),
    "gelu": lambda x: ops.gelu(x, "tanh"),
    "silu": ops.silu,
    "identity": lambda x: x,
}
_GATED = {"swiglu": 0, "geglu": 1}


def _activated(x: Tensor, up: Tensor | None, kind: str, fusion: int, alpha: float, beta: float, limit: float) -> Tensor:
    """The inner values of experts; gated ones multiply by `up`, which a fused product has beside or between."""
    if kind not in _ACTIVATIONS and kind not in _GATED:
        raise GraphValueError(f"the activation {kind!r} of experts is not known.")
    if kind not in _GATED:
        y = _ACTIVATIONS[kind](x)
        return y if up is None else y * up
    if up is None:
        half = x.shape[-1] // 2
        if fusion == 1:
            pairs = ops.reshape(x, (*x.shape[:-1], half, 2))
            x, up = pairs[..., 0], pairs[..., 1]
        elif fusion == 2:
            x, up = x[..., :half], x[..., half:]
        else:
            raise GraphValueError(f"{kind} without fusion needs the weights of a third product.")
    if kind == "geglu":
        return ops.gelu(x, "tanh") * up
    if np.isfinite(limit):
        x, up = ops.minimum(x, limit), ops.clip(up, -limit, limit)
    return x * ops.sigmoid(alpha * x) * (up + beta)


def _product(x: Tensor, weights: Input, bias: OptionalInput) -> Tensor:
    """The products with the transposed matrix of each expert: (experts, tokens, outputs)."""
    y = ops.matmul(x, ops.swapaxes(ops.cast(weights, x.dtype), 1, 2))
    return y if bias is None else y + ops.expand_dims(bias, 1)


def _shares(router: Tensor, chosen: OptionalInput, k: int, normalize: int) -> Tensor:
    """The weight of each expert for each token: (tokens, experts), 0 for those that are not among the first k."""
    probabilities = ops.softmax(router, -1)
    _, first = ops.topk(probabilities, k, -1)
    is_chosen = ops.sum(ops.one_hot(first, router.shape[-1], 1.0, 0.0), 1)
    shares = (probabilities if chosen is None else tensor_of(chosen)) * ops.cast(is_chosen, router.dtype)
    return shares / ops.sum(shares, -1, True) if normalize else shares


@operator("MoE", domain=MICROSOFT)
def mixture_of_experts(
    x: Input, router: Input, fc1: Input, bias1: OptionalInput, fc2: Input, bias2: OptionalInput = None,
    fc3: OptionalInput = None, bias3: OptionalInput = None, router_weights: OptionalInput = None, *, k: int = 1,
    activation_type: str = "relu", normalize_routing_weights: int = 0, use_sparse_mixer: int = 0,
    swiglu_fusion: int = 0, swiglu_limit: float = np.inf, activation_alpha: float = 1.0, activation_beta: float = 0.0,
    swiglu_limit_after_activation: int = 0,
) -> Tensor:  # fmt: skip
    """A mixture of two-layer networks: a graph has static shapes, so that each expert computes all tokens."""
    if use_sparse_mixer or swiglu_limit_after_activation:
        name = "use_sparse_mixer" if use_sparse_mixer else "swiglu_limit_after_activation"
        raise GraphValueError(f"{name} exists on GPUs only; export the model without it.")
    x = tensor_of(x)
    tokens = ops.expand_dims(ops.reshape(x, (-1, x.shape[-1])), 0)
    shares = _shares(tensor_of(router), router_weights, k, normalize_routing_weights)
    up = None if fc3 is None else _product(tokens, fc3, bias3)
    inner = _activated(
        _product(tokens, fc1, bias1), up, activation_type, swiglu_fusion, activation_alpha, activation_beta,
        swiglu_limit,
    )  # fmt: skip
    outputs = _product(inner, fc2, bias2) * ops.expand_dims(ops.swapaxes(shares, 0, 1), -1)
    return ops.reshape(ops.sum(outputs, 0), x.shape)


@operator("QMoE", domain=MICROSOFT, known=(2, 5, 8, 11, 12, 13), untrained=(3, 6, 9))
def quantized_mixture_of_experts(
    x: Input, router: Input, fc1: Array, scales1: Input, bias1: OptionalInput, fc2: Array, scales2: Input,
    bias2: OptionalInput = None, fc3: Array | None = None, scales3: OptionalInput = None, bias3: OptionalInput = None,
    zeros1: Array | None = None, zeros2: Array | None = None, zeros3: Array | None = None,
    router_weights: OptionalInput = None, *, k: int = 1, activation_type: str = "relu",
    normalize_routing_weights: int = 0, use_sparse_mixer: int = 0, swiglu_fusion: int = 0, swiglu_limit: float = np.inf,
    activation_alpha: float = 1.0, activation_beta: float = 0.0, swiglu_limit_after_activation: int = 0,
    expert_weight_bits: int = 4, fc1_expert_weight_bits: int | None = None, fc2_expert_weight_bits: int | None = None,
    fc3_expert_weight_bits: int | None = None, block_size: int = 0, quant_type: str = "int", accuracy_level: int = 0,
    weights_prepacked: int = -1,
) -> Tensor:  # fmt: skip
    """MoE with weights of few bits by rows or blocks."""
    if quant_type != "int" or weights_prepacked == 1:
        what = f"quant_type {quant_type!r}" if quant_type != "int" else "weights packed for the kernels of a device"
        raise GraphValueError(f"{what} exists on GPUs only; keep the model before it was quantized.")
    bits = [expert_weight_bits if b is None else b for b in (fc1_expert_weight_bits, fc2_expert_weight_bits)]
    third = bits[0] if fc3_expert_weight_bits is None else fc3_expert_weight_bits
    return mixture_of_experts(
        x, router, _dequantized(fc1, scales1, zeros1, bits[0]), bias1, _dequantized(fc2, scales2, zeros2, bits[1]),
        bias2, None if fc3 is None or scales3 is None else _dequantized(fc3, scales3, zeros3, third), bias3,
        router_weights, k=k, activation_type=activation_type, normalize_routing_weights=normalize_routing_weights,
        use_sparse_mixer=use_sparse_mixer, swiglu_fusion=swiglu_fusion, swiglu_limit=swiglu_limit,
        activation_alpha=activation_alpha, activation_beta=activation_beta,
        swiglu_limit_after_activation=swiglu_limit_after_activation,
    )  # fmt: skip


def _dequantized(packed: Array, scales: Input, zeros: Array | None, bits: int) -> Tensor:
    """Weights (experts, outputs, inputs) from integers of some bits, with a scale for each row or for its blocks."""
    numbers, scale = unpacked(packed, bits), tensor_of(scales)
    shape = (*numbers.shape[:2], scale.shape[2] if scale.ndim == 3 else 1)
    points: Array = np.full(shape, 2 ** (bits - 1))
    if zeros is not None:
        points = unpacked(zeros, bits)[..., : shape[2] if scale.ndim == 3 else shape[1]].reshape(shape)
    blocks = numbers.reshape(*shape, -1) - points[..., None]
    wide = Tensor(blocks.astype(scale.dtype.numpy)) * ops.reshape(scale, (*shape, 1))
    return ops.reshape(wide, numbers.shape)


_RULES = {"linear": (False, False), "gated": (True, False), "delta": (False, True), "gated_delta": (True, True)}
"""Whether the state decays, and whether it is corrected by what it gives for the key."""


@operator("LinearAttention", domain=MICROSOFT)
def linear_attention(
    query: Input, key: Input, value: Input, past: OptionalInput = None, decay: OptionalInput = None,
    beta: OptionalInput = None, *, q_num_heads: int, kv_num_heads: int, update_rule: str = "gated_delta",
    scale: float = 0.0, chunk_size: int = 64, state_window: int = 0,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Attention by a state of keys and values that each step updates; a scan over time."""
    if state_window or update_rule not in _RULES:
        what = "state_window is for speculative decoding" if state_window else f"the rule {update_rule!r} is not known"
        raise GraphValueError(f"{what}; export the model without it.")
    decays, corrects = _RULES[update_rule]
    if (decays and decay is None) or (corrects and beta is None):
        raise GraphValueError(f"the rule {update_rule!r} needs {'decay' if decays and decay is None else 'beta'}.")
    q, k, v = (_heads(x, n) for x, n in ((query, q_num_heads), (key, kv_num_heads), (value, kv_num_heads)))
    count, batch = max(q_num_heads, kv_num_heads), q.shape[1]
    scale = scale or q.shape[-1] ** -0.5
    state = ops.zeros((batch, kv_num_heads, k.shape[-1], v.shape[-1]), v.dtype) if past is None else tensor_of(past)
    gates = [ops.exp(_heads(decay, kv_num_heads))] if decays and decay is not None else []
    rates = [_heads(beta, tensor_of(beta).shape[-1])] if corrects and beta is not None else []

    def once(state: Tensor, now: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
        q, k, v, *others = now
        if decays:
            state = ops.cast(ops.expand_dims(others[0], -1), state.dtype) * state
        if corrects:
            v = others[-1] * (v - _read(state, k))
        state = state + ops.cast(ops.expand_dims(k, -1) * ops.expand_dims(v, -2), state.dtype)
        wide = ops.repeat_interleave(state, count // kv_num_heads, 1)
        return state, scale * _read(wide, ops.repeat_interleave(q, count // q_num_heads, 1))

    last, outputs = ops.scan(once, state, (q, k, v, *gates, *rates))
    return ops.reshape(ops.swapaxes(outputs, 0, 1), (batch, q.shape[0], -1)), last


def _heads(x: Input, count: int) -> Tensor:
    """(batch, time, heads times size) as (time, batch, heads, size)."""
    x = tensor_of(x)
    return ops.swapaxes(ops.reshape(x, (*x.shape[:2], count, -1)), 0, 1)


def _read(state: Tensor, key: Tensor) -> Tensor:
    """What the state of each head gives for a key."""
    row = ops.matmul(ops.expand_dims(key, -2), ops.cast(state, key.dtype))
    return ops.reshape(row, (*key.shape[:-1], state.shape[-1]))
