"""Operators and functions of communication, by MindSpore's names; of one rank, each gives what it takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from graphls.communication import (
    get_group_rank_from_world_rank,
    get_process_group_ranks,
    get_world_rank_from_group_rank,
)
from graphls.ir.errors import GraphRuntimeError
from graphls.ops.collectives import all_gathered, all_reduced, broadcasted, reduce_scattered, waited
from graphls.ops.primitive import Operator
from graphls.ops.state import identity
from graphls.ranks.world import find_group
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


class _Collective(Operator):
    """An operator whose settings, given by position, have these names and defaults."""

    defaults_by_name: ClassVar[dict[str, Any]] = {"op": "sum", "group": None}
    op: str
    group: str | None
    root_rank: int

    def __init__(self, *args: object, **options: object) -> None:
        given = dict(zip(self.defaults_by_name, args, strict=False))
        self.settings = {**self.defaults_by_name, **given, **options}
        self.__dict__.update(self.settings)


class AllReduce(_Collective):
    """`AllReduce(op, group)(x)`: the tensors of all ranks put together."""

    def __call__(self, input_x: TensorLike) -> Any:
        return all_reduced([input_x], self.op, self.group)[0]


class AllGather(_Collective):
    """`AllGather(group)(x)`: the tensors of all ranks along the first axis."""

    defaults_by_name: ClassVar[dict[str, Any]] = {"group": None}

    def __call__(self, input_x: TensorLike) -> Any:
        return all_gathered(input_x, self.group)


class ReduceScatter(_Collective):
    """`ReduceScatter(op, group)(x)`: this rank's part of the tensors of all ranks put together."""

    def __call__(self, input_x: TensorLike) -> Any:
        return reduce_scattered(input_x, self.op, self.group)


class Broadcast(_Collective):
    """`Broadcast(root_rank, group)((x, ...))`: the tuple of the root."""

    defaults_by_name: ClassVar[dict[str, Any]] = {"root_rank": 0, "group": None}

    def __call__(self, input_x: Sequence[TensorLike]) -> Any:
        return tuple(broadcasted(input_x, self.root_rank, self.group))


class AlltoAll(_Collective):
    """`AlltoAll(split_count, split_dim, concat_dim, group)(x)`: of one rank, x itself; of several it is an error."""

    defaults_by_name: ClassVar[dict[str, Any]] = {"split_count": 1, "split_dim": 0, "concat_dim": 0, "group": None}

    def __call__(self, input_x: TensorLike) -> Any:
        if find_group(self.group).size > 1:
            raise GraphRuntimeError("AlltoAll exchanges nothing between several ranks; use AllGather and slices.")
        return identity(input_x)


class Barrier(_Collective):
    """`Barrier(group)()`: waits until all ranks are here."""

    defaults_by_name: ClassVar[dict[str, Any]] = {"group": None}

    def __call__(self, *inputs: object) -> Any:
        return waited(self.group)


class _Done:
    """The handle of a communication that is done."""

    def wait(self) -> None:
        """Nothing to wait for."""


def _handle(async_op: bool) -> _Done | None:
    return _Done() if async_op else None


def all_reduce(
    tensor: TensorLike, op: str = "sum", group: str | None = None, async_op: bool = False
) -> tuple[Tensor, Any]:
    """The tensors of all ranks put together, and a handle where `async_op` is set, else None."""
    return all_reduced([tensor], op, group)[0], _handle(async_op)


def all_gather_into_tensor(
    tensor: TensorLike, group: str | None = None, async_op: bool = False
) -> tuple[Tensor, Any]:
    """The tensors of all ranks along the first axis, and a handle where `async_op` is set, else None."""
    return all_gathered(tensor, group), _handle(async_op)


def reduce_scatter_tensor(
    tensor: TensorLike, op: str = "sum", group: str | None = None, async_op: bool = False
) -> tuple[Tensor, Any]:
    """This rank's part of the tensors of all ranks put together, and a handle where `async_op` is set, else None."""
    return reduce_scattered(tensor, op, group), _handle(async_op)


def broadcast(tensor: TensorLike, src: int = 0, group: str | None = None) -> Tensor:
    """The tensor of the rank `src`."""
    return broadcasted([tensor], src, group)[0]


def barrier(group: str | None = None) -> None:
    """Wait until all ranks are here."""
    waited(group)
