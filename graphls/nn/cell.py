"""Cell: the building block of networks, and of training steps."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np

from graphls.base.checks import boolean, not_negative_int
from graphls.base.errors import GraphAttributeError, GraphKeyError, GraphTypeError, GraphValueError
from graphls.base.location import user_location
from graphls.base.reporting import guarded, warn
from graphls.frontend.names.habits import CELL, KEYWORDS, instead
from graphls.frontend.registry import compiler
from graphls.frontend.tensors.configuration import Configuration
from graphls.frontend.tensors.parameter import Parameter, ParameterTuple
from graphls.frontend.tensors.tensor import Tensor, TensorLike
from graphls.frontend.trace.casting import Casting
from graphls.frontend.trace.cells import call_cell
from graphls.frontend.trace.closure_variables import PLAIN
from graphls.frontend.trace.custom_gradient import with_custom_gradient
from graphls.frontend.trace.rewriting.functions import rewritten
from graphls.frontend.trace.tracer import current_tracer
from graphls.ir.compare import constant_key
from graphls.ir.types import DType, DTypeLike, as_dtype, bfloat16, float16, float32
from graphls.nn.cell_calls import call_eagerly, in_construct, runs_eagerly
from graphls.nn.cell_tree import CellDisplay
from graphls.nn.hooks import Hooks, Observing, between_hooks
from graphls.nn.parameter_names import check_distinct, separate_if_complete
from graphls.nn.recipe_states import give_recipe
from graphls.ops.state import assign
from graphls.passes.precision.recipes import Recipe

__all__ = ["Cell"]

Self = TypeVar("Self", bound="Cell")

NUMBERS = (int, float)
"""The types of attributes that may be counters of calls, which a trace would increment only once."""


class _Signature:
    """The signature of a class of cells that `help` and editors show: the arguments of `__init__`, not of `__new__`."""

    def __get__(self, cell: Cell | None, owner: type[Cell]) -> inspect.Signature:
        if cell is not None:
            raise AttributeError("__signature__")
        signature = inspect.signature(owner.__init__)
        return signature.replace(parameters=list(signature.parameters.values())[1:])


class Cell(CellDisplay, Hooks):
    """A network, a layer, a loss, an optimizer or a training step: parameters, inner cells and `construct`.

    Attributes that are cells or parameters become part of it. With `auto_prefix`, parameters of inner cells are
    named by the path of attributes that leads to them. Calling a cell compiles `construct` once for each
    combination of input types and runs it; inside another `construct`, it becomes part of that graph. In eager mode
    (`set_context(mode=PYNATIVE_MODE)`) `construct` runs as plain Python on numbers, unless the cell needs a graph: it
    does if it holds an optimizer or a GradOperation, or if its `construct` is one of `jit`.

    Examples:
        >>> import numpy as np
        >>> import graphls
        >>> from graphls import nn, ops
        >>> class Line(nn.Cell):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.slope = graphls.Parameter(np.float32(2), name="slope")
        ...
        ...     def construct(self, x):
        ...         return ops.relu(x * self.slope)
        >>> Line()(graphls.Tensor([-1.0, 3.0])).asnumpy().tolist()
        [0.0, 6.0]
    """

    __signature__ = _Signature()
    _float_type: DType | None
    _output_type: DType | None
    _casting: Casting | None
    _recipe: Recipe | None
    _habits = CELL
    """Equivalents of names in other frameworks."""

    def __init_subclass__(cls, **options: object) -> None:
        super().__init_subclass__(**options)
        if inspect.isfunction(vars(cls).get("__init__")):
            cls.__init__ = guarded(vars(cls)["__init__"], separate_if_complete)  # type: ignore[method-assign]

    def __new__(cls: type[Self], *args: TensorLike, **options: object) -> Self:
        """Create the cell; a keyword of PyTorch that the class does not take is an error with advice."""
        for name in KEYWORDS.keys() & options.keys():
            _check_keyword(cls, name)
        return object.__new__(cls)

    @guarded
    def __init__(self, auto_prefix: bool = True, flags: Mapping[str, object] | None = None) -> None:
        fields: dict[str, Any] = {
            "_params": {},
            "_cells": {},
            "_auto_prefix": auto_prefix,
            "_float_type": None,
            "_output_type": None,
            "_casting": None,
            "_is_recomputed": False,
            "_pipeline_stage": None,
            "_passes": (),
            "_recipe": None,
            "_phase": "",
            "_scope_name": "",
            "_version": 0,
            "_last_changed": "",
            "_made_at": user_location(),
            "_compiled": {},
            "training": False,
            "requires_grad": False,
        }
        self.__dict__.update(fields)
        self.add_flags(**(flags or {}))

    # -- attributes -------------------------------------------------------------------------------------------

    def __setattr__(self, name: str, value: object) -> None:
        if isinstance(described := getattr(type(self), name, None), property):
            self._set_property(described, name, value)
        elif "_auto_prefix" not in self.__dict__:
            self._set_early(name, value)
        elif value is None and not in_construct():
            self._set_plain(name, value)
        elif self._has_parameter(name) and (not isinstance(value, Parameter) or current_tracer() is not None):
            self._assign(name, value)
        elif isinstance(value, (Parameter, Cell)):
            self._set_part(name, value)
        else:
            self._set_plain(name, value)

    def _set_property(self, described: property, name: str, value: object) -> None:
        if described.fset is None:
            raise GraphAttributeError(f"The {name!r} of {type(self).__name__} is a property that cannot be set.")
        described.fset(self, value)

    def _set_early(self, name: str, value: object) -> None:
        """Set a plain value before `super().__init__()`; parts of the cell need fields that are not there yet."""
        if isinstance(value, (Cell, Parameter, ParameterTuple)):
            raise self._uninitialized()
        self.__dict__[name] = value

    def _uninitialized(self) -> GraphAttributeError:
        """The error for a cell whose `super().__init__()` has not run."""
        message = f"Call super().__init__() first in the __init__ of {type(self).__name__}."
        return GraphAttributeError(message)

    def _has_parameter(self, name: str) -> bool:
        return isinstance(self._params.get(name), Parameter)

    def _assign(self, name: str, value: object) -> None:
        """`self.weight = value` writes the parameter: a tensor anywhere, a number in construct."""
        if not isinstance(value, (Tensor, int, float, bool) if in_construct() else Tensor):
            raise GraphTypeError(
                f"Parameter {name!r} already exists in network, can not assign this type: {type(value).__name__}; "
                "use set_data.",
            )
        parameter: Any = self._params[name]
        if in_construct():
            assign(parameter, value)
        else:
            parameter.set_data(value)

    def _set_plain(self, name: str, value: object) -> None:
        if type(value) in PLAIN and name in self.__dict__ and constant_key(self.__dict__[name]) == constant_key(value):
            return
        if type(value) in NUMBERS and type(self.__dict__.get(name)) in NUMBERS and current_tracer() is not None:
            text = f"{type(self).__name__}.{name} is set while construct is traced, once for all calls of the step"
            warn(f"{text}; make it a Parameter that each call changes.")
        self._cells.pop(name, None)
        self._params.pop(name, None)
        if isinstance(value, ParameterTuple):
            self._params[name] = value
        self.__dict__[name] = value
        if not (isinstance(value, (Tensor, np.ndarray)) and Observing.is_on()):
            self._changed(name)

    def _changed(self, name: str = "") -> None:
        """Take note that compiled steps are out of date, because of an attribute of some name."""
        self.__dict__["_version"] += 1
        self.__dict__["_last_changed"] = name
        Configuration.note_change()

    def insert_param_to_cell(
        self, param_name: str, param: Parameter | None, check_name_contain_dot: bool = True
    ) -> None:
        """Make a parameter part of the cell under an attribute name; an unnamed one takes that name.

        Raises GraphKeyError for a name with a dot or already in use, GraphTypeError for anything but a parameter.
        """
        self._check_part(param_name, param, Parameter, check_name_contain_dot)
        self._set_part(param_name, param)

    def insert_child_to_cell(self, child_name: str, child_cell: Cell | None) -> None:
        """Make a cell part of this one under an attribute name; None keeps the name for one that comes later.

        Raises GraphKeyError for a name with a dot or already in use, GraphTypeError for anything but a cell.
        """
        self._check_part(child_name, child_cell, Cell)
        self._set_part(child_name, child_cell)

    def _set_part(self, name: str, part: Parameter | Cell | None) -> None:
        """Set a parameter or a cell as an attribute and register it as a part of this cell."""
        self.__dict__[name] = part
        if isinstance(part, Parameter):
            self._params[name] = part
            part.name = name if part.name == "Parameter" else part.name
        elif part is not None:
            self._cells[name] = part
            part.__dict__["_scope_name"] = name
            if self._auto_prefix:
                part.update_parameters_name(name + ".")
        self._changed(name if isinstance(part, Parameter) else "")

    def _check_part(self, name: object, part: object, kind: type, checks_dots: bool = True) -> None:
        """Raise unless a cell or a parameter may be inserted under a name."""
        what = kind.__name__
        if not isinstance(name, str):
            raise GraphTypeError(f"The name of a {what} is a string, not {name!r}.")
        if not name or (checks_dots and "." in name):
            raise GraphKeyError(f"The name of a {what} cannot be empty or contain a dot, as {name!r} does.")
        existing = self.__dict__.get(name, getattr(type(self), name, None))
        if existing is not None and not isinstance(existing, kind):
            raise GraphKeyError(f"{type(self).__name__} already has a {name!r}; give the {what} another name.")
        if part is not None and not isinstance(part, kind):
            raise GraphTypeError(f"{name!r} must be a {what}, not {type(part).__name__}.")

    def __delattr__(self, name: str) -> None:
        if name not in self.__dict__:
            raise GraphAttributeError(f"The {type(self).__name__!r} object has no attribute {name!r}.")
        self._params.pop(name, None)
        self._cells.pop(name, None)
        del self.__dict__[name]
        self._changed()

    def __getattr__(self, name: str) -> Any:
        is_initialized = "_auto_prefix" in self.__dict__
        advice = instead(name, self._habits, ()) if is_initialized else "; call super().__init__() first"
        raise GraphAttributeError(f"The {type(self).__name__!r} object has no attribute {name!r}{advice}.")

    def __getstate__(self) -> dict[str, Any]:
        """The state of a copy: everything but the compiled steps."""
        return {**self.__dict__, "_compiled": {}}

    # -- parameters and inner cells ---------------------------------------------------------------------------

    def cells_and_names(self, name_prefix: str = "") -> Iterator[tuple[str, Cell]]:
        """This cell and every cell inside it, each once, with the path that leads to it."""
        seen: set[int] = set()
        waiting = [(name_prefix, self)]
        while waiting:
            path, cell = waiting.pop()
            if id(cell) in seen:
                continue
            seen.add(id(cell))
            yield path, cell
            inner = ((f"{path}.{name}" if path else name, child) for name, child in cell._cells.items())
            waiting.extend(reversed(list(inner)))

    def cells(self) -> list[Cell]:
        """The cells directly inside."""
        return list(self._cells.values())

    def name_cells(self) -> dict[str, Cell]:
        """The cells directly inside, by attribute."""
        return dict(self._cells)

    def parameters_and_names(self, name_prefix: str = "", expand: bool = True) -> Iterator[tuple[str, Parameter]]:
        """Every parameter once, with its path of attributes; only this cell's own unless `expand`."""
        seen: set[int] = set()
        for path, cell in self.cells_and_names(name_prefix) if expand else [(name_prefix, self)]:
            for name, parameter in cell._own_parameters():
                if id(parameter) not in seen:
                    seen.add(id(parameter))
                    yield (f"{path}.{name}" if path else name), parameter

    def _own_parameters(self) -> Iterator[tuple[str, Parameter]]:
        """The parameters that are attributes, by these, and those that are in tuples, by their names."""
        for name, part in self._params.items():
            yield from ((p.name, p) for p in part) if isinstance(part, ParameterTuple) else [(name, part)]

    def get_parameters(self, expand: bool = True) -> Iterator[Parameter]:
        """Every parameter, this cell's own first."""
        return (parameter for _, parameter in self.parameters_and_names(expand=expand))

    def parameters_dict(self, recurse: bool = True) -> dict[str, Parameter]:
        """Every parameter by its name; raises GraphValueError where two have one."""
        parameters = list(self.get_parameters(recurse))
        by_name = {parameter.name: parameter for parameter in parameters}
        if len(by_name) < len(parameters):
            check_distinct(self)
        return by_name

    def trainable_params(self, recurse: bool = True) -> list[Parameter]:
        """The parameters that require a gradient."""
        return [parameter for parameter in self.get_parameters(recurse) if parameter.requires_grad]

    def untrainable_params(self, recurse: bool = True) -> list[Parameter]:
        """The parameters that require no gradient."""
        return [parameter for parameter in self.get_parameters(recurse) if not parameter.requires_grad]

    def update_parameters_name(self, prefix: str = "", recurse: bool = True) -> None:
        """Name every parameter by `prefix` and its path of attributes."""
        for path, parameter in self.parameters_and_names(expand=recurse):
            if prefix:
                parameter.name = prefix + path

    def get_sub_cell(self, target: str) -> Cell:
        """The cell at a path of attributes, this one for an empty path; raises GraphAttributeError without one."""
        cell: Cell = self
        for name in filter(None, target.split(".")):
            cell = getattr(cell, name)
        return cell

    # -- configuration ----------------------------------------------------------------------------------------

    def set_train(self, mode: bool = True) -> Cell:
        """Switch this cell and all inside it between training and evaluation; returns the cell."""
        for _, cell in self.cells_and_names():
            cell.__dict__["training"] = bool(mode)
        Configuration.note_change()
        return self

    def set_grad(self, requires_grad: bool = True) -> Cell:
        """Mark that gradients of this cell are taken; returns the cell."""
        self.__dict__["requires_grad"] = bool(requires_grad)
        return self

    def add_flags(self, **flags: object) -> Cell:
        """Set attributes of this cell, as MindSpore's flags are; those that graphls does not know change nothing."""
        for name, value in flags.items():
            setattr(self, name, value)
        if flags:
            self.__dict__.setdefault("_flags", {}).update(flags)
        return self

    def add_flags_recursive(self, **flags: object) -> Cell:
        """Set attributes of this cell and of all inside it."""
        for _, cell in self.cells_and_names():
            cell.add_flags(**flags)
        return self

    def to_float(self, dst_type: DTypeLike | Recipe | None) -> Cell:
        """Compute this cell and all inside it in float16, bfloat16 or float32; returns the cell.

        Float inputs and parameters are cast where the cell uses them; parameters keep their dtype, and the
        result is not cast back. For a recipe of `graphls.amp`, such as `amp.CurrentScaling()`, products read operands
        of 8 bits or 4, and everything else stays in its dtype. None ends the recipe and leaves the dtypes, and a dtype
        ends it, too. Raises GraphValueError for any other dtype.
        """
        if dst_type is None or isinstance(dst_type, Recipe):
            give_recipe(self, dst_type)
            return self
        dtype = as_dtype(dst_type)
        if dtype not in (float16, bfloat16, float32):
            raise GraphValueError(f"to_float takes float16, bfloat16 or float32, or a recipe, not {dtype!r}.")
        for _, cell in self.cells_and_names():
            cell.__dict__.update(_float_type=dtype, _recipe=None)
        Configuration.note_change()
        return self

    def recompute(
        self, mode: bool = True, mp_comm_recompute: bool = True, parallel_optimizer_comm_recompute: bool = False
    ) -> Cell:
        """Compute this cell again for its gradient, so that only its inputs and results are kept; returns the cell.

        It costs one more forward of the cell and frees its intermediate values; the numbers stay the same. In the
        overflow mode "window", recomputed values are watched, too. The options for communication change nothing.
        """
        self.__dict__["_is_recomputed"] = boolean(type(self).__name__, "mode", mode)
        Configuration.note_change()
        return self

    @property
    def pipeline_stage(self) -> int | None:
        """The stage of a pipeline that runs this cell and all inside it; None is the stage of the cell that calls it.

        Stages are numbered from 0 and count where the mesh of a step has an axis `stage`. Raises GraphTypeError for a
        number that is not an int, GraphValueError for one below 0.
        """
        stage: int | None = self.__dict__["_pipeline_stage"]
        return stage

    @pipeline_stage.setter
    def pipeline_stage(self, value: int | None) -> None:
        checked = None if value is None else not_negative_int(type(self).__name__, "pipeline_stage", value)
        self.__dict__["_pipeline_stage"] = checked
        Configuration.note_change()

    def configuration(self) -> tuple[Any, ...]:
        """The settings of this cell alone that a compiled step depends on, and the version of its attributes."""
        types = self._float_type, self._output_type, self._casting, self._recipe
        return (self.training, *types, self._is_recomputed, self.pipeline_stage, self._version)

    # -- running ----------------------------------------------------------------------------------------------

    def construct(self, *inputs: Any, **options: Any) -> Any:
        """The computation of the cell; every subclass defines it.

        Raises GraphAttributeError where a class has none.
        """
        advice = "; rename its forward" if hasattr(type(self), "forward") else ""
        message = f"The 'construct' method of {type(self).__name__} is not defined{advice}."
        raise GraphAttributeError(message)

    def __call__(self, *args: Any, **options: Any) -> Any:
        if "_auto_prefix" not in self.__dict__:
            raise self._uninitialized()
        args, options = _bound_arguments(self, args, options)
        tracer = current_tracer()
        if tracer is not None:
            return call_cell(tracer, self, args, options)
        if runs_eagerly(self):
            return call_eagerly(self, args, options)
        return compiler().call_cell(self, args, options)

    def _eager_construct(self, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Run `construct` in eager mode, between the hooks of the cell."""
        return between_hooks(self, self.construct, args, options)

    def _trace_construct(self, *args: TensorLike, **options: object) -> Any:
        """Run `construct` under a trace, between the hooks, with the cell's own gradient where it has a `bprop`."""
        if getattr(type(self), "bprop", None) is None:
            return between_hooks(self, rewritten(self.construct), args, options)
        return between_hooks(self, lambda *a, **o: with_custom_gradient(self, a, o), args, options)


def _check_keyword(cls: type[Cell], name: str) -> None:
    parameters = inspect.signature(cls.__init__).parameters
    if name not in parameters and all(p.kind is not p.VAR_KEYWORD for p in parameters.values()):
        message = f"{cls.__name__} takes no argument {name!r}: {KEYWORDS[name]}."
        raise GraphTypeError(message)


@lru_cache(maxsize=4096)
def _signature(construct: Callable[..., object]) -> inspect.Signature:
    return inspect.signature(construct)


@lru_cache(maxsize=4096)
def _counts(construct: Callable[..., object]) -> range:
    """The numbers of arguments that fit by position alone; empty for `*args` and for arguments by name only."""
    parameters = list(_signature(construct).parameters.values())[1:]
    if any(p.kind is not p.POSITIONAL_OR_KEYWORD for p in parameters):
        return range(0)
    return range(sum(p.default is p.empty for p in parameters), len(parameters) + 1)


def input_names(cell: Cell, count: int) -> list[str]:
    """The names of the positional parameters of `construct`, as far as `count` inputs need them."""
    names: list[str] = []
    for parameter in list(_signature(type(cell).construct).parameters.values())[1:]:
        if parameter.kind is parameter.VAR_POSITIONAL:
            start = len(names)
            names += [f"{parameter.name}_{i}" for i in range(count - start)]
        elif parameter.kind is not parameter.VAR_KEYWORD:
            names.append(parameter.name)
    return names[:count]


def _bound_arguments(
    cell: Cell, args: tuple[object, ...], options: dict[str, object]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of `construct`, by position where possible; raises GraphTypeError where they do not fit."""
    construct = type(cell).construct
    if not options and len(args) in _counts(construct):
        return args, options
    signature = _signature(construct)
    try:
        bound = signature.bind(cell, *args, **options)
    except TypeError:
        parameters = [p for p in list(signature.parameters.values())[1:] if p.kind is p.POSITIONAL_OR_KEYWORD]
        optional = sum(p.default is not p.empty for p in parameters)
        required = len(parameters) - optional
        raise GraphTypeError(
            f"For 'Cell', the function construct requires {required} positional argument and {optional} default "
            f"argument, total {len(parameters)}, but got {len(args) + len(options)}; "
            f"it is {type(cell).__name__}.construct{signature}.",
        ) from None
    return bound.args[1:], bound.kwargs
