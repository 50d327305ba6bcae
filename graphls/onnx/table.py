"""The table of operators: for each, by domain and version, the function that computes it with graphls's operations."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

Rule = Callable[..., Any]

MICROSOFT = "com.microsoft"


@dataclass(frozen=True)
class Entry:
    """How an operator is computed from one version of its domain on.

    The rule takes the inputs in order, None for those that are left out, and the attributes by their names; where its
    first parameter is called `node`, it gets the running node (`interpreter.Running`) as well. `known` are the
    positions of inputs that must be known while the graph is traced, such as shapes: the rule gets arrays for these;
    `hoped` are those of inputs that are better known, such as how often a loop runs, and get no gradient.
    `quantized` says that the rule takes a Quantized as it is, and not its integers.
    `by_data` says that shapes of its results depend on the elements of its inputs.
    `settled` are those of floats that are not trained unless the user says so, such as running statistics.
    """

    domain: str
    kind: str
    since: int
    rule: Rule
    known: frozenset[int]
    hoped: frozenset[int]
    settled: frozenset[int]
    quantized: bool
    by_data: bool
    takes_node: bool
    signature: inspect.Signature = field(repr=False)

    def fault(self, inputs: int, attributes: dict[str, Any]) -> str:
        """Why a node with so many inputs and these attributes cannot be computed; empty where it can."""
        try:
            self.signature.bind(*[None] * (inputs + self.takes_node), **attributes)
        except TypeError as error:
            return str(error)
        return ""


TABLE: dict[tuple[str, str], list[Entry]] = {}
"""The entries of every operator, the newest version first."""


def operator(
    *kinds: str, since: int = 1, domain: str = "", known: tuple[int, ...] = (), hoped: tuple[int, ...] = (),
    settled: tuple[int, ...] = (), quantized: bool = False, by_data: bool = False,
) -> Callable[[Rule], Rule]:  # fmt: skip
    """Declare the rule of one or several operators; `Entry` says what it takes."""

    def declared(rule: Rule) -> Rule:
        signature = inspect.signature(rule)
        takes_node = next(iter(signature.parameters), "") == "node"
        for kind in kinds:
            sets = frozenset(known), frozenset(hoped), frozenset(settled)
            entry = Entry(domain, kind, since, rule, *sets, quantized, by_data, takes_node, signature)
            entries = TABLE.setdefault((domain, kind), [])
            entries.append(entry)
            entries.sort(key=lambda e: -e.since)
        return rule

    return declared


def unary(functions: Mapping[str, Rule], domain: str = "") -> None:
    """Declare operators that are functions of one tensor, with the attribute that some had in version 1."""
    for kind, function in functions.items():
        _unary(kind, function, domain)


def _unary(kind: str, function: Rule, domain: str) -> None:
    @operator(kind, domain=domain)
    def rule(x: Any, *, consumed_inputs: Any = None) -> Any:
        return function(x)


def binary(functions: Mapping[str, Rule], since: int = 7) -> None:
    """Declare operators that are functions of two tensors which broadcast together."""
    for kind, function in functions.items():
        _binary(kind, function, since)


def _binary(kind: str, function: Rule, since: int) -> None:
    @operator(kind, since=since)
    def rule(x: Any, y: Any) -> Any:
        return function(x, y)


def find(domain: str, kind: str, version: int) -> Entry | None:
    """The entry for an operator of a model that imports that version of the domain."""
    entries = TABLE.get((domain, kind), ())
    return next((entry for entry in entries if entry.since <= version), None)
