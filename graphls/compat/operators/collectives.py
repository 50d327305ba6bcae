"""Functions of communication with MindSpore's names; on one rank, each returns its argument."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from graphls import ops
from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.distributed import communication
from graphls.distributed.communication import (
    GlobalComm,
    get_group_rank_from_world_rank,
    get_process_group_ranks,
    get_world_rank_from_group_rank,
)
from graphls.distributed.world import find_ranks
from graphls.frontend.tensors.tensor import Tensor, TensorLike, is_tensor
from graphls.ir.types import DTypeLike, Type, as_dtype
from graphls.ops.collectives import (
    all_gathered,
    all_reduced,
    broadcasted,
    exchanged,
    exchanged_pieces,
    reduce_scattered,
    reduced_to,
    require_one_result,
    wait_for_ranks,
)
from graphls.ops.operands import tensor_of

AllReduce, AllGather, ReduceScatter, Reduce = ops.AllReduce, ops.AllGather, ops.ReduceScatter, ops.Reduce
Broadcast, Barrier, AlltoAll, NeighborExchange = ops.Broadcast, ops.Barrier, ops.AlltoAll, ops.NeighborExchange
AlltoAllV, AlltoAllVC = ops.AlltoAllV, ops.AlltoAllVC

__all__ = [
    "AllGather", "AllReduce", "AlltoAll", "AlltoAllV", "AlltoAllVC", "Barrier", "Broadcast", "NeighborExchange",
    "P2POp", "Reduce", "ReduceOp", "ReduceScatter", "all_gather_into_tensor", "all_reduce",
    "all_to_all_single_with_output_shape", "all_to_all_with_output_shape", "barrier", "batch_isend_irecv", "broadcast",
    "gather_into_tensor", "get_group_rank_from_world_rank", "get_group_size", "get_process_group_ranks", "get_rank",
    "get_world_rank_from_group_rank", "irecv", "isend", "recv", "reduce", "reduce_scatter_tensor",
    "scatter_tensor", "send",
]  # fmt: skip


def get_rank(group: str | None = None) -> int:
    """The number of this process in the group; 0 before `init`, as in MindSpore."""
    return communication.get_rank(group) if GlobalComm.INITED else 0


def get_group_size(group: str | None = None) -> int:
    """The number of ranks in the group; 1 before `init`, as in MindSpore."""
    return communication.get_group_size(group) if GlobalComm.INITED else 1


class ReduceOp:
    """The reductions of tensors over ranks."""

    SUM, MAX, MIN, PROD = "sum", "max", "min", "prod"


class _Done:
    """The handle of a completed communication."""

    def wait(self) -> None:
        """Does nothing."""


def _handle(async_op: bool) -> _Done | None:
    return _Done() if async_op else None


def all_reduce(
    tensor: TensorLike, op: str = "sum", group: str | None = None, async_op: bool = False
) -> tuple[Tensor, Any]:
    """The reduced tensors of all ranks, and a handle if `async_op` is set, else None."""
    return all_reduced([tensor], op, group)[0], _handle(async_op)


def all_gather_into_tensor(tensor: TensorLike, group: str | None = None, async_op: bool = False) -> tuple[Tensor, Any]:
    """The tensors of all ranks along the first axis, and a handle if `async_op` is set, else None."""
    return all_gathered(tensor, group), _handle(async_op)


def reduce_scatter_tensor(
    tensor: TensorLike, op: str = "sum", group: str | None = None, async_op: bool = False
) -> tuple[Tensor, Any]:
    """This rank's part of the reduced tensors of all ranks, and a handle if `async_op` is set, else None."""
    return reduce_scattered(tensor, op, group), _handle(async_op)


def broadcast(tensor: TensorLike, src: int = 0, group: str | None = None) -> Tensor:
    """The tensor of the rank `src`, a number among all ranks."""
    return broadcasted([tensor], _in_group(src, group), group)[0]


def reduce(tensor: TensorLike, dst: int, op: str = "sum", group: str | None = None) -> Tensor:
    """The reduced tensors of all ranks, on the rank `dst`; for a sum, the others get zeros."""
    return reduced_to(tensor, _in_group(dst, group), op, group)


def gather_into_tensor(tensor: TensorLike, dst: int = 0, group: str | None = None) -> Tensor:
    """The tensors of all ranks along the first axis, on the rank `dst` and the others."""
    _in_group(dst, group)
    return all_gathered(tensor, group)


def scatter_tensor(tensor: TensorLike, src: int = 0, group: str | None = None) -> Tensor:
    """This rank's part, along the first axis, of the tensor of the rank `src`.

    Raises GraphValueError for rows that do not divide into equal parts.
    """
    ranks, full = find_ranks(group), broadcast(tensor, src, group)
    require_one_result("scatter_tensor", ranks)
    rows, rest = divmod(full.shape[0], ranks.size)
    if rest:
        text = f"scatter_tensor divides the first axis among {ranks.size} ranks"
        raise GraphValueError(f"{text}, and {full.shape[0]} rows have no equal parts; pad them.")
    return full[ranks.rank * rows : (ranks.rank + 1) * rows]


def all_to_all_with_output_shape(
    output_shape_list: Sequence[Any], input_tensor_list: Sequence[TensorLike], group: str | None = None,
    async_op: bool = False,
) -> tuple[tuple[Tensor, ...], Any]:  # fmt: skip
    """Sends one tensor to each rank; returns those received, of these shapes, and a handle as of `all_reduce`."""
    tensors = list(map(tensor_of, input_tensor_list))
    shapes = [tuple(getattr(item, "shape", item)) for item in output_shape_list]
    ranks = range(find_ranks(group).size)
    kinds = [Type(tensors[0].dtype, shape) for shape in shapes]
    return tuple(exchanged(tensors, ranks, ranks, kinds, group)), _handle(async_op)


def all_to_all_single_with_output_shape(
    output_shape: Any, tensor: TensorLike, output_split_sizes: Sequence[int] | None = None,
    input_split_sizes: Sequence[int] | None = None, group: str | None = None, async_op: bool = False,
) -> tuple[Tensor, Any]:  # fmt: skip
    """Sends rows of a tensor to each rank; returns those received, in this shape, and a handle as of `all_reduce`.

    `input_split_sizes` are the rows for each rank, `output_split_sizes` those from each; by default, equal parts.
    Raises GraphValueError for rows that do not divide into equal parts, or that do not match the sizes.
    """
    source, shape = tensor_of(tensor), tuple(getattr(output_shape, "shape", output_shape))
    ranks = find_ranks(group).size
    sends = _split_sizes(input_split_sizes, source.shape, ranks)
    receives = _split_sizes(output_split_sizes, shape, ranks)
    result = exchanged_pieces(source.reshape((-1,)), sends, receives, group)
    return (result.reshape(shape) if sum(receives) else result), _handle(async_op)


def _split_sizes(sizes: Sequence[int] | None, shape: tuple[int, ...], ranks: int) -> list[int]:
    """The number of elements of each rank in an array of this shape; `sizes` are rows."""
    row = prod(shape[1:])
    if sizes:
        return [size * row for size in sizes]
    if shape[0] % ranks:
        raise GraphValueError(f"{shape[0]} rows do not divide equally among {ranks} ranks; give the number of each.")
    return [shape[0] // ranks * row] * ranks


def send(tensor: TensorLike, dst: int = 0, group: str | None = None, tag: int = 0) -> None:
    """Send a tensor to the rank `dst`, which calls `recv` for it; has no gradient."""
    exchanged([tensor], [_in_group(dst, group)], [], [], group, tag)


def recv(tensor: TensorLike, src: int = 0, group: str | None = None, tag: int = 0) -> Tensor:
    """The tensor that the rank `src` sends, of the type of this one."""
    return exchanged([], [], [_in_group(src, group)], [tensor_of(tensor).type], group, tag)[0]


def isend(tensor: TensorLike, dst: int = 0, group: str | None = None, tag: int = 0) -> Any:
    """As `send`; returns a completed handle."""
    send(tensor, dst, group, tag)
    return _Done()


def irecv(tensor: TensorLike, src: int = 0, group: str | None = None, tag: int = 0) -> tuple[Tensor, Any]:
    """As `recv`; with a completed handle."""
    return recv(tensor, src, group, tag), _Done()


class P2POp:
    """A tensor that is sent to the rank `peer`, or received from it, by `batch_isend_irecv`.

    `op` is "isend" or "irecv", or the function; a received tensor has the type of `tensor`, or this shape and
    `recv_dtype`. Raises GraphValueError for another `op` and another `tag` than 0, GraphTypeError for an argument that
    is no tensor, shape or rank.
    """

    def __init__(
        self, op: str | Callable[..., object], tensor: TensorLike | tuple[int, ...], peer: int,
        group: str | None = None, tag: int = 0, *, recv_dtype: DTypeLike | None = None,
    ) -> None:  # fmt: skip
        self.op, self.tensor, self.peer, self.group, self.tag = op, tensor, peer, group, tag
        self.recv_dtype = recv_dtype
        self.name = op if isinstance(op, str) else getattr(op, "__name__", str(op))
        if self.name not in ("isend", "irecv"):
            raise GraphValueError(f"The op of a P2POp is 'isend' or 'irecv', not {self.name!r}.")
        if tag != 0:
            raise GraphValueError(f"The tag of a P2POp is 0, not {tag!r}; its order tells what belongs together.")
        if type(peer) is not int:
            raise GraphTypeError(f"The peer of a P2POp is the number of a rank, not {peer!r}.")
        if not is_tensor(tensor) and not isinstance(tensor, tuple):
            raise GraphTypeError(f"A P2POp has a tensor or, to receive, a shape, not {tensor!r}.")
        if isinstance(tensor, tuple) and (self.name == "isend" or recv_dtype is None):
            raise GraphValueError("A P2POp with a shape receives, and has a recv_dtype.")

    def type(self) -> Type:
        """The type of the received tensor."""
        if isinstance(self.tensor, tuple):
            return Type(as_dtype(self.recv_dtype), self.tensor)
        return tensor_of(self.tensor).type


def batch_isend_irecv(p2p_op_list: list[P2POp]) -> tuple[Tensor, ...]:
    """The received tensor of each P2POp of a list, which run at the same time; zeros for those that send.

    Raises GraphTypeError for an empty list, or one with other elements, GraphValueError for several groups.
    """
    if not isinstance(p2p_op_list, list) or not p2p_op_list or not all(isinstance(op, P2POp) for op in p2p_op_list):
        raise GraphTypeError(f"batch_isend_irecv takes a list of P2POp, not {p2p_op_list!r}.")
    group = p2p_op_list[0].group
    if any(op.group != group for op in p2p_op_list):
        raise GraphValueError("All of one batch_isend_irecv have one group; use one for each group.")
    sends = [op for op in p2p_op_list if op.name == "isend"]
    receives = [op for op in p2p_op_list if op.name == "irecv"]
    targets, sources = ([_in_group(op.peer, group) for op in ops] for ops in (sends, receives))
    kinds = [op.type() for op in receives]
    received = iter(exchanged([op.tensor for op in sends], targets, sources, kinds, group))
    return tuple(next(received) if op.name == "irecv" else Tensor(0.0) for op in p2p_op_list)


def _in_group(rank: int, group: str | None) -> int:
    """The number of a rank in a group; raises GraphValueError if the group does not have it."""
    members = find_ranks(group).members
    if rank not in members:
        raise GraphValueError(f"Rank {rank} is none of the group {group!r}, which has {list(members)}.")
    return members.index(rank)


def barrier(group: str | None = None) -> None:
    """Wait until all ranks have reached the barrier."""
    wait_for_ranks(group)
