"""Terms of patterns: any value, a number, or a primitive applied to terms."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from inspect import Parameter, signature
from typing import Any, NoReturn, TypeAlias

import numpy as np

from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.ir.graph import Node, Value
from graphls.ir.operators import Operators
from graphls.ir.registry import Operation, lookup, nearest
from graphls.ir.types import DType


class Symbol(Operators):
    """A part of a pattern in a function of a user; operators and methods of the builder apply primitives to it."""

    def _apply(self, primitive: str, *operands: Any) -> Call:
        return applied(lookup(primitive), operands, {}, False)

    def __array__(self, *args: object, **options: object) -> NoReturn:
        advice = "use operators and the builder, whose methods are the primitives, such as e.softmax(x, axis=AXIS)"
        raise GraphTypeError(f"A symbol of a pattern has no numbers, as functions of graphls.ops need; {advice}.")


@dataclass(frozen=True)
class Name(Symbol):
    """A name: any value or, in capitals, the number of a constant or an attribute; the same wherever it stands."""

    name: str

    @property
    def is_number(self) -> bool:
        """Whether it is the name of a number."""
        return self.name.isupper()

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, eq=False)
class Number(Symbol):
    """A constant: an array or, for one number, a constant of any shape that repeats it."""

    value: Any

    def __str__(self) -> str:
        array = np.asarray(self.value)
        return repr(array.item()) if array.size == 1 else f"constant({array.dtype}{list(array.shape)})"


@dataclass(frozen=True, eq=False)
class Call(Symbol):
    """A primitive applied to terms: the result `output` of a node.

    `attrs` has a value or a Name for each attribute. With `is_open`, other attributes may have any value; else they
    have their defaults, as in a call of a Builder.
    """

    primitive: Operation
    operands: tuple[Term, ...]
    attrs: Mapping[str, Any]
    is_open: bool = False
    output: int = 0

    def __post_init__(self) -> None:
        if self.primitive.has_effect or self.primitive.is_check:
            text = f"The primitive {self.primitive.name} has an effect, so that no pattern may contain it"
            raise GraphValueError(f"{text}; a rewrite could drop or repeat it.")
        if _has_regions(self.primitive):
            text = f"The primitive {self.primitive.name} has regions, so that no pattern may contain it"
            raise GraphValueError(f"{text}; patterns match within its regions.")
        for key, value in self.attrs.items():
            if isinstance(value, Name) and not value.is_number:
                raise GraphValueError(f"The name {value.name!r} is an attribute, {key}; write it in capitals.")
        if missing := [] if self.is_open else self._missing():
            name, capitals = self.primitive.name, missing[0].upper()
            advice = f"write {missing[0]}={capitals} for any one, or `...` after the operands for any attributes"
            raise GraphValueError(f"The pattern of {name} says nothing of its attribute {missing[0]!r}; {advice}.")

    def _missing(self) -> list[str]:
        defaults = defaults_of(self.primitive, len(self.operands))
        return [name for name, value in defaults.items() if value is Parameter.empty and name not in self.attrs]

    @cached_property
    def expected(self) -> tuple[tuple[str, Any, bool], ...]:
        """Each attribute that is compared: its name, its value or Name, and whether that is the default."""
        written = [(key, value, False) for key, value in self.attrs.items()]
        defaults = {} if self.is_open else defaults_of(self.primitive, len(self.operands))
        return (*written, *((key, value, True) for key, value in defaults.items() if key not in self.attrs))

    def __getitem__(self, output: int) -> Call:
        """Another result of the node."""
        return self if output == self.output else Call(self.primitive, self.operands, self.attrs, self.is_open, output)

    def __str__(self) -> str:
        parts = [*map(str, self.operands), *(["..."] if self.is_open else [])]
        parts += [f"{key}={attribute_text(value)}" for key, value in self.attrs.items()]
        return f"{self.primitive.name}({', '.join(parts)})" + (f"[{self.output}]" if self.output else "")


Term: TypeAlias = "Name | Number | Call"
"""A part of a pattern, or all of it."""


def attribute_text(value: object) -> str:
    """An attribute as patterns write it."""
    return value.name if isinstance(value, DType) else str(value) if isinstance(value, Name) else repr(value)


def _has_regions(primitive: Operation) -> bool:
    kinds = primitive.is_branch, primitive.is_loop, primitive.is_segment, primitive.is_inlined
    return any(kinds) or bool(primitive.region_names)


def applied(primitive: Operation, operands: tuple[Any, ...], attrs: Mapping[str, Any], is_open: bool) -> Call:
    """A primitive applied to terms and to numbers.

    Raises GraphTypeError for an attribute that it does not have, or another number of operands than it takes.
    """
    check_count(primitive, len(operands))
    known = defaults_of(primitive, len(operands))
    for key in attrs:
        if key not in known:
            which = nearest(key, known) or (f"; it has {', '.join(known)}" if known else "")
            raise GraphTypeError(f"{primitive.name} has no attribute {key!r}{which}.")
    terms = tuple(each if isinstance(each, (Name, Number, Call)) else Number(number_array(each)) for each in operands)
    return Call(primitive, terms, {key: frozen(value) for key, value in attrs.items()}, is_open)


def check_count(primitive: Operation, count: int) -> None:
    """Raise GraphTypeError where a primitive does not take so many operands, as its samples show."""
    counts = {len(sample.types) for sample in getattr(primitive, "samples", ())}
    takes_any = not primitive.elementwise and any(p.kind is Parameter.VAR_POSITIONAL for p in _parameters(primitive))
    if takes_any or not counts or min(counts) <= count <= max(counts):
        return
    text = " to ".join(map(str, sorted({min(counts), max(counts)})))
    attributes = [*defaults_of(primitive, min(counts))]
    advice = f"; attributes are written by name, as {attributes[0]}=..." if attributes and count > max(counts) else ""
    raise GraphTypeError(f"{primitive.name} takes {text} operand{'' if text == '1' else 's'}, not {count}{advice}.")


def number_array(value: object) -> Any:
    """A number or an array of numbers, as it is; raises GraphTypeError for anything else."""
    if np.asarray(value).dtype.kind not in "biufV":
        raise GraphTypeError(f"An operand in a pattern is a symbol, a number or an array of numbers, not {value!r}.")
    return value


def frozen(value: Any) -> Any:
    """An attribute with tuples in place of lists."""
    return tuple(map(frozen, value)) if isinstance(value, list) else value


def calls(term: Term) -> Iterator[Call]:
    """The primitives of a term, each once, the last one first."""
    seen: dict[int, Call] = {}
    stack: list[Term] = [term]
    while stack:
        top = stack.pop()
        if isinstance(top, Call) and id(top) not in seen:
            seen[id(top)] = top
            yield top
            stack.extend(reversed(top.operands))


def names(term: Term) -> list[str]:
    """The names in a term, each once."""
    result = [part.name for part in (term,) if isinstance(part, Name)]
    for call in calls(term):
        result += [part.name for part in (*call.operands, *call.attrs.values()) if isinstance(part, Name)]
    return list(dict.fromkeys(result))


def defaults_of(primitive: Operation, operands: int) -> Mapping[str, Any]:
    """The attributes of a primitive that takes so many operands, with their defaults or Parameter.empty."""
    return _defaults(primitive, operands)


def _parameters(primitive: Operation) -> list[Parameter]:
    rule = getattr(primitive, "infer", None)
    return list(signature(rule).parameters.values()) if rule is not None else []


@cache
def _defaults(primitive: Operation, operands: int) -> Mapping[str, Any]:
    parameters, options = _parameters(primitive), getattr(primitive, "keywords", None)
    positional = [p for p in parameters if p.kind is Parameter.POSITIONAL_OR_KEYWORD]
    own = (*positional[operands:], *(p for p in parameters if p.kind is Parameter.KEYWORD_ONLY))
    more = signature(options).parameters.values() if options is not None else ()
    return {p.name: p.default for p in (*own, *(p for p in more if p.default is not Parameter.empty))}


def constant_of(value: Value, definer: Mapping[Value, Node]) -> tuple[Any, list[Node]] | None:
    """The array of a constant, or of one that is moved, repeated or cast, with the nodes that compute it.

    None for other values, and for an array with several numbers that is moved.
    """
    nodes: list[Node] = []
    node = definer.get(value)
    while node is not None and not node.primitive.is_constant:
        if not node.primitive.is_transparent or len(node.inputs) != 1 or node.regions or node.after:
            return None
        nodes.append(node)
        node = definer.get(node.inputs[0])
    if node is None:
        return None
    nodes.append(node)
    array = node.attrs["value"]
    if len(nodes) == 1:
        return array, nodes
    number = number_of(node)
    return None if number is None else (np.asarray(array.flat[0]).astype(value.type.dtype.numpy), nodes)


def number_of(constant: Node) -> float | None:
    """The number that all elements of a constant have; None where they differ."""
    return number_in(constant.attrs["value"])


def number_in(array: Any) -> float | None:
    """The number that all elements of an array have; None where they differ."""
    return float(array.flat[0]) if array.size and (array == array.flat[0]).all() else None


def is_close(array: Any, expected: Any, tolerance: float) -> bool:
    """Whether a constant is a number or an array, which is rounded to its dtype."""
    other = np.asarray(expected)
    if not array.size or (other.size != 1 and other.shape != array.shape):
        return False
    rounding = 2.0**-7 if array.dtype.name == "bfloat16" else 2.0**-10 if array.dtype.name == "float16" else 0.0
    with np.errstate(all="ignore"):
        close = np.isclose(array.astype(np.float64), other.astype(np.float64), rtol=max(tolerance, rounding), atol=0)
    return bool(close.all())
