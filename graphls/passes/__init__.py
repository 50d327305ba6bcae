"""Passes over the IR; importing this package makes every pass known by its name."""

import graphls.primitives  # noqa: F401  the primitives that passes look up by name
from graphls.passes import (
    buckets,
    cse,
    dce,
    factor,
    fold,
    gradient,
    hoist,
    join,
    merge,
    order,
    overflow,
    partition,
    recognise,
    select,
    shard,
)
from graphls.passes.manager import (
    Pass,
    Pipeline,
    PipelineResult,
    as_pipeline,
    find_pass,
    parse_pipeline,
    register_pass,
)

__all__ = [
    "Pass",
    "Pipeline",
    "PipelineResult",
    "as_pipeline",
    "buckets",
    "cse",
    "dce",
    "factor",
    "find_pass",
    "fold",
    "gradient",
    "hoist",
    "join",
    "merge",
    "order",
    "overflow",
    "parse_pipeline",
    "partition",
    "recognise",
    "register_pass",
    "select",
    "shard",
]
