"""Records of operations: what they make, the stubs, and a new operation in one file."""

from __future__ import annotations

import inspect
import pydoc
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import Tensor, ops
from graphls.ops.record import FUNCTIONS, METHODS, OPERATIONS, OPERATORS
from tools.stubs import stubs

NEW = '''
"""Softer signs."""

import numpy as np

from graphls.ops.math.elementwise import div
from graphls.ops.operands import apply, float_of
from graphls.ops.record import operation
from graphls.primitives.primitive import FloatElementwise, f32, sample


class Softer(FloatElementwise):
    """x / (1 + |x|)."""

    samples = (sample(f32(2, 3)),)

    def numpy(self, x):
        return x / (1 + np.abs(x))

    def vjp(self, e, g, x, y):
        return e.mul(g, e.square(e.sub(e.constant(1.0, y.type.dtype), e.abs(y))))

    def onnx(self, e, x):
        return e.Softsign(x)


@operation(names="softer_sign", classes="SofterSign", cells="Softer", settings="k", in_place="softer_")
def softer(x, k: float = 1.0):
    """x / (k + |x|)."""
    return apply("softer", float_of(div(x, k)))
'''


@pytest.mark.parametrize("path", stubs(), ids=lambda path: path.name)
def test_the_stubs_are_those_of_the_records(path: Path) -> None:
    assert path.read_text(encoding="utf-8") == stubs()[path], "make stubs"


def test_every_name_is_one_record_s() -> None:
    records = [name for record in OPERATIONS for name in record.names]
    assert sorted(records) == sorted({*records}) == sorted(FUNCTIONS) == ops.__all__
    assert sorted(name for record in OPERATIONS for name in record.classes) == sorted(OPERATORS.keys() - {"Partial"})
    assert {name for r in OPERATIONS for name in (*r.methods, *r.in_place)} == METHODS.keys()


def test_what_a_record_makes_is_its_function() -> None:
    for record in OPERATIONS:
        assert all(getattr(ops, name) is record.function for name in record.names)
        assert all(getattr(ops, name).function is record.function for name in record.classes)
        for name in record.classes:
            assert (inspect.getdoc(record.function) or "").split("\n")[0] in (getattr(ops, name).__doc__ or "")


def test_every_file_with_records_belongs_to_the_package() -> None:
    folder = Path(ops.__file__).parent
    text = Path(ops.__file__).read_text(encoding="utf-8") + (folder / "operations.py").read_text(encoding="utf-8")
    declaring = [p.stem for p in folder.rglob("*.py") if "\n@operat" in p.read_text(encoding="utf-8")]
    assert len(declaring) > 40 and [name for name in declaring if name not in text] == []


def help_of(item: object) -> str:
    """What `help` shows, in one line: Python 3.14 breaks long signatures and shows annotations without quotes."""
    text = pydoc.plain(pydoc.render_doc(item)).replace("'", "").replace(" | ", " ")
    return " ".join(text.split()).replace("( ", "(")


def test_help_shows_real_signatures() -> None:
    shown = help_of(ops.Softmax)
    assert "class Softmax(graphls.ops.primitive.Operator) Softmax(axis=-1)" in shown
    assert "call(self, /, x: TensorLike)" in shown
    assert "cumsum(x: TensorLike, axis:" in help_of(Tensor)


def test_functions_by_axes_have_names_signatures_and_docstrings_of_their_own() -> None:
    shown = help_of(ops.conv3d)
    assert "conv3d(input: TensorLike, weight: TensorLike, bias:" in shown and "volumes (N, C, D, H, W)" in shown
    assert "height, width" in str(ops.conv2d.__doc__) and "{" not in str(ops.conv2d.__doc__)
    with pytest.raises(TypeError, match=r"conv1d\(\) missing 1 required positional argument: 'weight'"):
        ops.conv1d(Tensor(np.ones((1, 1, 3), np.float32)))


def test_operator_classes_are_made_when_they_are_asked_for() -> None:
    code = "import graphls\nfrom graphls.ops.record import OPERATORS\nassert OPERATORS and not OPERATORS._classes"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=600)
    assert ops.ReLU is OPERATORS["ReLU"] is ops.operations.ReLU


def test_declared_checks_see_what_is_given_and_give_what_is_used() -> None:
    from graphls.base.checks import at_least, between, optional
    from graphls.ops.record import with_checks

    def function(x: int, k: int = -1, *, p: float | None = None) -> tuple[Any, ...]:
        return x, k, p

    called = with_checks(function, {"k": at_least(0), "p": optional(between(0, 1))})
    assert inspect.signature(called) == inspect.signature(function)
    assert called(1) == (1, -1, None) and called(1, np.int64(2)) == (1, 2, None) == called(k=2, x=1, p=None)
    assert type(called(1, np.int64(2))[1]) is int and type(called(1, p=1)[2]) is float
    with pytest.raises(graphls.GraphlsError, match=r"For 'function', the 'k' must be at least 0, but got -1\. \("):
        called(1, -1)
    with pytest.raises(ValueError, match="'p' must be at least 0 and at most 1, but got 2"):
        called(1, p=2)
    with pytest.raises(TypeError, match=r"function\(\) missing"):
        called()


def test_a_name_is_given_once() -> None:
    from graphls.ops.record import operation

    def relu(x: Any) -> Any:
        return x

    before = [*OPERATIONS]
    with pytest.raises(graphls.GraphlsError, match="two operations 'relu'"):
        operation(relu)
    assert before == OPERATIONS


def test_a_new_operation_is_one_file(tmp_path: Path) -> None:
    """From the primitive to function, method, class, cell, stub and the page of operators, in another process."""
    (tmp_path / "softer_signs.py").write_text(NEW, encoding="utf-8")
    code = (
        "import numpy as np, softer_signs, graphls\n"
        "from graphls import nn, ops\n"
        "from tools.operators.page import function_row\n"
        "from tools.stubs import stubs\n"
        "x = graphls.Tensor([3.0, -1.0])\n"
        "found = [ops.softer(x), ops.softer_sign(x), x.softer(), ops.SofterSign(k=1)(x), nn.Softer()(x)]\n"
        "found.append(x.softer_())\n"
        "assert all(t.tolist() == [0.75, -0.5] for t in found) and x.tolist() == [0.75, -0.5]\n"
        "step = graphls.compile(lambda t: t.softer(k=2.0), x, backend='numpy')\n"
        "assert np.allclose(step(x).asnumpy(), [0.75 / 2.75, -0.2])\n"
        "text = ''.join(stubs().values())\n"
        "assert 'def softer(self, k: builtins.float = 1.0)' in text and 'class SofterSign(Operator)' in text\n"
        "assert 'class Softer(FunctionCell)' in text\n"
        "print(function_row('softer', ops.softer, {}))\n"
    )
    path = f"{tmp_path}{':' if sys.platform != 'win32' else ';'}{Path(__file__).parents[2]}"
    command = [sys.executable, "-c", code]
    run = subprocess.run(command, env={"PYTHONPATH": path}, capture_output=True, text=True, timeout=600)
    assert run.returncode == 0, run.stderr
    assert run.stdout.startswith("| `softer` | x / (k + \\|x\\|). | floats, integers, bool | yes | yes | yes |")


def test_methods_take_arrays_of_numpy_and_shadow_nothing() -> None:
    x = Tensor(np.float32([1, 2]))
    assert (x.shape, x.size, x.ndim) == ((2,), 2, 1) and "sum" in dir(x)
