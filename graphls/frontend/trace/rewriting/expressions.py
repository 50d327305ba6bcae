"""The AST transformer for expressions: conditions, truth, comparisons, calls and subscripts."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any, TypeVar

from graphls.frontend.trace.rewriting.names import may_be_tensor

Node = TypeVar("Node", bound=ast.AST)
UNTOUCHED = (
    "abs", "dict", "enumerate", "float", "getattr", "hasattr", "int", "isinstance", "issubclass", "len", "list",
    "print", "range", "repr", "reversed", "set", "setattr", "str", "tuple", "type", "zip",
)  # fmt: skip
UNREADABLE = ("locals", "eval", "exec", "vars", "dir", "__class__")


class Declined(Exception):
    """Raised for a function that is not rewritten, because a construct in it might behave differently."""


def flow(name: str, like: ast.AST, *arguments: ast.expr) -> ast.Call:
    """A call of a function of `flow`, at the position of a node."""
    called = ast.Attribute(ast.Name("@flow", ast.Load()), name, ast.Load())
    return placed(ast.Call(called, list(arguments), []), like)


def placed(node: Node, like: ast.AST) -> Node:
    """A new node, with its children, at the first line of another node."""
    ast.copy_location(node, like)
    if isinstance(node, (ast.expr, ast.stmt)):
        node.end_lineno, node.end_col_offset = node.lineno, node.col_offset
    return ast.fix_missing_locations(node)


def later(expression: ast.expr) -> ast.Lambda:
    """An expression as a function without parameters."""
    return placed(ast.Lambda(no_arguments(), expression), expression)


def no_arguments(*names: str) -> ast.arguments:
    """The parameters of a function."""
    return ast.arguments([], [ast.arg(name) for name in names], None, [], [], None, [])


def new_function(name: str, arguments: ast.arguments, body: list[ast.stmt]) -> ast.FunctionDef:
    """A definition of a function."""
    node = ast.FunctionDef(name, arguments, body, [], None)
    if "type_params" in node._fields:  # Python 3.12 and newer miss them
        setattr(node, "type_params", [])  # noqa: B010
    return node


class Expressions(ast.NodeTransformer):
    """Rewrites the truth tests and the calls of expressions."""

    def __init__(self, first_parameter: str | None) -> None:
        self.first_parameter = first_parameter

    def visit_Lambda(self, node: ast.Lambda) -> Any:
        inner = Expressions(self.first_parameter)
        node.args.defaults = [self.visit(d) for d in node.args.defaults]
        node.args.kw_defaults = [d and self.visit(d) for d in node.args.kw_defaults]
        node.body = inner.visit(node.body)
        return node

    def visit_IfExp(self, node: ast.IfExp) -> Any:
        self.generic_visit(node)
        if not may_be_tensor(node.test) or _binds(node.body, node.orelse):
            return node
        return flow("branch", node, node.test, later(node.body), later(node.orelse))

    def visit_BoolOp(self, node: ast.BoolOp) -> Any:
        is_truth = any(map(may_be_tensor, node.values))
        self.generic_visit(node)
        if not is_truth or _binds(*node.values[1:]):
            return node
        name = "both" if isinstance(node.op, ast.And) else "either"
        return flow(name, node, node.values[0], *map(later, node.values[1:]))

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Any:
        is_truth = isinstance(node.op, ast.Not) and may_be_tensor(node.operand)
        self.generic_visit(node)
        return flow("opposite", node, node.operand) if is_truth else node

    def visit_Compare(self, node: ast.Compare) -> Any:
        self.generic_visit(node)
        if len(node.ops) == 1 or _binds(*node.comparators):
            return node
        a, b = (placed(ast.Name(name, ast.Load()), node) for name in ("@left", "@right"))
        steps = [
            placed(ast.Lambda(no_arguments("@left", "@right"), ast.Compare(a, [op], [b])), node) for op in node.ops
        ]
        parts = [part for pair in zip(steps, map(later, node.comparators), strict=True) for part in pair]
        return flow("chain", node, node.left, *parts)

    def visit_Call(self, node: ast.Call) -> Any:
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if name in UNREADABLE and (name not in ("vars", "dir") or not node.args):
            raise Declined(name)
        if name == "super":
            return self._super(node)
        self.generic_visit(node)
        if name not in UNTOUCHED:
            node.func = flow("callee", node.func, node.func)
        return node

    def _super(self, node: ast.Call) -> ast.Call:
        """`super()` in the form that also works in functions inside of a method."""
        if not node.args and not node.keywords:
            if self.first_parameter is None:
                raise Declined("super")
            names = ("__class__", self.first_parameter)
            node.args = [placed(ast.Name(name, ast.Load()), node) for name in names]
        return node

    def visit_Subscript(self, node: ast.Subscript) -> Any:
        self.generic_visit(node)
        is_fixed = isinstance(node.slice, (ast.Constant, ast.Slice, ast.Tuple, ast.UnaryOp))
        if is_fixed or not isinstance(node.ctx, ast.Load):
            return node
        return flow("element", node, node.value, node.slice)

    def visit_ClassDef(self, node: ast.ClassDef) -> Any:
        return node


def _binds(*expressions: ast.AST) -> bool:
    """Whether expressions bind a name or suspend the function, and so cannot move into another function."""
    kinds = (ast.NamedExpr, ast.Await, ast.Yield, ast.YieldFrom)
    return any(isinstance(n, kinds) for e in expressions for n in ast.walk(e))


def steps_of(iterable: ast.expr) -> Sequence[ast.expr] | None:
    """The arguments of a `range(...)` that may be tensors; None for anything else."""
    is_range = isinstance(iterable, ast.Call) and isinstance(iterable.func, ast.Name) and iterable.func.id == "range"
    if not is_range or iterable.keywords or all(isinstance(a, ast.Constant) for a in iterable.args):  # type: ignore[attr-defined]
        return None
    arguments: Sequence[ast.expr] = iterable.args  # type: ignore[attr-defined]
    return None if any(isinstance(a, ast.Starred) for a in arguments) else arguments
