"""The list of public names: current with and without optional packages, and what its lines say."""

from __future__ import annotations

import enum
import subprocess
import sys
import types
from pathlib import Path
from typing import ClassVar

import pytest

import graphls
from tools import public_names
from tools.public_names import Listed, parameters

OPTIONAL = "cv2 IPython jax mpi4py onednn PIL playwright rich safetensors scipy sklearn tensorboardX tokenizers torch"
WITHOUT = (
    f"import sys; sys.modules.update(dict.fromkeys('{OPTIONAL}'.split()))\n"
    "from tools import public_names; sys.exit(public_names.main())"
)
SOMETHING = types.SimpleNamespace()


class Base:
    settings: ClassVar[dict[str, int]]

    def __init__(self, width: int = 3, *sizes: int, dtype: graphls.DType = graphls.float16, **others: object) -> None:
        self.width = width

    def apply(self, x: float, *, places: tuple[float, ...] = (0.5,)) -> float:
        return x

    @property
    def area(self) -> int:
        return 1

    @staticmethod
    def of(text: str = "a") -> None: ...

    def __add__(self, other: Base) -> Base:
        return self

    def _private(self) -> None: ...


class Derived(Base):
    settings: ClassVar[dict[str, int]] = {}

    def apply(self, x: float, *, places: tuple[float, ...] = (0.5,)) -> float:
        return -x

    def of(self) -> None: ...  # type: ignore[override]


class Called:
    def __call__(self, x: float, unit: Colour | None = None) -> float:
        return x


class Colour(enum.Enum):
    RED = 1
    GREEN = 2


class Fault(graphls.GraphlsError, ValueError):
    """An error."""


def lines(monkeypatch: pytest.MonkeyPatch, kind: type, *bases: type) -> list[str]:
    """The lines of a class as if it were one of graphls, of which some base classes are listed."""
    for each in kind.__mro__[:-1]:
        if each.__module__ == __name__:
            monkeypatch.setattr(each, "__module__", "graphls.shapes")
    monkeypatch.setattr(public_names, "_listed_classes", lambda: frozenset(map(id, bases)))
    return list(Listed(f"graphls.{kind.__name__}", kind).lines)


def test_the_list_is_current_without_optional_packages() -> None:
    """A name that is gone, renamed, or takes something else changes the list: `python -m tools.public_names`."""
    command = [sys.executable, "-c", WITHOUT, "--check"]
    run = subprocess.run(command, cwd=public_names.FILE.parents[1], capture_output=True, text=True, timeout=600)
    assert run.returncode == 0, run.stderr


def test_a_class_has_a_line_for_itself_and_for_each_member(monkeypatch: pytest.MonkeyPatch) -> None:
    assert lines(monkeypatch, Base) == [
        "class graphls.Base(width=3, *sizes, dtype=float16, **others)",
        "graphls.Base.__add__(other)",
        "graphls.Base.apply(x, *, places=(0.5,))",
        "graphls.Base.area",
        "graphls.Base.of(text='a')",
        "graphls.Base.settings",
    ]
    constructor = "class graphls.Derived(width=3, *sizes, dtype=float16, **others)"
    assert lines(monkeypatch, Derived, Base) == [constructor, "graphls.Derived.of()"]
    assert len(lines(monkeypatch, Derived)) == 6


def test_calls_errors_and_enumerations_have_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    assert lines(monkeypatch, Called) == ["class graphls.Called()(x, unit=None)"]
    assert lines(monkeypatch, Colour) == ["class graphls.Colour: RED GREEN"]
    assert lines(monkeypatch, Fault, graphls.GraphlsError) == ["class graphls.Fault: GraphlsError, ValueError"]


def test_defaults_read_alike_on_every_version_of_python() -> None:
    def function(a: object = Colour.RED, b: object = len, c: object = SOMETHING, d: float = 1e-5) -> None: ...

    assert parameters(function) == "a=Colour.RED, b=len, c=..., d=1e-05"


def test_a_change_is_shown_with_the_command_that_writes_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(public_names, "FILE", tmp_path / "names.txt")
    monkeypatch.setattr(public_names, "listed", lambda: "graphls.one(x, y=2)\ngraphls.two()\n")
    (tmp_path / "names.txt").write_text("graphls.one(x)\ngraphls.two()\n")
    monkeypatch.setattr("sys.argv", ["public_names", "--check"])
    message = str(public_names.main())
    assert message.startswith("-graphls.one(x)\n+graphls.one(x, y=2)\n") and "python -m tools.public_names" in message
    assert "two" not in message
