"""Embeddings: a vector for each integer."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphls import ops
from graphls.initializer import initializer
from graphls.ir.checks import boolean, positive, positive_int
from graphls.ir.errors import GraphTypeError, GraphValueError
from graphls.ir.types import DTypeLike, float32
from graphls.nn.arrays import ClipByNorm
from graphls.nn.cell import Cell
from graphls.ops.layers import embedding_lookup
from graphls.ops.operands import tensor_of
from graphls.tensors.parameter import Parameter
from graphls.tensors.tensor import Tensor, TensorLike

__all__ = ["Embedding", "EmbeddingLookup"]


class Embedding(Cell):
    """The rows of `embedding_table`, (vocab_size, embedding_size), that integers name: (...) to (..., embedding_size).

    The table has the `dtype`; its row `padding_idx` begins as zeros. With `use_one_hot` rows are picked by a product
    with one-hot vectors, where an integer outside of range(vocab_size) gives zeros. Raises GraphTypeError and
    GraphValueError for arguments and inputs that do not fit.
    """

    def __init__(
        self,
        vocab_size: int,
        embedding_size: int,
        use_one_hot: bool = False,
        embedding_table: object = "normal",
        dtype: Any = float32,
        padding_idx: int | None = None,
    ) -> None:
        super().__init__()
        self.vocab_size = positive_int("Embedding", "vocab_size", vocab_size)
        self.embedding_size = positive_int("Embedding", "embedding_size", embedding_size)
        self.use_one_hot = boolean("Embedding", "use_one_hot", use_one_hot)
        self.padding_idx = _padding(padding_idx, vocab_size)
        table = initializer(embedding_table, (vocab_size, embedding_size), dtype)
        if padding_idx is not None:
            rows = np.array(table.asnumpy())
            rows[padding_idx] = 0
            table = Tensor(rows)
        self.embedding_table = Parameter(table, name="embedding_table")

    def construct(self, ids: TensorLike) -> Tensor:
        ids = tensor_of(ids)
        if ids.dtype.kind not in ("int", "uint"):
            raise GraphTypeError(f"Embedding takes integers, not {ids.type}.")
        table = tensor_of(self.embedding_table)
        if not self.use_one_hot:
            return ops.gather(table, ids, 0)
        rows = ops.one_hot(ops.reshape(ids, (-1,)), self.vocab_size)
        return ops.reshape(ops.matmul(ops.cast(rows, table.dtype), table), (*ids.shape, self.embedding_size))

    def extend_repr(self) -> str:
        return (
            f"vocab_size={self.vocab_size}, embedding_size={self.embedding_size}, use_one_hot={self.use_one_hot}, "
            f"padding_idx={self.padding_idx}"
        )


def _padding(index: TensorLike | None, vocab_size: int) -> int | None:
    if index is None:
        return None
    if isinstance(index, bool) or not isinstance(index, int):
        raise GraphTypeError(f"For 'Embedding', the 'padding_idx' must be int, but got {index!r}.")
    if not 0 <= index < vocab_size:
        text = f"For 'Embedding', the 'padding_idx' must be in [0, {vocab_size}), but got {index}."
        raise GraphValueError(text)
    return index


class EmbeddingLookup(Cell):
    """The rows of `embedding_table`, (vocab_size, embedding_size), that integers name; zeros for others.

    With `max_norm`, rows that are longer are scaled down to that Euclidean norm. `target`, `slice_mode`,
    `manual_shapes` and `sparse` say where and how MindSpore keeps the table, and change nothing here. Raises
    GraphTypeError and GraphValueError for arguments and inputs that do not fit.
    """

    def __init__(
        self,
        vocab_size: int,
        embedding_size: int,
        param_init: object = "normal",
        target: str = "CPU",
        slice_mode: str = "batch_slice",
        manual_shapes: TensorLike | None = None,
        max_norm: float | None = None,
        sparse: bool = True,
        dtype: DTypeLike = float32,
    ) -> None:
        super().__init__()
        self.vocab_size = positive_int("EmbeddingLookup", "vocab_size", vocab_size)
        self.embedding_size = positive_int("EmbeddingLookup", "embedding_size", embedding_size)
        if target not in ("CPU", "DEVICE"):
            text = f"For 'EmbeddingLookup', the 'target' must be in ['CPU', 'DEVICE'], but got {target!r}."
            raise GraphValueError(text)
        self.max_norm = None if max_norm is None else positive("EmbeddingLookup", "max_norm", max_norm)
        table = initializer(param_init, (vocab_size, embedding_size), dtype)
        self.embedding_table = Parameter(table, name="embedding_table")

    def construct(self, indices: TensorLike) -> Tensor:
        rows = embedding_lookup(self.embedding_table, indices, 0)
        return rows if self.max_norm is None else ClipByNorm(-1)(rows, self.max_norm)

    def extend_repr(self) -> str:
        return f"vocab_size={self.vocab_size}, embedding_size={self.embedding_size}, max_norm={self.max_norm}"
