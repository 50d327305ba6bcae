"""The rules of operators; importing this package fills the table."""

from graphls.onnx.operators import (
    activations,
    arithmetic,
    control,
    conversion,
    indexing,
    normalization,
    pooling,
    products,
    quantization,
    random,
    recurrent,
    reductions,
    resizing,
    shapes,
)

__all__ = [
    "activations",
    "arithmetic",
    "control",
    "conversion",
    "indexing",
    "normalization",
    "pooling",
    "products",
    "quantization",
    "random",
    "recurrent",
    "reductions",
    "resizing",
    "shapes",
]
