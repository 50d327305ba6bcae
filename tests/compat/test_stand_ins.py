"""Names of MindSpore that graphls does not offer: naming them works, using them fails, asking for them tells."""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, Optional

import pytest

from graphls import compat
from graphls.ir.errors import GraphlsError

pytestmark = pytest.mark.usefixtures("mindspore")

FILE = """
from __future__ import annotations

import mindspore as ms
import mindspore.absent.deep as deep
from mindspore import nn, ops, absent_module
from mindspore.absent import Thing, function
from mindspore.nn import Absent, Dense
from mindspore.absent import *

class Net(nn.Absent):
    def __init__(self):
        super().__init__()
        self.layer = 3

class Mixed(Absent, nn.Cell):
    pass

@function
def decorated(x):
    return x

@ops.absent.inner(1, mode="a")
def configured(x):
    return x

@function
class Decorated:
    @Thing
    def method(self):
        return 1

def with_default(x: Thing = ms.ABSENT) -> Thing:
    return x

dense = Dense(2, 2)
"""


def loaded(path: Path, text: str) -> ModuleType:
    """A file with this text, imported."""
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def module(tmp_path: Path) -> ModuleType:
    """The file above, imported."""
    return loaded(tmp_path / "names_more.py", FILE)


USES: dict[str, tuple[Callable[[Any], Any], str]] = {
    "a class that derives": (lambda m: m.Net(), "nn.Absent"),
    "a class that derives from a cell too": (lambda m: m.Mixed(), "nn.Absent"),
    "a decorated function": (lambda m: m.decorated(3), "absent.function"),
    "a function of a decorator with arguments": (lambda m: m.configured(3), "ops.absent"),
    "a decorated class": (lambda m: m.Decorated(), "absent.function"),
    "a call": (lambda m: m.Thing(3, a=4), "absent.Thing"),
    "a call of an attribute": (lambda m: m.Thing.of(3), "absent.Thing"),
    "a function of a module": (lambda m: m.deep.run(), "absent.deep.run"),
    "a function of a name": (lambda m: m.absent_module.run(), "absent_module"),
    "a number": (lambda m: m.with_default() + 1, "ABSENT"),
    "a number on the right": (lambda m: 2 * m.with_default(), "ABSENT"),
    "a truth": (lambda m: not m.with_default(), "ABSENT"),
    "a comparison": (lambda m: m.with_default() == "x", "ABSENT"),
    "a sequence": (lambda m: [*m.with_default()], "ABSENT"),
    "an element": (lambda m: m.with_default()[0], "ABSENT"),
    "a conversion": (lambda m: float(m.with_default()), "ABSENT"),
}


@pytest.mark.parametrize("use", USES)
def test_a_use_is_the_error(use: str, module: ModuleType) -> None:
    call, name = USES[use]
    with pytest.raises(AttributeError, match=rf"^graphls does not offer mindspore\.{name}.*test_stand_ins") as caught:
        call(module)
    assert isinstance(caught.value, GraphlsError)


def test_the_context_of_what_is_absent(module: ModuleType) -> None:
    with pytest.raises(AttributeError, match=r"absent\.Thing"), module.Thing:
        pass


def test_nothing_is_an_instance(module: ModuleType) -> None:
    assert not isinstance(3, module.Thing)
    assert isinstance(3, (module.Thing, int))
    assert issubclass(module.Net, module.Absent)
    assert not issubclass(int, module.Absent)


def test_a_stand_in_shows_what_it_is_and_stays_the_same(module: ModuleType) -> None:
    ms: Any = importlib.import_module("mindspore")
    assert repr(module.Thing) == "<mindspore.absent.Thing, which graphls does not offer>"
    assert (module.Thing.__name__, module.Thing.__qualname__) == ("Thing", "mindspore.absent.Thing")
    assert ms.nn.Absent is module.Absent
    assert {module.Absent: 1}[ms.nn.Absent] == 1
    optional = Optional[module.Thing]  # noqa: UP045
    assert (module.Thing | None, None | module.Thing) == (optional, optional)


def test_an_error_names_what_is_near() -> None:
    import mindspore as ms

    with pytest.raises(AttributeError, match=r"does not offer mindspore.nn.Dens; the nearest is 'Dense'. \(.*\)$"):
        ms.nn.Dens(3, 4)


def test_calls_that_ask_get_the_truth() -> None:
    import mindspore as ms

    ms.nn.Absent  # noqa: B018  (naming it does not make it be there)
    assert not hasattr(ms, "absent_function")
    assert not hasattr(ms.nn, "Absent")
    assert getattr(ms.nn, "Absent", None) is None
    assert "Absent" not in dir(ms.nn)
    assert not hasattr(ms.nn.Absent, "inner")
    assert importlib.util.find_spec("mindspore.absentee") is None
    with pytest.raises(ImportError, match=r"graphls does not offer mindspore.absentee.*test_stand_ins"):
        importlib.import_module("mindspore.absentee")
    with pytest.raises(ImportError, match=r"graphls does not offer mindspore.absentee"):
        __import__("mindspore.absentee")


GUARDED = """
import mindspore as ms
from contextlib import suppress

found = []
try:
    from mindspore.ops import absent_name
except ImportError as error:
    found.append(str(error))
try:
    import mindspore.absentee
except (ValueError, ModuleNotFoundError) as error:
    found.append(str(error))
try:
    from mindspore.absentee.inner import thing
except:
    found.append("bare")
try:
    ms.absent_name
except AttributeError as error:
    found.append(str(error))
with suppress(ImportError):
    from mindspore import absent_name
    found.append("not here")
try:
    from mindspore import absent_name
except ValueError:
    found.append("not here")
try:
    def inner():
        from mindspore import absent_name
        return absent_name
except ImportError:
    pass
inner()
try:
    class Inner:
        from mindspore import absent_name
except ImportError:
    found.append("class")
"""


def test_in_a_try_that_takes_the_error_it_is_raised(tmp_path: Path) -> None:
    found = loaded(tmp_path / "guarded.py", GUARDED).found
    assert [re.sub(r"(; the nearest is .*|\.)? \(.*guarded.py:", " (guarded.py:", text) for text in found] == [
        "graphls does not offer mindspore.ops.absent_name (guarded.py:7)",
        "graphls does not offer mindspore.absentee (guarded.py:11)",
        "bare",
        "graphls does not offer mindspore.absent_name (guarded.py:19)",
        "class",
    ]


def test_text_without_a_file_gets_stand_ins() -> None:
    names: dict[str, Any] = {}
    exec("from mindspore.ops import absent_name\nimport mindspore.absentee.inner\n", names)
    with pytest.raises(AttributeError, match=r"mindspore\.ops\.absent_name"):
        names["absent_name"]()


def test_uninstalling_forgets_modules_of_stand_ins() -> None:
    exec("import mindspore.absentee.inner", {})
    compat.uninstall()
    assert not [name for name in sys.modules if name.startswith("mindspore")]
    compat.install()
