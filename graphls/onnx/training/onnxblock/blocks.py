"""Blocks, which append operators to a model; those of `onnxruntime.training.onnxblock.blocks`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from onnx import ModelProto, ValueInfoProto, helper, numpy_helper

from graphls.base.errors import GraphKeyError, GraphRuntimeError
from graphls.onnx.training.onnxblock.accessor import current, fresh_name, inferred

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

Attribute: TypeAlias = "int | float | str | Sequence[int] | Sequence[float]"


class Block(ABC):
    """A builder of operators in a model: `build` takes and returns names of tensors, and changes `base`.

    Examples:
        >>> from graphls.onnx.training import onnxblock
        >>> class MeanSquare(onnxblock.Block):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.square = onnxblock.blocks.Pow(2.0)
        ...         self.mean = onnxblock.blocks.ReduceMean(keepdims=False)
        ...     def build(self, name):
        ...         return self.mean(self.square(name))
    """

    @property
    def base(self) -> ModelProto:
        """The model that the block adds to; raises GraphRuntimeError where none is open."""
        return current().model

    @abstractmethod
    def build(self, *args: Any, **kwargs: Any) -> Any:
        """Add the operators of the block to `base`; returns the names of the results."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The names of the results of the block on tensors of these names."""
        return self.build(*args, **kwargs)

    def infer_shapes_on_base(self) -> ModelProto:
        """A copy of the model with the shapes of its tensors."""
        return inferred(self.base)

    def append(self, kind: str, inputs: Sequence[str], domain: str = "", **attributes: Attribute) -> str:
        """Add an operator; returns the name of its result."""
        name = fresh_name(f"{kind.lower()}_output")
        node = helper.make_node(kind, list(inputs), [name], fresh_name(kind), domain=domain)
        node.attribute.extend(helper.make_attribute(key, value) for key, value in sorted(attributes.items()))
        self.base.graph.node.append(node)
        return name

    def constant(self, value: ArrayLike, token: str = "initializer") -> str:
        """Add a constant; returns its name."""
        name = fresh_name(token)
        self.base.graph.initializer.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def info(self, name: str) -> ValueInfoProto:
        """The name and type of a tensor; raises GraphKeyError where the model has none of this name."""
        graph = self.infer_shapes_on_base().graph
        for info in (*graph.input, *graph.output, *graph.value_info):
            if info.name == name:
                typed: ValueInfoProto = info
                return typed
        raise GraphKeyError(f"The model has no tensor {name!r} whose shape is known.")


class _Operator(Block):
    """An operator of ONNX with attributes, called like the class."""

    kind = ""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if not cls.kind and not cls.__name__.startswith("_"):
            cls.kind = cls.__name__

    def __init__(self, **attributes: Attribute) -> None:
        super().__init__()
        self._attributes = attributes

    def build(self, *input_names: str) -> str:
        """The name of the result for inputs of these names."""
        return self.append(self.kind, input_names, "", **self._attributes)


class _Reduction(_Operator):
    def __init__(self, keepdims: bool = True) -> None:
        super().__init__(keepdims=int(keepdims))


class Add(_Operator):
    """The sum of two tensors."""


class Sub(_Operator):
    """The difference of two tensors."""


class Mul(_Operator):
    """The product of two tensors."""


class Div(_Operator):
    """The quotient of two tensors."""


class Sigmoid(_Operator):
    """The sigmoid function."""


class Log(_Operator):
    """The natural logarithm."""


class Neg(_Operator):
    """The negative of a tensor."""


class Abs(_Operator):
    """The absolute value."""


class ReduceMean(_Reduction):
    """The mean of all elements."""


class ReduceSum(_Reduction):
    """The sum of all elements."""


class Pow(Block):
    """A tensor to the power of a number."""

    def __init__(self, exponent: float) -> None:
        super().__init__()
        self._exponent = exponent

    def build(self, pow_input_name: str) -> str:
        return self.append("Pow", [pow_input_name, self.constant(np.array([self._exponent], np.float32), "exponent")])


class Constant(Block):
    """A number, as a tensor of one element."""

    def __init__(self, value_float: float) -> None:
        super().__init__()
        self._value = value_float

    def build(self) -> str:
        return self.constant(np.array([self._value], np.float32))


class Clip(Block):
    """A tensor with its elements between two numbers."""

    def __init__(self, clip_min: float | None = None, clip_max: float | None = None) -> None:
        super().__init__()
        self._bounds = clip_min, clip_max

    def build(self, clip_input_name: str) -> str:
        bounds = ["" if b is None else self.constant(np.array(b, np.float32)) for b in self._bounds]
        return self.append("Clip", [clip_input_name, *bounds])


class Cast(_Operator):
    """A tensor in another type, a number of `onnx.TensorProto`."""

    def __init__(self, to: int) -> None:
        super().__init__(to=to)


class PassThrough(Block):
    """The inputs themselves."""

    def __init__(self, **_: object) -> None:
        super().__init__()

    def build(self, *input_names: str) -> tuple[str, ...]:
        return input_names


class InputLike(Block):
    """A new input of the model with the type and shape of a tensor that it has."""

    def __init__(self, like: str) -> None:
        super().__init__()
        self._like = like

    def build(self, input_name: str | None = None) -> str:
        info = self.base.graph.input.add()
        info.CopyFrom(self.info(self._like))
        info.name = input_name or fresh_name("input")
        return str(info.name)


class Linear(Block):
    """A product with a new weight of random numbers, plus a bias."""

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, alpha: float = 1.0, beta: float = 1.0
    ) -> None:
        super().__init__()
        self._shape = in_features, out_features
        self._bias = bias
        self._factors: dict[str, Attribute] = {"alpha": alpha, "beta": beta}

    def build(self, linear_input_name: str) -> str:
        draw = np.random.default_rng()
        names = [self.constant(draw.normal(size=self._shape).astype(np.float32), "linear.weight")]
        if self._bias:
            names.append(self.constant(draw.normal(size=self._shape[1:]).astype(np.float32), "linear.bias"))
        return self.append("Gemm", [linear_input_name, *names], "", **self._factors)


def tensor_exists(model: ModelProto, name: str) -> bool:
    """True for a tensor that is an input of the model, or an operand or a result of its operators."""
    nodes = any(name in node.input or name in node.output for node in model.graph.node)
    return nodes or any(info.name == name for info in model.graph.input)


def shape_of(info: ValueInfoProto) -> list[int | str | None]:
    """The sizes of a tensor: numbers, names, or None; raises GraphRuntimeError where its rank is not known."""
    if not info.type.tensor_type.HasField("shape"):
        raise GraphRuntimeError(f"The shape of {info.name!r} is not known; declare it as an output with a shape.")
    dims = info.type.tensor_type.shape.dim
    return [d.dim_value if d.HasField("dim_value") else d.dim_param or None for d in dims]
