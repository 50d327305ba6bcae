"""The layers of a transformer: self-attention, attention to a memory, and a network of two layers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from graphls import ops
from graphls.ir.errors import GraphTypeError
from graphls.ir.types import float32
from graphls.nn.activations import get_activation
from graphls.nn.attention import MultiheadAttention
from graphls.nn.cell import Cell
from graphls.nn.checks import boolean, positive_int
from graphls.nn.layer_norm import LayerNorm
from graphls.nn.layers import Dense, Dropout
from graphls.ops.operands import tensor_of
from graphls.tensors.tensor import Tensor

__all__ = ["TransformerDecoderLayer", "TransformerEncoderLayer"]


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
        activation: Any = "relu",
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        dtype: Any = float32,
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

    def construct(self, src: Any, src_mask: Any = None, src_key_padding_mask: Any = None) -> Tensor:
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
        tgt: Any,
        memory: Any,
        tgt_mask: Any = None,
        memory_mask: Any = None,
        tgt_key_padding_mask: Any = None,
        memory_key_padding_mask: Any = None,
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


def _activation(activation: Any) -> Callable[[Any], Tensor]:
    activation = ops.gelu if activation == "gelu" else activation
    is_function = callable(activation) and not isinstance(activation, Cell)
    found: Callable[[Any], Tensor] | None = activation if is_function else get_activation(activation)
    if found is None:
        raise GraphTypeError("The activation of a transformer layer is a name, a cell or a function.")
    return found
