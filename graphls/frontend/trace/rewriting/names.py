"""Syntax tree queries: names that statements assign, and jumps that leave them."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence

COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
LOOPS = (ast.For, ast.AsyncFor, ast.While)
JUMPS = {ast.Return: "return", ast.Break: "break", ast.Continue: "continue"}


def own(prefix: str, number: int) -> str:
    """A name that no variable of a user can have."""
    return f"@{prefix}{number}"


def assigned(statements: Iterable[ast.AST]) -> list[str]:
    """The variables of the enclosing function that these statements bind or delete, each once.

    Functions that rewriting has added declare theirs as nonlocal.
    """
    return list(dict.fromkeys(name for statement in statements for name in _bound(statement)))


def _bound(node: ast.AST) -> Iterator[str]:
    if isinstance(node, FUNCTIONS):
        if node.name.startswith("@"):
            yield from (name for inner in node.body if isinstance(inner, ast.Nonlocal) for name in inner.names)
        else:
            yield node.name
        return
    if isinstance(node, ast.ClassDef):
        yield node.name
        return
    if isinstance(node, ast.Lambda):
        return
    if isinstance(node, COMPREHENSIONS):
        yield from (n.target.id for n in ast.walk(node) if isinstance(n, ast.NamedExpr))
        return
    if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
        yield node.id
    elif isinstance(node, ast.alias):
        yield (node.asname or node.name).partition(".")[0]
    elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
        yield node.name
    elif isinstance(node, ast.MatchMapping) and node.rest:
        yield node.rest
    for child in ast.iter_child_nodes(node):
        yield from _bound(child)


def attributes(statements: Iterable[ast.AST]) -> list[ast.Attribute]:
    """The attributes of names, such as `self.x`, that these statements assign, each once."""
    targets: dict[str, ast.Attribute] = {}
    for statement in statements:
        for node in within(statement):
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and _is_dotted(node.value):
                targets.setdefault(ast.unparse(node), node)
    return list(targets.values())


def _is_dotted(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) or (isinstance(node, ast.Attribute) and _is_dotted(node.value))


def within(node: ast.AST) -> Iterator[ast.AST]:
    """A node and its descendants, without the bodies of functions and classes."""
    yield node
    if not isinstance(node, (*FUNCTIONS, ast.ClassDef, ast.Lambda)):
        for child in ast.iter_child_nodes(node):
            yield from within(child)


def escapes(statements: Sequence[ast.stmt]) -> set[str]:
    """The jumps by which these statements may leave their block: return, break, continue."""
    return set().union(*map(_escapes, statements)) if statements else set()


def _escapes(node: ast.AST) -> set[str]:
    if type(node) in JUMPS:
        return {JUMPS[type(node)]}
    if isinstance(node, (*FUNCTIONS, ast.ClassDef, ast.expr)):
        return set()
    if isinstance(node, LOOPS):
        return escapes(node.body) - {"break", "continue"} | escapes(node.orelse)
    return set().union(*map(_escapes, ast.iter_child_nodes(node)))


def always_leaves(statements: Sequence[ast.stmt]) -> bool:
    """Whether the code after these statements is never reached."""
    if not statements:
        return False
    last = statements[-1]
    if isinstance(last, ast.If):
        return always_leaves(last.body) and always_leaves(last.orelse)
    return isinstance(last, (ast.Return, ast.Break, ast.Continue, ast.Raise))


def may_be_tensor(test: ast.expr) -> bool:
    """Whether a condition can be a tensor, judging by its syntax."""
    if isinstance(test, ast.Constant):
        return False
    if isinstance(test, ast.Compare):
        return not all(isinstance(op, (ast.Is, ast.IsNot, ast.In, ast.NotIn)) for op in test.ops)
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return may_be_tensor(test.operand)
    if isinstance(test, ast.BoolOp):
        return any(map(may_be_tensor, test.values))
    if isinstance(test, ast.Call) and isinstance(test.func, ast.Name):
        return test.func.id not in ("isinstance", "issubclass", "hasattr", "callable", "len")
    return True


def grows(name: str, statements: Iterable[ast.stmt]) -> bool:
    """Whether statements update a variable from its own value, as those of a counter do."""
    return any(_grows(name, node) for statement in statements for node in within(statement))


def _grows(name: str, node: ast.AST) -> bool:
    if isinstance(node, ast.AugAssign):
        return isinstance(node.target, ast.Name) and node.target.id == name
    if not isinstance(node, ast.Assign) or not any(isinstance(t, ast.Name) and t.id == name for t in node.targets):
        return False
    return any(isinstance(n, ast.Name) and n.id == name for n in ast.walk(node.value))
