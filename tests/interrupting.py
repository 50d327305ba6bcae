"""A Ctrl-C at every place of graphls where Python can raise it in a call, one after the other."""

from __future__ import annotations

import gc
import inspect
import signal
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import graphls

PACKAGE = Path(graphls.__file__).parent
PURE = tuple(str(PACKAGE / name) for name in ("ir", "primitives"))
"""What changes no state: functions on graphs and arrays."""


def interrupted_at(place: int, function: Callable[[], Any]) -> bool:
    """Call a function and interrupt it at a place, from 0; whether it got that far.

    Places are the beginnings of functions of graphls, and the ends of all that it calls. It is there that Python looks
    for signals, and at the end of each turn of a loop, but not between other instructions.
    """
    return _places_passed(place, function) > place


def places_in(function: Callable[[], Any]) -> int:
    """How many places a call passes, which is not interrupted."""
    return _places_passed(sys.maxsize, function)


@cache
def is_place(code: CodeType, is_return: bool) -> bool:
    """Whether Python may raise a Ctrl-C in a function of graphls: where it returns, or elsewhere in it."""
    # A generator expression that is left early, as by any() or next(), is called once more to end, where Python loses
    # what is raised. Behind the return of `__enter__` Python does not look for signals.
    is_silent = code.co_name == "<genexpr>" or (is_return and code.co_name == "__enter__")
    is_yield = is_return and code.co_flags & inspect.CO_GENERATOR
    is_counted = code.co_filename.startswith(str(PACKAGE)) and not code.co_filename.startswith(PURE)
    return is_counted and not is_silent and not is_yield


def _places_passed(most: int, function: Callable[[], Any]) -> int:
    passed = 0

    def profile(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal passed
        if event != "c_call" and is_place(frame.f_code, event == "return"):
            passed += 1
            if passed > most:
                sys.setprofile(None)
                raise KeyboardInterrupt

    sys.setprofile(profile)
    try:
        function()
    except KeyboardInterrupt:
        pass
    finally:
        sys.setprofile(None)
    return passed


def assert_steps_are_whole(
    made: Callable[[], tuple[Any, Callable[[], Any], Any]], values: Callable[[Any], object], least: int
) -> None:
    """Interrupt a step at one place after the other: states are those of whole steps, for each count of steps.

    `made` gives something new that has states, its step, and the version that counts it; `values` are the states. A
    step has more than `least` places.
    """
    cell, run, version = made()
    found = {version.ticks: values(cell)}
    place = 0
    while interrupted_at(place, run):
        now = values(cell)
        assert found.setdefault(version.ticks, now) == now, f"torn at place {place}"
        place += 1
    assert place > least
    cell, run, version = made()
    while version.ticks < max(found):
        run()
        assert found[version.ticks] == values(cell)


def signalled_at(place: int, function: Callable[[], Any]) -> bool:
    """Call a function, and press Ctrl-C at a place in any Python code that it runs, that of Python's library included.

    Gives whether it got that far, and raises AssertionError where the Ctrl-C has not arrived behind the call.
    """
    passed = 0

    def profile(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal passed
        if event in ("call", "c_return"):
            passed += 1
            if passed > place:
                sys.setprofile(None)
                signal.raise_signal(signal.SIGINT)

    gc.disable()  # what other tests left would be collected at such a place, where Python loses what is raised
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell takes from what it runs behind it
    arrived = False
    sys.setprofile(profile)
    try:
        function()
    except KeyboardInterrupt:
        arrived = True
    finally:
        sys.setprofile(None)
        signal.signal(signal.SIGINT, before)
        gc.enable()
    assert arrived is (passed > place), f"the Ctrl-C at place {place} is lost"
    return arrived


def assert_states_are_of_one_step(
    step: Any, run: Callable[[], Any], states: Callable[[Any], object], every: int
) -> None:
    """Interrupt the same step at every few places: states are those before it or behind it, as its version tells.

    `states` gives the states of the compiled `step`, which go back to where they were before each interruption.
    """
    start = {name: parameter.asnumpy() for name, parameter in step.parameters.items()}
    before = states(step)
    places = places_in(run)
    whole = states(step)
    assert places > 10 and whole != before
    for place in range(0, places, every):
        for name, value in start.items():
            step.parameters[name].set_data(value)
        ticks = step.version.ticks
        interrupted_at(place, run)
        assert states(step) == (whole if step.version.ticks > ticks else before), place
