"""The hub of the processes of a mesh: a thread of process 0 passes messages between all, and reports who has died."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from typing import Any

from graphls.base.errors import GraphRuntimeError

Message = dict[str, Any]
LONGEST = 1 << 24
"""The most bytes of a message."""
LOCAL = ("localhost", "127.0.0.1", "::1")
KEEPALIVE = {"TCP_KEEPIDLE": 10, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 4, "TCP_USER_TIMEOUT": 30_000}
"""After these 30 seconds a connection to a machine that is gone is closed, where the system has the settings."""


def connection_of(sock: socket.socket) -> Connection:
    """A socket as a connection, which closes where the process or the machine at the other end is gone."""
    sock.settimeout(None)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in KEEPALIVE.items():
        with suppress(OSError, AttributeError):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return Connection(sock.detach())


def send(connection: Connection, message: Mapping[str, object]) -> None:
    """Send a message; one that is gone gets none."""
    with suppress(OSError, ValueError):
        connection.send_bytes(json.dumps(message).encode())


def receive(connection: Connection) -> Message | None:
    """The next message; None where the other end is gone, or is no process of graphls."""
    try:
        message = json.loads(connection.recv_bytes(LONGEST))
    except (OSError, EOFError, ValueError):
        return None
    return message if isinstance(message, dict) else None


class Hub:
    """Listens at an address until so many processes are there, for a time limit in seconds, and then serves them.

    Raises GraphRuntimeError where it cannot listen there.
    """

    def __init__(self, host: str, port: int, count: int, limit: float) -> None:
        try:
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            self.server = socket.create_server((host if host in LOCAL else "", port), family=family, backlog=count)
        except OSError as error:
            text = f"Process 0 cannot listen at port {port} ({error.strerror or error})"
            raise GraphRuntimeError(f"{text}; give another port to all processes.") from None
        self.count, self.limit, self.until = count, limit, time.monotonic() + limit
        self.strangers: list[Connection] = []
        self.processes: dict[int, Connection] = {}
        self.hosts: dict[int, str] = {}
        self.left: set[int] = set()
        self.values: dict[int, dict[int, object]] = {}
        threading.Thread(target=self.serve, name="graphls-hub", daemon=True).start()

    @property
    def is_complete(self) -> bool:
        """Whether all processes are there."""
        return len(self.processes) == self.count

    def serve(self) -> None:
        """Pass messages until all processes have left, or one has died."""
        with self.server:
            while not self.is_complete:
                if (rest := self.until - time.monotonic()) <= 0:
                    return self._refuse_all()
                for ready in wait([self.server, *self.strangers, *self.processes.values()], rest):
                    self._meet(ready)
        self._send_all({"kind": "all", "hosts": [self.hosts[number] for number in range(self.count)]})
        numbers = {connection: number for number, connection in self.processes.items()}
        while numbers:
            for ready in wait(list(numbers)):
                message = receive(ready)  # type: ignore[arg-type]
                number = numbers[ready]  # type: ignore[index]
                if message is None:
                    del numbers[ready]  # type: ignore[arg-type]
                self._pass_on(number, message)

    def _meet(self, ready: Any) -> None:
        """Accept a process, or read what one says of itself."""
        if ready is self.server:
            self.strangers.append(connection_of(self.server.accept()[0]))
            return
        message = receive(ready)
        if ready not in self.strangers:
            number = next(number for number, connection in self.processes.items() if connection is ready)
            self._refuse_all(f"Process {number} of {self.count} has ended before all processes have met.")
            del self.processes[number]
            return
        self.strangers.remove(ready)
        if message is not None:
            self._enter(message, ready)

    def _enter(self, message: Message, connection: Connection) -> None:
        number, count = message.get("process"), message.get("processes")
        if count != self.count:
            text = f"Process {number} was started as one of {count} processes, and process 0 as one of {self.count}."
        elif number in self.processes:
            text = f"Two processes were started as process {number} of {count}; each has a number of its own."
        else:
            self.processes[int(message["process"])] = connection
            self.hosts[int(message["process"])] = str(message.get("host"))
            return
        send(connection, {"kind": "refused", "text": text})

    def _refuse_all(self, text: str = "") -> None:
        missing = [number for number in range(self.count) if number not in self.processes]
        awaited = f"{'Process' if len(missing) == 1 else 'Processes'} {', '.join(map(str, missing))} of {self.count}"
        text = text or f"{awaited} did not come within {self.limit:g} s; start all of them, or give a longer timeout."
        self._send_all({"kind": "refused", "text": text})

    def _pass_on(self, number: int, message: Message | None) -> None:
        if message is None:
            if number not in self.left:
                self._send_all({"kind": "died", "process": number})
        elif message.get("kind") == "agree":
            values = self.values.setdefault(int(message["number"]), {})
            values[number] = message["value"]
            if len(values) == self.count:
                del self.values[int(message["number"])]
                answer = [values[process] for process in range(self.count)]
                self._send_all({"kind": "agreed", "number": message["number"], "values": answer})
        else:
            if message.get("kind") == "left":
                self.left.add(number)
            self._send_all({**message, "process": number})

    def _send_all(self, message: Message) -> None:
        """Send to all; to process 0 last, as the hub ends with it."""
        for number in sorted(self.processes, reverse=True):
            send(self.processes[number], message)
