"""Primitives that divide arrays among ranks: each has a shard, equal numbers of elements in their order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.distributed import shards
from graphls.distributed.world import Group
from graphls.ir.types import TOKEN, Type, parse_type
from graphls.primitives.collectives import Collective
from graphls.primitives.primitive import Array, same_dtype


class ReduceShards(Collective):
    """This rank's shard of the sum over all ranks of each operand, flat, with zeros behind the last element.

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
    """The whole arrays whose shards the ranks have; `results` are their types.

    The operands, of one dtype, take one communication.
    """

    def infer(self, *types: Type, results: tuple[str, ...], group: str, ranks: int) -> tuple[Type, ...]:
        wholes = tuple(map(parse_type, results))
        if not types or len(types) != len(wholes):
            raise GraphTypeError(f"gather_shards takes a shard for each of {len(wholes)} results, not {len(types)}.")
        same_dtype(self.name, *types, *wholes)
        for shard, whole in zip(types, wholes, strict=True):
            if shard.shape != (shards.shard_size(whole.size, ranks),):
                raise GraphValueError(f"{shard} is not what each of {ranks} ranks has of {whole}.")
        return (TOKEN, *wholes)

    def together(self, group: Group, arrays: tuple[Array, ...], attrs: Mapping[str, Any]) -> tuple[Array, ...]:
        shapes = [parse_type(result).shape for result in attrs["results"]]
        return tuple(shards.gather_shards(group, arrays, shapes))
