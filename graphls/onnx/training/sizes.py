"""The dynamic sizes of a model, and example inputs for given sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from onnx import GraphProto, ModelProto, ValueInfoProto

from graphls.base.errors import GraphValueError
from graphls.frontend.tensors.tensor import Array
from graphls.ir.types import bfloat16
from graphls.onnx.importing.types import element_type
from graphls.runtime.lowering.size_terms import integer_formula
from graphls.runtime.lowering.types import ELEMENT_TYPES
from graphls.step.export.dynamic_sizes import BATCH, LARGE, SMALL, Point, points


def set_sizes(model: ModelProto, sizes: Mapping[str, int]) -> None:
    """Name the unnamed dynamic sizes of the inputs of a model by their axes, and set the values of some.

    The first axis of all inputs counts as the same size, `batch`, the second as `axis_1` and so on; `state:1` is that
    of one input. Raises GraphValueError for a size that the model does not have, and for an input whose rank it does
    not tell.
    """
    known = set()
    for info in model_inputs(model.graph):
        if not info.type.tensor_type.HasField("shape"):
            text = f"The model does not declare the rank of its input {info.name!r}"
            raise GraphValueError(f"{text}; export it with a shape.")
        for axis, dim in enumerate(info.type.tensor_type.shape.dim):
            if dim.HasField("dim_value") and dim.dim_value >= 0:
                continue
            key = f"{info.name}:{axis}"
            if key in sizes:
                known.add(key)
                dim.dim_value = sizes[key]
            else:  # Paddle writes -1, and ? as the name of all sizes that it does not know
                name = dim.dim_param.strip("?")
                dim.dim_param = name or (BATCH if axis == 0 else f"axis_{axis}")
                known.add(dim.dim_param)
    for name in set(sizes) - known:
        listed = ", ".join(map(repr, sorted(known))) or "none"
        raise GraphValueError(f"The model leaves no size {name!r} open that `sizes` could give, but {listed}.")
    for info in (*model.graph.input, *model.graph.output, *model.graph.value_info):
        for dim in info.type.tensor_type.shape.dim:
            if dim.dim_param in sizes:
                dim.dim_value = sizes[dim.dim_param]


def dynamic_sizes(model: ModelProto) -> list[str]:
    """The names of the dynamic sizes, in the order of the inputs."""
    dims = (dim for info in model_inputs(model.graph) for dim in info.type.tensor_type.shape.dim)
    return list(dict.fromkeys(dim.dim_param for dim in dims if dim.dim_param))


def attempts(model: ModelProto) -> list[list[Point]]:
    """Values for the dynamic sizes to try, large and small primes that occur in no shape of the model."""
    used = {dim.dim_value for info in model.graph.input for dim in info.type.tensor_type.shape.dim}
    used |= {size for tensor in model.graph.initializer for size in tensor.dims}
    names = dynamic_sizes(model)
    return [points(names, least, used) for least in ((LARGE, SMALL) if names else (LARGE,))]


def examples(inputs: Sequence[ValueInfoProto], sizes: Mapping[str, int]) -> list[Array]:
    """Arrays of zeros of the declared types of inputs."""
    arrays = []
    for info in inputs:
        dtype = element_type(info.type.tensor_type.elem_type)
        if dtype not in ELEMENT_TYPES or dtype is bfloat16:
            raise GraphValueError(f"The input {info.name!r} of the model has a type that no array of NumPy has.")
        shape = [sizes[dim.dim_param] if dim.dim_param else dim.dim_value for dim in info.type.tensor_type.shape.dim]
        arrays.append(np.zeros(shape, dtype.numpy))
    return arrays


def describe(info: ValueInfoProto, shapes: Sequence[Sequence[int]], sizes: Sequence[Mapping[str, int]]) -> None:
    """Set the shape of a tensor from its shapes at some sizes, with the names of dynamic sizes."""
    shape = info.type.tensor_type.shape
    shape.SetInParent()
    del shape.dim[:]
    for values in zip(*shapes, strict=True):
        dim, formula = shape.dim.add(), None
        if len(set(values)) == 1:
            dim.dim_value = values[0]
        else:
            formula = integer_formula(values, sizes)
        if formula is not None and formula.size is not None:
            dim.dim_param = formula.size


def model_inputs(graph: GraphProto) -> list[ValueInfoProto]:
    """The inputs without the initializers, which early versions list as inputs, too."""
    initializers = {tensor.name for tensor in graph.initializer}
    return [info for info in graph.input if info.name not in initializers]
