"""The rules of operators; importing this package fills the table."""

from graphls.onnx.operators import (
    activations,
    arithmetic,
    contrib,
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
    sampling,
    shapes,
)

__all__ = [
    "activations",
    "arithmetic",
    "contrib",
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
    "sampling",
    "shapes",
]
