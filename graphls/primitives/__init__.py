"""Every primitive, each in one class; importing this package registers them all."""

from graphls.primitives import (
    arithmetic,
    cast,
    control,
    convolution,
    functions,
    indexing,
    linear,
    logic,
    order,
    pooling,
    random,
    reduction,
    scatter,
    shape,
    softmax,
)

__all__ = [
    "arithmetic",
    "cast",
    "control",
    "convolution",
    "functions",
    "indexing",
    "linear",
    "logic",
    "order",
    "pooling",
    "random",
    "reduction",
    "scatter",
    "shape",
    "softmax",
]
