"""The base class of sessions: one thread at a time, and atomic steps."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any

import numpy as np

from graphls.base.errors import GraphRuntimeError
from graphls.base.sharing.locks import Group, merged_group
from graphls.base.sharing.storage import Version
from graphls.distributed.shard_reads import count_steps
from graphls.runtime.states import HasStorage

Inputs = Sequence[np.ndarray[Any, Any]]
Arguments = tuple[Any, ...]
Changes = Iterable[tuple[Any, str, Any]]
Present = Callable[[list[Any]], Any]


class Session(ABC):
    """Runs one graph on the states in some parameters; `version` counts the steps that are complete."""

    def __init__(self, parameters: Mapping[str, HasStorage]) -> None:
        self.parameters = dict(parameters)
        self.version = Version()
        storages = [parameter.storage for parameter in self.parameters.values()]
        self.group: Group = merged_group(storages)
        if any(storage.division is not None for storage in storages):
            count_steps(self, self.version)

    def run(self, inputs: Inputs, present: Present = list) -> Any:
        """One step, and what `present` makes of its results. Other threads wait that call it, or one on a common state.

        Where an engine computes beside Python, results are presented meanwhile, when their content is not there yet.

        Raises GraphRuntimeError where a function that such a step calls runs it, since that step has its states.
        """
        while True:
            group = self.group
            if group.is_held() and _is_running(group):
                text = "A function that a step calls cannot run a step on the same states; run it behind that step."
                raise GraphRuntimeError(text)
            with group.lock:
                if group.into is None:
                    results = self.step(inputs)
                    try:
                        return present(results)
                    finally:
                        self.wait()
            self.group = group.root()

    @abstractmethod
    def step(self, inputs: Inputs) -> list[Any]:
        """One step, by the thread that holds the lock of the group."""

    def wait(self) -> None:  # noqa: B027 - most engines have ended then
        """Wait for what an engine still computes of the step."""

    def complete(self, task: Callable[..., Any], arguments: Arguments, changes: Changes = ()) -> None:
        """Call `task`, then set attributes and count the step, in one call into C; see `complete_all`."""
        self.complete_all(iter((partial(task, *arguments),)), changes)

    def complete_all(self, tasks: Iterator[partial[Any]], changes: Changes = ()) -> None:
        """Call these tasks, then set attributes and count the step, in one call into C.

        A Ctrl-C is raised between two instructions of Python only, so it comes before all of that or behind it; what
        the tasks call is not a function written in Python, for the same reason. Where one raises, those behind it are
        left in `tasks`.
        """
        objects, names, values = zip(*changes, (self.version, "ticks", self.version.ticks + 1), strict=True)
        deque(chain(map(partial.__call__, tasks), map(setattr, objects, names, values)), 0)


def _is_running(group: Group) -> bool:
    """Whether this thread runs a step on the states of a group; its call stack tells, also after an interrupt."""
    frame: Any = sys._getframe(2)
    while frame is not None:
        if frame.f_code is Session.run.__code__ and frame.f_locals["self"].group.root() is group.root():
            return True
        frame = frame.f_back
    return False
