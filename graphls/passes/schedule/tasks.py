"""The tasks of the stages of a pipeline, and the order in which they run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from graphls.base.errors import GraphValueError
from graphls.ir.graph import Graph, Node, Value, definers, needs, uses
from graphls.passes.rewriter import users
from graphls.passes.schedule.segments import is_free

FORWARD, BACKWARD, BETWEEN, UPDATE = "forward", "backward", "between", "update"


@dataclass(frozen=True, eq=False)
class Task:
    """What one stage computes at a time: of the forward or the backward of one part of a batch (`micro`), or other."""

    stage: int
    kind: str
    micro: int | None
    nodes: tuple[Node, ...]


def with_parts(graph: Graph) -> Graph:
    """The graph whose nodes say the first part of a batch that needs them, and none where they do not depend on it.

    Passes merge equal nodes of several parts: casts of weights, and the sensitivity of a scaled loss, which the
    backward computes for the last part first. The batch is divided before all parts: only there is one part unlike
    another, so that the tasks of all parts are one program.
    """
    of_batch = {v for v in graph.inputs if v.type.rank}
    inputs = frozenset(graph.inputs)
    parts: dict[Node, int] = {}
    for node in graph.nodes:
        # Copies of weights for a second run of the forward belong to the backward of their part, which waits for it.
        if node.primitive.on_host or node.attrs.get("recompute") or not of_batch.isdisjoint(uses(node)):
            of_batch.update(node.outputs)
            if node.micro is not None and not (node.primitive.name == "slice" and inputs.issuperset(node.inputs)):
                parts[node] = node.micro
    readers = users(graph.nodes)
    for node in reversed(graph.nodes):
        if node in parts:
            later = (parts[r] for v in node.outputs for r in readers.get(v, ()) if r in parts)
            parts[node] = min((parts[node], *later))
    return graph.replace(nodes=tuple(replace(n, micro=parts.get(n)) for n in graph.nodes))


def tasks_of(graph: Graph) -> list[Task]:
    """The tasks of a graph whose nodes all have stages, in no order.

    The forward, and the backward, of a part in a stage is one task. All else is a task as early as possible, and what
    nothing but the end of the step reads is in the last task of its stage.
    """
    nodes = [node for node in graph.nodes if not is_free(node) and not node.primitive.on_host]
    keys: dict[Node, tuple[object, ...]] = {node: key for node in nodes if (key := _part(node))}
    updates = _last(nodes, keys, set(graph.outputs))
    depth = _depths(nodes, keys)
    groups: dict[tuple[object, ...], list[Node]] = {}
    for node in nodes:
        other = (node.stage, UPDATE, None) if node in updates else (node.stage, BETWEEN, None, depth[node])
        groups.setdefault(keys.get(node, other), []).append(node)
    return [Task(key[0], key[1], key[2], tuple(group)) for key, group in groups.items()]  # type: ignore[arg-type]


def _part(node: Node) -> tuple[object, ...]:
    is_part = node.micro is not None and node.phase in (FORWARD, BACKWARD)
    return (node.stage, node.phase, node.micro) if is_part else ()


def _last(nodes: Sequence[Node], keys: Mapping[Node, object], outputs: set[Value]) -> set[Node]:
    """The nodes whose results only nodes of this kind in their own stage read, if any."""
    readers, last = users(nodes), set[Node]()
    for node in reversed(nodes):
        later = [reader for v in node.outputs for reader in readers.get(v, ())]
        is_other = node not in keys and outputs.isdisjoint(node.outputs)
        if is_other and all(reader in last and reader.stage == node.stage for reader in later):
            last.add(node)
    return last


def _depths(nodes: Sequence[Node], keys: Mapping[Node, tuple[object, ...]]) -> dict[Node, int]:
    """For each node the number of changes of task on the longest way to it.

    Nodes of one stage and one depth outside of parts wait for no other task that waits for one of them. Raises
    GraphValueError where parts wait for each other in turns.
    """
    definer = definers(nodes)
    group: dict[Node, object] = {node: keys.get(node, node) for node in nodes}
    before: dict[object, dict[object, None]] = {group[node]: {} for node in nodes}
    for node in nodes:
        for value in needs(node):
            if value in definer and group[definer[value]] != group[node]:
                before[group[node]].setdefault(group[definer[value]])
    depth: dict[object, int] = {}
    for key in _sorted(before):
        own = key.stage if isinstance(key, Node) else None
        depth[key] = max((depth[k] + (not isinstance(k, Node) or k.stage != own) for k in before[key]), default=0)
    return {node: depth[group[node]] for node in nodes}


def _sorted(before: Mapping[object, Iterable[object]]) -> list[object]:
    """Groups in an order in which each comes behind those before it."""
    after: dict[object, list[object]] = {key: [] for key in before}
    waiting = {key: 0 for key in before}
    for key, several in before.items():
        for other in several:
            after[other].append(key)
            waiting[key] += 1
    order = [key for key, count in waiting.items() if count == 0]
    for key in order:
        for later in after[key]:
            waiting[later] -= 1
            if waiting[later] == 0:
                order.append(later)
    if len(order) < len(before):
        stuck = next(key for key, count in waiting.items() if count and isinstance(key, tuple))
        stage, phase, micro = stuck
        text = f"The {phase} of stage {stage} for part {micro} of a batch waits for a stage that waits for it"
        raise GraphValueError(f"{text}; what reads the result of a stage belongs to it or to a later one.")
    return order


def in_turns(tasks: Sequence[Task], stages: int) -> list[Task]:
    """The tasks in the order in which a pipeline runs them: each stage one forward and one backward in turns.

    The clock is the same for all tasks: at each tick every stage that can runs one whose operands are complete. A
    backward comes before a forward, and a forward runs only if fewer parts than there are stages from this one on wait
    for their backward, unless nothing else can run.
    """
    maker = {v: task for task in tasks for node in task.nodes for v in node.outputs}
    before = {t: {maker[v] for n in t.nodes for v in needs(n) if v in maker and maker[v] is not t} for t in tasks}
    left = [task for task in tasks if task.kind != UPDATE]
    order: list[Task] = []
    complete: set[Task] = set()
    ahead = dict.fromkeys(range(stages), 0)
    while left:
        ready = [task for task in left if before[task] <= complete]
        allowed = [t for t in ready if t.kind != FORWARD or ahead[t.stage] < stages - t.stage] or ready
        tick = [min(own, key=_rank) for s in range(stages) if (own := [t for t in allowed if t.stage == s])]
        for task in tick:
            ahead[task.stage] += (task.kind == FORWARD) - (task.kind == BACKWARD)
        order += tick
        complete.update(tick)
        left = [task for task in left if task not in complete]
    return [*order, *sorted((t for t in tasks if t.kind == UPDATE), key=lambda t: t.stage)]


def _rank(task: Task) -> tuple[int, int]:
    return (BETWEEN, BACKWARD, FORWARD).index(task.kind), task.micro or 0
