"""When the precision of a training step is explained for reports, by all ranks together where they train together."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from graphls.distributed.collectives import all_objects
from graphls.distributed.world import world
from graphls.nn.grad_reducer import is_data_parallel


@dataclass
class Schedule:
    """The steps that are explained: one of every so many, 0 for none; `last` is the last step that was."""

    every: int
    last: int = 0
    is_joint: bool = False

    def is_due(self, step: int) -> bool:
        """Whether a step is explained, which then is the last one: a call of the runtime may have many steps.

        A run that begins again from the first step has a last one that is behind it.
        """
        is_due = bool(self.every) and step // self.every > min(self.last, step - 1) // self.every
        self.last = step if is_due else self.last
        return is_due


class Report(Protocol):
    """A callback that shows explanations."""

    _schedule: Schedule

    def explained(self, explanation: Any, step: int | None = None) -> None:
        """Take an explanation of a step."""


@dataclass(frozen=True)
class JointExplanations:
    """The schedules of all ranks, each with the reports of this rank that have it.

    A rank whose reports ask for nothing explains its step with the others, who wait for its maxima.
    """

    reports: tuple[tuple[Schedule, tuple[Report, ...]], ...] = ()

    def after_step(self, step: int, explain: Callable[[], Any]) -> None:
        """Explain a step where a report of any rank asks for it."""
        for schedule, reports in self.reports:
            if schedule.is_due(step) and (explanation := explain()) is not None:
                for report in reports:
                    report.explained(explanation, step)


def agree_on_explanations(callbacks: Iterable[Any]) -> JointExplanations:
    """What the ranks that train together explain together; nothing of one process, whose reports ask for themselves."""
    own: list[Report] = [each for each in callbacks if hasattr(each, "_schedule")]
    if not is_data_parallel():
        for report in own:
            report._schedule.is_joint = False
        return JointExplanations()
    everyone = all_objects(world(), [(each._schedule.every, each._schedule.last) for each in own])
    distinct = dict.fromkeys((every, last) for each in everyone for every, last in each)
    schedules = [Schedule(*pair, is_joint=True) for pair in distinct]
    return JointExplanations(tuple((s, tuple(_with_schedule(own, s))) for s in schedules))


def _with_schedule(reports: Iterable[Report], schedule: Schedule) -> Iterable[Report]:
    """The reports that have a schedule, which they share from now on."""
    for report in reports:
        if (report._schedule.every, report._schedule.last) == (schedule.every, schedule.last):
            report._schedule = schedule
            yield report
