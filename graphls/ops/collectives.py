"""What the ranks of a group do together with tensors; of a group of one rank, each gives what it takes."""

from __future__ import annotations

from collections.abc import Sequence

from graphls.ir.registry import lookup
from graphls.ops.operands import tensor_of
from graphls.ranks.world import find_group
from graphls.tensors.tensor import Symbol, Tensor, TensorLike
from graphls.trace.current import current_tracer


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
