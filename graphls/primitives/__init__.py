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
    loops,
    pooling,
    random,
    reduction,
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
    "loops",
    "pooling",
    "random",
    "reduction",
    "shape",
    "softmax",
]
