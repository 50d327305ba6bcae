"""Lists missing parts of entries of the reference: types, a first sentence, errors, shapes or an example.

`python -m tools.site.lacking` lists it, and a test allows nothing. The body of a function is read,
and those of the functions of graphls that it calls by their names: what they raise must stand in the docstring, by the
name of the error or of a base class. For operators and cells docs/operators/index.md says what all of them raise.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import re
import sys
import textwrap
from collections.abc import Callable, Iterator
from functools import cache
from types import FunctionType, ModuleType
from typing import Any

from graphls.ir import errors
from tools.site import reference

SHAPES = re.compile(
    r"shape|dtype|\bax[ei]s|dimension|broadcast|element|scalar|\brank|matri|vector|row|column|array|batch|channel"
    r"|\(\w*\.{0,3}(, ?[\w.*]+)*,?\)|\b(bool|u?int|float)\d*\b|number|image|sample|gradient|loss|\bx\b|parameter"
)
"""Words by which a docstring describes its tensors."""

ANYWHERE = frozenset({"GraphMemoryError", "NotImplementedError", "AssertionError", "OSError", "ValueError"})
"""Errors that need no mention: a full memory or disk, calls of abstract methods, and errors that never reach a user."""

COMMON = frozenset({"GraphTypeError", "GraphValueError"})
"""Errors that docs/operators/index.md describes for all operators and cells."""


def lacking() -> dict[str, list[str]]:
    """The missing parts of each entry, by its full name; complete entries are left out."""
    faults_by_path = {path: list(_faults(path, of)) for path, of in entries()}
    return {path: faults for path, faults in faults_by_path.items() if faults}


def messages() -> list[str]:
    """A line for each entry with missing parts."""
    return [f"{path}: {'; '.join(faults)}" for path, faults in sorted(lacking().items())]


def entries() -> Iterator[tuple[str, Any]]:
    """Every function and class of the reference, and the public methods of the classes, with their full names."""
    for path in {path: None for paths in reference.described().values() for path in paths}:
        of = reference.item(path)
        if reference.is_value(of) or isinstance(of, ModuleType):
            continue
        yield path, of
        if inspect.isclass(of):
            yield from ((f"{path}.{name}", method) for name, method in _methods(of))


def _methods(of: type) -> Iterator[tuple[str, Any]]:
    """The public methods and properties that were written in a class."""
    for name, item in vars(of).items():
        function = item.fget if isinstance(item, property) else getattr(item, "__func__", item)
        is_own = isinstance(function, FunctionType) and function.__qualname__.startswith(f"{of.__qualname__}.")
        if is_own and not name.startswith("_"):
            yield name, function


def _faults(path: str, of: Any) -> Iterator[str]:
    text = _text(path, of)
    if not text.split("\n\n")[0].rstrip().endswith((".", ":")):
        yield "a first sentence"
    yield from _types(of)
    unsaid = [name for name in sorted(raised(of)) if not _says(text, name)]
    if unsaid and not (path.startswith(("graphls.ops.", "graphls.nn.")) and {*unsaid} <= COMMON):
        yield f"errors: {', '.join(unsaid)}"
    if _takes_tensors(of) and not SHAPES.search(text + (sys.modules[of.__module__].__doc__ or "")):
        yield "shapes or dtypes"
    if path in reference.entries() and needs_example(of) and ">>> " not in text and path not in reference.examples():
        yield "an example"


def _text(path: str, of: Any) -> str:
    """The docstring of an entry; of a method also that of its class, and of the methods that it overrides."""
    own = inspect.getdoc(of) or ""
    if path in reference.entries():
        return own
    owner, _, name = path.rpartition(".")
    container = reference.item(owner)
    texts = [own or inspect.getdoc(getattr(container, name)), inspect.getdoc(container)]
    texts += [inspect.getdoc(getattr(base, name, None)) for base in container.__mro__[1:] if name in vars(base)]
    return "\n\n".join(filter(None, texts))


def _types(of: Any) -> Iterator[str]:
    for function in _bodies(of):
        signature = inspect.signature(function)
        parameters = [p for p in signature.parameters.values() if p.name not in ("self", "cls")]
        bare = [p.name for p in parameters if p.annotation is p.empty]
        if bare:
            yield f"types of {', '.join(bare)}"
        if signature.return_annotation is signature.empty and not inspect.isclass(of):
            yield "the type of what it returns"


def _bodies(of: Any) -> list[Any]:
    """The functions that run where something is called: of a class those that make an instance of it."""
    if inspect.isclass(of):
        constructors = (vars(of).get(name) for name in ("__init__", "__new__", "__post_init__"))
        return [function for function in constructors if isinstance(function, FunctionType) and _is_written(function)]
    of = inspect.unwrap(of)
    return [of] if isinstance(of, FunctionType) else []


def _is_written(function: Any) -> bool:
    """Returns whether graphls has the source of a function: that of a dataclass's `__init__` is in no file."""
    return bool(function.__module__.startswith("graphls.")) and not function.__code__.co_filename.startswith("<")


def raised(of: Any) -> frozenset[str]:
    """The names of errors that a call raises in a body of its own, or in a function that it calls by its name."""
    names: set[str] = set()
    for function in _bodies(of):
        names = names.union(_raised_in(function), *map(_raised_in, _called(function)))
    return frozenset(names - ANYWHERE)


@cache
def _tree(function: Any) -> ast.AST:
    try:
        return ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, SyntaxError):
        return ast.Module([], [])


@cache
def _raised_in(function: Any) -> frozenset[str]:
    nodes = [node.exc for node in ast.walk(_tree(function)) if isinstance(node, ast.Raise)]
    names = {ast.unparse(node.func).rpartition(".")[2] for node in nodes if isinstance(node, ast.Call)}
    return frozenset(name for name in names if _error(name) is not None)


def _called(function: Any) -> Iterator[Callable[..., Any]]:
    for node in ast.walk(_tree(function)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            called = function.__globals__.get(node.func.id)
            if isinstance(called, FunctionType) and called.__module__.startswith("graphls."):
                yield inspect.unwrap(called)


def _error(name: str) -> type[BaseException] | None:
    kind = getattr(errors, name, getattr(builtins, name, None))
    return kind if isinstance(kind, type) and issubclass(kind, BaseException) else None


def _says(text: str, name: str) -> bool:
    """Returns whether a docstring names an error or a base class of it."""
    bases = [base.__name__ for base in (_error(name) or object).__mro__]
    return any(re.search(rf"\b{base}\b", text) for base in bases)


def _takes_tensors(of: Any) -> bool:
    return any("Tensor" in str(p.annotation) for f in _bodies(of) for p in inspect.signature(f).parameters.values())


def needs_example(of: Any) -> bool:
    """Returns whether a use takes more than a line: not so for errors, and for calls of one value without a result."""
    if inspect.isclass(of):
        return not issubclass(of, BaseException)
    signature = inspect.signature(of)
    single = [p for p in signature.parameters.values() if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]
    required = [p for p in single if p.default is p.empty]
    gives = signature.return_annotation not in (None, "None")
    return bool(signature.parameters) and (gives or len(required) > 1)


def main() -> None:
    """Print the missing parts by entry."""
    print(*messages(), sep="\n")


if __name__ == "__main__":
    main()
