"""Operators and functions of communication: of one rank, each gives what it takes."""

from __future__ import annotations

from typing import Any

from graphls.communication import get_rank
from graphls.ops.primitive import Operator
from graphls.ops.state import identity
from graphls.tensors.tensor import Tensor, TensorLike

__all__ = [
    "AllGather",
    "AllReduce",
    "AlltoAll",
    "Barrier",
    "Broadcast",
    "ReduceOp",
    "ReduceScatter",
    "all_gather_into_tensor",
    "all_reduce",
    "barrier",
    "broadcast",
    "get_group_rank_from_world_rank",
    "get_process_group_ranks",
    "get_world_rank_from_group_rank",
    "reduce_scatter_tensor",
]


class ReduceOp:
    """How ranks put their tensors together."""

    SUM, MAX, MIN, PROD = "sum", "max", "min", "prod"


class _OfOneRank(Operator):
    """An operator whose settings, given by position, have these names."""

    names: tuple[str, ...] = ("op", "group")

    def __init__(self, *args: object, **options: object) -> None:
        self.settings = {**dict(zip(self.names, args, strict=False)), **options}
        self.__dict__.update(self.settings)

    def __call__(self, input_x: Tensor) -> Any:
        return identity(input_x)


class AllReduce(_OfOneRank):
    """`AllReduce(op, group)(x)`: x itself."""


class AllGather(_OfOneRank):
    """`AllGather(group)(x)`: x itself."""

    names = ("group",)


class ReduceScatter(_OfOneRank):
    """`ReduceScatter(op, group)(x)`: x itself."""


class Broadcast(_OfOneRank):
    """`Broadcast(root_rank, group)((x, ...))`: the tuple itself."""

    names = ("root_rank", "group")


class AlltoAll(_OfOneRank):
    """`AlltoAll(split_count, split_dim, concat_dim, group)(x)`: x itself."""

    names = ("split_count", "split_dim", "concat_dim", "group")


class Barrier(_OfOneRank):
    """`Barrier(group)()`: nothing to wait for."""

    names = ("group",)

    def __call__(self, *inputs: object) -> Any:
        return Tensor(0)


class _Done:
    """The handle of a communication that is done."""

    def wait(self) -> None:
        """Nothing to wait for."""


def all_reduce(
    tensor: TensorLike, op: str = "sum", group: str | None = None, async_op: bool = False
) -> tuple[Any, Any]:
    """The tensor itself, and a handle where `async_op` is set, else None."""
    return identity(tensor), _Done() if async_op else None


def all_gather_into_tensor(
    tensor: TensorLike, group: str | None = None, async_op: bool = False
) -> tuple[Any, Any]:
    """The tensor itself, and a handle where `async_op` is set, else None."""
    return all_reduce(tensor, group=group, async_op=async_op)


reduce_scatter_tensor = all_reduce


def broadcast(tensor: TensorLike, src: int = 0, group: str | None = None) -> Any:
    """The tensor itself."""
    return identity(tensor)


def barrier(group: str | None = None) -> None:
    """Nothing to wait for."""


def get_world_rank_from_group_rank(group: str, group_rank_id: int) -> int:
    """The number of a rank among all: 0."""
    return get_rank(group)


def get_group_rank_from_world_rank(world_rank_id: int, group: str) -> int:
    """The number of a rank in a group: 0."""
    return get_rank(group)


def get_process_group_ranks(group: str | None = None) -> list[int]:
    """The numbers of the ranks in a group: that of the only one."""
    return [get_rank(group)]
