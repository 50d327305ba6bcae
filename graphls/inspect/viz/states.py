"""The states that the results of a node flow into, and the one state that a node serves alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import islice
from typing import Any

import numpy as np

from graphls.ir.graph import Graph, Node, Value

Array = np.ndarray[Any, Any]
ROWS = 1024
"""The masks that are unpacked at a time, to a byte for each bit; a multiple of 8."""
FEW = 8
"""The writes of a mask that are checked one by one."""


def reached(graph: Graph) -> dict[Node, int]:
    """For each node, those of regions included, the writes that its results flow into.

    Writes are bits of a number, in the order of `graph.writes`. Values that only decide whether a state is written, the
    condition of a `cond` and the operands of an `overflow_get`, do not count.
    """
    bits: dict[Value, int] = {}
    for i, write in enumerate(graph.writes):
        _add(bits, write.value, 1 << i)
    masks: dict[Node, int] = {}
    _sweep(graph.nodes, bits, masks)
    return masks


def _sweep(nodes: Sequence[Node], bits: dict[Value, int], masks: dict[Node, int]) -> None:
    for node in reversed(nodes):
        mask = _union(bits, node.outputs)
        masks[node] = mask
        if node.regions:
            _through_regions(node, mask, bits, masks)
        elif not node.primitive.is_check:
            for value in node.inputs:
                _add(bits, value, mask)


def _through_regions(node: Node, mask: int, bits: dict[Value, int], masks: dict[Node, int]) -> None:
    for region in node.regions:
        matches = len(region.outputs) == len(node.outputs)
        for i, value in enumerate(region.outputs):
            _add(bits, value, bits.get(node.outputs[i], 0) if matches else mask)
        _sweep(region.nodes, bits, masks)
        if len(region.inputs) == len(node.inputs):
            for value, parameter in zip(node.inputs, region.inputs, strict=True):
                _add(bits, value, bits.get(parameter, 0))


def _add(bits: dict[Value, int], value: Value, more: int) -> None:
    bits[value] = bits.get(value, 0) | more


def _union(bits: Mapping[Value, int], values: Iterable[Value]) -> int:
    union = 0
    for value in values:
        union |= bits.get(value, 0)
    return union


def served(nodes: Iterable[Node], reached: Mapping[Node, int]) -> dict[Node, int]:
    """For each node that works for one state alone the index of its write.

    A node may reach the moments of a parameter too, as long as all nodes that reach those reach the parameter: then it
    works for the parameter. Nodes that several parameters share, such as a learning rate, are missing.
    """
    nodes = [node for node in nodes if reached[node]]
    masks = list({reached[node] for node in nodes})
    chosen = dict(zip(masks, _chosen(masks), strict=True))
    return {node: write for node in nodes if (write := chosen[reached[node]]) is not None}


def _chosen(masks: Sequence[int]) -> Iterator[int | None]:
    """For each mask the last write that is in every mask with a write of this one; None where there is none.

    That write is in more masks than others, or in as many as those that are in the same ones. So writes are numbered by
    the number of masks that they are in, which makes that write the highest bit. In deep networks most masks are long:
    the first few writes show that one of theirs is in another mask.
    """
    columns = _transposed(masks, max((mask.bit_length() for mask in masks), default=0))
    order = sorted(range(len(columns)), key=lambda write: (columns[write].bit_count(), write))
    columns = [columns[write] for write in order]

    @cache
    def within(top: int) -> int:
        """The writes that all masks have only together with `top`."""
        return _as_number(np.packbits([not column & ~columns[top] for column in columns], bitorder="little"))

    # A mask whose writes all are in no mask without its highest one works for that one.
    for mask in _transposed(columns, len(masks)):
        top = mask.bit_length() - 1
        is_chosen = not any(columns[write] & ~columns[top] for write in islice(_bits(mask), FEW))
        if is_chosen and mask.bit_count() > FEW:
            is_chosen = not mask & ~within(top)
        yield order[top] if is_chosen else None


def _transposed(rows: Sequence[int], width: int) -> list[int]:
    """The rows that have each bit, as bits of a number."""
    size = -(-width // 8)
    parts: list[Array] = [np.zeros((8 * size, 0), np.uint8)]
    for start in range(0, len(rows), ROWS):
        data = b"".join(row.to_bytes(size, "little") for row in rows[start : start + ROWS])
        bits = np.unpackbits(np.frombuffer(data, np.uint8).reshape(-1, size), axis=1, bitorder="little")
        parts.append(np.packbits(bits.T, axis=1, bitorder="little"))
    return [_as_number(row) for row in np.concatenate(parts, axis=1)[:width]]


def _as_number(row: Array) -> int:
    return int.from_bytes(row.tobytes(), "little")


def _bits(mask: int) -> Iterator[int]:
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low
