"""Checks that all ranks train the same network."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

from graphls.base.errors import GraphRuntimeError
from graphls.distributed.collectives import all_objects
from graphls.distributed.world import Group


def require_equal_parameters(group: Group, parameters: Sequence[str]) -> None:
    """Raise GraphRuntimeError, on all ranks, unless all have these parameters: names and types, in their order."""
    everyone = all_objects(group, list(parameters), "a comparison of parameters")
    for rank, listed in zip(group.members, everyone, strict=True):
        pairs = zip_longest(everyone[0], listed, fillvalue="none at this place")
        mine, its = next((pair for pair in pairs if pair[0] != pair[1]), ("", ""))
        if mine != its:
            text = f"All ranks train the same network, but rank {group.members[0]} has {mine}, and rank {rank} {its}"
            raise GraphRuntimeError(f"{text}; make it of the same cells on all of them.")
