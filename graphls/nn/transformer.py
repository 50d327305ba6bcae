"""Transformers: encoder and decoder layers, stacks of them, and both together."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, TypeAlias

from graphls import ops
from graphls.initializer import XavierUniform, initializer
from graphls.ir.checks import boolean, positive_int
from graphls.ir.errors import GraphTypeError, GraphValueError
from graphls.ir.types import DTypeLike, float32
from graphls.nn.activations import get_activation
from graphls.nn.attention import MultiheadAttention
from graphls.nn.cell import Cell
from graphls.nn.containers import CellList
from graphls.nn.dense import Dense, Dropout
from graphls.nn.normalization import LayerNorm
from graphls.ops.operands import tensor_of
from graphls.tensors.tensor import Tensor, TensorLike

__all__ = [
    "Transformer", "TransformerDecoder", "TransformerDecoderLayer", "TransformerEncoder", "TransformerEncoderLayer",
]  # fmt: skip


Activation: TypeAlias = "str | Cell | Callable[[Tensor], Tensor]"


class TransformerLayer(Cell):
    """What both kinds of layers share: parts with a sum around each, normalised behind it or, if `norm_first`, before.

    `activation` is a name, of which "gelu" is the exact one, a cell or a function.
    """

    parts: int

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = "relu",
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        dtype: DTypeLike = float32,
    ) -> None:
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
        """x plus what a part makes of it."""
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
        self,
        tgt: TensorLike,
        memory: TensorLike,
        tgt_mask: TensorLike | None = None,
        memory_mask: TensorLike | None = None,
        tgt_key_padding_mask: TensorLike | None = None,
        memory_key_padding_mask: TensorLike | None = None,
    ) -> Tensor:
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
    found = get_activation(activation)
    if found is None:
        raise GraphTypeError("The activation of a transformer layer is a name, a cell or a function.")
    return found


class TransformerEncoder(Cell):
    """Copies of an encoder layer one after the other, which begin with its weights, and a normalisation behind them.

    Raises GraphTypeError where the layer is no cell, GraphValueError for a number below 1.
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
    """Copies of a decoder layer one after the other, which begin with its weights, and a normalisation behind them.

    Raises GraphTypeError where the layer is no cell, GraphValueError for a number below 1.
    """

    def __init__(self, decoder_layer: Cell, num_layers: int, norm: Cell | None = None) -> None:
        super().__init__()
        self.num_layers = positive_int("TransformerDecoder", "num_layers", num_layers)
        self.layers = _copies("decoder_layer", decoder_layer, num_layers)
        self.norm = norm

    def construct(
        self,
        tgt: TensorLike,
        memory: TensorLike,
        tgt_mask: TensorLike | None = None,
        memory_mask: TensorLike | None = None,
        tgt_key_padding_mask: TensorLike | None = None,
        memory_key_padding_mask: TensorLike | None = None,
    ) -> Tensor:
        x = tensor_of(tgt)
        for layer in self.layers:
            x = layer(x, memory, tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask)
        return x if self.norm is None else self.norm(x)


class Transformer(Cell):
    """An encoder of `src`, and a decoder of `tgt` that attends to what the encoder gives; the result is like `tgt`.

    `src` is (S, N, d_model) and `tgt` (T, N, d_model), with N first where `batch_first`. `custom_encoder` and
    `custom_decoder` stand in for the stacks. All weights of rank 2 and more begin as XavierUniform. Masks are those of
    MultiheadAttention. Raises GraphTypeError and GraphValueError for arguments and inputs that do not fit.
    """

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = "relu",
        custom_encoder: Cell | None = None,
        custom_decoder: Cell | None = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        dtype: DTypeLike = float32,
    ) -> None:
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
        self,
        src: TensorLike,
        tgt: TensorLike,
        src_mask: TensorLike | None = None,
        tgt_mask: TensorLike | None = None,
        memory_mask: TensorLike | None = None,
        src_key_padding_mask: TensorLike | None = None,
        tgt_key_padding_mask: TensorLike | None = None,
        memory_key_padding_mask: TensorLike | None = None,
    ) -> Tensor:
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
