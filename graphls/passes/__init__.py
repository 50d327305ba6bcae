"""Passes over the IR; importing this package makes every pass known by its name.

It has what a pass of your own needs: how passes are registered and found, graphs and their parts, and the tools that
read, build, change and check them. `graphls.testing` has what tries one.
"""

import graphls.primitives  # noqa: F401  the primitives that passes look up by name
from graphls.ir import (
    TOKEN,
    Builder,
    DType,
    Graph,
    Names,
    Node,
    Type,
    Value,
    Write,
    captures,
    dump,
    interpret,
    needs,
    parse,
    uses,
    verify,
    walk,
)
from graphls.ir.build import substitute
from graphls.ir.reach import ancestors, descendants
from graphls.ir.registry import lookup
from graphls.passes import (
    buckets,
    cse,
    dce,
    factor,
    fake_quantize,
    fold,
    freeze,
    gradient,
    hoist,
    join,
    lora,
    merge,
    order,
    overflow,
    partition,
    recognise,
    recurrent,
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
    "TOKEN", "Builder", "DType", "Graph", "Names", "Node", "Pass", "Pipeline", "PipelineResult", "Type", "Value",
    "Write", "ancestors", "as_pipeline", "buckets", "captures", "cse", "dce", "descendants", "dump", "factor",
    "fake_quantize", "find_pass", "fold", "freeze", "gradient", "hoist", "interpret", "join", "lookup", "lora", "merge",
    "needs", "order", "overflow", "parse", "parse_pipeline", "partition", "recognise", "recurrent", "register_pass",
    "select", "shard", "substitute", "uses", "verify", "walk",
]  # fmt: skip
