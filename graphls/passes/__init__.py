"""Graph passes; importing this package registers every pass by its name.

It has everything that a pass of your own needs: the registry of passes, graphs and their parts, and the functions that
read, build, change and check them. `graphls.testing` has checks for a pass.
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
from graphls.ir.reachability import ancestors, descendants
from graphls.ir.registry import lookup
from graphls.passes.adapters import fake_quantize, lora
from graphls.passes.autodiff import gradient, join
from graphls.passes.distributed import buckets, regather, shard, shardings, stages
from graphls.passes.inference import freeze
from graphls.passes.manager import (
    Pass,
    Pipeline,
    PipelineResult,
    as_pipeline,
    find_pass,
    parse_pipeline,
    register_pass,
)
from graphls.passes.overflow import overflow
from graphls.passes.patterns import Match, NearMatch, Pattern, Rewrite, rewrite
from graphls.passes.precision import low_precision
from graphls.passes.schedule import order, partition, pipeline
from graphls.passes.simplify import cse, dce, factor, fold, hoist, merge, recognise, recurrent, select

__all__ = [
    "TOKEN", "Builder", "DType", "Graph", "Match", "Names", "NearMatch", "Node", "Pass", "Pattern", "Pipeline",
    "PipelineResult", "Rewrite", "Type", "Value", "Write", "ancestors", "as_pipeline", "buckets", "captures", "cse",
    "dce", "descendants", "dump", "factor", "fake_quantize", "find_pass", "fold", "freeze", "gradient", "hoist",
    "interpret", "join", "lookup", "lora", "low_precision", "merge", "needs", "order", "overflow", "parse",
    "parse_pipeline", "partition", "pipeline", "recognise", "recurrent", "regather", "register_pass", "rewrite",
    "select", "shard", "shardings", "stages", "substitute", "uses", "verify", "walk",
]  # fmt: skip
