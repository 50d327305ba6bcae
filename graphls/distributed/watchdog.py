"""The watchdog over ranks: a rank that raises or leaves early ends all ranks with an explanation."""

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
from typing import Any, NoReturn

from graphls.base.tracebacks import folded
from graphls.distributed.deadlock import Inquiry
from graphls.distributed.rank_status import WAITING, Call, Status
from graphls.distributed.world import Group, launched

PATIENCE = 2.0
"""Seconds of waiting after which a rank asks the others for their status, and ends all where one has left."""
REPORT_AFTER = 30.0
"""Seconds of waiting after which a rank says for whom; it repeats that after twice as many, and so on."""
BETWEEN = 0.2
"""Seconds between two polls for ranks that have left."""
LEAVE_TAG, QUESTION_TAG, ANSWER_TAG = 17, 20, 21
"""The MPI tags of messages: of a rank that leaves, of a question for the status of a rank, and of its answer."""
LIMIT = "HCCL_EXEC_TIMEOUT"
"""The variable in which MindSpore's launchers set the time limit of a communication, in seconds."""


EXIT_CALLBACKS: list[Callable[[], None]] = []
"""Functions that are called when all ranks are through, before MPI ends."""


class Watch:
    """The watchdog for ranks that have left: a thread with a separate communicator."""

    def __init__(self, group: Group, limit: float | None) -> None:
        self.group, self.limit = group, limit
        self.comm = group.comm.Dup()
        self.others = [rank for rank in group.members if rank != group.rank]
        self.left: set[int] = set()
        self.is_through = False
        self.leaving: Call | None = None
        self.inquiry: Inquiry | None = None
        self.pending: set[int] = set()
        self.sent: list[Any] = []
        self.process = os.getpid()
        self.raised, self.exit = sys.excepthook, os._exit
        sys.excepthook = self.fail
        os._exit = self.exit_at_once
        atexit.register(self.leave)
        self.thread = threading.Thread(target=self.poll, name="graphls-ranks", daemon=True)
        self.thread.start()

    def fail(self, kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> Any:
        """End all ranks with the error of this one."""
        if os.getpid() != self.process:
            return self.raised(kind, error, trace)
        with folded(error) as count:
            text = "".join(traceback.format_exception(kind, error, error.__traceback__ if count else trace))
        self.end_all(f"{text}Rank {self.group.rank} of {self.group.size} has failed with this, which ends all ranks.\n")

    def end_all(self, text: str) -> None:
        """Print the reason and end all ranks."""
        sys.stdout.flush()
        sys.stderr.write(text)
        sys.stderr.flush()
        self.comm.Abort(1)

    def poll(self) -> None:
        """Poll whether an awaited rank has left or is in a deadlock."""
        while not self.is_through:
            time.sleep(BETWEEN)
            self._receive()
            call = WAITING.now
            waited = 0.0 if call is None else time.monotonic() - call.since
            if call is None or waited < min(PATIENCE, REPORT_AFTER, self.limit or REPORT_AFTER):
                continue
            missing = sorted(self.left.intersection(call.group.members))
            if missing and waited >= PATIENCE and call is not self.leaving:
                text = f"Rank {missing[0]} has left while rank {self.group.rank} waits for it in {call}"
                self.end_all(f"GraphRuntimeError: {text}; all ranks run the same steps.\n")
            self._inquire(call, waited)

    def _inquire(self, call: Call, waited: float) -> None:
        """Ask all ranks for their status, and print a message or end all by their answers."""
        inquiry = self.inquiry
        if inquiry is None or inquiry.call is not call:
            inquiry = self.inquiry = Inquiry(call, self.group.rank, REPORT_AFTER)
        if inquiry.is_open(self.others):
            return
        own = WAITING.status()
        if inquiry.asked_at and WAITING.now is call:
            message = inquiry.deadlock(own)
            if message:
                self.end_all(f"GraphRuntimeError: {message}\n")
            self._report(inquiry, own, waited)
        if not inquiry.is_due(waited):
            return
        inquiry.ask()
        for rank in self.others:
            self._ask(inquiry, rank)

    def _ask(self, inquiry: Inquiry, rank: int) -> None:
        """Ask a rank, unless an answer is pending, after which it is asked again."""
        if rank not in self.pending:
            self.pending.add(rank)
            self._send(inquiry.asked_at, rank, QUESTION_TAG)

    def _send(self, message: object, rank: int, tag: int) -> None:
        self.sent = [request for request in self.sent if not request.Test()]
        self.sent.append(self.comm.isend(message, rank, tag))

    def _report(self, inquiry: Inquiry, own: Status, waited: float) -> None:
        """Print for whom this rank waits, and end all after the time limit."""
        text = inquiry.waiting_text(own, waited)
        may_take_long = inquiry.call is self.leaving and not inquiry.silent(own)  # as others may go on without this one
        if self.limit is not None and waited >= self.limit and not may_take_long:
            advice = f"which may take {self.limit:g} s; see to that rank, or give init a longer timeout"
            self.end_all(f"GraphRuntimeError: {text}, {advice}.\n")
        if waited >= inquiry.next:
            inquiry.next = 2 * waited
            if inquiry.is_first(own):
                sys.stderr.write(f"{text}.\n")
                sys.stderr.flush()

    def _receive(self) -> None:
        from mpi4py import MPI

        status = MPI.Status()
        while self.comm.Iprobe(MPI.ANY_SOURCE, MPI.ANY_TAG, status):
            message = self.comm.recv(source=status.source, tag=status.tag)
            if status.tag == LEAVE_TAG:
                self.left.add(message)
            elif status.tag == QUESTION_TAG:
                self._send((message, WAITING.status()), status.source, ANSWER_TAG)
            else:
                self.pending.discard(status.source)
                if self.inquiry is not None and message[0] == self.inquiry.asked_at:
                    self.inquiry.answers[status.source] = message[1]
                elif self.inquiry is not None:
                    self._ask(self.inquiry, status.source)

    def exit_at_once(self, status: int) -> NoReturn:
        """Exit as `os._exit` does; with status 0 it informs the other ranks first, as at a normal end."""
        if os.getpid() == self.process and status == 0 and self.leaving is None:
            from mpi4py import MPI

            self.leave()
            MPI.Finalize()
        self.exit(status)

    def leave(self) -> None:
        """Tell the others that this rank is through, and sleep until they are."""
        if os.getpid() != self.process:
            return
        self.leaving = Call("its exit", "", "", self.group, lambda: sorted(set(self.others) - self.left), True)
        sent = [self.comm.isend(self.group.rank, rank, LEAVE_TAG) for rank in self.others]
        WAITING.begin(self.leaving)
        while len(self.left) < len(self.others):
            time.sleep(0.01)
        self.is_through = True
        self.thread.join()
        for request in sent:
            request.wait()
        for end in EXIT_CALLBACKS:
            end()


def end_all_before_init() -> None:
    """Let an error that ends one rank end all, also before they have met in `init`.

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
    """Holds the watchdog of this process, from `init` on."""

    watch: Watch | None = None


def start_watch(group: Group, limit: float | None) -> None:
    """Start the watchdog: an error of one rank ends all, and so does a wait beyond the limit, in seconds.

    Without a limit, that of the environment variable LIMIT counts, where it is set.
    """
    setting = os.environ.get(LIMIT, "")
    limit = float(setting) if limit is None and setting.isdecimal() and int(setting) else limit
    if group.comm is not None and Watching.watch is None:
        Watching.watch = Watch(group, limit)
    elif Watching.watch is not None and limit is not None:
        Watching.watch.limit = limit
