"""Functions of communication, by MindSpore's names; of one rank, each gives what it takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphls import ops
from graphls.communication import (
    get_group_rank_from_world_rank,
    get_process_group_ranks,
    get_world_rank_from_group_rank,
)
from graphls.ir.errors import GraphValueError
from graphls.ir.types import Type
from graphls.ops.collectives import (
    all_gathered,
    all_reduced,
    broadcasted,
    exchanged,
    reduce_scattered,
    reduced_to,
    waited,
)
from graphls.ops.operands import tensor_of
from graphls.ranks.world import find_group
from graphls.tensors.tensor import Tensor, TensorLike

AllReduce, AllGather, ReduceScatter, Reduce = ops.AllReduce, ops.AllGather, ops.ReduceScatter, ops.Reduce
Broadcast, Barrier, AlltoAll, NeighborExchange = ops.Broadcast, ops.Barrier, ops.AlltoAll, ops.NeighborExchange

__all__ = [
    "AllGather",
    "AllReduce",
    "AlltoAll",
    "Barrier",
    "Broadcast",
    "NeighborExchange",
    "Reduce",
    "ReduceOp",
    "ReduceScatter",
    "all_gather_into_tensor",
    "all_reduce",
    "all_to_all_with_output_shape",
    "barrier",
    "broadcast",
    "gather_into_tensor",
    "get_group_rank_from_world_rank",
    "get_process_group_ranks",
    "get_world_rank_from_group_rank",
    "irecv",
    "isend",
    "recv",
    "reduce",
    "reduce_scatter_tensor",
    "scatter_tensor",
    "send",
]


class ReduceOp:
    """How ranks put their tensors together."""

    SUM, MAX, MIN, PROD = "sum", "max", "min", "prod"


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
    """The tensor of the rank `src`, which is counted among all ranks."""
    return broadcasted([tensor], _in_group(src, group), group)[0]


def reduce(tensor: TensorLike, dst: int, op: str = "sum", group: str | None = None) -> Tensor:
    """The tensors of all ranks put together, on the rank `dst`; of a sum, the others have zeros."""
    return reduced_to(tensor, _in_group(dst, group), op, group)


def gather_into_tensor(tensor: TensorLike, dst: int = 0, group: str | None = None) -> Tensor:
    """The tensors of all ranks along the first axis, on the rank `dst` and the others."""
    _in_group(dst, group)
    return all_gathered(tensor, group)


def scatter_tensor(tensor: TensorLike, src: int = 0, group: str | None = None) -> Tensor:
    """This rank's part, along the first axis, of the tensor of the rank `src`.

    Raises GraphValueError where there are no equal parts.
    """
    found, whole = find_group(group), broadcast(tensor, src, group)
    rows, rest = divmod(whole.shape[0], found.size)
    if rest:
        text = f"scatter_tensor divides the first axis among {found.size} ranks"
        raise GraphValueError(f"{text}, and {whole.shape[0]} rows are no equal parts; pad them.")
    return whole[found.rank * rows : (found.rank + 1) * rows]


def all_to_all_with_output_shape(
    output_shape_list: Sequence[Any],
    input_tensor_list: Sequence[TensorLike],
    group: str | None = None,
    async_op: bool = False,
) -> tuple[tuple[Tensor, ...], Any]:
    """One tensor to each rank, those that come from them, of these shapes, and a handle as of `all_reduce`."""
    tensors = list(map(tensor_of, input_tensor_list))
    shapes = [tuple(getattr(item, "shape", item)) for item in output_shape_list]
    ranks = range(find_group(group).size)
    kinds = [Type(tensors[0].dtype, shape) for shape in shapes]
    return tuple(exchanged(tensors, ranks, ranks, kinds, group)), _handle(async_op)


def send(tensor: TensorLike, dst: int = 0, group: str | None = None, tag: int = 0) -> None:
    """Give a tensor to the rank `dst`, which calls `recv` for it; has no gradient."""
    exchanged([tensor], [_in_group(dst, group)], [], [], group, tag)


def recv(tensor: TensorLike, src: int = 0, group: str | None = None, tag: int = 0) -> Tensor:
    """What the rank `src` sends: a tensor like this one."""
    return exchanged([], [], [_in_group(src, group)], [tensor_of(tensor).type], group, tag)[0]


def isend(tensor: TensorLike, dst: int = 0, group: str | None = None, tag: int = 0) -> Any:
    """As `send`; a handle of what is done."""
    send(tensor, dst, group, tag)
    return _Done()


def irecv(tensor: TensorLike, src: int = 0, group: str | None = None, tag: int = 0) -> tuple[Tensor, Any]:
    """As `recv`; with a handle of what is done."""
    return recv(tensor, src, group, tag), _Done()


def _in_group(rank: int, group: str | None) -> int:
    """The number in a group of one of all ranks; raises GraphValueError where the group does not have it."""
    members = find_group(group).members
    if rank not in members:
        raise GraphValueError(f"Rank {rank} is none of the group {group!r}, which has {list(members)}.")
    return members.index(rank)


def barrier(group: str | None = None) -> None:
    """Wait until all ranks are here."""
    waited(group)
