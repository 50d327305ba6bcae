"""Cells that apply one function: a class names it, and its annotations are its settings, as fields are of a dataclass.

    class Hardtanh(FunctionCell, function=ops.hardtanh):
        min_val: float = -1.0
        max_val: float = 1.0

makes `Hardtanh(0.0)(x)` compute `ops.hardtanh(x, min_val=0.0, max_val=1.0)`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from inspect import Parameter, Signature
from typing import TYPE_CHECKING, Any, ClassVar

from graphls.ir.errors import GraphTypeError
from graphls.nn.cell import Cell
from graphls.tensors.tensor import TensorLike

if TYPE_CHECKING:
    from typing_extensions import dataclass_transform
else:

    def dataclass_transform(**options: object) -> Callable[[type], type]:
        """What tells a type checker that the annotations of a class are the arguments that make it."""
        return lambda cls: cls


Check = Callable[[str, str, Any], Any]
"""Takes the name of a class, that of a setting and what was given for it; gives what is kept, or raises."""


@dataclass(frozen=True)
class Setting:
    """What a class says of a setting: its check, its default, whether it is given by name only, and its type."""

    check: Check | None = None
    default: Any = Parameter.empty
    kw_only: bool = False
    annotation: Any = Any


def setting(check: Check | None = None, *, default: object = Parameter.empty, kw_only: bool = False) -> Any:
    """A setting of a FunctionCell; one with a check is checked when a cell is made."""
    return Setting(check, default, kw_only)


@dataclass_transform(field_specifiers=(setting,))
class FunctionCell(Cell):
    """A cell that applies a function to its inputs, with its settings as keywords.

    A class that names a `function` takes its annotations as settings, behind those that it inherits. Its `inputs` are
    the arguments of `construct`, unless it defines that itself, and `shown` are the settings that `repr` shows. A
    subclass that names none is like any other: what a user writes keeps its own `__init__` and `construct`.
    """

    function: ClassVar[Callable[..., Any]]
    _settings: ClassVar[dict[str, Setting]] = {}
    _input_names: ClassVar[tuple[str, ...]] = ("x",)
    _shown: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(
        cls,
        function: Callable[..., Any] | None = None,
        inputs: tuple[str, ...] = (),
        shown: tuple[str, ...] = (),
    ) -> None:
        super().__init_subclass__()
        if function is None:
            return
        cls.function = staticmethod(function)
        cls._input_names, cls._shown = inputs or cls._input_names, shown or cls._shown
        cls._settings = cls._settings | _own_settings(cls)
        if cls._settings and "__init__" not in vars(cls):
            cls.__init__ = _initializer(cls)  # type: ignore[method-assign]
        if cls.construct is Cell.construct or hasattr(cls.construct, "is_made"):
            cls.construct = _construct(cls._input_names)  # type: ignore[method-assign]

    def _begin(self, settings: dict[str, Any]) -> None:
        """Make the cell, before its settings are set."""
        Cell.__init__(self)

    def _settle(self) -> None:
        """Check the settings that depend on each other."""

    def _result(self, *inputs: TensorLike) -> Any:
        """What the function gives."""
        return type(self).function(*inputs, **{name: getattr(self, name) for name in self._settings})

    def extend_repr(self) -> str:
        return ", ".join(f"{name}={getattr(self, name)}" for name in self._shown)


def _own_settings(cls: type[FunctionCell]) -> dict[str, Setting]:
    """The annotations of a class itself, which it keeps no defaults of: a cell without a setting has none."""
    found = {}
    for name, kind in vars(cls).get("__annotations__", {}).items():
        if not str(kind).startswith("ClassVar"):
            default = vars(cls).get(name, Parameter.empty)
            said = default if isinstance(default, Setting) else Setting(default=default)
            found[name] = replace(said, annotation=kind)
            if name in vars(cls):
                delattr(cls, name)
    return found


def _initializer(cls: type[FunctionCell]) -> Callable[..., None]:
    """The `__init__` that takes the settings of a class and checks them in order."""
    kinds = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
    rows = [
        Parameter(name, kinds[said.kw_only], default=said.default, annotation=said.annotation)
        for name, said in cls._settings.items()
    ]
    signature = Signature([Parameter("self", kinds[0]), *sorted(rows, key=lambda row: row.kind)])

    def __init__(self: FunctionCell, *args: Any, **options: Any) -> None:
        try:
            bound = signature.bind(self, *args, **options)
        except TypeError as error:
            raise GraphTypeError(f"{cls.__qualname__}.__init__() {error}.") from None
        bound.apply_defaults()
        values = {name: bound.arguments[name] for name in cls._settings}
        self._begin(values)
        for name, value in values.items():
            check = cls._settings[name].check
            setattr(self, name, value if check is None else check(type(self).__name__, name, value))
        self._settle()

    __init__.__signature__ = signature  # type: ignore[attr-defined]
    __init__.__qualname__ = f"{cls.__qualname__}.__init__"
    return __init__


def _construct(inputs: tuple[str, ...]) -> Callable[..., Any]:
    """A `construct` that takes these inputs."""
    rows = [Parameter(name, Parameter.POSITIONAL_OR_KEYWORD, annotation="Any") for name in inputs]
    signature = Signature([Parameter("self", Parameter.POSITIONAL_OR_KEYWORD), *rows], return_annotation="Tensor")

    def construct(self: FunctionCell, *given: Any, **named: Any) -> Any:
        return self._result(*(signature.bind(self, *given, **named).args[1:] if named else given))

    construct.__signature__ = signature  # type: ignore[attr-defined]
    construct.is_made = True  # type: ignore[attr-defined]
    return construct
