"""A reentrant lock that a Ctrl-C cannot leave acquired."""

from __future__ import annotations

from _thread import RLock


class Lock(RLock):  # type: ignore[misc]  # which is not a final class
    """A reentrant lock whose `with` acquires it and enters the block, or does neither.

    Python 3.14 looks for a Ctrl-C behind the call of `__enter__` into C, before the block begins, so that the lock of
    its library stays acquired. It does not look where a function in Python returns, nor in an unpacking assignment.
    """

    __slots__ = ()

    def __enter__(self, blocking: bool = True, timeout: float = -1) -> bool:
        (acquired,) = map(self.acquire, (blocking,), (timeout,))
        return acquired
