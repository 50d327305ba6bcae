"""The choice of the constants of a model that are trained, with the reason for each one that is not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from fnmatch import fnmatchcase

from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.base.text.plain import shown
from graphls.frontend.tensors.parameter import Parameter
from graphls.onnx.analysis import KnownConstants
from graphls.onnx.importing.signature import BUFFER, CONSTANT, PARAMETER
from graphls.onnx.tensors import Stored

Choice = str | Iterable[str] | Callable[[str], bool] | None
"""Names of tensors: patterns as of files (`head.*`), or a predicate of names."""

BUFFERS, CONSTANTS = "buffers", "constants"
NOT_NAMED, NAMED = "not named by trainable=", "named by frozen="
SET = "requires_grad=False"
INTEGERS, NUMBERS, SHAPES = "integers", "single numbers", "values that set shapes"

_OF_KINDS = {BUFFER: BUFFERS, CONSTANT: CONSTANTS}


@dataclass(frozen=True)
class Selection:
    """The constants that are trained: those that `trainable` names, else all that are parameters; none of `frozen`.

    `untrained` are names that are not parameters though the model does not say so, each with the reason; `trainable`
    overrides it. Names that the model does not have are ignored there.
    """

    trainable: Choice = None
    frozen: Choice = None
    untrained: Mapping[str, str] = field(default_factory=dict)

    def reasons(self, constants: Mapping[str, Stored], analysis: KnownConstants) -> dict[str, str]:
        """The constants that become parameters by name, each with the reason why it is not trained; empty if it is.

        Raises GraphValueError for names without a float tensor, GraphTypeError for what is not a name.
        """
        floats = {name: stored for name, stored in constants.items() if stored.is_float}
        trained = _chosen("trainable", self.trainable, floats, constants)
        excluded = _chosen("frozen", self.frozen, floats, constants) or set()
        reasons = {}
        for name, stored in floats.items():
            is_named = trained is not None and name in trained
            is_literal = stored.is_number and stored.kind != PARAMETER and not is_named
            if stored in analysis.known and _spells(self.trainable, name):
                raise GraphValueError(f"trainable names {name!r}, on which shapes depend; such a tensor is constant.")
            if stored in analysis.known or is_literal:
                continue
            own = NOT_NAMED if trained is not None else self.untrained.get(name) or _own_reason(stored, analysis)
            reasons[name] = NAMED if name in excluded else "" if is_named else own
        return reasons


def _spells(choice: Choice, name: str) -> bool:
    """True if a choice is or has a name as it is, rather than a pattern."""
    return choice == name or (isinstance(choice, (list, tuple, set)) and name in choice)


def _own_reason(stored: Stored, analysis: KnownConstants) -> str:
    """The reason in the model itself why a constant is not trained: its operator's, or that of the exported program."""
    return analysis.untrained.get(stored, "") or _OF_KINDS.get(stored.kind, "")


def _chosen(
    argument: str, choice: Choice, candidates: Iterable[str], constants: Mapping[str, Stored]
) -> set[str] | None:
    """The names that match a choice.

    Raises GraphValueError for a pattern without a match, GraphTypeError for what is not a pattern.
    """
    if choice is None:
        return None
    if callable(choice):
        return {name for name in candidates if choice(name)}
    chosen: set[str] = set()
    for pattern in [choice] if isinstance(choice, str) else list(choice):
        if not isinstance(pattern, str):
            raise GraphTypeError(f"{argument} takes names, patterns of names or a function of a name, not {pattern!r}.")
        matches = matching(pattern, candidates)
        if not matches:
            raise GraphValueError(_no_match(argument, pattern, candidates, constants))
        chosen |= matches
    return chosen


def _no_match(argument: str, pattern: str, candidates: Iterable[str], constants: Mapping[str, Stored]) -> str:
    others = sorted(matching(pattern, constants))
    if others:
        return f"{argument} names {others[0]!r}, whose elements are not floats; such a tensor is constant."
    near = get_close_matches(pattern, candidates, 3, 0.4)
    advice = f"; near are {', '.join(map(repr, near))}" if near else ""
    return f"No float tensor of the model is called {pattern!r}, as {argument} asks{advice}."


def matching(pattern: str, names: Iterable[str]) -> set[str]:
    """The names that equal a pattern or match it as names of files do."""
    return {name for name in names if name == pattern or fnmatchcase(name, pattern)}


MOST_LISTED = 3


def described(
    parameters: Mapping[str, Parameter], reasons: Mapping[str, str], others: Iterable[Stored], absent: Sequence[str]
) -> list[tuple[str, str]]:
    """Labels with texts: the parameters that are trained, those that are not by reason, constants of other kinds.

    Another one is about absent parameters (`Signature.absent`).
    """
    trained = [name for name, parameter in parameters.items() if parameter.requires_grad]
    noun = "1 tensor" if len(trained) == 1 else f"{len(trained)} tensors"
    size = sum(parameters[name].size for name in trained)
    frozen: dict[str, list[str]] = {}
    for name, parameter in parameters.items():
        if not parameter.requires_grad:
            frozen.setdefault(reasons.get(name) or SET, []).append(name)
    literals = Counter(map(_literal, others))
    lines = {
        "trained": [f"{noun} of {size:,} elements ({_few(trained)})" if trained else "nothing"],
        "frozen": [f"{reason} ({len(names)}: {_few(names)})" for reason, names in frozen.items()],
        "constants": [f"{what} ({count})" for what, count in sorted(literals.items())],
        "absent": [f"{len(absent)} ({_few(absent)}), which the exporter tied, merged or fused"] if absent else [],
    }
    return [(label, ", ".join(parts)) for label, parts in lines.items() if parts]


def _few(names: Sequence[str]) -> str:
    return ", ".join([*map(shown, names[:MOST_LISTED]), *(["..."] if len(names) > MOST_LISTED else [])])


def _literal(stored: Stored) -> str:
    """What a constant is that is not a parameter, not even a frozen one."""
    return INTEGERS if not stored.is_float else NUMBERS if stored.is_number else SHAPES
