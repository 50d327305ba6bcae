"""Tracebacks that are printed end at the user's line; GRAPHLS_TRACEBACK=full, and defects of graphls, show all."""

from __future__ import annotations

import json
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import nn, ops
from graphls.base import tracebacks
from graphls.base.reporting import was_interrupted
from graphls.base.tracebacks import folded, folding, show_in_notebook
from graphls.primitives import FloatElementwise, f32, sample
from graphls.testing import check_primitive

X = np.ones((4, 3), np.float32)


class Net(nn.Cell):
    """A network that is wrong inside of a container, or raises an error of its own."""

    def __init__(self, own: Exception | None = None) -> None:
        super().__init__()
        self.body, self.own = nn.SequentialCell(nn.Dense(3, 4), nn.Dense(5, 2)), own

    def construct(self, x: Any) -> Any:
        if self.own is not None:
            raise self.own
        return self.body(x)


def caught(call: Callable[[], Any]) -> BaseException:
    with pytest.raises(BaseException) as found:
        call()
    return found.value


def shown(error: BaseException) -> str:
    """What the hook of a terminal shows."""
    texts: list[str] = []

    def show(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        texts.extend(traceback.format_exception(kind, error, trace))

    folding(show)(type(error), error, error.__traceback__)
    return "".join(texts)


def files(text: str) -> list[str]:
    return [Path(line.split('"')[1]).name for line in text.splitlines() if line.startswith('  File "')]


def test_errors_of_graphls_end_at_the_line_of_the_user(capsys: pytest.CaptureFixture[str]) -> None:
    for call in (lambda: Net()(X), lambda: ops.reshape(X, (5,)), lambda: graphls.compile(Net(), X)):
        error = caught(call)
        full = error.__traceback__
        text = shown(error)
        assert set(files(text)) == {"test_tracebacks.py"} and text.endswith(f"{error}\n")
        assert "frames of graphls left out, GRAPHLS_TRACEBACK=full shows all:" in capsys.readouterr().err
        assert error.__traceback__ is full, "a debugger finds all frames"


def test_errors_of_the_user_in_construct_and_behind_another_error() -> None:
    text = shown(caught(lambda: Net(ArithmeticError("mine"))(X)))
    assert set(files(text)) == {"test_tracebacks.py"} and "raise self.own" in text and "ArithmeticError: mine" in text

    def again() -> None:
        try:
            Net()(X)
        except ValueError as error:
            raise RuntimeError("again") from error

    text = shown(caught(again))
    assert set(files(text)) == {"test_tracebacks.py"} and "matmul cannot multiply" in text and "again" in text


def test_what_calls_the_standard_library_stays() -> None:
    text = shown(caught(lambda: json.loads("{")))
    assert "decoder.py" in files(text)


def in_graphls(function: Any) -> Any:
    """The function as if it stood in a file of graphls."""
    function.__code__ = function.__code__.replace(co_filename=str(Path(graphls.__file__).parent / "broken.py"))
    return function


def test_a_defect_is_shown_in_full(capsys: pytest.CaptureFixture[str]) -> None:
    def broken(cell: nn.Cell) -> None:
        raise AssertionError("a defect")

    text = shown(caught(lambda: nn.SequentialCell(nn.ReLU()).apply(in_graphls(broken))))
    assert "broken.py" in files(text) and len(files(text)) > 2 and capsys.readouterr().err == ""


def test_a_test_that_fails_and_a_control_c_are_no_defects() -> None:
    def interrupt(cell: nn.Cell) -> None:
        raise KeyboardInterrupt

    class Doubled(FloatElementwise):
        """Twice the number; floats."""

        samples = (sample(f32(2)),)

        def numpy(self, x: Any) -> Any:
            return x + x

        def vjp(self, e: Any, g: Any, x: Any, out: Any) -> Any:
            return g

        def onnx(self, e: Any, x: Any) -> Any:
            return e.Add(x, x)

    assert set(files(shown(caught(lambda: check_primitive(Doubled))))) == {"test_tracebacks.py"}

    error = caught(lambda: nn.SequentialCell(nn.ReLU()).apply(in_graphls(interrupt)))
    assert isinstance(error, KeyboardInterrupt) and set(files(shown(error))) == {"test_tracebacks.py"}


def test_an_error_that_is_its_own_cause() -> None:
    """As the errors of libraries that take frames out of tracebacks: the loop over causes ends."""
    error, cause = RuntimeError("raised again"), ValueError("raised while it was handled")
    error.__cause__, cause.__context__ = cause, error
    assert not was_interrupted(error)
    assert "raised again" in "".join(traceback.format_exception(error))
    cause.__cause__ = KeyboardInterrupt()
    assert was_interrupted(error) and was_interrupted(cause)


def test_a_control_c_behind_an_error_with_another_cause() -> None:
    error = RuntimeError("cannot be loaded")
    error.__cause__, error.__context__ = ValueError("a cause"), KeyboardInterrupt()
    assert was_interrupted(error)


def test_the_environment_asks_for_all(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    error = caught(lambda: Net()(X))
    monkeypatch.setenv("GRAPHLS_TRACEBACK", "full")
    text = shown(error)
    assert len(files(text)) > 10 and "containers.py" in files(text) and capsys.readouterr().err == ""


class Notebook:
    """What of IPython's shell is used."""

    def __init__(self) -> None:
        self.custom_exceptions: tuple[type, ...] = ()
        self.texts: list[str] = []

    def set_custom_exc(self, kinds: tuple[type, ...], handler: Any) -> None:
        self.custom_exceptions, self.handler = kinds, handler

    def showtraceback(self, given: Any, tb_offset: int | None = None) -> None:
        self.texts += traceback.format_exception(*given)


def test_notebooks_fold_too(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    notebook = Notebook()
    monkeypatch.setitem(sys.modules, "IPython", type("IPython", (), {"get_ipython": staticmethod(lambda: notebook)}))
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    tracebacks.fold_tracebacks()
    assert notebook.custom_exceptions == (Exception, KeyboardInterrupt) and notebook.handler is show_in_notebook
    error = caught(lambda: Net()(X))
    notebook.handler(notebook, type(error), error, error.__traceback__, tb_offset=1)
    assert set(files("".join(notebook.texts))) == {"test_tracebacks.py"}
    assert "frames of graphls left out" in capsys.readouterr().err
    notebook.custom_exceptions = (ZeroDivisionError,)  # the user's own, which stays
    tracebacks.fold_tracebacks()
    assert notebook.custom_exceptions == (ZeroDivisionError,)


def test_an_error_without_a_traceback_is_shown() -> None:
    with folded(ValueError("never raised")) as count:
        assert count == 0


def test_a_script_that_fails(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("import numpy, graphls\n\ngraphls.ops.reshape(numpy.ones(3), (5,))\n", encoding="utf-8")
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False, timeout=600)
    lines = done.stderr.splitlines()
    assert files(done.stderr) == ["script.py"] and lines[1] == "Traceback (most recent call last):"
    assert lines[-1].startswith("graphls.base.errors.GraphValueError: ") and done.returncode == 1
