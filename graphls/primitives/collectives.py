"""Primitives that the ranks of a group run together, all of them in the same order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from graphls.base.errors import GraphRuntimeError, GraphTypeError, GraphValueError
from graphls.distributed import collectives, shards
from graphls.distributed.world import Group, find_group
from graphls.ir.types import TOKEN, Type, bool_, int32, parse_type
from graphls.primitives.emitter import Emitter
from graphls.primitives.host import Effect
from graphls.primitives.primitive import Array, same_dtype


class Collective(Effect, abstract=True):
    """An operation that all ranks of a group run together; its results, after a token, depend on the arrays of all.

    `group` is the name of the group, and `ranks` their number. It runs once in each step, even if its results are
    unused, so that all ranks run the same operations.
    """

    is_collective = True

    def act(self, arrays: tuple[Array, ...], attrs: Mapping[str, Any], types: tuple[Type, ...]) -> tuple[Array, ...]:
        return self.together(self.group(attrs), arrays, attrs)

    def group(self, attrs: Mapping[str, Any]) -> Group:
        """The group that communicates; raises GraphRuntimeError where its size is not that at compile time."""
        group = find_group(attrs["group"])
        if group.size != attrs["ranks"]:
            text = f"This {self.name} was compiled for {attrs['ranks']} ranks, and there are {group.size}"
            raise GraphRuntimeError(f"{text}; compile the step again.")
        return group

    def fill(self, operands: Array, result: Array, attrs: Mapping[str, Any]) -> bool:
        """Communicate from the flat buffer of all operands to that of all results; False where that is unsupported."""
        return False

    def together(self, group: Group, arrays: tuple[Array, ...], attrs: Mapping[str, Any]) -> tuple[Array, ...]:
        """Run the operation on this rank's arrays; returns the results."""
        raise NotImplementedError

    def onnx(self, e: Emitter, *arrays: str, **attrs: Any) -> str:
        raise GraphValueError(f"A model of one process cannot hold {self.name}; save a step without it.")

    def numbers(self, *types: Type) -> None:
        """Raise GraphTypeError for operands that cannot be reduced together."""
        if types and same_dtype(self.name, *types) is bool_:
            raise GraphTypeError(f"{self.name} takes numbers, not {types[0]}; cast it first.")


def _operation(name: str, op: str) -> str:
    if op not in collectives.OPERATIONS:
        known = ", ".join(map(repr, collectives.OPERATIONS))
        raise GraphValueError(f"The op of {name} is one of {known}, not {op!r}.")
    return op


class AllReduce(Collective):
    """The elementwise reduction over all ranks, on all of them: `op` is "sum", "max", "min" or "prod".

    Several operands of one dtype take one communication. The pass `buckets` joins nodes that have a `bucket`: its
    number and its size in bytes.
    """

    fits_its_operands = True

    def infer(self, *types: Type, op: str, group: str, ranks: int, bucket: tuple[int, ...] = ()) -> tuple[Type, ...]:
        _operation(self.name, op)
        self.numbers(*types)
        return (TOKEN, *types)

    def together(self, group: Group, arrays: tuple[Array, ...], attrs: Mapping[str, Any]) -> tuple[Array, ...]:
        return tuple(collectives.all_reduce(group, arrays, attrs["op"]))

    def fill(self, operands: Array, result: Array, attrs: Mapping[str, Any]) -> bool:
        collectives.all_reduce_into(self.group(attrs), operands, result, attrs["op"])
        return True

    def vjp(self, e: Any, g: Any, *values: Any, op: str, group: str, ranks: int, bucket: tuple[int, ...] = ()) -> Any:
        count = len(values) // 2
        inputs, results = values[:count], values[count + 1 :]
        if op == "prod":
            raise GraphTypeError("A product over ranks has no gradient rule; gather the factors and multiply them.")
        _, *totals = e.emit(self, _all_of(e, g[1:], inputs), {"op": "sum", "group": group, "ranks": ranks})
        if op == "sum":
            return tuple(totals)
        kinds = (v.type.dtype for v in inputs)
        equal = (e.cast(e.equal(x, y), dtype=kind) for x, y, kind in zip(inputs, results, kinds, strict=True))
        return tuple(e.mul(total, same) for total, same in zip(totals, equal, strict=True))


class AllReduceWhere(Collective):
    """The elementwise reduction over all ranks by `op` where the first operand is true, else the rank's own arrays.

    That operand is a bool of shape (), the same on all ranks, so that either all of them communicate or none.
    """

    def infer(self, flag: Type, *types: Type, op: str, group: str, ranks: int) -> tuple[Type, ...]:
        _operation(self.name, op)
        if flag != Type(bool_):
            raise GraphTypeError(f"The first operand of {self.name} is a {Type(bool_)}, not {flag}.")
        self.numbers(*types)
        return (TOKEN, *types)

    def together(self, group: Group, arrays: tuple[Array, ...], attrs: Mapping[str, Any]) -> tuple[Array, ...]:
        flag, *own = arrays
        return tuple(collectives.all_reduce(group, own, attrs["op"]) if flag else own)


def _all_of(e: Any, gradients: Any, like: Any) -> list[Any]:
    """The gradients, with zeros in place of None."""
    return [e.constant(0, v.type.dtype, v.type.shape) if g is None else g for g, v in zip(gradients, like, strict=True)]


class AllGather(Collective):
    """The arrays of all ranks, concatenated along the first axis, on all of them."""

    def infer(self, x: Type, *, group: str, ranks: int) -> tuple[Type, ...]:
        _require_axis(self.name, x)
        return TOKEN, x.with_shape((x.shape[0] * ranks, *x.shape[1:]))

    def together(self, group: Group, arrays: tuple[Array, ...], attrs: Mapping[str, Any]) -> tuple[Array, ...]:
        return (collectives.all_gather(group, arrays[0]),)

    def vjp(self, e: Any, g: Any, *values: Any, group: str, ranks: int) -> Any:
        return e.emit("reduce_scatter", g[1:], {"op": "sum", "group": group, "ranks": ranks})[1]


class ReduceScatter(Collective):
    """Each rank's part, along the first axis, of the elementwise reduction over all ranks by `op`."""

    def infer(self, x: Type, *, op: str, group: str, ranks: int) -> tuple[Type, ...]:
        _operation(self.name, op)
        self.numbers(x)
        _require_parts(self.name, x, ranks)
        return TOKEN, x.with_shape((x.shape[0] // ranks, *x.shape[1:]))

    def together(self, group: Group, arrays: tuple[Array, ...], attrs: Mapping[str, Any]) -> tuple[Array, ...]:
        return (collectives.reduce_scatter(group, arrays[0], attrs["op"]),)

    def vjp(self, e: Any, g: Any, *values: Any, op: str, group: str, ranks: int) -> Any:
        if op != "sum":
            raise GraphTypeError(f"reduce_scatter has a gradient rule for op='sum' only, not for {op!r}.")
        return e.emit("all_gather", g[1:], {"group": group, "ranks": ranks})[1]


def _require_axis(name: str, x: Type) -> None:
    if not x.shape:
        raise GraphTypeError(f"{name} works along the first axis, and {x} has none; reshape it to (1,).")


def _require_parts(name: str, x: Type, ranks: int) -> None:
    _require_axis(name, x)
    if x.shape[0] % ranks:
        text = f"{name} divides the first axis among {ranks} ranks, and {x.shape[0]} rows have no equal parts"
        raise GraphValueError(f"{text}; pad them.")


class Broadcast(Collective):
    """The arrays of the rank `root`, on all ranks."""

    def infer(self, *types: Type, root: int, group: str, ranks: int) -> tuple[Type, ...]:
        _require_root(self.name, root, ranks)
        return (TOKEN, *types)

    def together(self, group: Group, arrays: tuple[Array, ...], attrs: Mapping[str, Any]) -> tuple[Array, ...]:
        return tuple(collectives.broadcast(group, arrays, attrs["root"]))

    def vjp(self, e: Any, g: Any, *values: Any, root: int, group: str, ranks: int) -> Any:
        gradients = _all_of(e, g[1:], values[: len(values) // 2])
        attrs = {"root": root, "group": group, "ranks": ranks}
        return tuple(e.emit("reduce_to", (gradient,), attrs)[1] for gradient in gradients)


class ReduceTo(Collective):
    """The sums over all ranks on the rank `root`, and zeros on the others: the gradient of `broadcast`."""

    def infer(self, *types: Type, root: int, group: str, ranks: int) -> tuple[Type, ...]:
        _require_root(self.name, root, ranks)
        self.numbers(*types)
        return (TOKEN, *types)

    def together(self, group: Group, arrays: tuple[Array, ...], attrs: Mapping[str, Any]) -> tuple[Array, ...]:
        return tuple(collectives.reduce_to(group, arrays, attrs["root"]))

    def vjp(self, e: Any, g: Any, *values: Any, root: int, group: str, ranks: int) -> Any:
        gradients = _all_of(e, g[1:], values[: len(values) // 2])
        attrs = {"root": root, "group": group, "ranks": ranks}
        return tuple(e.emit("broadcast", (gradient,), attrs)[1] for gradient in gradients)


def _require_root(name: str, root: int, ranks: int) -> None:
    if not 0 <= root < ranks:
        raise GraphValueError(f"The root of {name} is one of {ranks} ranks, from 0, not {root}.")


class Barrier(Collective):
    """Waits for all ranks; returns a zero, which orders other nodes after it."""

    def infer(self, *, group: str, ranks: int) -> tuple[Type, ...]:
        return TOKEN, Type(int32)

    def together(self, group: Group, arrays: tuple[Array, ...], attrs: Mapping[str, Any]) -> tuple[Array, ...]:
        collectives.barrier(group)
        return (np.zeros((), np.int32),)

    def vjp(self, e: Any, g: Any, *values: Any, group: str, ranks: int) -> Any:
        return ()


class AllToAll(Collective):
    """Sends one part of the array along the first axis to each rank; returns the parts received from them."""

    def infer(self, x: Type, *, group: str, ranks: int) -> tuple[Type, ...]:
        _require_parts(self.name, x, ranks)
        return TOKEN, x

    def together(self, group: Group, arrays: tuple[Array, ...], attrs: Mapping[str, Any]) -> tuple[Array, ...]:
        return (collectives.all_to_all(group, arrays[0]),)

    def vjp(self, e: Any, g: Any, *values: Any, group: str, ranks: int) -> Any:
        return e.emit(self, g[1:], {"group": group, "ranks": ranks})[1]


class NeighborExchange(Collective):
    """Sends one array to each rank of `send`; returns those received from the ranks `receive`, of the types `results`.

    Each rank has its own lists; one with empty lists takes no part. Sends and receives match in the order of both
    lists, by the same `tag`.
    """

    is_of_rank = True

    def infer(
        self, *types: Type, send: tuple[int, ...], receive: tuple[int, ...], results: tuple[str, ...], group: str,
        ranks: int, tag: int = 0,
    ) -> tuple[Type, ...]:  # fmt: skip
        for rank in (*send, *receive):
            _require_root(self.name, rank, ranks)
        for what, items, places in (("tensors", types, send), ("types of results", results, receive)):
            if len(items) != len(places):
                text = f"{self.name} has {len(items)} {what} for {len(places)} ranks"
                raise GraphValueError(f"{text}; give one for each.")
        return (TOKEN, *map(parse_type, results))

    def together(self, group: Group, arrays: tuple[Array, ...], attrs: Mapping[str, Any]) -> tuple[Array, ...]:
        kinds = [(t.shape, t.dtype.numpy) for t in map(parse_type, attrs["results"])]
        places = attrs["send"], attrs["receive"]
        return tuple(collectives.exchange(group, arrays, kinds, *places, attrs.get("tag", 0)))

    def vjp(self, e: Any, g: Any, *values: Any, **attrs: Any) -> Any:
        count = len(attrs["send"])
        gradients = _all_of(e, g[1:], values[count + 1 :])
        kinds = tuple(str(v.type) for v in values[:count])
        back = {**attrs, "send": attrs["receive"], "receive": attrs["send"], "results": kinds}
        return e.emit(self, gradients, back)[1:]


class ReduceShards(Collective):
    """This rank's shard of the sum over all ranks of each operand, flat, with zeros after the last element.

    The operands, of one dtype, take one communication; `bucket` is that of `all_reduce`.
    """

    fits_its_operands = True

    def infer(self, *types: Type, group: str, ranks: int, bucket: tuple[int, ...] = ()) -> tuple[Type, ...]:
        if not types:
            raise GraphTypeError("reduce_shards takes one array or more.")
        self.numbers(*types)
        return (TOKEN, *(Type(t.dtype, (shards.shard_size(t.size, ranks),)) for t in types))

    def together(self, group: Group, arrays: tuple[Array, ...], attrs: Mapping[str, Any]) -> tuple[Array, ...]:
        return tuple(shards.reduce_shards(group, arrays))


class GatherShards(Collective):
    """The full arrays from the shards of all ranks; `results` are their types.

    The operands, of one dtype, take one communication.
    """

    def infer(self, *types: Type, results: tuple[str, ...], group: str, ranks: int) -> tuple[Type, ...]:
        expected = tuple(map(parse_type, results))
        if not types or len(types) != len(expected):
            raise GraphTypeError(f"gather_shards takes a shard for each of {len(expected)} results, not {len(types)}.")
        same_dtype(self.name, *types, *expected)
        for shard, full in zip(types, expected, strict=True):
            if shard.shape != (shards.shard_size(full.size, ranks),):
                raise GraphValueError(f"{shard} is not the shard of each of {ranks} ranks of {full}.")
        return (TOKEN, *expected)

    def together(self, group: Group, arrays: tuple[Array, ...], attrs: Mapping[str, Any]) -> tuple[Array, ...]:
        shapes = [parse_type(result).shape for result in attrs["results"]]
        return tuple(shards.gather_shards(group, arrays, shapes))
