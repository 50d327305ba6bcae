"""Which operators have a kernel on CUDA, by the tables of two versions of ONNX Runtime."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

import graphls
from graphls import ops
from graphls.cli.main import main
from graphls.inspect.testing.samples import in_dtype, single
from graphls.ir.errors import GraphValueError
from graphls.ir.graph import Graph
from graphls.ir.types import DType, bfloat16, float16, float32, float64
from graphls.runtime.lowering import lower
from graphls.runtime.lowering.kernel_tables import NEWEST, OLDEST, table
from graphls.runtime.onnxruntime.kernel_checks import is_right
from graphls.runtime.onnxruntime.placement import Placement, place
from graphls.step.lint import warn_of_placement
from tests.cuda.double import make_up_a_gpu
from tests.cuda.placed import compared
from tests.networks.placements import PAGE, graph_of, row
from tests.networks.steps import FORMS, NETWORKS
from tests.primitives.test_every_primitive import PRIMITIVES

RUNTIMES = ("1.19.2", "1.31.1")
ON_THE_CPU = {"acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cosh", "sinh", "tan"}
"""Primitives that have no kernel on CUDA, and no composition that gives the same bits."""


def no_kernel_is_right(operator: str, dtype: DType) -> bool:
    return False


def on_cuda(graph: Graph, runtime: str, **options: Any) -> Placement:
    lowered = lower(graph, device="cuda", runtime=runtime, **options)
    return place(lowered.model, runtime, origins=lowered.origins)


@pytest.mark.parametrize(
    ("name", "form", "runtime"),
    [(name, form, RUNTIMES[(i + j) % 2]) for i, name in enumerate(NETWORKS) for j, form in enumerate(FORMS)],
)
def test_no_operator_of_ten_networks_leaves_the_card(name: str, form: str, runtime: str) -> None:
    """Where kernels are wrong, too, and others stand in their place; networks and forms meet both runtimes in turns."""
    found = on_cuda(graph_of(name, form), runtime, kernel_is_right=no_kernel_is_right)
    assert found.nodes and {node.device for node in found.nodes} == {"cuda"}, str(found)


@pytest.mark.parametrize("primitive", PRIMITIVES, ids=lambda p: p.name)
def test_the_samples_of_a_primitive_run_on_the_card_unless_it_is_listed(primitive: Any) -> None:
    elsewhere = set()
    for sample in primitive.samples:
        for dtype in (float16, float32, float64, bfloat16):
            graph = single(primitive, sample, in_dtype(sample, dtype))
            for runtime in RUNTIMES:
                found = on_cuda(graph, runtime, kernel_is_right=no_kernel_is_right)
                assert not found.refused, str(found)
                elsewhere |= {node.operator for node in found.elsewhere}
    assert bool(elsewhere) == (primitive.name in ON_THE_CPU), elsewhere


def model(operator: str, opset: int, kind: int = TensorProto.FLOAT, **attributes: Any) -> onnx.ModelProto:
    """Two operators, the second one an Abs, of 1,000 elements."""
    x, y = (helper.make_tensor_value_info(name, kind, [1000]) for name in "xy")
    nodes = [helper.make_node(operator, ["x"], ["z"], name="first", **attributes)]
    nodes.append(helper.make_node("Abs", ["z"], ["y"], name="second"))
    opsets = [helper.make_opsetid("", opset)]
    return helper.make_model(helper.make_graph(nodes, "g", [x], [y]), opset_imports=opsets, ir_version=10)


@pytest.mark.parametrize(
    ("opset", "runtime", "device"),
    [
        (18, "1.19.2", "cuda"),
        (20, "1.19.2", "cuda"),
        (21, "1.19.2", "cpu"),
        (21, "1.31.1", "cuda"),
        (25, "1.31.1", "cuda"),
    ],
)
def test_an_open_range_takes_its_own_version_only(opset: int, runtime: str, device: str) -> None:
    """Identity has the versions 16, 19 and 21; 1.19.2 has a kernel of 14 to 18 and one from 19 on."""
    first, second = place(model("Identity", opset), runtime).nodes
    assert (first.device, second.device) == (device, "cuda")
    assert first.reason == ("" if device == "cuda" else "no kernel of Identity in version 21")


def test_what_is_copied_is_counted_once_for_each_tensor() -> None:
    found = place(model("Atan", 18), "1.19.2")
    assert [(n.operator, n.device, n.copies, n.copied) for n in found.nodes] == [
        ("Atan", "cpu", 2, 8000),
        ("Abs", "cuda", 0, 0),
    ]
    assert (found.copies, found.copied, len(found.elsewhere), found.refused) == (2, 8000, 1, ())
    assert found.sentences == ("1 operator runs on the CPU and not on 'cuda', with 2 copies of 7.8 KiB in a run.",)


def test_a_type_without_a_kernel_is_told() -> None:
    first, _ = place(model("Cast", 18, to=TensorProto.FLOAT), "1.19.2").nodes
    assert first.device == "cuda"
    (node, _) = place(model("Floor", 18, TensorProto.BFLOAT16), "1.19.2").nodes
    assert (node.device, node.reason) == ("", "no kernel of Floor for bfloat16")
    (node, _) = place(model("Softplus", 18, TensorProto.BFLOAT16), "1.19.2").nodes
    assert (node.device, node.reason) == ("", "ONNX has no bfloat16 in version 1 of Softplus")


def test_operators_in_branches_are_placed_too() -> None:
    branch = helper.make_graph(
        [helper.make_node("Atan", ["x"], ["inner"])], "b", [], [helper.make_tensor_value_info("inner", 1, [2])]
    )
    x, c, y = (helper.make_tensor_value_info(n, k, s) for n, k, s in (("x", 1, [2]), ("c", 9, []), ("y", 1, [2])))
    node = helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=branch)
    graph = helper.make_graph([node], "g", [x, c], [y])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    assert [n.device for n in place(made, "1.19.2").nodes] == ["cuda", "cpu", "cpu"]


def test_operators_of_the_runtime_itself_are_known() -> None:
    node = helper.make_node("FusedMatMul", ["x", "x"], ["z"], domain="com.microsoft")
    last = helper.make_node("Abs", ["z"], ["y"])
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT16, [4, 4]) for name in "xy")
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)]
    made = helper.make_model(helper.make_graph([node, last], "g", [x], [y]), opset_imports=opsets, ir_version=10)
    assert [n.device for n in place(made, "1.19.2").nodes] == ["cuda", "cuda"]


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_the_tables_know_the_operators_that_the_lowering_writes(runtime: str) -> None:
    assert not table("cuda", runtime).lacks("Add", 14, {"T": "float"})
    assert not table("cpu", runtime).lacks("Atan", 7, {"T": "float"})


@pytest.mark.parametrize("runtime", ["1.17.3", "new", ""])
def test_versions_without_a_table_are_refused(runtime: str) -> None:
    with pytest.raises(GraphValueError, match=r"graphls needs 1\.18 or newer|is not a version of ONNX Runtime"):
        place(model("Atan", 18), runtime)


def test_what_is_not_known_of_a_version_is_told() -> None:
    found = place(model("Atan", 18), "1.24.1")
    assert "There is no table of the kernels of ONNX Runtime 1.24.1" in found.sentences[-1]
    assert not place(model("Neg", 18), "1.24.1").sentences


@pytest.mark.parametrize(("name", "form"), [("lenet", "O2"), ("lstm", "bfloat16"), ("mixture", "float32")])
def test_the_runtime_runs_operators_where_the_tables_say(name: str, form: str, tmp_path: Any) -> None:
    """On the CPU; tests/cuda asks the same of a card."""
    ran, wrong = compared(graph_of(name, form), "cpu", tmp_path)
    assert ran > 100 and not wrong


@pytest.mark.parametrize("dtype", [float16, float32, float64, bfloat16], ids=str)
def test_the_runtime_has_a_kernel_where_the_tables_have_one(dtype: DType, tmp_path: Any) -> None:
    """Every sample is opened by the CPU at the opset of the runtime at hand, and nothing is refused."""
    for primitive in PRIMITIVES:
        for sample in primitive.samples:
            graph = single(primitive, sample, in_dtype(sample, dtype))
            lowered = lower(graph, kernel_is_right=is_right, runtime=onnxruntime.__version__)
            assert not place(lowered.model, onnxruntime.__version__, "cpu").refused


def test_the_page_has_the_table_that_its_script_makes() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert row("mlp") in page, "run python -m tests.networks.placements"
    assert all(f"`{name}`" in page for name in ON_THE_CPU)


class Angle(graphls.nn.Cell):
    def construct(self, x: Any) -> Any:
        return ops.atan(x) + 1.0


def test_a_step_tells_of_another_device_and_version() -> None:
    step = graphls.compile(Angle(), graphls.Tensor(np.ones(4, np.float32)))
    found = step.placement("1.19.2", "cuda")
    assert [(n.operator, n.device, n.line.partition(":")[0][-17:]) for n in found.elsewhere] == [
        ("Atan", "cpu", "test_placement.py")
    ]
    assert {n.device for n in step.placement().nodes} == {"cpu"} and not step.placement().sentences
    assert not any("operator" in text for text in step.summary().totals)


class OnCuda:
    """A step as it is shown where its session is one of CUDA."""

    def __init__(self, step: Any) -> None:
        self.placement = lambda: step.placement("1.19.2", "cuda")


def test_a_warning_names_the_lines_and_the_bytes() -> None:
    step = graphls.compile(Angle(), graphls.Tensor(np.ones(4, np.float32)))
    with pytest.warns(UserWarning, match=r"1 operator runs on the CPU .* 2 copies of 32 B .*test_placement\.py"):
        warn_of_placement(OnCuda(step))  # type: ignore[arg-type]
    whole = graphls.compile(lambda x: x + 1.0, graphls.Tensor(np.ones(4, np.float32)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_placement(OnCuda(whole))  # type: ignore[arg-type]


def test_compiling_for_a_gpu_warns_once(monkeypatch: pytest.MonkeyPatch) -> None:
    make_up_a_gpu(monkeypatch)
    x = graphls.Tensor(np.ones(4, np.float32))
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        step = graphls.compile(Angle(), x, device="cuda")
        step(x), step(x)
        graphls.compile(lambda x: x * 2.0, x, device="cuda")(x)
    assert [text for w in found if "on the CPU and not on 'cuda'" in (text := str(w.message))] == [
        str(found[0].message)
    ]
    assert "Atan: no kernel of Atan" in str(found[0].message) and "test_placement.py" in str(found[0].message)


def test_a_summary_and_a_page_of_a_step_on_cuda_tell_what_is_not_there(monkeypatch: Any, tmp_path: Any) -> None:
    step = graphls.compile(Angle(), graphls.Tensor(np.ones(4, np.float32)))
    found = step.placement("1.19.2", "cuda")
    monkeypatch.setattr(step, "placement", lambda: found)
    monkeypatch.setattr(step._session, "device", "cuda")
    assert found.sentences[0] in str(step.summary()).replace("\n", " ")
    assert found.sentences[0].replace("'", "&#x27;") in step.show(tmp_path / "page.html").read_text()
    assert "1 operator runs on the CPU" in step._repr_html_()


@pytest.mark.parametrize("opset", [OLDEST, 18, 21, NEWEST])
def test_a_step_is_saved_at_an_opset_and_placed_by_the_command_line(opset: int, tmp_path: Any, capsys: Any) -> None:
    step = graphls.compile(Angle(), graphls.Tensor(np.ones(4, np.float32)))
    file = tmp_path / "step.onnx"
    step.save(file, opset=opset)
    onnx.checker.check_model(onnx.load(file), full_check=True)
    assert main(["placement", str(file), "--runtime", "1.19.2", "--provider", "CUDA"]) == 0
    text = capsys.readouterr().out
    assert text.startswith(f"ONNX Runtime 1.19.2, cuda, opset {opset}: ")
    assert "Atan on the CPU: no kernel of Atan" in text and "test_placement.py" in text


def test_the_command_line_refuses_what_it_does_not_know(tmp_path: Any, capsys: Any) -> None:
    file = tmp_path / "model.onnx"
    onnx.save(model("Atan", 18), file)
    for arguments in (["--provider", "tpu"], ["--runtime", "1.2"]):
        assert main(["placement", str(file), *arguments]) == 1
    assert main(["placement", str(tmp_path / "none.onnx")]) == 1
    assert "Traceback" not in capsys.readouterr().err


def test_a_step_refuses_other_opsets(tmp_path: Any) -> None:
    step = graphls.compile(Angle(), graphls.Tensor(np.ones(4, np.float32)))
    with pytest.raises(GraphValueError, match="A model can be written at opset 17 to 25, not 16"):
        step.save(tmp_path / "step.onnx", opset=16)
