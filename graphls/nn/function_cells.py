"""Cells that apply one function, built from the records of operations, and the base class of losses."""

from __future__ import annotations

from collections.abc import Callable
from inspect import Parameter, Signature, getdoc
from typing import Any, ClassVar

from graphls import ops
from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.frontend.tensors.tensor import Tensor, TensorLike
from graphls.nn.cell import Cell
from graphls.ops.network.losses import require_tensors
from graphls.ops.operands import apply, tensor_of
from graphls.ops.record import CellForm, Operation

__all__ = ["LossBase"]

_ITSELF = Parameter("self", Parameter.POSITIONAL_OR_KEYWORD)


class FunctionCell(Cell):
    """A cell that applies a function to its inputs, with its settings as keywords.

    It can be subclassed as any other cell: a user's `__init__` and `construct` stay in effect.
    """

    function: ClassVar[Callable[..., Any]]
    form: ClassVar[CellForm]

    def _begin(self, settings: dict[str, object]) -> None:
        """Initialize the cell, before its settings are set."""
        Cell.__init__(self)

    def _result(self, *inputs: TensorLike) -> Any:
        """The result of the function."""
        return type(self).function(*inputs, **{name: getattr(self, name) for name in self.form.settings})

    def extend_repr(self) -> str:
        return ", ".join(f"{name}={getattr(self, name)}" for name in self.form.shown)


class LossBase(Cell):
    """A loss of each sample, and its reduction: "mean", "sum" or "none".

    Raises GraphValueError for another reduction.

    Examples:
        >>> from graphls import nn, tensor
        >>> class FourthPower(nn.LossBase):
        ...     def construct(self, logits, labels):
        ...         return self.get_loss((logits - labels) ** 4)
        >>> FourthPower()(tensor([0.0, 1.0]), tensor([0.0, 3.0]))
        Tensor(shape=[], dtype=Float32, value=8.0)
        >>> FourthPower("none")(tensor([0.0, 1.0]), tensor([0.0, 3.0]))
        Tensor(shape=[2], dtype=Float32, value=[ 0. 16.])
    """

    reductions: ClassVar[tuple[str, ...]] = ("mean", "sum", "none")

    def __init__(self, reduction: str = "mean") -> None:
        super().__init__()
        if reduction not in self.reductions:
            raise GraphValueError(
                f"For {type(self).__name__!r}, the 'reduction' must be in {list(self.reductions)}, "
                f"but got {reduction!r}.",
            )
        self.reduction = reduction

    def get_loss(self, x: TensorLike, weights: TensorLike = 1.0) -> Tensor:
        """The reduction of losses times weights, in the dtype of the losses."""
        x = tensor_of(x)
        if not isinstance(weights, float) or weights != 1.0:
            x = ops.cast(ops.mul(x, weights), x.dtype)
        reduce = {"none": ops.identity, "mean": ops.mean, "sum": ops.sum}[self.reduction]
        result: Tensor = reduce(x)
        return result


class FunctionLoss(FunctionCell, LossBase):
    """A loss that applies a function; a step refuses, before it runs, nan and infinity in its input called `finite`."""

    def _begin(self, settings: dict[str, Any]) -> None:
        LossBase.__init__(self, settings["reduction"])

    def _result(self, *inputs: TensorLike) -> Any:
        pairs = zip(self.form.inputs, inputs, strict=True)
        name = type(self).__name__
        return super()._result(*(finite_labels(name, x) if of == self.form.finite else x for of, x in pairs))


def finite_labels(name: str, labels: object) -> Tensor:
    """Labels that a step checks for nan and infinity; raises GraphTypeError for anything but a tensor."""
    require_tensors(name, labels)
    return apply("check_labels", tensor_of(labels))


def function_cell(record: Operation, module: str) -> type[FunctionCell]:
    """The class of cells that a record declares, with the docstring of its function."""
    form = record.cell
    assert form is not None
    base = FunctionLoss if "reduction" in form.settings else FunctionCell
    fields = {
        "__module__": module,
        "__doc__": getdoc(record.function),
        "function": staticmethod(record.function),
        "form": form,
        "construct": _construct(form.inputs),
    }
    cell_class = type(form.name, (base,), fields)
    if form.settings:
        cell_class.__init__ = _initializer(cell_class)  # type: ignore[misc]
    return cell_class


def _initializer(cls: type[FunctionCell]) -> Callable[..., None]:
    """The `__init__` that takes the settings of a class and checks them in order."""
    settings, kinds = cls.form.settings, (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
    rows = [
        Parameter(name, kinds[setting.is_keyword], default=setting.default, annotation=setting.annotation)
        for name, setting in settings.items()
    ]
    signature = Signature([_ITSELF, *rows])

    def __init__(self: FunctionCell, *args: object, **options: object) -> None:
        try:
            bound = signature.bind(self, *args, **options)
        except TypeError as error:
            raise GraphTypeError(f"{cls.__qualname__}.__init__() {error}.") from None
        bound.apply_defaults()
        values = {name: bound.arguments[name] for name in settings}
        self._begin(values)
        for name, value in values.items():
            check = settings[name].check
            setattr(self, name, value if check is None else check(type(self).__name__, name, value))

    __init__.__signature__ = signature  # type: ignore[attr-defined]
    __init__.__qualname__ = f"{cls.__qualname__}.__init__"
    return __init__


def _construct(inputs: tuple[str, ...]) -> Callable[..., Any]:
    """A `construct` that takes these inputs."""
    rows = [Parameter(name, _ITSELF.kind, annotation="TensorLike") for name in inputs]
    signature = Signature([_ITSELF, *rows], return_annotation="Tensor")

    def construct(self: FunctionCell, *args: TensorLike, **named: TensorLike) -> Any:
        """The result of the function."""
        return self._result(*(signature.bind(self, *args, **named).args[1:] if named else args))

    construct.__signature__ = signature  # type: ignore[attr-defined]
    return construct
