"""The registry of operations: one record declares an operation's names, tensor methods, operator classes and cells.

    @operation(names="tensor_add", classes="Add", symbol="add")
    def add(x, y): ...

stands in the file of the subject. It defines `ops.add` and `ops.tensor_add`, the methods `x.add(y)` and `x + y`, and
the operator class `ops.Add()(x, y)`. `cells="ReLU"` defines the cell `nn.ReLU()(x)`. `make stubs` writes their
signatures for editors and mypy, `make pages` their rows in docs/operators. A form with other arguments than the
function has its own function, declared by `operator_class`, `cell`, `tensor_method` or `in_place`.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial, wraps
from typing import Any, overload

from graphls.base.checks import Check, boolean
from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.base.reporting import guarded
from graphls.frontend.tensors import dispatch
from graphls.frontend.tensors.methods import METHODS, Methods, give_operator
from graphls.frontend.tensors.tensor import Tensor
from graphls.ir.types import DType, as_dtype
from graphls.ops.operands import Function, tensor_of
from graphls.ops.primitive import operator

Wrapper = Callable[[Callable[..., Any]], Callable[..., Any]]
FIRST = ("x", "input", "input_x", "input_params", "logits", "mat", "dividend")
"""The parameter names of a tensor that the function becomes a method of, if it comes first."""


@dataclass(frozen=True, eq=False)
class Setting:
    """A setting of a cell: its default, whether it is keyword-only, its check and its annotation."""

    default: Any
    is_keyword: bool = False
    check: Check | None = None
    annotation: Any = "Any"


@dataclass(frozen=True, eq=False)
class CellForm:
    """The cell form of a function: the inputs of its `construct`, and the settings of its constructor."""

    name: str
    settings: Mapping[str, Setting]
    inputs: tuple[str, ...]
    shown: tuple[str, ...] = ()
    finite: str = ""


@dataclass(frozen=True, eq=False)
class Operation:
    """The record of one function: the names of each of its forms."""

    function: Callable[..., Any]
    names: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    in_place: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    symbol: str = ""
    spelled: bool = False
    cell: CellForm | None = None


OPERATIONS: list[Operation] = []
"""All records, in the order of their files."""

FUNCTIONS: dict[str, Any] = {}
"""The functions and classes of `graphls.ops` by public name."""

ALSO: dict[str, dict[str, Any]] = {
    "numpy": {}, "mint": {}, "mint.linalg": {}, "mint.nn.functional": {}, "mint.special": {},
}  # fmt: skip
"""The functions of other modules of MindSpore than `mindspore.ops`, by their names there."""


class OperatorClasses(Mapping[str, type[Any]]):
    """Operator classes by name, each created at its first lookup, which keeps `import graphls` fast."""

    def __init__(self) -> None:
        self.makers: dict[str, Callable[[], type[Any]]] = {}
        self._classes: dict[str, type[Any]] = {}

    def __getitem__(self, name: str) -> type[Any]:
        # Two threads may both create a class; `setdefault` gives both the first one.
        return self._classes.get(name) or self._classes.setdefault(name, self.makers[name]())

    def __iter__(self) -> Iterator[str]:
        return iter(self.makers)

    def __len__(self) -> int:
        return len(self.makers)


OPERATORS = OperatorClasses()
"""All operator classes."""

CELLS: dict[str, Operation] = {}
"""The records of cells by name, from which `graphls.nn` creates classes."""


@overload
def operation(function: Function, /) -> Function: ...
@overload
def operation(
    *, names: str = ..., also: str = ..., checks: Mapping[str, Check] | None = ..., classes: str = ...,
    cells: str = ..., settings: str = ..., defaults: Mapping[str, Any] | None = ..., via: Wrapper | None = ...,
    method: bool | Wrapper | None = ..., in_place: str = ..., symbol: str = ..., spelled: bool = ...,
) -> Callable[[Function], Function]: ...  # fmt: skip
def operation(
    function: Any = None, /, *, names: str = "", also: str = "", checks: Mapping[str, Check] | None = None,
    classes: str = "", cells: str = "", settings: str = "", defaults: Mapping[str, Any] | None = None,
    via: Wrapper | None = None, method: bool | Wrapper | None = None, in_place: str = "", symbol: str = "",
    spelled: bool = False,
) -> Any:  # fmt: skip
    """Declare a public function, or class, of `graphls.ops`.

    `names` are further names of it, `also` the modules of MindSpore besides `mindspore.ops` that have it, as "numpy"
    or, where it has another name there, "numpy.multiply"; `classes` the operator classes that compute it (see
    `operator_class` for `settings`, `defaults` and `via`), `cells` the cells that apply it to one input x with the same
    settings (see `cell`), `in_place` the methods that write the result into their tensor, and `symbol` the word in
    Python's special method, as in `__add__`. A function whose first parameter is one of FIRST is a method by all of its
    names, unless `method` is False; `method` may also be a wrapper for the method. With `spelled` it takes `dim`,
    `keepdim`, `keep_dims` and `input` for `axis`, `keepdims` and `x`. A parameter whose default is a bool takes bools
    only, and `dtype` dtypes only. Raises GraphValueError for a name of another operation.
    """

    def declare(function: Any) -> Any:
        checked = _usual_checks(function) | dict(checks or {})
        function = with_checks(function, checked) if checked else function
        function = with_spellings(function) if spelled else function
        function = guarded(function) if inspect.isfunction(function) else function
        known = (function.__name__, *names.split())
        methods = known if (_takes_tensor(function) if method is None else method) else ()
        paths = tuple(f"{path}.{function.__name__}" if path in ALSO else path for path in also.split())
        record = Operation(function, known, paths, methods, tuple(in_place.split()), symbol=symbol, spelled=spelled)
        for path in paths:
            module, _, name = path.rpartition(".")
            _add(ALSO[module], (name,), function)
        _add(FUNCTIONS, known, function)
        OPERATIONS.append(record)
        _add_methods(record, method(function) if callable(method) else function)
        if classes:
            operator_class(classes, settings, defaults=defaults, via=via)(function)
        for name in cells.split():
            cell(name, settings, defaults=defaults)(function)
        return function

    return declare if function is None else declare(function)


def operator_class(
    classes: str, settings: str = "", *, defaults: Mapping[str, Any] | None = None, via: Wrapper | None = None,
    like: Callable[..., Any] | None = None,
) -> Callable[[Function], Function]:  # fmt: skip
    """Declare operator classes, `Name(settings)(tensors)`, that call a function, or `via(function)`.

    `settings` are the parameters of the constructor, with the defaults of the function or of `defaults`. `like` is the
    function whose docstring they have.
    """

    def declare(function: Function) -> Function:
        if like is not None:
            function.__doc__ = like.__doc__
        called = function if via is None else guarded(via(function))
        called.__doc__ = called.__doc__ or function.__doc__
        record = Operation(called, classes=tuple(classes.split()))
        OPERATIONS.append(record)
        for name in record.classes:
            _add(OPERATORS.makers, (name,), partial(_operator, name, called, settings.split(), defaults or {}))
        return function

    return declare


def _operator(name: str, function: Callable[..., Any], settings: list[str], defaults: Mapping[str, Any]) -> type[Any]:
    parameters = inspect.signature(function).parameters
    settings_with_defaults = {key: defaults.get(key, parameters[key].default) for key in settings}
    return operator(name, function, settings_with_defaults, "graphls.ops.operations")


AXES = {
    1: {"images": "sequences", "sizes": "L", "lengths": "length"},
    2: {"images": "images", "sizes": "H, W", "lengths": "height, width"},
    3: {"images": "volumes", "sizes": "D, H, W", "lengths": "depth, height, width"},
}
"""The words for images of one to three axes, their sizes, and those of their windows."""


def by_axes(
    *counts: int, also: str = "", checks: Mapping[str, Check] | None = None
) -> Callable[[Callable[[int], Function]], tuple[Function, ...]]:
    """Declare a function for each of several numbers of image axes, by a factory that takes the number.

    `conv` declares `conv1d`, `conv2d` and `conv3d`, whose docstrings are that of `conv` with the words of AXES.
    """

    def declare(make: Callable[[int], Function]) -> tuple[Function, ...]:
        functions = []
        for count in counts:
            function = make(count)
            for each in (function, inspect.unwrap(function)):
                each.__name__ = each.__qualname__ = f"{make.__name__}{count}d"
            function.__doc__ = (make.__doc__ or "").format(**AXES[count])
            functions.append(operation(also=also, checks=checks)(function))
        return tuple(functions)

    return declare


def cell(
    name: str, settings: str = "", *, inputs: str = "x", defaults: Mapping[str, Any] | None = None,
    checks: Mapping[str, Check] | None = None, shown: str = "", finite: str = "",
) -> Callable[[Function], Function]:  # fmt: skip
    """Declare a cell, `Name(settings)(inputs)`, that applies a function.

    `settings` are parameters of the function, passed as keywords, with the defaults of the function or of `defaults`;
    those after a `*` are keyword-only. `checks` validate their values, in order, and `repr` shows those in `shown`.
    `inputs` are the names of the inputs of a call; before it runs, a step rejects nan and infinity in the one named
    `finite`. A cell with a setting `reduction` is a loss.
    """

    def declare(function: Function) -> Function:
        parameters, settings_of_cell, is_keyword = inspect.signature(function).parameters, {}, False
        for key in settings.split():
            if key == "*":
                is_keyword = True
                continue
            p = parameters[key]
            default, check = (defaults or {}).get(key, p.default), (checks or {}).get(key)
            settings_of_cell[key] = Setting(default, is_keyword, check, p.annotation)
        form = CellForm(name, settings_of_cell, tuple(inputs.split()), tuple(shown.split()), finite)
        record = Operation(function, cell=form)
        OPERATIONS.append(record)
        _add(CELLS, (name,), record)
        return function

    return declare


def tensor_method(name: str = "") -> Callable[[Function], Function]:
    """Declare a method of tensors that is not a function of `graphls.ops`; by default with the name of the function."""

    def declare(function: Function) -> Function:
        record = Operation(function, methods=(name or function.__name__,))
        OPERATIONS.append(record)
        _add_methods(record, guarded(function))
        return function

    return declare


def in_place(names: str) -> Callable[[Function], Function]:
    """Declare methods that write the result of a function into their tensor: `x.add_(y)`."""

    def declare(function: Function) -> Function:
        record = Operation(function, in_place=tuple(names.split()))
        OPERATIONS.append(record)
        _add_methods(record, function)
        return function

    return declare


def _takes_tensor(function: Callable[..., Any]) -> bool:
    # Reads the code object, as `inspect.signature` would slow the import of graphls.
    code = inspect.unwrap(function).__code__ if inspect.isfunction(function) else None
    return code is not None and code.co_argcount > 0 and code.co_varnames[0] in FIRST


def _add_methods(record: Operation, method: Callable[..., Any]) -> None:
    """Add the methods of a record to tensors."""
    _add(METHODS, record.methods, method)
    for name in record.in_place:
        _add(METHODS, (name,), guarded(in_place_method(name, record.function)))
    for name in (*record.methods, *record.in_place):
        setattr(Methods, name, METHODS[name])
    if record.symbol:
        give_operator(record.symbol, record.function)


def _add(table: dict[str, Any], names: tuple[str, ...], item: Any) -> None:
    for name in names:
        if name in table:
            raise GraphValueError(f"There are two operations {name!r}; give one of them another name.")
        table[name] = item


def in_place_method(name: str, compute: Callable[..., Any]) -> Callable[..., Tensor]:
    """A method that replaces a tensor's value by that of `compute`, in its own dtype, and returns the tensor.

    In a graph all references to the tensor have the new value from there on. Raises GraphValueError for another shape.
    """

    @wraps(compute)
    def method(x: Tensor, *args: Any, **options: Any) -> Tensor:
        result = tensor_of(compute(x, *args, **options))
        if result.shape != x.shape:
            raise GraphValueError(f"{name} gives {result.type}, and a tensor of the shape {x.shape} keeps its shape.")
        x._become(result if result.dtype is x.dtype else dispatch.cast(result, x.dtype))
        return x

    method.__name__ = method.__qualname__ = name
    return method


def _usual_checks(function: Callable[..., Any]) -> dict[str, Check]:
    """Checks for bools of the parameters whose defaults are bools, and for a dtype of a `dtype` with default None."""
    function = inspect.unwrap(function)
    if not inspect.isfunction(function):
        return {}
    code, by_place = function.__code__, function.__defaults__ or ()
    names = code.co_varnames[code.co_argcount - len(by_place) : code.co_argcount]
    defaults = {**dict(zip(names, by_place, strict=True)), **(function.__kwdefaults__ or {})}
    checks: dict[str, Check] = {name: boolean for name, default in defaults.items() if isinstance(default, bool)}
    return checks | ({"dtype": _dtype} if "dtype" in defaults and defaults["dtype"] is None else {})


def _dtype(_: str, __: str, value: Any) -> DType | None:
    return None if value is None else as_dtype(value)


def with_checks(function: Function, checks: Mapping[str, Check]) -> Function:
    """The function with its arguments checked and converted by the checks."""
    # Reads the code object, as `inspect.signature` would slow the import of graphls.
    code = inspect.unwrap(function).__code__
    by_place = code.co_varnames[: code.co_argcount]
    checked = [(by_place.index(n) if n in by_place else sys.maxsize, n, check) for n, check in checks.items()]
    label = function.__name__

    @wraps(function)
    def called(*args: Any, **options: Any) -> Any:
        for index, name, check in checked:
            if name in options:
                options[name] = check(label, name, options[name])
            elif index < len(args):
                args = (*args[:index], check(label, name, args[index]), *args[index + 1 :])
        return function(*args, **options)

    return called  # type: ignore[return-value]


_SPELLINGS = {"dim": "axis", "keepdim": "keepdims", "keep_dims": "keepdims", "input": "x"}
"""The names of one parameter in different versions of MindSpore."""


def with_spellings(function: Function) -> Function:
    """The function with further keywords: `dim` for `axis`, `keepdim` or `keep_dims` for `keepdims`, `input` for `x`.

    Calls raise GraphTypeError, with the user's line, for arguments that the function does not take.
    """
    signature = inspect.signature(function)

    @wraps(function)
    def called(*args: Any, **options: Any) -> Any:
        named = {_SPELLINGS.get(name, name): value for name, value in options.items()}
        try:
            signature.bind(*args, **named)
            if len(named) < len(options):
                raise TypeError("one argument has two names")
        except TypeError as error:
            message = f"{function.__name__} takes {', '.join(signature.parameters)}: {error}."
            raise GraphTypeError(message) from None
        return function(*args, **named)

    return called  # type: ignore[return-value]
