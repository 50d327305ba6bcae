"""`jit`: functions and methods that run as one graph, also in eager mode."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import update_wrapper
from typing import Any, TypeVar

from graphls.base.checks import boolean
from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.frontend.tensors.pytree import map_leaves
from graphls.frontend.tensors.tensor import Tensor, is_tensor
from graphls.frontend.trace.rewriting.functions import rewritten
from graphls.frontend.trace.tracer import current_tracer
from graphls.ir.registry import nearest
from graphls.nn.cell import Cell
from graphls.step.calling.cache import CompileCache, call_compiled

__all__ = ["JitConfig", "jit", "jit_class", "lazy_inline", "ms_class", "ms_function", "mutable"]

Class = TypeVar("Class", bound=type)

OPTIONS = (
    "backend", "capture_mode", "compile_once", "dynamic", "fullgraph", "hash_args", "infer_boost", "input_signature",
    "jit_config", "jit_level", "mode", "options",
)  # fmt: skip


CHOICES = {
    "capture_mode": ("ast", "bytecode", "trace"),
    "dynamic": (0, 1),
    "infer_boost": ("on", "off"),
    "jit_level": ("", "O0", "O1", "O2"),
}
"""What those options are one of that are."""


class Jit:
    """A function that compiles once for each combination of input types, and is part of a graph that is being traced.

    Tensors among the arguments, also in tuples, lists and dicts, are inputs; everything else is a constant of the
    graph. The parameters that it uses are states of the graph. As a method it belongs to its object.
    """

    needs_graph = True

    def __init__(self, function: Callable[..., object]) -> None:
        update_wrapper(self, function, updated=())
        self.function = function
        self.caches: dict[Any, CompileCache] = {}

    def __call__(self, *args: object, **options: object) -> Any:
        tracer = current_tracer()
        if tracer is not None:
            tracer.note_owner(self.function)
            return rewritten(self.function)(*args, **options)
        return call_compiled(self, self.caches, *self._arguments(args, options))

    def _arguments(
        self, args: tuple[object, ...], options: dict[str, object]
    ) -> tuple[tuple[object, ...], dict[str, object]]:
        """The arguments by position as far as that goes, so that a call by name finds what one by position compiled."""
        if not options:
            return args, options
        try:
            bound = inspect.signature(self.function).bind(*args, **options)
        except TypeError as error:
            name = getattr(self, "__name__", "the function")
            raise GraphTypeError(f"{name} cannot be called like this: {error}.") from None
        return bound.args, bound.kwargs

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        if instance is None:
            return self
        methods = vars(instance).setdefault("_compiled", {})
        key = "jit", self.function, id(instance)  # a copy of the instance may share its dict
        return methods.get(key) or methods.setdefault(key, Jit(self.function.__get__(instance, owner)))


def jit(function: Callable[..., object] | None = None, **options: Any) -> Any:
    """Run a function, a method or a cell as one graph: `@jit`, or `@jit(...)` with MindSpore's options.

    The options, such as `mode`, `jit_level` and `jit_config`, say how MindSpore compiles; here they change nothing.
    Raises GraphTypeError for what cannot be called, GraphValueError for an unknown option or value of one.

    Examples:
        >>> from graphls import jit, tensor
        >>> @jit
        ... def smaller(x):
        ...     if x.sum() > 1:
        ...         return x / 2
        ...     return x
        >>> smaller(tensor([2.0, 4.0])), smaller(tensor([0.5]))
        (Tensor(shape=[2], dtype=Float32, value=[1. 2.]), Tensor(shape=[1], dtype=Float32, value=[0.5]))
    """
    function = options.pop("fn", function)
    for name, value in options.items():
        if name not in OPTIONS:
            raise GraphValueError(f"jit has no option {name!r}{nearest(name, OPTIONS)}.")
        if name in CHOICES and value not in CHOICES[name]:
            raise GraphValueError(f"For 'jit', the {name!r} must be one of {list(CHOICES[name])}, but got {value!r}.")
    boolean("jit", "fullgraph", options.get("fullgraph", False))
    return _compiled if function is None else _compiled(function)


def _compiled(function: Callable[..., object]) -> Jit:
    """The compiled form of a function."""
    if not callable(function):
        raise GraphTypeError(f"jit takes a function, a method or a cell, not {function!r}.")
    return function if isinstance(function, Jit) else Jit(function)


def jit_class(cls: Class) -> Class:
    """The class itself: graphs use objects of any class. Raises GraphTypeError for cells and for other objects.

    Examples:
        >>> from graphls import jit, jit_class, tensor
        >>> @jit_class
        ... class Scale:
        ...     def __init__(self, factor):
        ...         self.factor = factor
        ...     def apply(self, x):
        ...         return x * self.factor
        >>> jit(lambda x: Scale(3).apply(x))(tensor([1.0, 2.0]))
        Tensor(shape=[2], dtype=Float32, value=[3. 6.])
    """
    if not isinstance(cls, type) or issubclass(cls, Cell):
        raise GraphTypeError(f"jit_class decorates classes other than cells, not {cls!r}.")
    return cls


def lazy_inline(fn: Callable[..., object] | None = None, attrs: object = None, policy: object = None) -> Any:
    """The `__init__` of a cell as it is, `@lazy_inline` or `@lazy_inline(...)`: it says how MindSpore compiles.

    Examples:
        >>> from graphls import lazy_inline, nn, tensor
        >>> class Block(nn.Cell):
        ...     @lazy_inline
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.act = nn.ReLU()
        ...     def construct(self, x):
        ...         return self.act(x)
        >>> Block()(tensor([-1.0, 2.0]))
        Tensor(shape=[2], dtype=Float32, value=[0. 2.])
    """
    return (lambda function: function) if fn is None else fn


def mutable(input_data: object, dynamic_len: bool = False) -> Any:
    """Arguments whose numbers are inputs of a graph, not constants of it: numbers become tensors, also in pytrees.

    Raises GraphTypeError for anything but numbers and tensors, and for a `dynamic_len` that is not of a tuple or list.
    Lengths are static: each compiles again.

    Examples:
        >>> from graphls import mutable
        >>> mutable((2, [0.5]))
        (Tensor(shape=[], dtype=Int64, value=2), [Tensor(shape=[], dtype=Float32, value=0.5)])
    """

    def as_input(leaf: object) -> Any:
        if not is_tensor(leaf) and not isinstance(leaf, (bool, int, float)):
            raise GraphTypeError(f"mutable takes numbers and tensors, or pytrees of them, not {leaf!r}.")
        return leaf if isinstance(leaf, Tensor) else Tensor(leaf)

    if boolean("mutable", "dynamic_len", dynamic_len) and not isinstance(input_data, (tuple, list)):
        raise GraphTypeError(f"mutable takes a tuple or list for a dynamic_len, not {input_data!r}.")
    return map_leaves(as_input, input_data)


class JitConfig:
    """Options of `jit`, kept as they are given; none of them changes what a graph computes.

    Examples:
        >>> from graphls import jit, ops, tensor
        >>> from graphls.step.calling.jit import JitConfig
        >>> config = JitConfig(jit_level="O1")
        >>> jit(lambda x: ops.exp(x) - 1, jit_config=config)(tensor([0.0]))
        Tensor(shape=[1], dtype=Float32, value=[0.])
    """

    def __init__(
        self, jit_level: str = "", exc_mode: str = "auto", jit_syntax_level: str = "", debug_level: str = "RELEASE",
        infer_boost: str = "off", **kwargs: object,
    ) -> None:  # fmt: skip
        options = {"jit_level": jit_level, "exc_mode": exc_mode, "jit_syntax_level": jit_syntax_level}
        self.jit_config_dict = {**options, "debug_level": debug_level, "infer_boost": infer_boost, **kwargs}


ms_function, ms_class = jit, jit_class  # their names in MindSpore 1
