"""Dense layers, embeddings and dropout."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from graphls import ops
from graphls.base.checks import boolean, positive, positive_int, probability
from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.frontend.names.traps import KEEP_PROB, warns_of
from graphls.frontend.tensors.parameter import Parameter
from graphls.frontend.tensors.tensor import Tensor, TensorLike
from graphls.ir.types import DTypeLike, float32
from graphls.nn.activations import get_activation
from graphls.nn.arrays import ClipByNorm
from graphls.nn.cell import Cell
from graphls.nn.initializer import HeUniform, Initial, Uniform, fans, initializer
from graphls.ops.network.layers import embedding_lookup, linear
from graphls.ops.operands import tensor_of, weight_of
from graphls.ops.record import OPERATORS

__all__ = [
    "BiDense", "Dense", "Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "Embedding", "EmbeddingLookup", "Linear",
]  # fmt: skip


class Dropout2d(Cell):
    """In training, whole channels of (N, C, H, W) set to 0 with probability `p`; else x itself.

    The others are divided by 1 - p. Raises GraphTypeError for anything but a number, GraphValueError outside of [0, 1].
    """

    _shown = "p"
    function: ClassVar[Callable[..., Tensor]] = staticmethod(ops.dropout2d)

    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        probability(type(self).__name__, "p", p)
        self.p = float(p)

    def construct(self, x: TensorLike) -> Any:
        return type(self).function(x, self.p) if self.training and self.p > 0 else x

    @cached_property
    def dropout(self) -> Any:
        """The operator of these settings, for MindSpore scripts that place it on devices; it returns the mask, too."""
        return ops.Dropout(keep_prob=1.0 - self.p)


class Dropout1d(Dropout2d):
    """In training, whole channels of (N, C, L) or (C, L) set to 0 with probability `p`; see Dropout2d."""

    function = staticmethod(ops.dropout1d)


class Dropout3d(Dropout2d):
    """In training, whole channels of (N, C, D, H, W) set to 0 with probability `p`; see Dropout2d."""

    function = staticmethod(ops.dropout3d)


@warns_of(KEEP_PROB)
class Dropout(Cell):
    """In training, elements set to 0 with probability `p` and the others divided by 1 - p; else x itself.

    `keep_prob`, the older argument, is 1 - p, and `dtype` changes nothing. A `keep_prob` below 0.5 that is not named
    warns, since PyTorch's first argument is `p`. Raises GraphTypeError for anything but numbers, GraphValueError unless
    some elements are kept.
    """

    _shown = "p"

    def __init__(self, keep_prob: float = 0.5, p: float | None = None, dtype: DTypeLike = float32) -> None:
        super().__init__()
        if p is None:
            probability("Dropout", "keep_prob", keep_prob)
            p = 1.0 - keep_prob
        probability("Dropout", "p", p)
        if p == 1:
            raise GraphValueError("For 'Dropout', the 'p' must be in [0, 1), but got 1.")
        self.p = float(p)

    def construct(self, x: TensorLike) -> Any:
        return ops.dropout(x, self.p) if self.training and self.p > 0 else x

    @cached_property
    def dropout(self) -> Any:
        """The operator of these settings, for MindSpore scripts that place it on devices; it returns the mask, too."""
        return ops.Dropout(keep_prob=1.0 - self.p)


def new_weight(
    init: Initial | None, shape: tuple[int, ...], name: str = "weight", dtype: DTypeLike = float32
) -> Parameter:
    """A weight; without an initializer evenly spread up to 1 / sqrt(fan in)."""
    return Parameter(initializer(HeUniform(math.sqrt(5)) if init is None else init, shape, dtype), name=name)


def new_bias(
    init: Initial | None, weight_shape: tuple[int, ...], name: str = "bias", size: int | None = None,
    dtype: DTypeLike = float32,
) -> Parameter:  # fmt: skip
    """A bias for a weight of that shape; without an initializer evenly spread up to 1 / sqrt(fan in).

    It has a number for each slice of the weight along the first axis unless a `size` is given.
    """
    default = Uniform(1 / math.sqrt(max(1, fans(weight_shape)[0])))
    shape = weight_shape[:1] if size is None else (size,)
    return Parameter(initializer(default if init is None else init, shape, dtype), name=name)


class Dense(Cell):
    """x @ weight.T + bias, then an activation: (..., in_channels) to (..., out_channels).

    `weight` has shape (out_channels, in_channels) and the `dtype`, as `bias` has. Without `weight_init` and `bias_init`
    both are spread evenly up to 1 / sqrt(in_channels). Raises GraphTypeError and GraphValueError for arguments that do
    not fit.
    """

    _shown = "input_channels=in_channels output_channels=out_channels has_bias"

    def __init__(
        self, in_channels: int, out_channels: int, weight_init: Initial | None = None, bias_init: Initial | None = None,
        has_bias: bool = True, activation: str | Cell | None = None, dtype: DTypeLike = float32,
    ) -> None:  # fmt: skip
        super().__init__()
        self.in_channels = positive_int("Dense", "in_channels", in_channels)
        self.out_channels = positive_int("Dense", "out_channels", out_channels)
        self.has_bias = boolean("Dense", "has_bias", has_bias)
        shape = (self.out_channels, self.in_channels)
        self.weight = new_weight(weight_init, shape, dtype=dtype)
        self.bias = new_bias(bias_init, shape, dtype=dtype) if has_bias else None
        self.activation = get_activation(activation)

    @property
    def matmul(self) -> Any:
        """The operator of its product: `dense.matmul.shard(((4, 2), (1, 2)))` says how devices of a mesh cut it.

        Its operands are the rows of the input and the weight.
        """
        return self.__dict__.setdefault("_matmul", OPERATORS["MatMul"](transpose_b=True))

    @property
    def bias_add(self) -> Any:
        """The operator that adds the bias to rows, whose `shard` is as that of `matmul`."""
        return self.__dict__.setdefault("_bias_add", OPERATORS["BiasAdd"]())

    def construct(self, x: TensorLike) -> Tensor:
        if "_matmul" in self.__dict__ or "_bias_add" in self.__dict__:
            y = self._by_operators(tensor_of(x))
        else:
            y = linear(x, self.weight, *(() if self.bias is None else (self.bias,)))
        return y if self.activation is None else self.activation(y)

    def _by_operators(self, x: Tensor) -> Tensor:
        """The product and the sum by operators, which strategies may cut."""
        rows = self.matmul(ops.reshape(x, (-1, x.shape[-1])), self.weight)
        rows = rows if self.bias is None else self.bias_add(rows, self.bias)
        result: Tensor = ops.reshape(rows, (*x.shape[:-1], self.out_channels))
        return result


class Linear(Cell):
    """x @ weight.T + bias: (..., in_features) to (..., out_features).

    `weight` has the shape (out_features, in_features). Without `weight_init` and `bias_init` both are spread evenly up
    to 1 / sqrt(in_features). Raises GraphTypeError and GraphValueError for arguments that do not fit.
    """

    _shown = "in_features out_features bias=has_bias"

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, weight_init: Initial | None = None,
        bias_init: Initial | None = None, dtype: DTypeLike | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.in_features = positive_int("Linear", "in_features", in_features)
        self.out_features = positive_int("Linear", "out_features", out_features)
        self.has_bias, shape = boolean("Linear", "bias", bias), (out_features, in_features)
        self.weight = new_weight(weight_init, shape, dtype=dtype or float32)
        self.bias = new_bias(bias_init, shape, dtype=dtype or float32) if bias else None

    def construct(self, x: TensorLike) -> Tensor:
        return linear(x, self.weight, *(() if self.bias is None else (self.bias,)))


class BiDense(Cell):
    """x @ weight[k] @ y + bias[k] for each k: (..., in1_channels) and (..., in2_channels) to (..., out_channels).

    `weight` has the shape (out_channels, in1_channels, in2_channels). Without `weight_init` and `bias_init` both are
    spread evenly up to 1 / sqrt(in1_channels). Raises GraphTypeError and GraphValueError for arguments and inputs that
    do not fit.
    """

    _shown = "in1_channels in2_channels out_channels has_bias"

    def __init__(
        self, in1_channels: int, in2_channels: int, out_channels: int, weight_init: Initial | None = None,
        bias_init: Initial | None = None, has_bias: bool = True, dtype: DTypeLike = float32,
    ) -> None:  # fmt: skip
        super().__init__()
        names = ("out_channels", "in1_channels", "in2_channels")
        sizes = zip(names, (out_channels, in1_channels, in2_channels), strict=True)
        shape = tuple(positive_int("BiDense", name, size) for name, size in sizes)
        self.out_channels, self.in1_channels, self.in2_channels = shape
        self.has_bias = boolean("BiDense", "has_bias", has_bias)
        spread = Uniform(1 / math.sqrt(in1_channels))
        weight = initializer(spread if weight_init is None else weight_init, shape, dtype)
        self.weight = Parameter(weight, name="weight")
        self.bias = None
        if has_bias:
            bias = initializer(spread if bias_init is None else bias_init, shape[:1], dtype)
            self.bias = Parameter(bias, name="bias")

    def construct(self, input1: TensorLike, input2: TensorLike) -> Tensor:
        return ops.bidense(input1, input2, self.weight, self.bias)


class Embedding(Cell):
    """The rows of `embedding_table`, (vocab_size, embedding_size), that integers name: (...) to (..., embedding_size).

    The table has the `dtype`; its row `padding_idx` begins as zeros. With `use_one_hot` rows are picked by a product
    with one-hot vectors, where an integer outside of range(vocab_size) gives zeros. Raises GraphTypeError and
    GraphValueError for arguments and inputs that do not fit.
    """

    _shown = "vocab_size embedding_size use_one_hot padding_idx"

    def __init__(
        self, vocab_size: int, embedding_size: int, use_one_hot: bool = False, embedding_table: Initial = "normal",
        dtype: DTypeLike = float32, padding_idx: int | None = None,
    ) -> None:  # fmt: skip
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
        table = weight_of(self.embedding_table)
        if not self.use_one_hot:
            return ops.gather(table, ids, 0)
        rows = ops.one_hot(ops.reshape(ids, (-1,)), self.vocab_size)
        return ops.reshape(ops.matmul(ops.cast(rows, table.dtype), table), (*ids.shape, self.embedding_size))


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

    _shown = "vocab_size embedding_size max_norm"

    def __init__(
        self, vocab_size: int, embedding_size: int, param_init: Initial = "normal", target: str = "CPU",
        slice_mode: str = "batch_slice", manual_shapes: TensorLike | None = None, max_norm: float | None = None,
        sparse: bool = True, dtype: DTypeLike = float32,
    ) -> None:  # fmt: skip
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
