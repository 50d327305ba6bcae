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
    pooling,
    random,
    reduction,
    shape,
    softmax,
    special,
    trigonometric,
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
    "pooling",
    "random",
    "reduction",
    "shape",
    "softmax",
    "special",
    "trigonometric",
]
