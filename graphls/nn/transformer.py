"""Attention with several heads (Vaswani et al., 2017), and transformers: layers, stacks of them, and both together."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any, TypeAlias

from graphls import ops
from graphls.base.checks import boolean, positive_int, probability
from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.frontend.tensors.parameter import Parameter
from graphls.frontend.tensors.tensor import Symbol, Tensor, TensorLike
from graphls.ir.types import DType, DTypeLike, float32
from graphls.nn.activations import get_activation
from graphls.nn.cell import Cell
from graphls.nn.containers import CellList
from graphls.nn.dense import Dense, Dropout
from graphls.nn.initializer import Normal, XavierUniform, initializer
from graphls.nn.normalization import LayerNorm
from graphls.ops.network.layers import linear
from graphls.ops.operands import apply, single_session, tensor_of

__all__ = [
    "MultiheadAttention", "Transformer", "TransformerDecoder", "TransformerDecoderLayer", "TransformerEncoder",
    "TransformerEncoderLayer",
]  # fmt: skip


Shapes = dict[tuple[int, ...], tuple[int, ...]]
"""The shapes that a mask may have, and the shapes that they are reshaped to."""


def joined_masks(
    attention: TensorLike | None, padding: TensorLike | None, shape: tuple[int, int, int, int], dtype: DType
) -> Tensor | None:
    """The sum of both masks as additive masks that broadcast to `shape`, (N, heads, L, S); None without masks.

    Raises GraphTypeError for a mask of integers, GraphValueError for one that does not fit.
    """
    batch, heads, rows, columns = shape
    of_all: Shapes = {(rows, columns): (1, 1, rows, columns), (batch * heads, rows, columns): shape}
    of_keys: Shapes = {(batch, columns): (batch, 1, 1, columns)}
    if batch == 1:
        of_keys[columns,] = (1, 1, 1, columns)
    arguments = (("attn_mask", attention, of_all), ("key_padding_mask", padding, of_keys))
    present = [(name, tensor_of(mask), shapes) for name, mask, shapes in arguments if mask is not None]
    masks = [_additive_mask(_reshaped(mask, name, shapes), name, dtype) for name, mask, shapes in present]
    return ops.add(*masks) if len(masks) == 2 else next(iter(masks), None)


def _additive_mask(mask: Tensor, name: str, dtype: DType) -> Tensor:
    """A mask as numbers to add: minus infinity where a bool is true."""
    if mask.dtype.kind == "bool":
        return ops.where(mask, ops.full((), -math.inf, dtype=dtype), ops.zeros((), dtype))
    if not mask.dtype.is_float:
        raise GraphTypeError(f"The {name} holds bools, or floats that are added, not {mask.type}.")
    return ops.cast(mask, dtype)


def _reshaped(mask: Tensor, name: str, shapes: Shapes) -> Tensor:
    if mask.shape not in shapes:
        raise GraphValueError(f"The {name} has shape {' or '.join(map(str, shapes))} here, not {mask.shape}.")
    return ops.reshape(mask, shapes[mask.shape])


class MultiheadAttention(Cell):
    """softmax(q @ k.T / sqrt(embed_dim / num_heads) + masks) @ v for each head, with projections before and after.

    Takes query (L, N, embed_dim), key (S, N, kdim) and value (S, N, vdim), with the axes of length and batch exchanged
    where `batch_first`, or all without a batch. `attn_mask`, (L, S) or (N * num_heads, L, S), and `key_padding_mask`,
    (N, S), are bools, true where there is no attention, or numbers that are added; a query without any key results in
    nan. Returns the output and, where `need_weights`, the weights (N, L, S), or (N, num_heads, L, S) unless they are
    averaged. Raises GraphTypeError and GraphValueError for arguments and inputs that do not fit.
    """

    _shown = "embed_dim num_heads dropout"

    def __init__(
        self, embed_dim: int, num_heads: int, dropout: float = 0.0, has_bias: bool = True, add_bias_kv: bool = False,
        add_zero_attn: bool = False, kdim: int | None = None, vdim: int | None = None, batch_first: bool = False,
        dtype: DTypeLike = float32,
    ) -> None:  # fmt: skip
        super().__init__()
        name = "MultiheadAttention"
        self.embed_dim = positive_int(name, "embed_dim", embed_dim)
        self.num_heads = positive_int(name, "num_heads", num_heads)
        if embed_dim % num_heads:
            text = f"For {name!r}, the 'embed_dim' {embed_dim} must be divisible by the 'num_heads' {num_heads}."
            raise GraphValueError(text)
        probability(name, "dropout", dropout)
        self.dropout = float(dropout)
        self.kdim = positive_int(name, "kdim", embed_dim if kdim is None else kdim)
        self.vdim = positive_int(name, "vdim", embed_dim if vdim is None else vdim)
        self.has_bias = boolean(name, "has_bias", has_bias)
        self.add_zero_attn = boolean(name, "add_zero_attn", add_zero_attn)
        self.batch_first = boolean(name, "batch_first", batch_first)
        self.add_bias_kv = boolean(name, "add_bias_kv", add_bias_kv)
        self._add_parameters(dtype)

    def _add_parameters(self, dtype: DTypeLike) -> None:
        size = self.embed_dim
        self.is_packed = self.kdim == self.vdim == size
        if self.is_packed:
            self.in_proj_weight = _xavier("in_proj_weight", (3 * size, size), dtype)
        else:
            self.q_proj_weight = _xavier("q_proj_weight", (size, size), dtype)
            self.k_proj_weight = _xavier("k_proj_weight", (size, self.kdim), dtype)
            self.v_proj_weight = _xavier("v_proj_weight", (size, self.vdim), dtype)
        self.in_proj_bias = None
        if self.has_bias:
            self.in_proj_bias = Parameter(initializer("zeros", (3 * size,), dtype), name="in_proj_bias")
        self.out_proj = Dense(size, size, has_bias=self.has_bias, bias_init="zeros", dtype=dtype)
        if self.add_bias_kv:
            spread = Normal(math.sqrt(1 / size))
            self.bias_k = Parameter(initializer(spread, (1, 1, size), dtype), name="bias_k")
            self.bias_v = Parameter(initializer(spread, (1, 1, size), dtype), name="bias_v")

    def construct(
        self, query: Tensor, key: Tensor, value: Tensor, key_padding_mask: TensorLike | None = None,
        need_weights: bool = True, attn_mask: TensorLike | None = None, average_attn_weights: bool = True,
    ) -> tuple[Tensor, Tensor | None]:  # fmt: skip
        query, key, value = map(tensor_of, (query, key, value))
        self._check(query, key, value)
        is_batched = query.ndim == 3
        q, k, v = self._projected(query, key, value)
        shape = (q.shape[0], self.num_heads, q.shape[1], k.shape[1])
        mask = joined_masks(attn_mask, key_padding_mask, shape, q.dtype)
        k, v, mask = self._with_more_keys(k, v, mask)
        dropout = self.dropout if self.training else 0.0
        output, weights = _attended(q, k, v, mask, self.num_heads, dropout)
        output = self.out_proj(output)
        if not is_batched:
            output = ops.squeeze(output, 0)
        elif not self.batch_first:
            output = ops.swapaxes(output, 0, 1)
        if not need_weights:
            return output, None
        weights = ops.mean(weights, 1) if average_attn_weights else weights
        return output, weights if is_batched else ops.squeeze(weights, 0)

    def _check(self, query: Tensor, key: Tensor, value: Tensor) -> None:
        sizes = {"query": (query, self.embed_dim), "key": (key, self.kdim), "value": (value, self.vdim)}
        for name, (x, size) in sizes.items():
            if not x.dtype.is_float:
                raise GraphTypeError(f"The {name} of MultiheadAttention holds floats, not {x.type}.")
            if x.ndim not in (2, 3) or x.ndim != query.ndim or x.shape[-1] != size:
                text = f"The {name} of MultiheadAttention has rank 2 or 3, as all, and {size} features, not {x.type}."
                raise GraphValueError(text)
        batch = 0 if self.batch_first else 1
        if key.shape[:-1] != value.shape[:-1] or (query.ndim == 3 and key.shape[batch] != query.shape[batch]):
            types = f"{query.type}, {key.type} and {value.type}"
            text = f"MultiheadAttention takes a value for each key, and one batch for all, not {types}."
            raise GraphValueError(text)

    def _projected(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """Projected query, key and value in (N, length, embed_dim), by one product where they are the same."""
        size = self.embed_dim
        bias = self.in_proj_bias
        if self.is_packed and all(_is_same(x, inputs[0]) for x in inputs):
            packed = linear(self._batch_first(inputs[0]), self.in_proj_weight, *(() if bias is None else (bias,)))
            return ops.split(packed, size, axis=-1)
        weights: Any = (
            ops.split(self.in_proj_weight, size)
            if self.is_packed
            else (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)
        )
        biases = [()] * 3 if bias is None else [(part,) for part in ops.split(bias, size)]
        parts = zip(inputs, weights, biases, strict=True)
        return tuple(linear(self._batch_first(x), weight, *extra) for x, weight, extra in parts)

    def _batch_first(self, x: Tensor) -> Tensor:
        if x.ndim == 2:
            return ops.expand_dims(x, 0)
        return x if self.batch_first else ops.swapaxes(x, 0, 1)

    def _with_more_keys(self, k: Tensor, v: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor, Tensor | None]:
        """Keys and values extended by learned ones and zeros, which no mask hides."""
        pairs: list[tuple[Any, Any]] = [(self.bias_k, self.bias_v)] if self.add_bias_kv else []
        pairs += [(0.0, 0.0)] if self.add_zero_attn else []
        for key, value in pairs:
            k, v = _with_row(k, key), _with_row(v, value)
            if mask is not None:
                mask = ops.concat((mask, ops.zeros((*mask.shape[:-1], 1), mask.dtype)), axis=-1)
        return k, v, mask


@single_session
def _attended(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, heads: int, dropout: float
) -> tuple[Tensor, Tensor]:
    """The output (N, L, embed_dim) before its projection, and the weights of each head."""
    q, k, v = (_in_heads(x, heads) for x in (q, k, v))
    scores = apply("matmul", ops.mul(q, 1 / math.sqrt(q.shape[-1])), k, transpose_b=True)
    weights = ops.softmax(scores if mask is None else ops.add(scores, mask))
    dropped = ops.dropout(weights, dropout) if dropout else weights
    output = ops.transpose(ops.matmul(dropped, v), (0, 2, 1, 3))
    return ops.reshape(output, (*output.shape[:2], -1)), dropped


def _in_heads(x: Tensor, heads: int) -> Tensor:
    """(N, length, embed_dim) as (N, heads, length, size)."""
    parts = ops.reshape(x, (*x.shape[:2], heads, x.shape[2] // heads))
    return ops.transpose(parts, (0, 2, 1, 3))


def _xavier(name: str, shape: tuple[int, ...], dtype: DTypeLike) -> Parameter:
    return Parameter(initializer(XavierUniform(), shape, dtype), name=name)


def _is_same(a: Tensor, b: Tensor) -> bool:
    """Returns whether two tensors have the same value, by identity of their buffer or graph value."""
    if isinstance(a, Symbol) or isinstance(b, Symbol):
        return isinstance(a, Symbol) and isinstance(b, Symbol) and a.graph_value is b.graph_value
    return a.array is b.array


def _with_row(x: Tensor, row: TensorLike) -> Tensor:
    """x of (N, length, size) with one more row after those of each element of the batch."""
    row = ops.cast(tensor_of(row), x.dtype)
    return ops.concat((x, ops.broadcast_to(row, (x.shape[0], 1, x.shape[2]))), axis=1)


Activation: TypeAlias = "str | Cell | Callable[[Tensor], Tensor]"


class TransformerLayer(Cell):
    """The base of both kinds of layers: residual parts, normalised after or, if `norm_first`, before each.

    `activation` is a name, of which "gelu" is the exact one, a cell or a function.
    """

    parts: int

    def __init__(
        self, d_model: int, nhead: int, dim_feedforward: int = 2048, dropout: float = 0.1,
        activation: Activation = "relu", layer_norm_eps: float = 1e-5, batch_first: bool = False,
        norm_first: bool = False, dtype: DTypeLike = float32,
    ) -> None:  # fmt: skip
        super().__init__()
        name = type(self).__name__
        positive_int(name, "dim_feedforward", dim_feedforward)
        self.norm_first = boolean(name, "norm_first", norm_first)
        self.self_attn = MultiheadAttention(d_model, nhead, dropout=dropout, batch_first=batch_first, dtype=dtype)
        if self.parts == 3:
            self.multihead_attn = MultiheadAttention(
                d_model, nhead, dropout=dropout, batch_first=batch_first, dtype=dtype
            )
        self.dense1 = Dense(d_model, dim_feedforward, dtype=dtype)
        self.dropout = Dropout(p=dropout)
        self.dense2 = Dense(dim_feedforward, d_model, dtype=dtype)
        for i in range(1, self.parts + 1):
            setattr(self, f"norm{i}", LayerNorm((d_model,), epsilon=layer_norm_eps, dtype=dtype))
            setattr(self, f"dropout{i}", Dropout(p=dropout))
        self.activation = _activation(activation)

    def around(self, number: int, x: Tensor, part: Callable[[Tensor], Tensor]) -> Tensor:
        """x plus the output of a part, with dropout and normalisation."""
        norm, dropout = getattr(self, f"norm{number}"), getattr(self, f"dropout{number}")
        if self.norm_first:
            return ops.add(x, dropout(part(norm(x))))
        normal: Tensor = norm(ops.add(x, dropout(part(x))))
        return normal

    def feed_forward(self, x: Tensor) -> Tensor:
        """Two products, with the activation and dropout between them."""
        y: Tensor = self.dense2(self.dropout(self.activation(self.dense1(x))))
        return y


class TransformerEncoderLayer(TransformerLayer):
    """Self-attention and a network of two layers: (L, N, d_model) to the same, or (N, L, d_model) if `batch_first`.

    Masks are those of MultiheadAttention. Raises GraphTypeError and GraphValueError for what does not fit.
    """

    parts = 2

    def construct(
        self, src: TensorLike, src_mask: TensorLike | None = None, src_key_padding_mask: TensorLike | None = None
    ) -> Tensor:
        def attend(x: Tensor) -> Tensor:
            y: Tensor = self.self_attn(x, x, x, src_key_padding_mask, False, src_mask)[0]
            return y

        x = self.around(1, tensor_of(src), attend)
        return self.around(2, x, self.feed_forward)


class TransformerDecoderLayer(TransformerLayer):
    """Self-attention, attention to a memory and a network of two layers: (T, N, d_model) to the same.

    With `batch_first`, N is the first axis of all. Masks are those of MultiheadAttention. Raises GraphTypeError and
    GraphValueError for what does not fit.
    """

    parts = 3

    def construct(
        self, tgt: TensorLike, memory: TensorLike, tgt_mask: TensorLike | None = None,
        memory_mask: TensorLike | None = None, tgt_key_padding_mask: TensorLike | None = None,
        memory_key_padding_mask: TensorLike | None = None,
    ) -> Tensor:  # fmt: skip
        def attend(x: Tensor) -> Tensor:
            y: Tensor = self.self_attn(x, x, x, tgt_key_padding_mask, False, tgt_mask)[0]
            return y

        def look_up(x: Tensor) -> Tensor:
            y: Tensor = self.multihead_attn(x, memory, memory, memory_key_padding_mask, False, memory_mask)[0]
            return y

        x = self.around(1, tensor_of(tgt), attend)
        x = self.around(2, x, look_up)
        return self.around(3, x, self.feed_forward)


def _activation(activation: Activation) -> Callable[[Any], Tensor]:
    if activation == "gelu":
        return ops.gelu
    if callable(activation) and not isinstance(activation, Cell):
        return activation
    cell = get_activation(activation)
    if cell is None:
        raise GraphTypeError("The activation of a transformer layer is a name, a cell or a function.")
    return cell


class TransformerEncoder(Cell):
    """A stack of copies of an encoder layer, initialised with its weights, followed by a normalisation.

    Raises GraphTypeError where the layer is not a cell, GraphValueError for a number below 1.
    """

    def __init__(self, encoder_layer: Cell, num_layers: int, norm: Cell | None = None) -> None:
        super().__init__()
        self.num_layers = positive_int("TransformerEncoder", "num_layers", num_layers)
        self.layers = _copies("encoder_layer", encoder_layer, num_layers)
        self.norm = norm

    def construct(
        self, src: TensorLike, src_mask: TensorLike | None = None, src_key_padding_mask: TensorLike | None = None
    ) -> Tensor:
        x = tensor_of(src)
        for layer in self.layers:
            x = layer(x, src_mask, src_key_padding_mask)
        return x if self.norm is None else self.norm(x)


class TransformerDecoder(Cell):
    """A stack of copies of a decoder layer, initialised with its weights, followed by a normalisation.

    Raises GraphTypeError where the layer is not a cell, GraphValueError for a number below 1.
    """

    def __init__(self, decoder_layer: Cell, num_layers: int, norm: Cell | None = None) -> None:
        super().__init__()
        self.num_layers = positive_int("TransformerDecoder", "num_layers", num_layers)
        self.layers = _copies("decoder_layer", decoder_layer, num_layers)
        self.norm = norm

    def construct(
        self, tgt: TensorLike, memory: TensorLike, tgt_mask: TensorLike | None = None,
        memory_mask: TensorLike | None = None, tgt_key_padding_mask: TensorLike | None = None,
        memory_key_padding_mask: TensorLike | None = None,
    ) -> Tensor:  # fmt: skip
        x = tensor_of(tgt)
        for layer in self.layers:
            x = layer(x, memory, tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask)
        return x if self.norm is None else self.norm(x)


class Transformer(Cell):
    """An encoder of `src`, and a decoder of `tgt` that attends to the output of the encoder; the result is like `tgt`.

    `src` is (S, N, d_model) and `tgt` (T, N, d_model), with N first where `batch_first`. `custom_encoder` and
    `custom_decoder` replace the stacks. All weights of rank 2 and more are initialised by XavierUniform. Masks are
    those of MultiheadAttention. Raises GraphTypeError and GraphValueError for arguments and inputs that do not fit.
    """

    def __init__(
        self, d_model: int = 512, nhead: int = 8, num_encoder_layers: int = 6, num_decoder_layers: int = 6,
        dim_feedforward: int = 2048, dropout: float = 0.1, activation: Activation = "relu",
        custom_encoder: Cell | None = None, custom_decoder: Cell | None = None, layer_norm_eps: float = 1e-5,
        batch_first: bool = False, norm_first: bool = False, dtype: DTypeLike = float32,
    ) -> None:  # fmt: skip
        super().__init__()
        self.d_model = positive_int("Transformer", "d_model", d_model)
        self.batch_first = batch_first
        setting = (d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, dtype)
        norms = [LayerNorm((d_model,), epsilon=layer_norm_eps, dtype=dtype) for _ in range(2)]
        self.encoder = custom_encoder or TransformerEncoder(
            TransformerEncoderLayer(*setting), num_encoder_layers, norms[0]
        )
        self.decoder = custom_decoder or TransformerDecoder(
            TransformerDecoderLayer(*setting), num_decoder_layers, norms[1]
        )
        for parameter in self.get_parameters():
            if parameter.ndim > 1:
                parameter.set_data(initializer(XavierUniform(), parameter.shape, parameter.dtype))

    def construct(
        self, src: TensorLike, tgt: TensorLike, src_mask: TensorLike | None = None, tgt_mask: TensorLike | None = None,
        memory_mask: TensorLike | None = None, src_key_padding_mask: TensorLike | None = None,
        tgt_key_padding_mask: TensorLike | None = None, memory_key_padding_mask: TensorLike | None = None,
    ) -> Tensor:  # fmt: skip
        src, tgt = tensor_of(src), tensor_of(tgt)
        batch = 0 if self.batch_first else 1
        if src.ndim != tgt.ndim or (src.ndim == 3 and src.shape[batch] != tgt.shape[batch]):
            text = f"Transformer takes src and tgt of one rank and one batch, not {src.type} and {tgt.type}."
            raise GraphValueError(text)
        memory = self.encoder(src, src_mask, src_key_padding_mask)
        result: Tensor = self.decoder(tgt, memory, tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask)
        return result


def _copies(name: str, layer: object, count: int) -> CellList:
    if not isinstance(layer, Cell):
        raise GraphTypeError(f"The {name} is a cell, not {layer!r}.")
    return CellList([copy.deepcopy(layer) for _ in range(count)])
