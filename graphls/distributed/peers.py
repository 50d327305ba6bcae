"""The processes of a mesh: how they meet, agree, and end together."""

from __future__ import annotations

import atexit
import os
import socket
import sys
import threading
import time
import traceback
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Any, NoReturn

from graphls.base.errors import GraphRuntimeError
from graphls.base.tracebacks import folded
from graphls.distributed.hub import Hub, Message, connection_of, receive, send
from graphls.distributed.launch import Launch, address_of
from graphls.distributed.world import WORLD, Group

LIMIT = 300.0
"""Seconds within which processes meet, unless `init` has another limit."""
PATIENCE = 5.0
"""Seconds in which the report of an end arrives."""
TICK = 0.5
"""Seconds between two looks at how long a step has taken."""


class Peers:
    """All processes of a mesh, this one among them, each with a connection to the hub of process 0.

    `programs` and `agreements` count what all processes do together: one that has left after fewer takes no part any
    more. `begun` is the time at which the program that runs now has begun. Raises GraphRuntimeError where they do not
    meet in the time `limit`, in seconds.
    """

    current: Peers | None = None

    def __init__(self, launch: Launch, limit: float | None) -> None:
        self.count, self.number = launch.processes or 1, launch.process or 0
        self.host, port = address_of(launch.coordinator)
        self.limit = limit
        self.process = os.getpid()
        self.programs = self.agreements = 0
        self.begun: float | None = None
        self.left: dict[int, Message] = {}
        self.waiting: dict[int, Message] = {}
        self.answers: SimpleQueue[Message] = SimpleQueue()
        self.lock, self.all_left, self.is_reported = threading.Lock(), threading.Event(), threading.Event()
        self.is_failing = False
        meeting = LIMIT if limit is None else limit
        self.hub = Hub(self.host, port, self.count, meeting) if self.number == 0 else None
        self.connection = self._connected(port, time.monotonic() + meeting, meeting)
        hosts = self._met(meeting)
        self.group = Group(WORLD, tuple(range(self.count)), self.number, hosts)
        self.raised = sys.excepthook
        sys.excepthook = self.fail
        atexit.register(self.leave)
        for task in (self.watch, self.limit_steps):
            threading.Thread(target=task, name="graphls-processes", daemon=True).start()

    def _connected(self, port: int, until: float, limit: float) -> Any:
        while True:
            try:
                return connection_of(socket.create_connection((self.host, port), max(until - time.monotonic(), 0.1)))
            except OSError as error:
                if time.monotonic() >= until:
                    text = f"Process {self.number} of {self.count} did not find process 0 at {self.host}:{port}"
                    reason = error.strerror or error
                    raise GraphRuntimeError(f"{text} within {limit:g} s ({reason}); see whether it runs.") from None
            time.sleep(0.05)

    def _met(self, limit: float) -> tuple[str, ...]:
        """The machines of all processes, when they are there."""
        hello = {"process": self.number, "processes": self.count, "host": socket.gethostname()}
        send(self.connection, hello)
        answer = receive(self.connection) if self.connection.poll(limit + PATIENCE) else None
        if answer is None or answer.get("kind") != "all":
            text = "Process 0 has ended, or what listens there is another program; see its output."
            raise GraphRuntimeError(text if answer is None else str(answer.get("text", text)))
        return tuple(answer["hosts"])

    def agree(self, act: str, value: object = None) -> list[Any]:
        """The values that all processes give when they come to the same act, in their order.

        Raises GraphRuntimeError where others come to another act, have left, or do not come within the time limit.
        """
        with self.lock:
            self.agreements += 1
            self._require_all("agreements", act)
            send(self.connection, {"kind": "agree", "number": self.agreements, "value": [act, value]})
            answer = self._answer(act)
        others = [(number, other) for number, (other, _) in enumerate(answer) if other != act]
        if others:
            number, other = others[0]
            text = f"Process {self.number} comes to {act} while process {number} comes to {other}"
            raise GraphRuntimeError(f"{text}; all processes of a mesh do the same in the same order.")
        return [own for _, own in answer]

    def _answer(self, act: str) -> list[tuple[str, Any]]:
        until = None if self.limit is None else time.monotonic() + self.limit
        while True:
            rest = PATIENCE if until is None else min(PATIENCE, until - time.monotonic())
            try:
                answer = self.answers.get(timeout=max(rest, 0))
            except Empty:
                if until is None or time.monotonic() < until:
                    counts = {"agreements": self.agreements, "programs": self.programs}
                    send(self.connection, {"kind": "waiting", "act": act, **counts})
                    continue
                text = f"Other processes have not come to {act} within {self.limit:g} s, as process {self.number} has"
                raise GraphRuntimeError(f"{text}; let all do it, or give init a longer timeout.") from None
            if answer["number"] == self.agreements:  # and not one for which nobody waits any more
                return [tuple(pair) for pair in answer["values"]]

    def begin_program(self) -> None:
        """Count a program of the mesh; raises GraphRuntimeError where a process has left that would have to run it."""
        self.programs += 1
        self._require_all("programs", "a step of the mesh")

    def limit_steps(self) -> None:
        """End all processes where a step takes longer than the time limit, as another process does not come to it."""
        while True:
            time.sleep(TICK)
            begun, limit = self.begun, self.limit
            if begun is not None and limit is not None and time.monotonic() - begun > limit:
                text = f"Process {self.number} of {self.count} has waited {limit:g} s for others in a step of the mesh"
                text = f"{text}; see which of them hangs, or give init a longer timeout"
                send(self.connection, {"kind": "failed", "text": text})
                self.is_reported.wait(PATIENCE)
                self._exit(f"GraphRuntimeError: {text}.\n")

    def _require_all(self, kind: str, act: str) -> None:
        reason = self._absence(kind, act)
        if reason := reason or self._disorder():
            raise GraphRuntimeError(reason)

    def _absence(self, kind: str, act: str) -> str:
        """Why a process takes no part in what this one has come to; "" where all do."""
        for number, message in self.left.items():
            if message[kind] < getattr(self, kind):
                text = f"Process {number} of {self.count} has left while process {self.number} comes to {act}"
                return f"{text}; all processes of a mesh do the same in the same order."
        return ""

    def _disorder(self) -> str:
        """Why another process waits for this one, which has begun a step in place of what that one waits in; or ""."""
        for number, message in self.waiting.items():
            if message["agreements"] > self.agreements and message["programs"] < self.programs:
                text = f"Process {number} comes to {message['act']} while process {self.number} comes to a step"
                return f"{text}; all processes of a mesh do the same in the same order."
        return ""

    def watch(self) -> None:
        """Read messages, and end this process where another one has died or failed."""
        while True:
            message = receive(self.connection)
            if message is None:
                if not self.all_left.is_set():
                    self._end(0, "died")
                return
            if message["kind"] == "agreed":
                self.answers.put(message)
            elif message["kind"] == "left":
                self._note(message)
            elif message["kind"] == "waiting":
                self.waiting[message["process"]] = message
                self._exit_for(self._disorder())
            else:
                self._end(message["process"], message["kind"], message.get("text", ""))

    def _note(self, message: Message) -> None:
        """Note that a process has left, and end this one where it waits for that."""
        self.left[message["process"]] = message
        if len(self.left) == self.count:
            self.all_left.set()
        for kind, act in (("programs", "a step of the mesh"), ("agreements", "an agreement of all")):
            self._exit_for(self._absence(kind, act))

    def _end(self, number: int, kind: str, text: str = "") -> None:
        if number == self.number:
            self.is_reported.set()
        elif not self.is_failing:
            reason = f"with {text}" if text else "see its output, or whether the system has killed it"
            verb = "failed" if kind == "failed" else "died"
            self._exit(f"GraphRuntimeError: Process {number} of {self.count} has {verb}, which ends all: {reason}.\n")

    def _exit_for(self, reason: str) -> None:
        """End all processes where there is a reason."""
        if reason:
            send(self.connection, {"kind": "failed", "text": reason.rstrip(".")})
            self._exit(f"GraphRuntimeError: {reason}\n")

    def _exit(self, text: str) -> NoReturn:
        """Report the reason and end this process; those of JAX that wait for others never return."""
        os.write(2, text.encode())
        sys.stdout.flush()
        os._exit(1)

    def fail(self, kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> Any:
        """End all processes with the error of this one."""
        if os.getpid() != self.process:
            return self.raised(kind, error, trace)
        self.is_failing = True
        with folded(error) as count:
            text = "".join(traceback.format_exception(kind, error, error.__traceback__ if count else trace))
        sys.stdout.flush()
        sys.stderr.write(f"{text}Process {self.number} of {self.count} has failed with this, which ends all.\n")
        sys.stderr.flush()
        last = traceback.format_exception_only(kind, error)[-1].strip().rstrip(".")
        send(self.connection, {"kind": "failed", "text": last})
        self.is_reported.wait(PATIENCE)
        os._exit(1)

    def settle(self) -> None:
        """Wait for the report of the end of another process, which ends this one."""
        time.sleep(PATIENCE)

    def leave_before(self, package: str) -> None:
        """Leave before a package that has been imported ends at exit: it would wait for the others without a word."""
        assert package in sys.modules
        atexit.unregister(self.leave)
        atexit.register(self.leave)

    def leave(self) -> None:
        """Tell the others that this process is through, and wait until they are."""
        if os.getpid() != self.process:
            return
        send(self.connection, {"kind": "left", "programs": self.programs, "agreements": self.agreements})
        self.all_left.wait()


def require_no_mesh(caller: str) -> None:
    """Raise GraphRuntimeError where the processes are those of a mesh, in which shardings say who communicates."""
    if Peers.current is not None:
        text = f"{caller} is for ranks of MPI, and these processes belong to one mesh, whose steps communicate"
        raise GraphRuntimeError(f"{text} as shardings say; leave it out, or call init without 'xla'.")
