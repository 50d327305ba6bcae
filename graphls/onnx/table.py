"""The table of operators: by domain, name and version, the rule that computes one with operations of graphls."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar

from graphls.onnx.values import Input, Ints, ModelValue

Rule: TypeAlias = Callable[..., ModelValue]
"""The result of an operator, or its results as a tuple, from its inputs in order and its attributes by name."""
Unary: TypeAlias = Callable[[Input], Input]
Binary: TypeAlias = Callable[[Input, Input], Input]
_Rule = TypeVar("_Rule", bound=Rule)

MICROSOFT = "com.microsoft"
SCALES = "scales of quantized tensors"


@dataclass(frozen=True)
class Entry:
    """The rule of an operator from one version of its domain on.

    The rule takes the inputs in order, None for absent optional ones, and the attributes by their names; if its first
    parameter is called `node`, it gets the running node (`interpreter.Running`) as well. `known` are the positions of
    inputs that must be known while the graph is traced, such as shapes: the rule gets arrays for these; `preferred` are
    those of inputs that are preferably known, such as the trip count of a loop, and get no gradient. `untrained` are
    those of floats that are not trained by default, and `untrained_role` what these are, such as running statistics.
    `quantized` is True for a rule that takes a Quantized itself rather than its integers, `data_dependent` for one
    whose result shapes depend on the elements of its inputs, `spans` for one that takes a Span as its first input.
    """

    domain: str
    kind: str
    since: int
    rule: Rule
    known: frozenset[int]
    preferred: frozenset[int]
    untrained: frozenset[int]
    untrained_role: str
    quantized: bool
    data_dependent: bool
    spans: bool
    takes_node: bool
    signature: inspect.Signature = field(repr=False)

    def fault(self, inputs: int, attributes: Mapping[str, object]) -> str:
        """The reason why a node with so many inputs and these attributes cannot be computed; empty if it can."""
        try:
            self.signature.bind(*[None] * (inputs + self.takes_node), **attributes)
        except TypeError as error:
            return str(error)
        return ""


TABLE: dict[tuple[str, str], list[Entry]] = {}
"""The entries of every operator, the newest version first."""


def operator(
    *kinds: str, since: int = 1, domain: str = "", known: tuple[int, ...] = (), preferred: tuple[int, ...] = (),
    untrained: tuple[int, ...] = (), untrained_role: str = SCALES, quantized: bool = False,
    data_dependent: bool = False, spans: bool = False,
) -> Callable[[_Rule], _Rule]:  # fmt: skip
    """Declare the rule of one or several operators; see `Entry`."""

    def declared(rule: _Rule) -> _Rule:
        signature = inspect.signature(rule)
        takes_node = next(iter(signature.parameters), "") == "node"
        for kind in kinds:
            sets = frozenset(known), frozenset(preferred), frozenset(untrained)
            flags = quantized, data_dependent, spans, takes_node
            entry = Entry(domain, kind, since, rule, *sets, untrained_role, *flags, signature)
            entries = TABLE.setdefault((domain, kind), [])
            entries.append(entry)
            entries.sort(key=lambda e: -e.since)
        return rule

    return declared


def unary(functions: Mapping[str, Unary], domain: str = "") -> None:
    """Declare operators that are functions of one tensor, with the attribute that some had in version 1."""
    for kind, function in functions.items():
        _unary(kind, function, domain)


def _unary(kind: str, function: Unary, domain: str) -> None:
    @operator(kind, domain=domain)
    def rule(x: Input, *, consumed_inputs: Ints | None = None) -> Input:
        return function(x)


def binary(functions: Mapping[str, Binary], since: int = 7) -> None:
    """Declare operators that are functions of two tensors which broadcast together."""
    for kind, function in functions.items():
        _binary(kind, function, since)


def _binary(kind: str, function: Binary, since: int) -> None:
    @operator(kind, since=since)
    def rule(x: Input, y: Input) -> Input:
        return function(x, y)


def find(domain: str, kind: str, version: int) -> Entry | None:
    """The entry for an operator of a model that imports that version of the domain."""
    entries = TABLE.get((domain, kind), ())
    return next((entry for entry in entries if entry.since <= version), None)
