"""All primitives, one class each; importing this package registers them.

It exports what a primitive of your own needs: base classes, types, samples, builders and emitters, and checks.
`graphls.testing.check_primitive` tests one, and `graphls.tensors.apply` applies it to tensors by name.
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
    arithmetic,
    blockwise,
    cast,
    collectives,
    control,
    convolution,
    extremes,
    functions,
    hadamard,
    host,
    indexing,
    linear,
    logic,
    loops,
    order,
    packing,
    pooling,
    random,
    reduction,
    scaled_matmul,
    scaling,
    shape,
    shared_power,
    softmax,
    stochastic_rounding,
    trigonometric,
)
from graphls.primitives.emitter import Emitter, Operand
from graphls.primitives.namespaces import namespace
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
    "Array", "Builder", "DType", "Elementwise", "Emitter", "FloatElementwise", "Operand", "Primitive", "Sample", "Type",
    "Value",
    "arithmetic", "bfloat16", "blockwise", "bool_", "broadcast_shapes", "cast", "collectives", "control", "convolution",
    "extremes", "f32", "float16", "float32", "float64", "functions", "hadamard", "host", "indexing", "int8", "int16",
    "int32", "int64", "linear", "logic", "lookup", "loops", "namespace", "normalise_axes", "normalise_axis", "of",
    "order", "packing", "pooling", "random", "reduction", "require_float", "same_dtype", "sample", "scaled_matmul",
    "scaling", "shape", "shared_power", "softmax", "stochastic_rounding", "trigonometric", "uint8",
]  # fmt: skip
