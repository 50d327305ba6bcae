"""The AST transformer for statements: conditions and loops become functions that `flow` runs.

A jump out of such a function becomes a variable; the rest of the block moves into the other branch, or is guarded.

    if x > 0:                       def @yes1():
        return a                        nonlocal result, returned
    y = x * 2          ->               result, returned = a, True
    return y                        def @no2():
                                        nonlocal y, result, returned
                                        y = x * 2
                                        result, returned = y, True
                                    @flow.branch(x > 0, @yes1, @no2, lambda: (y, result, returned))
                                    return result
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Sequence
from typing import Any

from graphls.frontend.trace.rewriting.expressions import (
    Declined,
    Expressions,
    flow,
    later,
    new_function,
    no_arguments,
    placed,
    steps_of,
)
from graphls.frontend.trace.rewriting.names import (
    FUNCTIONS,
    always_leaves,
    assigned,
    attributes,
    escapes,
    grows,
    may_be_tensor,
    own,
    within,
)

RESULT, RETURNED = "@result", "@returned"


class Statements(Expressions):
    """Rewrites the body of one function."""

    def __init__(self, node: ast.FunctionDef) -> None:
        parameters = (*node.args.posonlyargs, *node.args.args)
        super().__init__(parameters[0].arg if parameters else None)
        self.node = node
        self.count = 0
        self.loops: list[tuple[str, str] | None] = []
        inner = [f for s in node.body for f in within(s) if isinstance(f, FUNCTIONS)]
        self.shared = [n for f in inner for s in ast.walk(f) if isinstance(s, ast.Nonlocal) for n in s.names]
        self.returns = any("return" in escapes([s]) for s in node.body if not isinstance(s, ast.Return))

    def body(self) -> list[ast.stmt]:
        """The rewritten statements of the function."""
        body = list(self.node.body)
        text = body[:1] if ast.get_docstring(self.node, clean=False) is not None else []
        body = body[len(text) :]
        if self.returns and not always_leaves(body):
            body.append(placed(ast.Return(ast.Constant(None)), (body or text)[-1]))
        new = self.block(body)
        if self.returns:
            end = placed(ast.Return(_load(RESULT)), self.node.body[-1])
            new = [self._assign(RETURNED, ast.Constant(False), self.node), *new, end]
        return [*text, *self._declarations(new), *new]

    def _declarations(self, statements: Sequence[ast.stmt]) -> list[ast.stmt]:
        """Declarations that make variables assigned by inner functions local to this function, or `nonlocal`."""
        outer = [n for s in self.node.body for x in within(s) if isinstance(x, ast.Nonlocal) for n in x.names]
        names = [n for n in assigned(statements) if n not in outer]
        new: list[ast.stmt] = [ast.Nonlocal(list(dict.fromkeys(outer)))] if outer else []
        if names:  # an assignment that never runs
            new.append(ast.If(ast.Constant(False), [self._assign(n, ast.Constant(None), self.node) for n in names], []))
        return [placed(s, self.node) for s in new]

    # -- blocks -----------------------------------------------------------------------------------------------

    def block(self, statements: Sequence[ast.stmt]) -> list[ast.stmt]:
        """The rewritten statements of a block; the rest after a conditional jump is guarded."""
        new: list[ast.stmt] = []
        for i, statement in enumerate(statements):
            rest = list(statements[i + 1 :])
            if isinstance(statement, (ast.Return, ast.Break, ast.Continue)):
                return [*new, *self._jump(statement)]
            jumps = escapes([statement])
            if jumps and isinstance(statement, ast.If) and rest and self._continued(statement, rest):
                return [*new, *self.statement(statement)]
            new += self.statement(statement)
            if jumps and rest and self._are_variables(jumps):
                no_jump = flow("no_jump", rest[0], later(self._flags(jumps, rest[0])))
                return [*new, *self._branch(no_jump, self.block(rest), [], rest, rest[0])]
        return new

    def _continued(self, statement: ast.If, rest: list[ast.stmt]) -> bool:
        """Move the rest of the block into the only branch that continues; returns whether there is one."""
        if always_leaves(statement.body):
            statement.orelse = [*statement.orelse, *rest]
        elif always_leaves(statement.orelse):
            statement.body = [*statement.body, *rest]
        else:
            return False
        return True

    def _are_variables(self, jumps: set[str]) -> bool:
        """Whether jumps become variables: returns do, and jumps of a loop whose body is a function."""
        return "return" in jumps or bool(self.loops and self.loops[-1])

    def _jump(self, statement: ast.stmt) -> list[ast.stmt]:
        if isinstance(statement, ast.Return):
            if not self.returns:
                return [self.visit(statement)]
            value = self.visit(statement.value) if statement.value is not None else ast.Constant(None)
            return [
                self._assign(RESULT, value, statement), self._assign(RETURNED, ast.Constant(True), statement)
            ]  # fmt: skip
        loop = self.loops[-1] if self.loops else None
        if loop is None:
            return [statement]
        name = loop[0] if isinstance(statement, ast.Break) else loop[1]
        return [self._assign(name, ast.Constant(True), statement)]

    def _flags(self, jumps: set[str], like: ast.AST) -> ast.expr:
        """The tuple of variables of jumps that may have been taken."""
        names = [RETURNED] if "return" in jumps else []
        if self.loops and self.loops[-1]:
            broke, continued = self.loops[-1]
            names += [broke] * ("break" in jumps) + [continued] * ("continue" in jumps)
        return placed(ast.Tuple([_load(name) for name in names], ast.Load()), like)

    # -- statements -------------------------------------------------------------------------------------------

    def statement(self, statement: ast.stmt) -> list[ast.stmt]:
        """The rewritten form of one statement."""
        if isinstance(statement, ast.If):
            return self._if(statement)
        if isinstance(statement, ast.While):
            return self._while(statement)
        if isinstance(statement, ast.For):
            return self._for(statement)
        if isinstance(statement, ast.FunctionDef):
            return [self._inner(statement)]
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            return self._without_annotation(statement)
        if isinstance(statement, ast.Nonlocal):  # stands at the head of the function
            return []
        if isinstance(statement, (ast.AsyncFunctionDef, ast.ClassDef)):
            return [statement]
        return [self._others(statement)]

    def _others(self, statement: ast.stmt) -> ast.stmt:
        """A statement other than a condition or a loop, with its parts rewritten."""
        jumps = escapes([statement])
        for parts in [statement, *(getattr(statement, "handlers", ())), *(getattr(statement, "cases", ()))]:
            for name, value in ast.iter_fields(parts):
                if isinstance(value, list) and value and isinstance(value[0], ast.stmt):
                    if name == "finalbody" and escapes(value):
                        raise Declined("a jump in finally")
                    setattr(parts, name, self._part(name, value, jumps))
                elif isinstance(value, ast.expr):
                    setattr(parts, name, self.visit(value))
                elif isinstance(value, list) and name not in ("handlers", "cases"):
                    setattr(parts, name, [self.visit(v) if isinstance(v, ast.AST) else v for v in value])
        return statement

    def _part(self, name: str, statements: list[ast.stmt], jumps: set[str]) -> list[ast.stmt]:
        new = self.block(statements)
        if name == "orelse" and jumps and self._are_variables(jumps):  # of try: not after a jump out of its body
            no_jump = flow("no_jump", statements[0], later(self._flags(jumps, statements[0])))
            new = self._branch(no_jump, new, [], statements, statements[0])
        return new or [placed(ast.Pass(), statements[0])]

    def _without_annotation(self, statement: ast.AnnAssign) -> list[ast.stmt]:
        if statement.value is None:
            return []
        return [placed(ast.Assign([statement.target], self.visit(statement.value)), statement)]

    def _inner(self, node: ast.FunctionDef) -> ast.stmt:
        """An inner function: its defaults and decorators are rewritten here, its body as a function."""
        node.decorator_list = [self.visit(d) for d in node.decorator_list]
        node.args.defaults = [self.visit(d) for d in node.args.defaults]
        node.args.kw_defaults = [d and self.visit(d) for d in node.args.kw_defaults]
        if is_plain(node):
            node.body = Statements(node).body()
        return node

    def _if(self, statement: ast.If) -> list[ast.stmt]:
        original = [*statement.body, *statement.orelse]
        if not may_be_tensor(statement.test) and not self._are_jumps(original):
            statement.test = self.visit(statement.test)
            statement.body = self.block(statement.body)
            statement.orelse = self.block(statement.orelse)
            return [statement]
        test = self.visit(statement.test)
        return self._branch(test, self.block(statement.body), self.block(statement.orelse), original, statement)

    def _are_jumps(self, statements: Sequence[ast.stmt]) -> bool:
        jumps = escapes(statements)
        return bool(jumps) and self._are_variables(jumps)

    def _branch(
        self, test: ast.expr, yes: list[ast.stmt], no: list[ast.stmt], original: Sequence[ast.stmt], like: ast.stmt,
    ) -> list[ast.stmt]:  # fmt: skip
        names = self._state([*yes, *no])
        first, second = self._function("yes", yes, like), self._function("no", no, like)
        functions = [_load(f.name) for f in (first, second)]
        call = flow("branch", like, test, *functions, self._variables(names, like), self._attributes(original, like))
        return [first, second, placed(ast.Expr(call), like)]

    def _while(self, statement: ast.While) -> list[ast.stmt]:
        jumps = escapes(statement.body)
        if not may_be_tensor(statement.test) and not jumps:
            statement.test = self.visit(statement.test)
            return [self._inline_loop(statement)]
        if any(isinstance(n, ast.NamedExpr) for n in ast.walk(statement.test)):
            raise Declined("an assignment in the condition of a loop")
        growing = self._growing(statement.body)
        names, body = self._loop_body(statement, [])
        test = later(self.visit(statement.test))
        return self._loop(statement, "loop", [test], body, names, jumps, growing)

    def _for(self, statement: ast.For) -> list[ast.stmt]:
        jumps, steps = escapes(statement.body), steps_of(statement.iter)
        if steps is None and not jumps:
            statement.iter = self.visit(statement.iter)
            return [self._inline_loop(statement)]
        growing = self._growing(statement.body)
        self.count += 1
        item = own("item", self.count)
        start = placed(ast.Assign([statement.target], _load(item)), statement.target)
        names, body = self._loop_body(statement, [start], item)
        if steps is None:
            items = self.visit(statement.iter)
        else:
            items = flow("steps", statement.iter, statement.iter.func, *map(self.visit, steps))  # type: ignore[attr-defined]
        return self._loop(statement, "each", [items], body, names, jumps, growing)

    def _inline_loop(self, statement: Any) -> ast.stmt:
        """A loop that remains a statement: no jump in its body leaves a function that rewriting adds."""
        self.loops.append(None)
        statement.body = self.block(statement.body)
        self.loops.pop()
        statement.orelse = self.block(statement.orelse)
        return statement  # type: ignore[no-any-return]

    def _loop_body(
        self, statement: ast.For | ast.While, start: list[ast.stmt], *parameters: str
    ) -> tuple[tuple[str, str], ast.FunctionDef]:
        self.count += 1
        names = own("broke", self.count), own("continued", self.count)
        is_continued = "continue" in escapes(statement.body)
        self.loops.append(names)
        body = [*start, *self.block(statement.body)]
        self.loops.pop()
        if is_continued:
            body.insert(0, self._assign(names[1], ast.Constant(False), statement))
        return names, self._function("body", body, statement, *parameters)

    def _loop(
        self, statement: ast.For | ast.While, kind: str, first: list[ast.expr], body: ast.FunctionDef,
        names: tuple[str, str], jumps: set[str], growing: list[str],
    ) -> list[ast.stmt]:  # fmt: skip
        flags = [names[0]] * ("break" in jumps) + [RETURNED] * ("return" in jumps)
        stops = later(placed(ast.Tuple([_load(n) for n in flags], ast.Load()), statement))
        state = self._variables(self._state([body]), statement)
        counters = placed(ast.Tuple([ast.Constant(n) for n in growing], ast.Load()), statement)
        targets = self._attributes(statement.body, statement)
        call = flow(kind, statement, *first, _load(body.name), state, stops, counters, targets)
        new: list[ast.stmt] = [body, placed(ast.Expr(call), statement)]
        if "break" in jumps:
            new.insert(0, self._assign(names[0], ast.Constant(False), statement))
        return new + self._otherwise(statement, stops, bool(flags))

    def _otherwise(self, statement: ast.For | ast.While, stops: ast.Lambda, is_guarded: bool) -> list[ast.stmt]:
        """The `else` block of a loop."""
        if not statement.orelse:
            return []
        like, new = statement.orelse[0], self.block(statement.orelse)
        if not is_guarded:
            return new
        return self._branch(flow("no_jump", like, stops), new, [], statement.orelse, like)

    # -- parts ------------------------------------------------------------------------------------------------

    def _growing(self, statements: Sequence[ast.stmt]) -> list[str]:
        return [name for name in assigned(statements) if grows(name, statements)]

    def _state(self, statements: Sequence[ast.stmt]) -> list[str]:
        return list(dict.fromkeys([*assigned(statements), *self.shared]))

    def _variables(self, names: Sequence[str], like: ast.AST) -> ast.expr:
        """A function that reads these variables, and so captures their cells."""
        return later(placed(ast.Tuple([_load(n) for n in names], ast.Load()), like))

    def _attributes(self, statements: Sequence[ast.stmt], like: ast.AST) -> ast.expr:
        pairs: list[ast.expr] = [
            ast.Tuple([later(placed(copy.deepcopy(a.value), like)), ast.Constant(a.attr)], ast.Load())
            for a in attributes(statements)
        ]
        return placed(ast.Tuple(pairs, ast.Load()), like)

    def _function(self, kind: str, body: list[ast.stmt], like: ast.stmt, *parameters: str) -> ast.FunctionDef:
        self.count += 1
        names = assigned(body)
        body = body or [ast.Pass()]
        if names:
            body = [ast.Nonlocal(names), *body]
        return placed(new_function(own(kind, self.count), no_arguments(*parameters), body), like)

    def _assign(self, name: str, value: ast.expr, like: ast.AST) -> ast.stmt:
        return placed(ast.Assign([ast.Name(name, ast.Store())], value), like)


def _load(name: str) -> ast.expr:
    return ast.Name(name, ast.Load())


def is_plain(node: ast.FunctionDef | ast.Lambda) -> bool:
    """Whether a function is not a generator or coroutine and assigns no globals."""
    if getattr(node, "type_params", None):
        return False
    body = node.body if isinstance(node.body, list) else [node.body]
    kinds = (ast.Yield, ast.YieldFrom, ast.Await, ast.Global)
    return not any(isinstance(n, kinds) for s in body for n in within(s))
