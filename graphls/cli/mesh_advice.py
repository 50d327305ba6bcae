"""Advice for a step that does not fit the memory of a device: which values are large, and what would help."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from graphls.base.text.plain import size
from graphls.ir.graph import Node, Value
from graphls.ir.sharding import STAGE, local_type

if TYPE_CHECKING:
    from graphls.runtime.xla.analysis import Analysis, Live

MOST = 5
"""The states and the lines of temporary values that are listed."""
LEAST = 1 << 20
"""Bytes that are worth a sentence."""
DATA = "data"
"""The mesh axis along which ZeRO divides."""


def advice(analysis: Analysis, memory: int) -> Iterator[str]:
    """Sentences on a step that needs more than `memory` bytes on each device."""
    yield f"A device of {size(memory)} lacks {size(analysis.memory - memory)}."
    yield from _states(analysis)
    yield from _zero(analysis)
    yield from _results(analysis)
    yield from _temporaries(analysis)


def _states(analysis: Analysis) -> Iterator[str]:
    """The largest states, with the mesh axes that do not divide them."""
    yield "The largest states:"
    for state in sorted(analysis.states, key=lambda each: -analysis.local_size(each))[:MOST]:
        unused = _unused(state, analysis)
        advice = f"; {' and '.join(unused)} could divide it" if unused else ""
        yield f"  {state.name}: {state.type_text}, {size(analysis.local_size(state))}{advice}"


def _unused(state: Value, analysis: Analysis) -> list[str]:
    """The mesh axes that do not divide a state, and that divide one of its axes evenly."""
    mesh, sharding = analysis.mesh, state.sharding
    shape = local_type(state.type, sharding, mesh).shape
    own = () if sharding is None else sharding.names
    others = {name: count for name, count in mesh.sizes.items() if name not in own and name != STAGE}
    return [name for name, count in others.items() if count > 1 and any(n and n % count == 0 for n in shape)]


def _zero(analysis: Analysis) -> Iterator[str]:
    """What the levels of ZeRO would save, where the mesh has the axis that they divide by."""
    parts = analysis.mesh.sizes.get(DATA, 1)
    parameters = analysis.parameters
    for level, chosen in ((1, lambda state: state not in parameters), (3, lambda state: state in parameters)):
        saved = _undivided(analysis, chosen) * (parts - 1) // parts
        if saved >= LEAST:
            kind = "the states of optimizers" if level == 1 else "parameters, which are gathered where they are read"
            yield f"zero={level} would divide {kind}, by {DATA!r} and save up to {size(saved)}."


def _undivided(analysis: Analysis, is_chosen: Callable[[Value], bool]) -> int:
    own = filter(is_chosen, analysis.states)
    return sum(analysis.local_size(state) for state in own if not state.sharding or DATA not in state.sharding.names)


def _results(analysis: Analysis) -> Iterator[str]:
    """Why new states need memory beside the old ones."""
    if analysis.results >= LEAST:
        reason = "something reads the old ones when the new ones are there"
        if analysis.tested:
            _, name, place = _origin(analysis.tested[0])
            reason = f"the program tests indices that it computes, by {name} {place}; inputs are tested before the step"
        yield f"{size(analysis.results)} are new states beside the old ones: {reason}."


def _temporaries(analysis: Analysis) -> Iterator[str]:
    """The largest values that are live at the peak, together where they are of one line of the user."""
    yield f"Live at the peak ({size(sum(each.size for each in analysis.live))}):"
    groups: dict[tuple[str, ...], list[Live]] = {}
    for each in analysis.live:
        groups.setdefault(_origin(each.node), []).append(each)
    largest = sorted(groups.items(), key=lambda item: -sum(each.size for each in item[1]))[:MOST]
    for (phase, name, place), own in largest:
        count = f"{len(own)} values" if len(own) > 1 else own[0].type
        yield f"  {size(sum(each.size for each in own))} by {name} {place} ({phase}): {count}{_division(own, analysis)}"
    retained = sum(each.size for each in analysis.live if each.node is not None and each.node.phase == "forward")
    if retained >= max(LEAST, analysis.temporaries // 4):
        cells = "`recompute()` of the cells that repeat keeps their inputs alone"
        yield f"{size(retained)} are values of the forward that the backward reads: {cells}, and fewer rows do as well."


def _origin(node: Node | None) -> tuple[str, str, str]:
    """The phase, the operation and the line of the user of a node."""
    if node is None:
        return "several", "XLA", "itself"
    return node.phase, node.primitive.name, f"at {node.loc}" if node.loc else f"in {node.scope}"


def _division(own: Sequence[Live], analysis: Analysis) -> str:
    """Into how many parts the largest of some values is divided, where that is fewer than there are devices."""
    node = own[0].node
    if node is None or not node.outputs:
        return ""
    global_size = max(value.type.size * value.type.dtype.numpy.itemsize for value in node.outputs)
    parts, rest = divmod(global_size, own[0].size)
    devices = analysis.mesh.size // analysis.mesh.stages
    if rest or not 0 < parts < devices:
        return ""
    return ", whole on every device" if parts == 1 else f", divided by {parts} of {devices} devices"
