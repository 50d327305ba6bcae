"""Plugins: passes and primitives of installed packages, found by their entry points where a name is not known."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from graphls.cli.main import main
from graphls.ir import parse, registry
from graphls.ir.errors import GraphImportError, GraphKeyError, GraphValueError
from graphls.ir.registry import lookup
from graphls.passes import find_pass, manager
from graphls.tensors import apply
from graphls.testing import check_primitive

PASSES = """
from dataclasses import dataclass
from graphls.passes import register_pass

@register_pass
@dataclass(frozen=True)
class Empty:
    '''Take everything away.'''

    name = "empty"

    def run(self, graph):
        return graph.replace(nodes=(), outputs=())
"""
PRIMITIVES = """
import numpy as np
from graphls.primitives import FloatElementwise, f32, sample

class Bell(FloatElementwise):
    '''The bell curve exp(-x * x), elementwise; floats.'''

    samples = (sample(f32(2, 3)),)

    def numpy(self, x):
        return np.exp(-x * x)

    def vjp(self, e, g, x, out):
        return e.mul(g, e.mul(out, e.neg(e.add(x, x))))

    def onnx(self, e, x):
        return e.Exp(e.Neg(e.Mul(x, x)))
"""
ENTRY_POINTS = """
[graphls.passes]
empty = outside_of_graphls.passes
dce = outside_of_graphls.no_module_replaces_what_is_built_in
broken = outside_of_graphls.broken
forgotten = outside_of_graphls

[graphls.primitives]
bell = outside_of_graphls.primitives:Bell
"""
BELL = "graph @g(%x: f32[2]) {\n  %y = bell(%x) : f32[2]\n  return %y\n}\n"


@pytest.fixture(autouse=True)
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An installed package with plugins, and the registries as they were afterwards."""
    here, about = tmp_path / "outside_of_graphls", tmp_path / "outside_of_graphls-0.1.dist-info"
    here.mkdir()
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: outside_of_graphls\nVersion: 0.1\n")
    (about / "entry_points.txt").write_text(ENTRY_POINTS)
    modules = {"__init__": "", "passes": PASSES, "primitives": PRIMITIVES, "broken": "raise OSError('no\\nluck')"}
    for name, text in modules.items():
        (here / f"{name}.py").write_text(text)
        monkeypatch.delitem(sys.modules, f"outside_of_graphls.{name}", raising=False)
    monkeypatch.delitem(sys.modules, "outside_of_graphls", raising=False)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(registry, "_operations", dict(registry._operations))
    others = {name: kind for name, kind in manager._passes.items() if name != "empty"}  # of other tests
    monkeypatch.setattr(manager, "_passes", others)


def test_a_pass_of_a_plugin_is_found_by_its_name_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "g.ir").write_text(BELL)
    assert main(["opt", "-p", "empty", str(tmp_path / "g.ir")]) == 0
    assert capsys.readouterr().out == "graph @g(%x: f32[2]) {\n  return\n}\n"


def test_a_primitive_of_a_plugin_is_found_in_text_and_by_calls() -> None:
    assert parse(BELL).nodes[0].primitive is lookup("bell")
    assert apply("bell", np.zeros(2, np.float32)).asnumpy().tolist() == [1.0, 1.0]
    check_primitive("bell")


def test_what_is_built_in_stays_and_nothing_is_loaded_before_it_is_asked_for() -> None:
    assert find_pass("dce").__module__ == "graphls.passes.simplify.dce"
    assert "outside_of_graphls" not in sys.modules


def test_a_plugin_that_fails_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "g.ir").write_text(BELL)
    assert main(["opt", "-p", "broken", str(tmp_path / "g.ir")]) == 1
    assert capsys.readouterr().err.startswith(
        "graphls: The plugin 'broken' of the package 'outside_of_graphls' ('outside_of_graphls.broken', an entry point "
        "of graphls.passes) does not load: OSError: no; mend the package or uninstall it."
    )


def test_a_plugin_that_registers_nothing_is_one_sentence() -> None:
    with pytest.raises(GraphImportError, match=r"'forgotten' .* registers nothing of that name; .* call register_pass"):
        find_pass("forgotten")


def test_errors_name_what_plugins_have_and_how_to_import_others() -> None:
    with pytest.raises(GraphKeyError, match=r"no pass 'emty'; did you mean 'empty'; there are broken, .*opt --import`"):
        find_pass("emty")
    with pytest.raises(GraphKeyError, match=r"no primitive 'bel'; did you mean 'bell'; yours is known once its module"):
        lookup("bel")


def test_opt_lists_all_passes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["opt", "--list"]) == 0
    rows = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert rows["empty"] == "Take everything away."
    assert rows["broken"].startswith("The plugin 'broken' of the package 'outside_of_graphls' ")
    assert rows["dce"].startswith("Remove dead code")


def test_nothing_of_graphls_is_replaced_by_a_class_of_its_name() -> None:
    for text, kind, name in ((PRIMITIVES.replace("Bell", "Relu"), "primitive", "relu"), (PASSES, "pass", "dce")):
        before = lookup("relu"), find_pass("dce")
        with pytest.raises(GraphValueError, match=rf"graphls has a {kind} '{name}' itself.*name = \"my_{name}\""):
            exec(text.replace('"empty"', '"dce"'), {"__name__": "mine"})
        assert before == (lookup("relu"), find_pass("dce"))
