"""Pages of other graphs: models of strangers, graphs with almost nothing in them, regions of every kind."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from playwright.sync_api import Page, expect

import graphls
from graphls import nn, ops
from graphls.inspect.viz.html import write_page
from graphls.ir.graph import walk
from graphls.ir.parse import parse
from graphls.onnx.importing.reader import read_onnx
from tests.browser.pages import box, choose, details, fact, graph, is_painted, line, panel, search, show, text

LONG = 3000
"""Nodes of a chain without any cell."""


def test_a_graph_with_nothing_in_it(page: Page, tmp_path: Path) -> None:
    show(page, write_page(tmp_path / "page.html", {"only": parse("graph @main() {\n  return\n}\n")}))
    expect(box(page, "graph main")).to_contain_text("0 nodes")
    assert text(page).inner_text().split() == ["graph", "@main()", "{", "return", "}"]
    expect(panel(page, "States")).to_contain_text("0 states of 0 B outlive the step.")
    expect(panel(page, "Source")).to_contain_text("No node of this graph has a source line.")
    expect(panel(page, "Changes")).to_contain_text("This is the first stage.")
    expect(search(page, "x")).to_have_count(0)
    for key in ("f", "0", "]", "["):
        page.keyboard.press("Escape")
        graph(page).press(key)
    page.get_by_role("button", name="open all").click()
    choose(box(page, "graph main"))
    expect(details(page)).to_contain_text("0 nodes")


def test_a_graph_of_one_node(page: Page, tmp_path: Path) -> None:
    source = "graph @main(%x: f32[2]) {\n  %y = exp(%x) : f32[2]  // forward\n  return %y\n}\n"
    show(page, write_page(tmp_path / "page.html", {"only": parse(source)}))
    page.get_by_role("button", name="open all").click()
    for name in ("input %x", "exp %y", "output %y"):
        expect(box(page, name)).to_be_in_viewport(ratio=0.99)
    choose(box(page, "exp %y"))
    expect(fact(page, "reads")).to_contain_text("%x f32[2] · 8 B")
    choose(box(page, "output %y"))
    expect(details(page).get_by_role("heading")).to_contain_text("output %y")


def test_an_input_that_is_an_output(page: Page, tmp_path: Path) -> None:
    source = "graph @main(%x: f32[2]) {\n  state @s: f32[2]\n  @s <- %x\n  return %x, @s\n}\n"
    show(page, write_page(tmp_path / "page.html", {"only": parse(source)}))
    expect(box(page, "output %x")).to_be_visible()
    row = panel(page, "States").get_by_role("row").filter(has_text="@s")
    expect(row).to_contain_text("input %x")


class Regions(nn.Cell):
    """Regions of every kind: `scan`, `custom_gradient`, `while_loop` in a branch of a `cond`."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(3, 4)
        self.halved = Halved()

    def construct(self, x: graphls.Tensor) -> graphls.Tensor:
        out, _ = self.lstm(x)
        out = self.halved(out)
        if out.sum() > 0:
            return ops.while_loop(lambda y: y.sum() < 100, lambda y: y * 2 + 1, out)
        return -out


class Halved(nn.Cell):
    """A cell with a gradient of its own."""

    def construct(self, x: graphls.Tensor) -> graphls.Tensor:
        return x / 2

    def bprop(self, x: graphls.Tensor, out: graphls.Tensor, dout: graphls.Tensor) -> tuple[graphls.Tensor]:
        return (dout / 2,)


@pytest.fixture(scope="module")
def regions() -> graphls.Compiled:
    return graphls.compile(Regions(), np.ones((2, 5, 3), np.float32), backend="numpy")


def test_regions_open_with_their_parameters_and_what_they_yield(
    page: Page, regions: graphls.Compiled, tmp_path: Path
) -> None:
    show(page, write_page(tmp_path / "page.html", regions.stages))
    for name in ("scan", "cond", "while_loop"):
        search(page, name).locator("bdi", has_text=re.compile(f"^{name} %")).first.click()
        shown = box(page, f"node {name}").and_(page.locator(":focus"))
        if shown.get_attribute("aria-expanded") == "false":
            shown.press("Enter")
        expect(shown).to_have_attribute("aria-expanded", "true")
    for region in ("body", "then", "else", "while"):
        expect(search(page, f"region {region}")).not_to_have_count(0)
    page.keyboard.press("Escape")
    page.get_by_role("button", name="open all").click()
    nodes = sum(1 for _ in walk(regions.graph))
    found = graph(page).locator('.box:not(.port):not(.cell):not(.phase):not(.region):not(.graph)')
    assert nodes >= found.count() > 10
    search(page, "parameter").first.click()
    expect(details(page).get_by_role("heading")).to_contain_text("parameter %")
    expect(fact(page, "used by")).to_be_visible()
    page.get_by_role("button", name="fold all").click()
    search(page, "tanh").first.click()
    name = details(page).get_by_role("heading").inner_text().split()[-1]
    expect(line(page, f"{name} =")).to_be_in_viewport()


def test_a_cell_with_a_gradient_of_its_own_before_the_passes(
    page: Page, regions: graphls.Compiled, tmp_path: Path
) -> None:
    traced = next(iter(regions.stages.values()))
    show(page, write_page(tmp_path / "page.html", {"trace": traced}))
    search(page, "custom_gradient").first.click()
    expect(details(page).get_by_role("heading")).to_contain_text("custom_gradient")


def stranger(folder: Path) -> Path:
    """A model that is not of graphls: names of its own, a loop-free `If`, no types of inner values."""
    nodes = [
        helper.make_node("MatMul", ["in/x:0", "layer <1>/kernel"], ["mm"], name="layer <1>/MatMul"),
        helper.make_node("Relu", ["mm"], ["layer <1>/out"], name="layer <1>/Relu"),
        helper.make_node("ReduceSum", ["layer <1>/out"], ["sum"], keepdims=0),
        helper.make_node("Greater", ["sum", "limit"], ["is_large"]),
        helper.make_node("If", ["is_large"], ["result"], then_branch=branch("Neg"), else_branch=branch("Exp")),
        helper.make_node("Mystery", ["result"], ["y"], domain="org.example", level=3),
    ]
    shape = helper.make_tensor_value_info
    constants = [
        helper.make_tensor("layer <1>/kernel", TensorProto.FLOAT, [3, 4], np.ones(12, np.float32)),
        helper.make_tensor("limit", TensorProto.FLOAT, [], [1.0]),
    ]
    inputs, outputs = [shape("in/x:0", TensorProto.FLOAT, ["batch", 3])], [shape("y", TensorProto.FLOAT, None)]
    model = helper.make_model(
        helper.make_graph(nodes, "stranger & co", inputs, outputs, constants),
        opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("org.example", 1)],
    )
    path = folder / "stranger.onnx"
    onnx.save(model, path)
    return path


def branch(operator: str) -> onnx.GraphProto:
    output = helper.make_tensor_value_info(f"{operator}_out", TensorProto.FLOAT, None)
    node = helper.make_node(operator, ["layer <1>/out"], [f"{operator}_out"])
    return helper.make_graph([node], operator.lower(), [], [output])


def test_a_model_of_a_stranger(page: Page, tmp_path: Path) -> None:
    show(page, write_page(tmp_path / "page.html", {"stranger": read_onnx(stranger(tmp_path))}))
    page.get_by_role("button", name="open all").click()
    for words in ("MatMul", "Relu", "If", "Neg", "Exp", "Mystery"):
        expect(search(page, words)).not_to_have_count(0)
    search(page, "Mystery").first.click()
    expect(fact(page, "attributes")).to_contain_text("level=3")
    search(page, "MatMul").first.click()
    name = details(page).get_by_role("heading").inner_text().split()[-1]
    assert is_painted(text(page).locator(".line.selected"))
    expect(text(page).locator(".line.selected")).to_contain_text(name)


def test_a_long_chain_without_cells(page: Page, tmp_path: Path) -> None:
    rows = "".join(f"  %v{i + 1} = exp(%v{i}) : f32[2]  // forward\n" for i in range(LONG))
    chain = parse(f"graph @chain(%v0: f32[2]) {{\n{rows}  return %v{LONG}\n}}\n")
    show(page, write_page(tmp_path / "page.html", {"chain": chain}))
    page.get_by_role("button", name="open all").click()
    search(page, f"%v{LONG - 1}").first.click()
    expect(box(page, f"exp %v{LONG - 1}")).to_be_in_viewport(ratio=0.99)
    expect(line(page, f"%v{LONG - 1} =")).to_be_in_viewport()
    assert page.evaluate("document.querySelectorAll('*').length") < 3000


def test_the_same_stages_make_the_same_bytes(digits_step: graphls.Compiled, digits_page: Path, tmp_path: Path) -> None:
    again = digits_step.show(tmp_path / "again.html")
    assert again.read_bytes() == digits_page.read_bytes()
