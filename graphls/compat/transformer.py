"""Names of `mindspore.nn.transformer` in version 1: configurations, masks, embeddings, a loss, a feed-forward layer."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from graphls import nn, ops
from graphls.base.errors import GraphTypeError
from graphls.frontend.tensors.parameter import Parameter
from graphls.frontend.tensors.tensor import Tensor, TensorLike
from graphls.ir.types import DTypeLike, float32
from graphls.nn.cell import Cell
from graphls.nn.initializer import Initial, initializer


class _Settings:
    """Settings by name; raises GraphTypeError for an unknown one."""

    defaults: ClassVar[dict[str, Any]] = {}

    def __init__(self, *args: object, **options: object) -> None:
        settings = {**dict(zip(self.defaults, args, strict=False)), **options}
        for name in settings.keys() - self.defaults.keys():
            known = ", ".join(self.defaults)
            raise GraphTypeError(f"{type(self).__name__} has no {name!r}; it has {known}.")
        self.__dict__.update({**self.defaults, **settings})


class OpParallelConfig(_Settings):
    """The sharding of layers, which has no effect on one device."""

    defaults: ClassVar[dict[str, Any]] = {
        "data_parallel": 1, "model_parallel": 1, "use_seq_parallel": False, "select_recompute": False
    }  # fmt: skip


class EmbeddingOpParallelConfig(_Settings):
    """The sharding of an embedding, which has no effect on one device."""

    defaults: ClassVar[dict[str, Any]] = {"data_parallel": 1, "model_parallel": 1, "vocab_emb_dp": True}


class TransformerRecomputeConfig(_Settings):
    """Settings of recomputation for gradients, without effect: cells here have the method `recompute`."""

    defaults: ClassVar[dict[str, Any]] = {
        "recompute": False, "parallel_optimizer_comm_recompute": False, "mp_comm_recompute": True,
        "recompute_slice_activation": False,
    }  # fmt: skip


class MoEConfig(_Settings):
    """Settings of a mixture of experts."""

    defaults: ClassVar[dict[str, Any]] = {
        "expert_num": 1, "capacity_factor": 1.1, "aux_loss_factor": 0.05, "num_experts_chosen": 1,
        "expert_group_size": None, "group_wise_a2a": False, "comp_comm_parallel": False, "comp_comm_parallel_degree": 2,
    }  # fmt: skip


default_dpmp_config, default_embedding_parallel_config = OpParallelConfig(), EmbeddingOpParallelConfig()
default_moe_config, default_transformer_recompute_config = MoEConfig(), TransformerRecomputeConfig()


class TransformerOpParallelConfig(_Settings):
    """The sharding of a transformer, which has no effect on one device."""

    defaults: ClassVar[dict[str, Any]] = {
        "data_parallel": 1, "model_parallel": 1, "expert_parallel": 1, "pipeline_stage": 1, "micro_batch_num": 1,
        "recompute": default_transformer_recompute_config, "use_seq_parallel": False, "optimizer_shard": False,
        "gradient_aggregation_group": 4, "vocab_emb_dp": True,
    }  # fmt: skip

    @property
    def dp_mp_config(self) -> OpParallelConfig:
        """The settings of layers."""
        return OpParallelConfig(self.__dict__["data_parallel"], self.__dict__["model_parallel"])

    @property
    def embedding_dp_mp_config(self) -> EmbeddingOpParallelConfig:
        """The settings of embeddings."""
        return EmbeddingOpParallelConfig(*map(self.__dict__.get, EmbeddingOpParallelConfig.defaults))


default_transformer_config = TransformerOpParallelConfig()


class AttentionMask(Cell):
    """From a padding mask (N, S) of 1 and 0, the causal attention mask (N, S, S)."""

    def __init__(self, seq_length: int, parallel_config: object = default_dpmp_config, **options: object) -> None:
        super().__init__()
        self.seq_length = seq_length
        self.lower_triangle_mask = Tensor(np.tril(np.ones((seq_length, seq_length), np.float32)))

    def construct(self, input_mask: TensorLike) -> Any:
        mask = ops.cast(input_mask, float32)
        return ops.expand_dims(mask, 2) * ops.expand_dims(mask, 1) * self.lower_triangle_mask


class VocabEmbedding(Cell):
    """The embeddings (N, S, embedding_size) of token ids (N, S), and the embedding table."""

    def __init__(
        self, vocab_size: int, embedding_size: int, parallel_config: object = default_embedding_parallel_config,
        param_init: Initial = "normal",
    ) -> None:  # fmt: skip
        super().__init__()
        self.vocab_size, self.embedding_size = vocab_size, embedding_size
        values = initializer(param_init, [vocab_size, embedding_size])
        self.embedding_table = Parameter(values, name="embedding_table")

    def construct(self, input_ids: TensorLike) -> Any:
        return ops.gather(self.embedding_table, input_ids, 0), self.embedding_table.value()


class CrossEntropyLoss(Cell):
    """The mean loss of scores (N, C) for labels (N,) where a mask (N,) of 1 and 0 is 1."""

    def __init__(self, parallel_config: object = default_dpmp_config, **options: object) -> None:
        super().__init__()

    def construct(self, logits: TensorLike, label: TensorLike, input_mask: TensorLike) -> Any:
        losses = ops.cross_entropy(ops.cast(logits, float32), ops.reshape(label, (-1,)), reduction="none")
        mask = ops.cast(ops.reshape(input_mask, (-1,)), float32)
        return ops.sum(losses * mask) / (ops.sum(mask) + 1e-5)


class _Linear(Cell):
    """x @ weight + bias and an activation, for x (..., in_channels) and a weight (in_channels, out_channels)."""

    def __init__(
        self, in_channels: int, out_channels: int, activation: str | Cell | None = None, dtype: DTypeLike = float32
    ) -> None:
        super().__init__()
        self.weight = Parameter(initializer("normal", [in_channels, out_channels], dtype), name="weight")
        self.bias = Parameter(initializer("zeros", [out_channels], dtype), name="bias")
        self.activation = nn.get_activation(activation) if isinstance(activation, str) else activation

    def construct(self, x: Tensor) -> Any:
        result = ops.matmul(x, ops.cast(self.weight, x.dtype)) + ops.cast(self.bias, x.dtype)
        return result if self.activation is None else self.activation(result)


class FeedForward(Cell):
    """Two linear layers with an activation between them and dropout after them: (..., hidden_size) as the input.

    Raises GraphTypeError for more than one expert, and the errors of its layers.
    """

    def __init__(
        self, hidden_size: int, ffn_hidden_size: int, dropout_rate: float, hidden_act: str | Cell | None = "gelu",
        expert_num: int = 1, expert_group_size: int | None = None, param_init_type: DTypeLike = float32,
        parallel_config: object = default_dpmp_config,
    ) -> None:  # fmt: skip
        super().__init__()
        if expert_num != 1:
            raise GraphTypeError(f"FeedForward has one expert here, not {expert_num!r}.")
        self.mapping = _Linear(hidden_size, ffn_hidden_size, hidden_act, param_init_type)
        self.projection = _Linear(ffn_hidden_size, hidden_size, dtype=param_init_type)
        self.dropout = nn.Dropout(p=dropout_rate)

    def construct(self, x: TensorLike) -> Any:
        return self.dropout(self.projection(self.mapping(x)))
