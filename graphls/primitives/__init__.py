"""Every primitive, each in one class; importing this package registers them all.

It has what a primitive of your own needs: base classes, types and samples, what rules are written with, and checks.
`graphls.testing.check_primitive` tries it, and `graphls.tensors.apply` applies it to tensors by its name.
"""

from graphls.ir.build import Builder
from graphls.ir.graph import Value
from graphls.ir.registry import lookup
from graphls.ir.types import (
    DType,
    Type,
    bfloat16,
    bool_,
    broadcast_shapes,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
)
from graphls.primitives import (
    activations,
    arithmetic,
    bitwise,
    cast,
    collectives,
    composition,
    convolution,
    division,
    extremes,
    functions,
    host,
    indexing,
    linear,
    logic,
    order,
    pooling,
    position,
    product,
    quantized,
    random,
    reduction,
    rounds,
    scatter,
    shape,
    shards,
    softmax,
    special,
    trigonometric,
)
from graphls.primitives.control_flow import control, loops, scan
from graphls.primitives.emitter import Emitter
from graphls.primitives.primitive import (
    Array,
    Elementwise,
    FloatElementwise,
    Primitive,
    Sample,
    f32,
    normalise_axes,
    normalise_axis,
    of,
    require_float,
    same_dtype,
    sample,
)

__all__ = [
    "Array", "Builder", "DType", "Elementwise", "Emitter", "FloatElementwise", "Primitive", "Sample", "Type", "Value",
    "activations", "arithmetic", "bfloat16", "bitwise", "bool_", "broadcast_shapes", "cast", "collectives",
    "composition", "control", "convolution", "division", "extremes", "f32", "float16", "float32", "float64",
    "functions", "host", "indexing", "int8", "int16", "int32", "int64", "linear", "logic", "lookup", "loops",
    "normalise_axes", "normalise_axis", "of", "order", "pooling", "position", "product", "quantized", "random",
    "reduction", "require_float", "rounds", "same_dtype", "sample", "scan", "scatter", "shape", "shards", "softmax",
    "special", "trigonometric", "uint8",
]  # fmt: skip
