"""What the ranks of a group do together with tensors; of a group of one rank, each gives what it takes."""

from __future__ import annotations

from collections.abc import Sequence

from graphls.base.errors import GraphValueError
from graphls.distributed.world import find_group
from graphls.frontend.tensors.tensor import Symbol, Tensor, TensorLike
from graphls.frontend.trace.tracer import current_tracer
from graphls.ir.registry import lookup
from graphls.ir.types import DTypeLike, Type, as_dtype
from graphls.ops.arrays.shapes import concat, split
from graphls.ops.operands import tensor_of
from graphls.ops.record import operator_class


def all_reduced(
    tensors: Sequence[TensorLike], op: str = "sum", group: str | None = None, bucket: tuple[int, ...] = ()
) -> list[Tensor]:
    """Tensors of one dtype, put together with those of all ranks, in one communication.

    `op` is "sum", "max", "min" or "prod". 16-bit floats are added in float32. What has the same `bucket`, a number
    above 0 and how many bytes go together, travels with others of its step. Raises GraphTypeError for tensors that
    are no numbers or of several dtypes, GraphValueError for another op and for a group that there is not.
    """
    settings = {"op": op, "bucket": bucket} if bucket else {"op": op}
    return _together("all_reduce", tensors, group, **settings)


def all_reduced_where(
    flag: TensorLike, tensors: Sequence[TensorLike], op: str = "sum", group: str | None = None
) -> list[Tensor]:
    """Tensors of one dtype, put together with those of all ranks where `flag` is true; else each rank keeps its own.

    The flag, a bool of shape (), is the same on all ranks; where it is false they do not communicate. Raises as
    `all_reduced`, and GraphTypeError for another flag.
    """
    return _together("all_reduce_where", [flag, *tensors], group, op=op)[-len(tensors) :]


def all_gathered(tensor: TensorLike, group: str | None = None) -> Tensor:
    """The tensors of all ranks, one after the other along the first axis; raises GraphTypeError where it has none."""
    return _together("all_gather", [tensor], group)[0]


def reduce_scattered(tensor: TensorLike, op: str = "sum", group: str | None = None) -> Tensor:
    """This rank's part, along the first axis, of the tensors of all ranks put together.

    Raises GraphTypeError for a tensor without axes, GraphValueError for rows that are no equal parts.
    """
    return _together("reduce_scatter", [tensor], group, op=op)[0]


def broadcasted(tensors: Sequence[TensorLike], root: int = 0, group: str | None = None) -> list[Tensor]:
    """The tensors of the rank `root` of the group; raises GraphValueError where the group has none such."""
    return _together("broadcast", tensors, group, root=root)


def exchanged_parts(tensor: TensorLike, group: str | None = None) -> Tensor:
    """The parts, along the first axis, that all ranks have for this one, which gives them its own.

    Raises GraphTypeError for a tensor without axes, GraphValueError for rows that are no equal parts.
    """
    return _together("all_to_all", [tensor], group)[0]


def exchanged(
    tensors: Sequence[TensorLike], send: Sequence[int], receive: Sequence[int], results: Sequence[Type],
    group: str | None = None, tag: int = 0,
) -> list[Tensor]:  # fmt: skip
    """Tensors to some ranks of a group, one to each; what comes from the ranks `receive`, of these types.

    Each rank has lists of its own: what goes to another is what that waits for. Raises GraphValueError for ranks that
    there are not, and for other numbers of tensors or types than of ranks.
    """
    kinds = tuple(map(str, results))
    ranks = {"send": tuple(send), "receive": tuple(receive)}
    return _together("neighbor_exchange", tensors, group, **ranks, results=kinds, tag=tag)


def waited(group: str | None = None) -> Tensor:
    """A zero, which is there when all ranks are here."""
    return _together("barrier", [], group)[0] if find_group(group).size > 1 else Tensor(0)


def _together(name: str, tensors: Sequence[TensorLike], group: str | None, **settings: object) -> list[Tensor]:
    found = find_group(group)
    given = list(map(tensor_of, tensors))
    attrs = {**settings, "group": found.name, "ranks": found.size}
    primitive = lookup(name)
    types = primitive.result_types(tuple(tensor.type for tensor in given), attrs)
    if found.size == 1:
        return given
    tracer = current_tracer()
    if tracer is not None:
        outputs = tracer.emit(primitive, [tracer.value(tensor) for tensor in given], attrs)
        return [Symbol(value) for value in outputs[1:]]
    arrays = primitive.evaluate(tuple(tensor.asnumpy() for tensor in given), attrs, types)
    return [Tensor.on_host(array, kind) for array, kind in zip(arrays[1:], types[1:], strict=True)]


@operator_class("AllReduce", "op group")
def _all_reduce(input_x: TensorLike, op: str = "sum", group: str | None = None) -> Tensor:
    """The tensors of all ranks of a group put together by `op`: "sum", "max", "min" or "prod"."""
    return all_reduced([input_x], op, group)[0]


@operator_class("AllGather", "group")
def _all_gather(input_x: TensorLike, group: str | None = None) -> Tensor:
    """The tensors of all ranks of a group, one after the other along the first axis."""
    return all_gathered(input_x, group)


@operator_class("ReduceScatter", "op group")
def _reduce_scatter(input_x: TensorLike, op: str = "sum", group: str | None = None) -> Tensor:
    """This rank's part, along the first axis, of the tensors of all ranks put together by `op`."""
    return reduce_scattered(input_x, op, group)


@operator_class("Broadcast", "root_rank group")
def _broadcast(input_x: Sequence[TensorLike], root_rank: int = 0, group: str | None = None) -> tuple[Tensor, ...]:
    """The tuple of tensors of the rank `root_rank`."""
    return tuple(broadcasted(input_x, root_rank, group))


@operator_class("Reduce", "dest_rank op group")
def reduced_to(input_x: TensorLike, dest_rank: int, op: str = "sum", group: str | None = None) -> Tensor:
    """The tensors of all ranks put together on the rank `dest_rank`; of a sum, the others have zeros."""
    if op == "sum":
        return _together("reduce_to", [input_x], group, root=dest_rank)[0]
    return all_reduced([input_x], op, group)[0]


@operator_class("AlltoAll", "split_count split_dim concat_dim group")
def _all_to_all(
    input_x: TensorLike, split_count: int = 1, split_dim: int = 0, concat_dim: int = 0, group: str | None = None
) -> Tensor:
    """The parts along `split_dim` that all ranks have for this one, joined along `concat_dim`.

    `split_count` is the number of ranks; raises GraphValueError for another, and for an axis of no equal parts.
    """
    ranks, x = find_group(group).size, tensor_of(input_x)
    if ranks == 1:
        return x
    if split_count != ranks or x.shape[split_dim] % ranks:
        text = f"AlltoAll divides an axis of {x.shape[split_dim]} in {split_count} parts for {ranks} ranks"
        raise GraphValueError(f"{text}; there is one equal part for each.")
    own = concat(split(x, x.shape[split_dim] // ranks, split_dim), 0)
    found = exchanged_parts(own, group)
    return concat(split(found, found.shape[0] // ranks, 0), concat_dim)


@operator_class("AlltoAllV", "group block_size")
def exchanged_pieces(
    input_x: TensorLike, send_numel_list: Sequence[int] | TensorLike, recv_numel_list: Sequence[int] | TensorLike,
    group: str | None = None, block_size: int = 1,
) -> Tensor:  # fmt: skip
    """So many elements of a vector, times `block_size`, to each rank; those that come from them, one after the other.

    A rank to which nothing comes has a zero. Raises GraphValueError where there is not one number for each rank, and
    for numbers that are not those of the elements.
    """
    x, ranks = tensor_of(input_x), find_group(group).size
    sizes, expected = (_sizes(numbers, block_size) for numbers in (send_numel_list, recv_numel_list))
    if len(sizes) != ranks or len(expected) != ranks or x.ndim != 1 or sum(sizes) != x.shape[0]:
        text = f"AlltoAllV sends {sizes} elements of a tensor of the shape {x.shape} to {ranks} ranks, and receives"
        raise GraphValueError(f"{text} {expected}; give a number for each rank, which make up a vector.")
    send, receive = ([rank for rank in range(ranks) if numbers[rank]] for numbers in (sizes, expected))
    starts = [sum(sizes[:rank]) for rank in send]
    pieces = [x[start : start + sizes[rank]] for start, rank in zip(starts, send, strict=True)]
    kinds = [Type(x.dtype, (expected[rank],)) for rank in receive]
    found = exchanged(pieces, send, receive, kinds, group)
    return concat(found, 0) if found else tensor_of(0.0).astype(x.dtype)


def _sizes(numbers: Sequence[int] | TensorLike, block: int) -> list[int]:
    given = numbers if isinstance(numbers, (list, tuple)) else tensor_of(numbers).asnumpy().ravel().tolist()
    return [int(number) * block for number in given]


@operator_class("AlltoAllVC", "group block_size transpose")
def _exchanged_by_matrix(
    input_x: TensorLike, send_count_matrix: Sequence[int] | TensorLike, group: str | None = None, block_size: int = 1,
    transpose: bool = False,
) -> Tensor:  # fmt: skip
    """As AlltoAllV, by the numbers of all ranks: row i of the matrix is what rank i sends, or column i of `transpose`.

    Raises GraphValueError where the numbers are no such matrix, or not those of the elements.
    """
    found = find_group(group)
    numbers = _sizes(send_count_matrix, 1)
    if len(numbers) != found.size**2:
        text = f"The send_count_matrix has {found.size} numbers for each of {found.size} ranks"
        raise GraphValueError(f"{text}, not {len(numbers)} in all.")
    row = numbers[found.rank * found.size : (found.rank + 1) * found.size]
    column = numbers[found.rank :: found.size]
    sends, receives = (column, row) if transpose else (row, column)
    return exchanged_pieces(input_x, sends, receives, group, block_size)


@operator_class("NeighborExchange", "send_rank_ids recv_rank_ids recv_shapes send_shapes recv_type group")
def _neighbor_exchange(
    input_x: Sequence[TensorLike], send_rank_ids: Sequence[int], recv_rank_ids: Sequence[int],
    recv_shapes: Sequence[Sequence[int]], send_shapes: Sequence[Sequence[int]], recv_type: DTypeLike,
    group: str | None = None,
) -> tuple[Tensor, ...]:  # fmt: skip
    """Tensors to some ranks, one to each, and those that come from others, of these shapes and this dtype.

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
    """Waits until all ranks are here; a zero, which is there then."""
    return waited(group)
