"""What the arguments of GeneratorDataset may be, alone and together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from graphls.dataset import checks
from graphls.dataset.samplers import RandomSampler, Sampler, SequentialSampler, as_sampler
from graphls.dataset.samplers_classes import DistributedSampler
from graphls.dataset.schema import Schema, as_schema, column_dtype
from graphls.ir.errors import GraphTypeError, GraphValueError

Types = tuple["np.dtype[Any] | None", ...]


def announced_columns(column_names: Any, column_types: Any, schema: Any) -> tuple[tuple[str, ...], Types]:
    """The names of the columns, and their dtypes where those are announced."""
    if column_names is None and schema is None:
        raise GraphValueError("Neither columns_names nor schema are provided.")
    if column_names is None:
        announced: Schema = as_schema(schema)
        return checks.names("The columns of schema", announced.names()), announced.dtypes()
    names = checks.names("column_names", column_names)
    if column_types is None:
        return names, (None,) * len(names)
    listed = column_types if isinstance(column_types, (list, tuple)) else [column_types]
    if len(listed) != len(names):
        raise GraphValueError(
            f"column_types has one dtype for each of column_names, not {len(listed)} for {len(names)}."
        )
    return names, tuple(column_dtype(item) for item in listed)


def check_choice(
    has_items: bool,
    num_samples: Any,
    shuffle: Any,
    sampler: Any,
    num_shards: Any,
    shard_id: Any,
    batch_sampler: Any,
    collate_fn: Any,
) -> None:
    """Hold the arguments that choose rows against each other."""
    checks.optional_integer("num_samples", num_samples, 0)
    if shuffle is not None:
        checks.flag("shuffle", shuffle)
    if sampler is not None and shuffle is not None:
        raise GraphValueError("sampler and shuffle cannot be specified at the same time.")
    if sampler is not None and num_shards is not None:
        raise GraphValueError("sampler and sharding cannot be specified at the same time.")
    if (num_shards is None) != (shard_id is None):
        raise GraphValueError("num_shards and shard_id need to be passed in together.")
    _check_batch_sampler(batch_sampler, collate_fn, (num_samples, shuffle, sampler, num_shards))
    if not has_items:
        _check_stream(sampler=sampler, num_shards=num_shards, batch_sampler=batch_sampler, shuffle=shuffle or None)


def _check_batch_sampler(batch_sampler: Any, collate_fn: Any, others: Sequence[Any]) -> None:
    if collate_fn is not None:
        checks.function("collate_fn", collate_fn)
        if batch_sampler is None:
            raise GraphValueError("collate_fn can be specified only when batch_sampler is set.")
    if batch_sampler is None:
        return
    if not hasattr(batch_sampler, "__iter__") and not hasattr(batch_sampler, "__getitem__"):
        raise GraphTypeError(f"batch_sampler is an iterable of lists, not {batch_sampler!r}.")
    if any(other is not None for other in others):
        raise GraphValueError(
            "batch_sampler cannot be specified together with num_samples, shuffle, sampler, num_shards and shard_id.",
        )


def _check_stream(**choices: Any) -> None:
    for name, value in choices.items():
        if value is not None:
            raise GraphValueError(f"{name} is not supported if source does not have attribute '__getitem__'.")


def made_sampler(
    num_samples: int | None, shuffle: bool | None, sampler: Any, num_shards: Any, shard_id: Any
) -> Sampler:
    """The sampler that the arguments ask for."""
    if sampler is not None:
        made = as_sampler(sampler)
        return made if num_samples is None else _among(made, SequentialSampler(num_samples=num_samples))
    if num_shards is not None:
        return DistributedSampler(num_shards, shard_id, shuffle is not False, num_samples)
    return SequentialSampler(num_samples=num_samples) if shuffle is False else RandomSampler(num_samples=num_samples)


def _among(child: Sampler, sampler: Sampler) -> Sampler:
    sampler.add_child(child)
    return sampler
