"""Writes stubs for editors and mypy, for functions generated from records of operations and for aliases: `make stubs`.

A test holds them true.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import graphls
from graphls.base.aliases import ALIASES
from graphls.frontend.tensors.methods import COMPARISONS, UNARY
from graphls.ops.record import CELLS, FUNCTIONS, OPERATIONS, OPERATORS, CellForm, Operation

PACKAGE = Path(graphls.__file__).parent
IMPORTS = """\
import builtins
from collections.abc import Callable, Sequence
from typing import Any

from graphls.ir.types import DTypeLike
from graphls.ops.operands import Axis, Operand, OutputSizes, Paddings, ShapeLike, Sizes
from graphls.frontend.tensors.tensor import Tensor, TensorLike
"""
KNOWN = {"Any", "Axis", "Callable", "DTypeLike", "None", "Operand"}
KNOWN |= {"OutputSizes", "Paddings", "Sequence", "ShapeLike", "Sizes", "Tensor", "TensorLike"}
BUILTINS = {"bool", "int", "float", "str", "tuple", "list", "dict", "object"}
SPELLINGS = {"axis": ("dim",), "keepdims": ("keepdim", "keep_dims"), "x": ("input",)}
EMPTY = inspect.Parameter.empty


def stubs() -> dict[Path, str]:
    """The text of each stub by its path."""
    return {
        PACKAGE / "frontend" / "tensors" / "methods.pyi": _methods(),
        PACKAGE / "ops" / "__init__.pyi": _functions(),
        PACKAGE / "ops" / "operations.pyi": _classes(),
        PACKAGE / "nn" / "functions.pyi": _cells(),
        **_aliases(),
    }


def _aliases() -> dict[Path, str]:
    """A partial stub package (PEP 561), that tells type checkers the aliases of modules."""
    folder = PACKAGE.parent / "graphls-stubs"
    below = {alias: alias.removeprefix("graphls.").replace(".", "/") for alias in ALIASES}
    paths = {alias: folder / f"{path}.pyi" for alias, path in below.items()}
    return {folder / "py.typed": "partial\n", **{paths[a]: f"from {name} import *\n" for a, name in ALIASES.items()}}


def _methods() -> str:
    lines = ["UNARY: tuple[str, ...]", "COMPARISONS: tuple[str, ...]", "METHODS: dict[str, Callable[..., Any]]", ""]
    lines += ["def give_operator(symbol: str, function: Callable[..., Any]) -> None: ...", "", "class Methods:"]
    lines += ["    __slots__ = ()", ""]
    for record in OPERATIONS:
        for name in (*record.methods, *record.in_place):
            lines += _indented(_definition(name, record.function, record.spelled, itself=True))
        lines += _indented(_symbols(record.symbol)) if record.symbol else []
    return _text("Methods and operators of tensors", IMPORTS, lines)


def _symbols(symbol: str) -> list[str]:
    if symbol in UNARY:
        return [f"def __{symbol}__(self) -> Tensor: ..."]
    if symbol in ("eq", "ne"):
        return [f"def __{symbol}__(self, other: object) -> Tensor: ...  # type: ignore[override]"]
    names = [symbol] if symbol in COMPARISONS else [symbol, f"r{symbol}"]
    return [f"def __{name}__(self, other: Any) -> Tensor: ..." for name in names]


def _functions() -> str:
    written = [record for record in OPERATIONS if record.spelled or _is_made(record.function)]
    spelled = {name: record for record in written for name in record.names}
    plain = {name: item for name, item in FUNCTIONS.items() if name not in spelled}
    own = [f"from {f.__module__} import {name} as {name}" for name, f in plain.items() if f.__name__ == name]
    own.append("from graphls.ops.operations import *")
    lines = [f"{name} = {item.__name__}" for name, item in plain.items() if item.__name__ != name]
    lines += [line for name, r in spelled.items() for line in _definition(name, r.function, r.spelled)]
    imports = IMPORTS + "\n".join(sorted(own)) + "\n"
    return _text("Functions and operator classes", imports, ["__all__: list[str]", *lines])


def _is_made(function: Callable[..., Any]) -> bool:
    """Returns whether a decorator generated the function, as `by_axes` does: mypy does not see its parameters then."""
    own = inspect.unwrap(function)
    return inspect.isfunction(own) and own.__code__.co_name != function.__name__


def _classes() -> str:
    records = {name: record for record in OPERATIONS for name in record.classes}
    own = ("composite", "Partial"), ("primitive", "Operator"), ("primitive", "REQUIRED"), ("record", "OPERATORS")
    imports = IMPORTS + "".join(f"from graphls.ops.{module} import {name} as {name}\n" for module, name in own)
    return _text("Operator classes", imports, [line for name in records for line in _class(name, records[name])])


def _class(name: str, record: Operation) -> list[str]:
    kind = OPERATORS[name]
    constructor, called = inspect.signature(kind), inspect.signature(kind.__call__)
    types = inspect.signature(record.function)
    settings = [p.replace(annotation=types.parameters[p.name].annotation) for p in constructor.parameters.values()]
    inputs = list(called.parameters.values())[1:]
    return [
        f"class {name}(Operator):",
        f'    """{_summary(record.function)}"""',
        f"    def __init__({_parameters(settings, itself=True)}) -> None: ...",
        f"    def __call__({_parameters(inputs, itself=True)}) -> {_annotation(types.return_annotation)}: ...",
        "",
    ]


def _cells() -> str:
    imports = IMPORTS + "from graphls.nn.function_cells import FunctionCell, FunctionLoss\n"
    lines = [line for r in CELLS.values() if r.cell is not None for line in _cell(r, r.cell)]
    return _text("Cells that apply one function", imports, [f"__all__ = {sorted(CELLS)}", "", *lines])


def _cell(record: Operation, form: CellForm) -> list[str]:
    kinds = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY
    settings = [
        inspect.Parameter(name, kinds[s.is_keyword], default=s.default, annotation=s.annotation)
        for name, s in form.settings.items()
    ]
    inputs = ", ".join(["self", *(f"{name}: TensorLike" for name in form.inputs)])
    result = _annotation(inspect.signature(record.function).return_annotation)
    constructor = [f"    def __init__({_parameters(settings, itself=True)}) -> None: ..."] if settings else []
    return [
        f"class {form.name}({'FunctionLoss' if 'reduction' in form.settings else 'FunctionCell'}):",
        f'    """{_summary(record.function)}"""',
        *constructor,
        f"    def construct({inputs}) -> {result}: ...",
        f"    def __call__({inputs}) -> {result}: ...",
        "",
    ]


def _definition(name: str, function: Callable[..., Any], spelled: bool, itself: bool = False) -> list[str]:
    signature = inspect.signature(function)
    parameters = list(signature.parameters.values())
    parameters = parameters[1:] if itself else parameters
    if spelled:
        parameters = _with_spellings(parameters)
    result = _annotation(signature.return_annotation)
    return [f"def {name}({_parameters(parameters, itself)}) -> {result}: ..."]


def _with_spellings(parameters: list[inspect.Parameter]) -> list[inspect.Parameter]:
    """The parameters and, by keyword, their other spellings; the tensor may be given by another name, too."""
    others = [
        p.replace(name=name, kind=p.KEYWORD_ONLY, default=...) for p in parameters for name in SPELLINGS.get(p.name, ())
    ]
    return [*(p.replace(default=...) if _is_required(p) else p for p in parameters), *others]


def _is_required(parameter: inspect.Parameter) -> bool:
    return parameter.default is EMPTY and parameter.kind is parameter.POSITIONAL_OR_KEYWORD


def _parameters(parameters: Iterable[inspect.Parameter], itself: bool) -> str:
    parts = ["self"] if itself else []
    is_starred = False
    for p in parameters:
        if p.kind is p.KEYWORD_ONLY and not is_starred:
            parts.append("*")
        is_starred = is_starred or p.kind in (p.KEYWORD_ONLY, p.VAR_POSITIONAL)
        mark = "*" if p.kind is p.VAR_POSITIONAL else "**" if p.kind is p.VAR_KEYWORD else ""
        default = "" if p.default is EMPTY else f" = {_default(p.default)}"
        parts.append(f"{mark}{p.name}: {_annotation(p.annotation)}{default}")
    return ", ".join(parts)


def _default(value: Any) -> str:
    """A default that can be written; others are three dots."""
    if isinstance(value, tuple):
        return f"({', '.join(map(_default, value))}{',' * (len(value) == 1)})"
    return repr(value).replace("'", '"') if isinstance(value, (bool, int, float, str, type(None))) else "..."


def _annotation(text: Any) -> str:
    """An annotation whose names the stub knows, with builtins by their full names, as methods have some of theirs."""
    text = text.__name__ if isinstance(text, type) and text is not EMPTY else text
    if not isinstance(text, str):
        return "Any"
    tree = ast.parse(text, mode="eval")
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            if node.id not in KNOWN | BUILTINS:
                return "Any"
            node.id = f"builtins.{node.id}" if node.id in BUILTINS else node.id
        elif isinstance(node, ast.Attribute):
            return "Any"
    return ast.unparse(tree)


def _summary(function: Callable[..., Any]) -> str:
    text = (inspect.getdoc(function) or "").split("\n\n")[0].replace("\n", " ")
    return text.replace("\\", "\\\\").replace('"', "'")


def _indented(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]


def _text(title: str, imports: str, lines: list[str]) -> str:
    return f"# {title}, as records declare them (`graphls/ops/record.py`). Made by `make stubs`.\n{imports}\n" + (
        "\n".join(lines).rstrip() + "\n"
    )


if __name__ == "__main__":
    for path, text in stubs().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
