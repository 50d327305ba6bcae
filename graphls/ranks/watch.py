"""Ranks that raise or leave early end all ranks, and say why."""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from types import TracebackType
from typing import Any

from graphls.ir.tracebacks import folded
from graphls.ranks.world import Group, launched

PATIENCE = 2.0
"""How many seconds a rank waits for one that has left before it ends all."""
BETWEEN = 0.2
"""How many seconds lie between two looks for ranks that have left."""
LEAVING = 17
"""The tag of the message of a rank that leaves."""


BEHIND_ALL: list[Callable[[], None]] = []
"""What ends when all ranks are through, and before MPI does."""


class Waiting:
    """What this rank communicates now, with whom and since when."""

    now: tuple[str, tuple[int, ...], float] | None = None

    def begin(self, name: str, members: tuple[int, ...]) -> None:
        """A communication begins."""
        self.now = name, members, time.monotonic()

    def end(self) -> None:
        """It is done."""
        self.now = None


WAITING = Waiting()


class Watch:
    """What looks for ranks that have left, in a thread, over a communicator of its own."""

    def __init__(self, group: Group) -> None:
        self.group = group
        self.comm = group.comm.Dup()
        self.left: set[int] = set()
        self.is_leaving = False
        self.process = os.getpid()
        self.raised = sys.excepthook
        sys.excepthook = self.fail
        atexit.register(self.leave)
        self.thread = threading.Thread(target=self.look, name="graphls-ranks", daemon=True)
        self.thread.start()

    def fail(self, kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> Any:
        """End all ranks with the error of this one."""
        if os.getpid() != self.process:
            return self.raised(kind, error, trace)
        with folded(error) as count:
            told = "".join(traceback.format_exception(kind, error, error.__traceback__ if count else trace))
        self.end_all(f"{told}Rank {self.group.rank} of {self.group.size} has failed with this, which ends all ranks.\n")

    def end_all(self, text: str) -> None:
        """Say why, and end all ranks."""
        sys.stdout.flush()
        sys.stderr.write(text)
        sys.stderr.flush()
        self.comm.Abort(1)

    def look(self) -> None:
        """Look, again and again, whether who is waited for has left."""
        while not self.is_leaving:
            time.sleep(BETWEEN)
            self._receive()
            waiting = WAITING.now
            if waiting is None or time.monotonic() - waiting[2] < PATIENCE:
                continue
            gone = sorted(self.left.intersection(waiting[1]))
            if gone:
                text = f"Rank {gone[0]} has left while rank {self.group.rank} waits for it in {waiting[0]}"
                self.end_all(f"GraphRuntimeError: {text}; all ranks run the same steps.\n")

    def _receive(self) -> None:
        from mpi4py import MPI

        status = MPI.Status()
        while self.comm.Iprobe(MPI.ANY_SOURCE, LEAVING, status):
            self.left.add(self.comm.recv(source=status.source, tag=LEAVING))

    def leave(self) -> None:
        """Tell the others that this rank is through, and wait, without a load, until they are."""
        if os.getpid() != self.process:
            return
        self.is_leaving = True
        self.thread.join()
        others = [rank for rank in self.group.members if rank != self.group.rank]
        sent = [self.comm.isend(self.group.rank, rank, LEAVING) for rank in others]
        while len(self.left) < len(others):
            self._receive()
            time.sleep(0.01)
        for request in sent:
            request.wait()
        for end in BEHIND_ALL:
            end()


def end_all_before_init() -> None:
    """Let an error that ends one of several ranks end all, also before they have met in `init`.

    There is no communicator to abort. The mpiexec of MPICH lets the others wait in `init` for ever for one that ends
    with an error before it, and ends them only where it dies of a signal.
    """
    raised, process = sys.excepthook, os.getpid()

    def fail(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        raised(kind, error, trace)
        if os.getpid() == process:
            sys.stdout.flush()
            sys.stderr.flush()
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.kill(process, signal.SIGTERM)

    sys.excepthook = fail


if launched() > 1:
    end_all_before_init()


class Watching:
    """The watch of this process, from `init` on."""

    watch: Watch | None = None


def start_watch(group: Group) -> None:
    """Let an error that ends one of several ranks end all."""
    if group.comm is not None and Watching.watch is None:
        Watching.watch = Watch(group)
