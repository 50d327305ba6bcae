"""Collective operations on tensors; in a group of one rank, each returns its operand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from graphls.base.errors import GraphRuntimeError, GraphValueError
from graphls.distributed.peers import require_no_mesh
from graphls.distributed.world import Group, find_ranks
from graphls.frontend.tensors.tensor import Symbol, Tensor, TensorLike
from graphls.frontend.trace.tracer import current_tracer
from graphls.ir.registry import lookup
from graphls.ir.types import DTypeLike, Type, as_dtype
from graphls.ops.arrays.shapes import concat, split
from graphls.ops.math.elementwise import mul, pow, where
from graphls.ops.operands import tensor_of
from graphls.ops.record import operator_class


def all_reduced(
    tensors: Sequence[TensorLike], op: str = "sum", group: str | None = None, bucket: tuple[int, ...] = ()
) -> list[Tensor]:
    """Tensors of one dtype, reduced elementwise over all ranks in one communication.

    `op` is "sum", "max", "min" or "prod". 16-bit floats are added in float32. Tensors of a step with the same
    `bucket`, a number above 0 and the size of a bucket in bytes, are sent together. Raises GraphTypeError for bools
    and for several dtypes, GraphValueError for another op and for an unknown group.
    """
    settings = {"op": op, "bucket": bucket} if bucket else {"op": op}
    return _collective("all_reduce", tensors, group, **settings)


def all_reduced_where(
    flag: TensorLike, tensors: Sequence[TensorLike], op: str = "sum", group: str | None = None
) -> list[Tensor]:
    """Tensors of one dtype, reduced elementwise over all ranks where `flag` is true; else each rank keeps its own.

    The flag, a bool of shape (), is the same on all ranks; where it is false they do not communicate. Raises as
    `all_reduced`, and GraphTypeError for another flag.
    """
    return _collective("all_reduce_where", [flag, *tensors], group, op=op)[-len(tensors) :]


def all_gathered(tensor: TensorLike, group: str | None = None) -> Tensor:
    """The tensors of all ranks, concatenated along the first axis; raises GraphTypeError for a tensor without axes."""
    return _collective("all_gather", [tensor], group)[0]


def reduce_scattered(tensor: TensorLike, op: str = "sum", group: str | None = None) -> Tensor:
    """This rank's part, along the first axis, of the elementwise reduction over all ranks.

    Raises GraphTypeError for a tensor without axes, GraphValueError for rows that do not divide into equal parts.
    """
    return _collective("reduce_scatter", [tensor], group, op=op)[0]


def broadcasted(tensors: Sequence[TensorLike], root: int = 0, group: str | None = None) -> list[Tensor]:
    """The tensors of the rank `root` of the group; raises GraphValueError where the group has no such rank."""
    return _collective("broadcast", tensors, group, root=root)


def exchanged_parts(tensor: TensorLike, group: str | None = None) -> Tensor:
    """Sends a part along the first axis to each rank; returns the parts that all ranks send to this one.

    Raises GraphTypeError for a tensor without axes, GraphValueError for rows that do not divide into equal parts.
    """
    return _collective("all_to_all", [tensor], group)[0]


def exchanged(
    tensors: Sequence[TensorLike], send: Sequence[int], receive: Sequence[int], results: Sequence[Type],
    group: str | None = None, tag: int = 0,
) -> list[Tensor]:  # fmt: skip
    """Sends one tensor to each rank of `send`; returns those received from the ranks `receive`, of these types.

    Each rank has its own lists, and each send matches a receive. Raises GraphValueError for unknown ranks, and unless
    there is one tensor or type for each rank.
    """
    kinds = tuple(map(str, results))
    ranks = {"send": tuple(send), "receive": tuple(receive)}
    return _collective("neighbor_exchange", tensors, group, **ranks, results=kinds, tag=tag)


def wait_for_ranks(group: str | None = None) -> Tensor:
    """Waits for all ranks of a group; returns a zero."""
    return _collective("barrier", [], group)[0] if find_ranks(group).comm is not None else Tensor(0)


def _collective(name: str, tensors: Sequence[TensorLike], group: str | None, **settings: object) -> list[Tensor]:
    require_no_mesh(name)
    communicator = find_ranks(group)
    operands = list(map(tensor_of, tensors))
    attrs = {**settings, "group": communicator.name, "ranks": communicator.size}
    primitive = lookup(name)
    types = primitive.result_types(tuple(tensor.type for tensor in operands), attrs)
    if communicator.size == 1:
        return operands
    if communicator.comm is None:
        return _of_devices(name, operands, communicator, settings)
    tracer = current_tracer()
    if tracer is not None:
        outputs = tracer.emit(primitive, [tracer.value(tensor) for tensor in operands], attrs)
        return [Symbol(value) for value in outputs[1:]]
    arrays = primitive.evaluate(tuple(tensor.asnumpy() for tensor in operands), attrs, types)
    return [Tensor.on_host(array, kind) for array, kind in zip(arrays[1:], types[1:], strict=True)]


def _of_devices(name: str, tensors: list[Tensor], ranks: Group, settings: Mapping[str, object]) -> list[Tensor]:
    """The results where this process drives the devices of all ranks, each of which has its tensors.

    Raises GraphRuntimeError for what gives each rank another result.
    """
    if name not in SAME_FOR_ALL:
        require_one_result(name, ranks)
    if name == "all_gather":
        return [concat(tensors * ranks.size, 0)]
    flags, own = (tensors[:1], tensors[1:]) if name == "all_reduce_where" else ([], tensors)
    op = settings.get("op", "sum" if name == "reduce_to" else "max")
    results = [mul(x, ranks.size) if op == "sum" else pow(x, ranks.size) if op == "prod" else x for x in own]
    if name == "reduce_to" and settings["root"] != ranks.rank:
        results = [mul(x, 0) for x in own]
    return [*flags, *(where(flag, new, x) for flag in flags for new, x in zip(results, own, strict=True))] or results


SAME_FOR_ALL = ("all_reduce", "all_reduce_where", "all_gather", "broadcast", "reduce_to", "barrier")
"""Collectives whose result is the same on all ranks that have the same tensors."""


def require_one_result(name: str, ranks: Group) -> None:
    """Raise GraphRuntimeError where one process drives the devices of all ranks, each of which has a result of its own.
    """
    if ranks.comm is None and ranks.size > 1:
        text = f"{name} gives each rank a result of its own, and this process has one for all of its {ranks.size} ranks"
        raise GraphRuntimeError(f"{text}; divide complete tensors by strategies or ops.shard, see docs/parallel.md.")


@operator_class("AllReduce", "op group")
def _all_reduce(input_x: TensorLike, op: str = "sum", group: str | None = None) -> Tensor:
    """The elementwise reduction over all ranks of a group by `op`: "sum", "max", "min" or "prod".

    If one process drives several devices, each counts as a rank with this tensor.
    """
    return all_reduced([input_x], op, group)[0]


@operator_class("AllGather", "group")
def _all_gather(input_x: TensorLike, group: str | None = None) -> Tensor:
    """The tensors of all ranks of a group, concatenated along the first axis.

    If one process drives several devices, each counts as a rank with this tensor.
    """
    return all_gathered(input_x, group)


@operator_class("ReduceScatter", "op group")
def _reduce_scatter(input_x: TensorLike, op: str = "sum", group: str | None = None) -> Tensor:
    """This rank's part, along the first axis, of the elementwise reduction over all ranks by `op`."""
    return reduce_scattered(input_x, op, group)


@operator_class("Broadcast", "root_rank group")
def _broadcast(input_x: Sequence[TensorLike], root_rank: int = 0, group: str | None = None) -> tuple[Tensor, ...]:
    """The tuple of tensors of the rank `root_rank`."""
    return tuple(broadcasted(input_x, root_rank, group))


@operator_class("Reduce", "dest_rank op group")
def reduced_to(input_x: TensorLike, dest_rank: int, op: str = "sum", group: str | None = None) -> Tensor:
    """The elementwise reduction over all ranks, on the rank `dest_rank`; the others get zeros where `op` is "sum"."""
    if op == "sum":
        return _collective("reduce_to", [input_x], group, root=dest_rank)[0]
    return all_reduced([input_x], op, group)[0]


@operator_class("AlltoAll", "split_count split_dim concat_dim group")
def _all_to_all(
    input_x: TensorLike, split_count: int = 1, split_dim: int = 0, concat_dim: int = 0, group: str | None = None
) -> Tensor:
    """Sends a part along `split_dim` to each rank; the parts received from all ranks, joined along `concat_dim`.

    `split_count` is the number of ranks; raises GraphValueError for another, and for an axis that it does not divide.
    """
    ranks, x = find_ranks(group).size, tensor_of(input_x)
    if ranks == 1:
        return x
    if split_count != ranks or x.shape[split_dim] % ranks:
        text = f"AlltoAll divides an axis of {x.shape[split_dim]} in {split_count} parts for {ranks} ranks"
        raise GraphValueError(f"{text}; there is one equal part for each.")
    own = concat(split(x, x.shape[split_dim] // ranks, split_dim), 0)
    received = exchanged_parts(own, group)
    return concat(split(received, received.shape[0] // ranks, 0), concat_dim)


@operator_class("AlltoAllV", "group block_size")
def exchanged_pieces(
    input_x: TensorLike, send_numel_list: Sequence[int] | TensorLike, recv_numel_list: Sequence[int] | TensorLike,
    group: str | None = None, block_size: int = 1,
) -> Tensor:  # fmt: skip
    """Sends consecutive elements of a vector to each rank; those received from all ranks, one after the other.

    The lists have a number of elements for each rank, in units of `block_size`. A rank that receives nothing returns
    a zero. Raises GraphValueError unless there is one number for each rank and they sum to the size of the vector.
    """
    x, ranks = tensor_of(input_x), find_ranks(group).size
    sizes, expected = (_sizes(numbers, block_size) for numbers in (send_numel_list, recv_numel_list))
    if len(sizes) != ranks or len(expected) != ranks or x.ndim != 1 or sum(sizes) != x.shape[0]:
        text = f"AlltoAllV sends {sizes} elements of a tensor of the shape {x.shape} to {ranks} ranks, and receives"
        raise GraphValueError(f"{text} {expected}; give a number for each rank, which make up a vector.")
    send, receive = ([rank for rank in range(ranks) if numbers[rank]] for numbers in (sizes, expected))
    starts = [sum(sizes[:rank]) for rank in send]
    pieces = [x[start : start + sizes[rank]] for start, rank in zip(starts, send, strict=True)]
    kinds = [Type(x.dtype, (expected[rank],)) for rank in receive]
    received = exchanged(pieces, send, receive, kinds, group)
    return concat(received, 0) if received else tensor_of(0.0).astype(x.dtype)


def _sizes(numbers: Sequence[int] | TensorLike, block: int) -> list[int]:
    counts = numbers if isinstance(numbers, (list, tuple)) else tensor_of(numbers).asnumpy().ravel().tolist()
    return [int(number) * block for number in counts]


@operator_class("AlltoAllVC", "group block_size transpose")
def _exchanged_by_matrix(
    input_x: TensorLike, send_count_matrix: Sequence[int] | TensorLike, group: str | None = None, block_size: int = 1,
    transpose: bool = False,
) -> Tensor:  # fmt: skip
    """As AlltoAllV, with the numbers of all ranks: rank i sends by row i of the matrix, with `transpose` by column i.

    Raises GraphValueError where the numbers are not such a matrix, or do not sum to the size of the vector.
    """
    communicator = find_ranks(group)
    numbers = _sizes(send_count_matrix, 1)
    if len(numbers) != communicator.size**2:
        text = f"The send_count_matrix has {communicator.size} numbers for each of {communicator.size} ranks"
        raise GraphValueError(f"{text}, not {len(numbers)} in all.")
    row = numbers[communicator.rank * communicator.size : (communicator.rank + 1) * communicator.size]
    column = numbers[communicator.rank :: communicator.size]
    sends, receives = (column, row) if transpose else (row, column)
    return exchanged_pieces(input_x, sends, receives, group, block_size)


@operator_class("NeighborExchange", "send_rank_ids recv_rank_ids recv_shapes send_shapes recv_type group")
def _neighbor_exchange(
    input_x: Sequence[TensorLike], send_rank_ids: Sequence[int], recv_rank_ids: Sequence[int],
    recv_shapes: Sequence[Sequence[int]], send_shapes: Sequence[Sequence[int]], recv_type: DTypeLike,
    group: str | None = None,
) -> tuple[Tensor, ...]:  # fmt: skip
    """Sends one tensor to each of some ranks; those received from others, of these shapes and this dtype.

    Raises GraphValueError where tensors have other shapes than `send_shapes`.
    """
    tensors, shapes = list(map(tensor_of, input_x)), [tuple(shape) for shape in send_shapes]
    if [tensor.shape for tensor in tensors] != shapes:
        text = f"NeighborExchange sends tensors of the shapes {shapes}, not {[tensor.shape for tensor in tensors]}"
        raise GraphValueError(f"{text}.")
    kinds = [Type(as_dtype(recv_type), tuple(shape)) for shape in recv_shapes]
    return tuple(exchanged(tensors, send_rank_ids, recv_rank_ids, kinds, group))


@operator_class("Barrier", "group")
def _barrier(group: str | None = None) -> Tensor:
    """Waits for all ranks of a group; returns a zero."""
    return wait_for_ranks(group)
