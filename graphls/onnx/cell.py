"""The cell of an ONNX model, whose parameters are the float constants of the model."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from inspect import Parameter as Argument
from inspect import Signature, signature
from keyword import iskeyword
from typing import Any, ClassVar, SupportsIndex

import numpy as np
from onnx import TypeProto

from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.base.text.html import Page
from graphls.frontend.tensors.parameter import Parameter
from graphls.frontend.tensors.tensor import Array, TensorLike, is_tensor
from graphls.frontend.trace.tracer import current_tracer
from graphls.ir.build import Names
from graphls.ir.types import DTYPES
from graphls.nn.cell import Cell
from graphls.nn.cell_calls import runs_eagerly
from graphls.onnx.analysis import KnownConstants, products
from graphls.onnx.dynamic_fallback import DynamicFallback
from graphls.onnx.importing.files import Original
from graphls.onnx.importing.types import element_type
from graphls.onnx.interpreter import Interpreter
from graphls.onnx.program import Block, Program, program_of
from graphls.onnx.selection import Selection, described
from graphls.onnx.tensors import Stored
from graphls.onnx.values import Dynamic, Input, ModelValue, PlainValue, plain, value_of
from graphls.ops.math.elementwise import cast
from graphls.ops.operands import tensor_of

_DERIVED = ("program", "_constants", "_fallback", "_with_sources")
"""Attributes of a cell that follow from the bytes of its model, which copies read anew."""


class OnnxCell(Cell):
    """A network that is an ONNX model; `graphls.onnx.load` creates it.

    Its parameters are the float constants of the model, under their names there.

    Examples:
        >>> import numpy as np
        >>> import graphls
        >>> from graphls import nn, train
        >>> train.export(nn.Dense(3, 2), np.ones((1, 3), np.float32), file_name="net.onnx", file_format="ONNX")
        >>> net = graphls.onnx.load("net.onnx")
        >>> [(p.name, p.shape) for p in net.trainable_params()]
        [('weight', (2, 3)), ('bias', (2,))]
    """

    argument_names: ClassVar[tuple[str, ...]]

    def __init__(
        self, original: Original, program: Program, selection: Selection, fixed: Mapping[str, TensorLike] | None = None
    ) -> None:
        super().__init__()
        analysis = KnownConstants()
        self.__dict__["shaping"] = [name for name in program.main.inputs if name in analysis.block(program.main)]
        self.__dict__["original"] = original
        self.__dict__["program"] = program
        self.__dict__["_fixed"] = _fixed(program, fixed or {})
        self.__dict__["_constants"] = {}
        self._make_parameters(analysis, selection)
        self._add_fallback()
        self.__dict__["_names_tensors"] = False

    def _add_fallback(self) -> None:
        """Prepare for operators with data-dependent shapes, which no graph contains, if the model has any."""
        main, is_dynamic = self.program.main, self.program.is_dynamic
        parameters = {name for name, stored in main.constants.items() if stored in self.stored}
        self.__dict__["_fallback"] = DynamicFallback(self.original, main, parameters) if is_dynamic else None
        self.__dict__["_with_sources"] = _WithSources(self) if is_dynamic else None

    def _make_parameters(self, analysis: KnownConstants, selection: Selection) -> None:
        names = Names()
        constants = {names.fresh(stored.name): stored for stored in self.program.stored}
        reasons = selection.reasons(constants, analysis)
        for name, reason in reasons.items():
            # Not by an attribute: names of a model may be those of a cell's own attributes.
            parameter = _parameter(constants[name], name)
            parameter.requires_grad = not reason
            self._params[name] = self._constants[constants[name]] = parameter
        self.__dict__["_frozen_reasons"] = {name: reason for name, reason in reasons.items() if reason}
        self._changed()

    def constant(self, stored: Stored) -> Input:
        """The parameter of a trainable constant, else its value."""
        constants: dict[Stored, Input] = self._constants
        if stored not in constants:
            constants[stored] = value_of(stored.array)
        return constants[stored]

    @property
    def stored(self) -> dict[Stored, Parameter]:
        """The parameters by the constants of the model that they hold."""
        return {stored: value for stored, value in self._constants.items() if isinstance(value, Parameter)}

    def products(self) -> dict[str, tuple[str, int | None]]:
        """The parameters that tensors are multiplied by: the name of the module, and the axis that is summed over.

        Kernels of convolutions have no such axis. The module is that of the parameter's name, `fc` for `fc.weight`;
        where the name is none of a module's, the one that the producer of the model wrote down at the operator.
        """
        modules: dict[str, tuple[str, int | None]] = {}
        names, paths = Names(), {id(parameter): path for path, parameter in self._params.items()}
        for product in products(self.program.main):
            path = paths.get(id(self._constants.get(product.stored)), "")
            if path and path not in modules:
                module = path.removesuffix(".weight")
                module = product.node.origin.scope or module if module == path else module
                modules[path] = names.fresh(module), None if product.is_convolution else product.axis
        return modules

    @property
    def open_inputs(self) -> tuple[str, ...]:
        """The inputs of the model that the cell takes: all but those that `fixed` gives."""
        return tuple(name for name in self.program.main.inputs if name not in self._fixed)

    def _constructed(self, inputs: Sequence[ModelValue]) -> PlainValue | dict[str, PlainValue]:
        """The outputs of the model: a tuple, the one tensor or, while `named` runs, tensors by name."""
        block: Block = self.program.main
        fallback: DynamicFallback | None = self._fallback
        values = {**self._fixed, **dict(zip(self.open_inputs, inputs, strict=True))}
        operands = [checked_input(name, self.program.types.get(name), values[name]) for name in block.inputs]
        interpreter = Interpreter(self, fallback)
        results = [tensor_of(y) if is_tensor(y) else y for y in map(plain, interpreter.run(block, operands))]
        if self._names_tensors and fallback is not None:
            return fallback.named(block.outputs, results, interpreter.main)
        _check(results, fallback is not None)
        return results[0] if len(results) == 1 else tuple(results)

    def __call__(self, *args: Any, **options: Any) -> Any:
        """The outputs of the model; a call outside of other cells also gives those of data-dependent shapes."""
        if self._fallback is None or current_tracer() is not None or runs_eagerly(self):
            return super().__call__(*args, **options)
        try:
            bound = signature(self.construct).bind(*args, **options)
        except TypeError:
            return super().__call__(*args, **options)  # which raises for these arguments
        values = self._with_sources(*bound.args)
        results = self._fallback.outputs(self.program.main.outputs, values)
        return results[0] if len(results) == 1 else tuple(results)

    def named(self, inputs: Sequence[ModelValue]) -> dict[str, PlainValue]:
        """The outputs of static shapes by name, with the tensors from which the others are computed."""
        self.__dict__["_names_tensors"] = True
        try:
            outputs: dict[str, PlainValue] = self(*inputs)
            return outputs
        finally:
            self.__dict__["_names_tensors"] = False

    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple[object, ...]:
        return _empty, (self.argument_names,), self.__getstate__()

    def __getstate__(self) -> dict[str, Any]:
        """The attributes of a copy: the bytes of the model, and parameters by the number of their constant."""
        number = {stored: i for i, stored in enumerate(self.program.stored)}
        parameters = {number[stored]: parameter for stored, parameter in self.stored.items()}
        state = {name: value for name, value in super().__getstate__().items() if name not in _DERIVED}
        return {**state, "_outputs": self.program.main.outputs, "_held": parameters}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.__dict__.update(state)
        outputs, parameters = self.__dict__.pop("_outputs"), self.__dict__.pop("_held")
        program = program_of(self.original.model(), self.original.folder, outputs)
        self.__dict__["program"] = program
        self.__dict__["_constants"] = {program.stored[number]: parameter for number, parameter in parameters.items()}
        self._add_fallback()

    def extend_repr(self) -> str:
        count = len(self.program.main.nodes)
        return f"{count} operator{'' if count == 1 else 's'}"

    def __repr__(self) -> str:
        lines = [self.extend_repr(), *(f"{label}: {text}" for label, text in self.described())]
        return "\n  ".join([f"{type(self).__name__}(", *lines]) + "\n)"

    def _repr_html_(self) -> str:
        page = Page("Cell", f"{type(self).__name__}: {self.extend_repr()}")
        page.facts(self.described())
        return page.text()

    def described(self) -> list[tuple[str, str]]:
        """The constants that are trained and that are not, with the reasons, as labels with texts."""
        parameters: dict[str, Any] = self._params
        others = [stored for stored in self.program.stored if stored not in self.stored]
        return described(parameters, self._frozen_reasons, others, self.program.absent)


class _WithSources(Cell):
    """A network whose outputs of data-dependent shapes are replaced by the tensors that they are computed from."""

    def __init__(self, net: OnnxCell) -> None:
        super().__init__(auto_prefix=False)
        self.net = net

    def construct(self, *inputs: ModelValue) -> dict[str, PlainValue]:
        return self.net.named(inputs)


def _check(results: Sequence[PlainValue], can_be_dynamic: bool) -> None:
    """Raise GraphlsError where all outputs have data-dependent shapes, or any has in a model without such operators."""
    dynamic = [result for result in results if isinstance(result, Dynamic)]
    if dynamic and not can_be_dynamic:
        raise GraphValueError(f"{dynamic[0].cause}.")
    if dynamic and len(dynamic) == len(results):
        dynamic[0].refuse()


def cell_of(
    original: Original, program: Program, selection: Selection, fixed: Mapping[str, TensorLike] | None
) -> OnnxCell:
    """The cell of a program, whose `construct` takes the inputs of the model by their names."""
    names, fresh = [], Names(("self",))
    for name in program.main.inputs:
        if name in (fixed or {}):
            continue
        word = re.sub(r"\W", "_", name)
        names.append(fresh.fresh(word if word.isidentifier() and not iskeyword(word) else f"x_{word}"))

    return _kind(tuple(names))(original, program, selection, fixed)


@cache
def _kind(names: tuple[str, ...]) -> type[OnnxCell]:
    """The class of cells whose `construct` takes inputs of these names."""

    def construct(self: OnnxCell, *inputs: ModelValue) -> PlainValue | dict[str, PlainValue]:
        return self._constructed(inputs)

    arguments = [Argument(name, Argument.POSITIONAL_OR_KEYWORD) for name in ("self", *names)]
    construct.__signature__ = Signature(arguments)  # type: ignore[attr-defined]
    attributes = {"construct": construct, "argument_names": names, "__module__": __name__, "__doc__": OnnxCell.__doc__}
    return type("OnnxCell", (OnnxCell,), attributes)


def _empty(names: tuple[str, ...]) -> OnnxCell:
    """A cell of this class that a copy or a pickle fills with its attributes."""
    kind = _kind(names)
    return kind.__new__(kind)


def _fixed(program: Program, fixed: Mapping[str, TensorLike]) -> dict[str, Input]:
    """The values of fixed inputs; raises GraphValueError for names that the model does not have."""
    for name in fixed:
        if name not in program.main.inputs:
            listed = ", ".join(map(repr, program.main.inputs))
            raise GraphValueError(f"The model has no input {name!r} that `fixed` could give, but {listed}.")
    return {name: value_of(_declared(np.asarray(value), program.types.get(name))) for name, value in fixed.items()}


def _declared(array: Array, declared: TypeProto | None) -> Array:
    """An array in the declared dtype, which Python's numbers do not have; unchanged if the kinds of dtype differ."""
    dtype = element_type(declared.tensor_type.elem_type) if declared is not None else None
    if dtype not in DTYPES or dtype is None or dtype.kind == "bool" or array.dtype.kind not in "fiu":
        return array
    return array.astype(dtype.numpy) if dtype.is_float or array.dtype.kind != "f" else array


def _parameter(stored: Stored, name: str) -> Parameter:
    array = stored.read()
    if not array.flags.writeable or array.base is None:
        array = np.array(array)
    return Parameter.holding(array, name)


def checked_input(name: str, declared: TypeProto | None, value: ModelValue) -> ModelValue:
    """An input in the declared kind of dtype; raises GraphlsError for another kind and for another rank."""
    if not is_tensor(value) or declared is None or declared.WhichOneof("value") != "tensor_type":
        return value
    x, kind = tensor_of(value), declared.tensor_type
    if kind.HasField("shape") and len(kind.shape.dim) != x.ndim:
        count = len(kind.shape.dim)
        raise GraphValueError(f"The input {name!r} of the model has {count} axes, not the shape {x.shape}.")
    dtype = element_type(kind.elem_type)
    if dtype not in DTYPES or dtype is x.dtype or (dtype.is_float and x.dtype.is_float):
        return x
    if x.dtype.is_float or (dtype.kind == "bool") != (x.dtype.kind == "bool"):
        raise GraphTypeError(f"The input {name!r} of the model takes {dtype.long_name}, not {x.dtype.long_name}.")
    return cast(x, dtype)
