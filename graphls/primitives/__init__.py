"""Every primitive, each in one class; importing this package registers them all."""

from graphls.primitives import (
    activations,
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
)

__all__ = [
    "activations",
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
]
