"""The values of a compiled program that are live together when they need most memory, in the order of its schedule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from graphls.runtime.xla.instructions import CONTROL, Instruction, Instructions

_VIEWS = frozenset(("bitcast", "get-tuple-element", "tuple", "while", "optimization-barrier"))
"""Operations whose results lie in the memory of their operands."""
_ELSEWHERE = frozenset(("parameter", "constant"))
"""Operations whose results belong to the arguments or to the code of a program."""


def live_at_peak(instructions: Instructions, computation: str | None = None) -> list[Instruction]:
    """The instructions whose results are live at the peak, the largest ones first; arguments and results are not.

    XLA may place a result in the memory of an operand that nothing else reads, so its peak can be lower.
    """
    schedule = instructions.of(instructions.entry if computation is None else computation)
    sources = _sources(schedule)
    ends = {name: number for number, each in enumerate(schedule) for used in each.operands for name in sources(used)}
    results = {name for each in schedule if each.is_result for name in sources(each.name)}
    live: dict[str, Instruction] = {}
    best: list[Instruction] = []
    most = size = 0
    for number, each in enumerate(schedule):
        if each.operation not in _VIEWS | _ELSEWHERE and each.name not in results:
            live[each.name] = each
            size += each.size
        inner = _inner_peak(each, instructions)
        if (total := size + sum(one.size for one in inner)) > most:
            most, best = total, [*live.values(), *inner]
        for name in {name for used in (*each.operands, each.name) for name in sources(used)}:
            if name in live and ends.get(name, number) <= number:
                size -= live.pop(name).size
    return sorted(best, key=lambda one: -one.size)


def _inner_peak(instruction: Instruction, instructions: Instructions) -> list[Instruction]:
    """What is live in the computations that an instruction runs one after the other."""
    if instruction.operation not in CONTROL:
        return []
    peaks = (live_at_peak(instructions, called) for called in instruction.called)
    return max(peaks, key=lambda peak: sum(one.size for one in peak), default=[])


class _sources:
    """For a name in a computation, the instructions whose memory its result lies in."""

    def __init__(self, schedule: Sequence[Instruction]) -> None:
        self.by_name: Mapping[str, Instruction] = {each.name: each for each in schedule}
        self.known: dict[str, tuple[str, ...]] = {}

    def __call__(self, name: str) -> tuple[str, ...]:
        if name not in self.known:
            each = self.by_name.get(name)
            self.known[name] = (name,) if each is None or each.operation not in _VIEWS else self._of_view(each)
        return self.known[name]

    def _of_view(self, view: Instruction) -> tuple[str, ...]:
        source = self.by_name.get(view.operands[0])
        if view.operation == "get-tuple-element" and source is not None and source.operation == "tuple":
            return self(source.operands[view.index or 0])
        return tuple(name for operand in view.operands for name in self(operand))
