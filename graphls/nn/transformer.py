"""Transformers: stacks of encoder and decoder layers (Vaswani et al., 2017)."""

from __future__ import annotations

import copy
from typing import Any

from graphls.initializer import XavierUniform, initializer
from graphls.ir.errors import GraphTypeError, GraphValueError
from graphls.ir.types import float32
from graphls.nn.cell import Cell
from graphls.nn.checks import positive_int
from graphls.nn.containers import CellList
from graphls.nn.layer_norm import LayerNorm
from graphls.nn.transformer_layers import TransformerDecoderLayer, TransformerEncoderLayer
from graphls.ops.operands import tensor_of
from graphls.tensors.tensor import Tensor

__all__ = ["Transformer", "TransformerDecoder", "TransformerEncoder"]


class TransformerEncoder(Cell):
    """Copies of an encoder layer one after the other, which begin with its weights, and a normalisation behind them.

    Raises GraphTypeError where the layer is no cell, GraphValueError for a number below 1.
    """

    def __init__(self, encoder_layer: Cell, num_layers: int, norm: Cell | None = None) -> None:
        super().__init__()
        self.num_layers = positive_int("TransformerEncoder", "num_layers", num_layers)
        self.layers = _copies("encoder_layer", encoder_layer, num_layers)
        self.norm = norm

    def construct(self, src: Any, src_mask: Any = None, src_key_padding_mask: Any = None) -> Tensor:
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
        tgt: Any,
        memory: Any,
        tgt_mask: Any = None,
        memory_mask: Any = None,
        tgt_key_padding_mask: Any = None,
        memory_key_padding_mask: Any = None,
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
        activation: Any = "relu",
        custom_encoder: Cell | None = None,
        custom_decoder: Cell | None = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        dtype: Any = float32,
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
        src: Any,
        tgt: Any,
        src_mask: Any = None,
        tgt_mask: Any = None,
        memory_mask: Any = None,
        src_key_padding_mask: Any = None,
        tgt_key_padding_mask: Any = None,
        memory_key_padding_mask: Any = None,
    ) -> Tensor:
        src, tgt = tensor_of(src), tensor_of(tgt)
        batch = 0 if self.batch_first else 1
        if src.ndim != tgt.ndim or (src.ndim == 3 and src.shape[batch] != tgt.shape[batch]):
            text = f"Transformer takes src and tgt of one rank and one batch, not {src.type} and {tgt.type}."
            raise GraphValueError(text)
        memory = self.encoder(src, src_mask, src_key_padding_mask)
        result: Tensor = self.decoder(tgt, memory, tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask)
        return result


def _copies(name: str, layer: Any, count: int) -> CellList:
    if not isinstance(layer, Cell):
        raise GraphTypeError(f"The {name} is a cell, not {layer!r}.")
    return CellList([copy.deepcopy(layer) for _ in range(count)])
