"""Rewriting of user functions: finds the source, transforms the syntax tree and compiles the new code."""

from __future__ import annotations

import ast
import copy
import os
import sysconfig
import weakref
from collections.abc import Iterator
from functools import lru_cache, partial
from types import CellType, CodeType, FunctionType, MethodType
from typing import Any, TypeVar

from graphls.base.location import is_own
from graphls.frontend.registry import register
from graphls.frontend.trace.rewriting import flow
from graphls.frontend.trace.rewriting.expressions import Declined, Expressions, new_function
from graphls.frontend.trace.rewriting.sources import ScopedDefinition, definition_of
from graphls.frontend.trace.rewriting.statements import Statements, is_plain
from graphls.frontend.trace.tracer import current_tracer

_STANDARD = tuple(sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib"))
_PACKAGES = tuple(sysconfig.get_path(name) + os.sep for name in ("purelib", "platlib"))
_UNCHANGED = ("numpy", "onnx", "onnxruntime", "scipy", "PIL")
_codes: dict[int, tuple[weakref.ref[CodeType], CodeType | None]] = {}


def in_trace(function: object) -> Any:
    """The rewritten form of a user's function in a trace; the function itself outside."""
    return function if current_tracer() is None else rewritten(function)


def rewritten(function: object) -> Any:
    """The form that a trace runs of a function, a method, a `partial` or a callable object.

    Anything else, and functions without a source that can be rewritten, are returned unchanged.
    """
    tracer = current_tracer()
    if tracer is not None and not tracer.rewrites:
        return function
    if isinstance(function, FunctionType):
        return _function(function)
    if isinstance(function, MethodType):
        inner = rewritten(function.__func__)
        return function if inner is function.__func__ else MethodType(inner, function.__self__)
    if type(function) is partial:
        inner = rewritten(function.func)
        return function if inner is function.func else partial(inner, *function.args, **function.keywords)
    return _called_object(function)


def _called_object(item: object) -> Any:
    """The rewritten method `__call__` of an object of a user's class."""
    method = None if isinstance(item, type) else getattr(type(item), "__call__", None)  # noqa: B004
    if not isinstance(method, FunctionType):
        return item
    inner = _function(method)
    return item if inner is method else MethodType(inner, item)


def _function(function: FunctionType) -> FunctionType:
    code = _code(function)
    if code is None:
        return function
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    cells["@flow"] = CellType(flow)
    closure = tuple(cells[name] for name in code.co_freevars)
    new = FunctionType(code, function.__globals__, function.__name__, function.__defaults__, closure)
    new.__kwdefaults__, new.__doc__, new.__module__ = function.__kwdefaults__, function.__doc__, function.__module__
    new.__qualname__, new.__annotations__ = function.__qualname__, function.__annotations__
    new.__dict__.update(function.__dict__)
    return new


def _code(function: FunctionType) -> CodeType | None:
    """The rewritten code of a function, cached; None where it stays unchanged."""
    code = function.__code__
    known = _codes.get(id(code))
    if known is not None and known[0]() is code:
        return known[1]
    new = None if _is_foreign(code.co_filename) or "@flow" in code.co_freevars else _new_code(function)
    key = id(code)
    codes = _codes  # at the end of the process the module's own names are gone
    codes[key] = weakref.ref(code, lambda _: codes.pop(key, None)), new
    return new


@lru_cache(maxsize=4096)
def _is_foreign(file: str) -> bool:
    """Whether a file belongs to graphls, to Python or to a library that never calls with tensors of graphls."""
    if is_own(file):
        return True
    if file.startswith(_PACKAGES):
        return any(file.startswith(folder + name) for folder in _PACKAGES for name in _UNCHANGED)
    return file.startswith(_STANDARD)


def _new_code(function: FunctionType) -> CodeType | None:
    definition = definition_of(function)
    if definition is None or isinstance(definition.node, ast.AsyncFunctionDef) or not is_plain(definition.node):
        return None
    try:
        return _compiled(_rewritten(definition), function.__code__)
    except (Declined, SyntaxError, RecursionError):
        return None


def _rewritten(definition: ScopedDefinition) -> ast.FunctionDef | ast.Lambda:
    node = mangled(copy.deepcopy(definition.node), definition.owner)
    assert not isinstance(node, ast.AsyncFunctionDef)
    node.args.defaults, node.args.kw_defaults = [], [None] * len(node.args.kwonlyargs)
    if isinstance(node, ast.Lambda):
        parameters = (*node.args.posonlyargs, *node.args.args)
        node.body = Expressions(parameters[0].arg if parameters else None).visit(node.body)
        return node
    node.decorator_list, node.returns = [], None
    for argument in ast.walk(node.args):
        if isinstance(argument, ast.arg):
            argument.annotation = None
    node.body, node.name = Statements(node).body(), "@function"
    return node


def _compiled(node: ast.FunctionDef | ast.Lambda, old: CodeType) -> CodeType:
    """The code of a definition in a function that has its free variables."""
    names = [ast.arg(name) for name in (*old.co_freevars, "@flow")]
    outer = ast.Lambda(ast.arguments([], names, None, [], [], None, []), ast.Constant(None))
    around: ast.stmt
    if isinstance(node, ast.Lambda):
        outer.body = node
        around = ast.Expr(outer)
    else:
        around = new_function("@outer", outer.args, [node])
    module = ast.fix_missing_locations(ast.Module([ast.copy_location(around, node)], []))
    code = next(_inner_codes(next(_inner_codes(compile(module, old.co_filename, "exec", dont_inherit=True)))))
    return _named(code.replace(co_firstlineno=old.co_firstlineno), old)


def _named(code: CodeType, old: CodeType) -> CodeType:
    """The code with the name of the user's function on the inner functions that rewriting has added."""
    constants = tuple(
        _named(c, old) if isinstance(c, CodeType) and c.co_name.startswith("@") else c for c in code.co_consts
    )
    names: dict[str, Any] = {"co_name": old.co_name}
    if hasattr(old, "co_qualname"):
        names["co_qualname"] = old.co_qualname
    return code.replace(co_consts=constants, **names)


def _inner_codes(code: CodeType) -> Iterator[CodeType]:
    return (constant for constant in code.co_consts if isinstance(constant, CodeType))


register(rewritten=rewritten)


Node = TypeVar("Node", bound=ast.AST)


def mangled(node: Node, owner: str) -> Node:
    """A definition with the private names of its class mangled, as Python does inside of a class."""
    prefix = owner.lstrip("_")
    if not prefix:
        return node
    for part in ast.walk(node):
        for field in ("id", "attr", "arg", "name"):
            name = getattr(part, field, None)
            if isinstance(name, str) and name.startswith("__") and not name.endswith("__") and "." not in name:
                setattr(part, field, f"_{prefix}{name}")
        if isinstance(part, ast.Nonlocal):
            part.names = [f"_{prefix}{n}" if n.startswith("__") and not n.endswith("__") else n for n in part.names]
    return node
