"""The rules of operators; importing this package fills the table."""

from graphls.onnx.operators import (
    activations,
    arithmetic,
    boxes,
    classical,
    contrib,
    control,
    conversion,
    data,
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
    sequences,
    shapes,
    spectra,
)

__all__ = [
    "activations", "arithmetic", "boxes", "classical", "contrib", "control", "conversion", "data", "indexing",
    "normalization", "pooling", "products", "quantization", "random", "recurrent", "reductions", "resizing", "sampling",
    "sequences", "shapes", "spectra",
]  # fmt: skip
