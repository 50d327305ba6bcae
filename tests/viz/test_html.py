"""The page of a graph: one file, the same for the same graph, with every text as data. What it shows: tests/browser."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import nn
from graphls.base.location import Location
from graphls.inspect.viz import page_data
from graphls.inspect.viz.html import page, write_page
from graphls.ir.errors import GraphFileError, GraphValueError
from graphls.ir.graph import Graph, walk
from graphls.ir.parse import parse
from graphls.passes import parse_pipeline

TEXT = """
graph @main(%x: f16[4,2]) {
  state @w: f32[2,3]
  %v = cast(@w) {dtype=f16} : f16[2,3]  // forward net | {file}:3
  %y = matmul(%x, %v) : f16[4,3]  // forward net | {file}:4
  return %y
}
"""
X, Y = np.ones((8, 4), np.float32), np.ones((8, 1), np.float32)


def data_of(text: str) -> dict[str, Any]:
    """What the page's script reads."""
    (found,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    data: dict[str, Any] = json.loads(found)
    return data


def small(file: str = "net.py") -> Graph:
    return parse(TEXT.replace("{file}", file))


def step() -> graphls.Compiled:
    network = nn.WithLossCell(nn.Dense(4, 1).to_float(graphls.float16), nn.MSELoss())
    optimizer = nn.Momentum(network.trainable_params(), 0.1, 0.9)
    cell = nn.TrainOneStepWithLossScaleCell(network, optimizer, nn.DynamicLossScaleUpdateCell(2**24, 2, 100))
    return graphls.compile(cell, X, Y, backend="numpy")


def test_every_node_of_every_stage_is_in_exactly_one_group() -> None:
    compiled = step()
    data = data_of(page(compiled.stages))
    assert [stage["name"] for stage in data["stages"]] == list(compiled.stages)

    def nodes(number: int) -> list[int]:
        group = data["groups"][number]
        own = [group["node"]] if group["node"] >= 0 else []
        assert sorted(slot for row in group["rows"] for slot in row if slot >= 0) == list(range(len(group["children"])))
        for child in group["children"]:
            if isinstance(child, int):
                own += [child] if child >= 0 else nodes(-1 - child)
        return own

    for stage, graph in zip(data["stages"], compiled.stages.values(), strict=True):
        shown = nodes(stage["root"])
        assert len(shown) == len(set(shown)) == len(list(walk(graph)))
        names = [data["nodes"][node]["primitive"] for node in shown]
        assert sorted(names) == sorted(node.primitive.name for node in walk(graph))
        text = "\n".join(data["lines"][line][0] for line in stage["lines"])
        assert text + "\n" == str(graph)


def test_stages_share_what_passes_left_alone() -> None:
    graph = small()
    data = data_of(page({"a": graph, "b": graph}))
    assert len(data["nodes"]) == 2 and data["stages"][0]["root"] == data["stages"][1]["root"]
    assert data["stages"][1]["difference"] == {"added": [], "removed": [], "changed": [], "others": []}


def test_a_stage_that_changes_nothing_is_not_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    stages = parse_pipeline("gradient, join, fold").run(parse("graph @g(%x: f32[]) {\n  return %x\n}")).stages
    looks: list[object] = []
    grouped = page_data.grouped
    monkeypatch.setattr(page_data, "grouped", lambda graph: (looks.append(graph), grouped(graph))[1])
    shown = page_data.page_data(stages, "g")["stages"]
    assert len(looks) == 1 and [stage["name"] for stage in shown] == list(stages)


def test_a_stage_says_what_its_pass_did() -> None:
    graph = small()
    cast, product = graph.nodes
    without = parse("graph @main(%x: f16[4,2]) {\n  %y = relu(%x) : f16[4,2]  // forward\n  return %y\n}\n")
    data = data_of(page({"a": graph, "b": without}))
    difference = data["stages"][1]["difference"]
    assert difference["others"] == [["state @w: f32[2,3]", ""], ["return %y: f16[4,3]", "return %y: f16[4,2]"]]
    primitives = [node["primitive"] for node in data["nodes"]]
    assert [primitives[node] for node in difference["added"]] == ["relu"]
    assert [primitives[node] for node in difference["removed"]] == [cast.primitive.name, product.primitive.name]


def test_the_overflow_window_is_in_the_data() -> None:
    stage = data_of(page(step().stages))
    (window,) = stage["stages"][-1]["windows"]
    inside = {stage["nodes"][node]["phase"] for node in window["nodes"]}
    assert "backward" in inside and "forward" not in inside and "update" not in inside
    assert stage["nodes"][window["start"]]["primitive"] == "overflow_start"
    assert stage["nodes"][window["get"]]["primitive"] == "overflow_get"


def test_lines_of_source_stand_with_their_neighbours(tmp_path: Path) -> None:
    file = tmp_path / "net.py"
    file.write_text("".join(f"line {n}\n" for n in range(1, 10)))
    (found,) = data_of(page({"a": small(str(file))}))["files"]
    assert found["name"] == str(file) and found["lines"] == {str(n): f"line {n}" for n in range(1, 8)}


@pytest.mark.parametrize("name", ["secrets.txt", "missing.py", "folder.py"])
def test_other_files_than_sources_are_not_read(tmp_path: Path, name: str) -> None:
    (tmp_path / "secrets.txt").write_text("secret\n" * 9)
    (tmp_path / "folder.py").mkdir()
    text = page({"a": small(str(tmp_path / name))})
    assert "secret\n" not in text and data_of(text)["files"][0]["lines"] == {}


@pytest.mark.parametrize(("below", "count"), [("project", 7), ("project/deep", 0), ("other", 0)])
def test_lines_of_files_elsewhere_are_left_out_where_one_says_so(tmp_path: Path, below: str, count: int) -> None:
    for folder in ("project/deep", "other"):
        (tmp_path / folder).mkdir(parents=True)
    file = tmp_path / "project" / "net.py"
    file.write_text("line\n" * 9)
    for name in (str(file), f"{tmp_path}/other/../project/net.py"):
        (found,) = data_of(page({"a": small(name)}, below=tmp_path / below))["files"]
        assert len(found["lines"]) == count
    link = tmp_path / "other" / "net.py"
    link.symlink_to(file)
    (found,) = data_of(page({"a": small(str(link))}, below=tmp_path / "other"))["files"]
    assert found["lines"] == {}


@pytest.mark.parametrize("name", ["\x00.py", "a" * 5000 + ".py", "<string>"])
def test_places_that_are_no_files_have_no_lines(tmp_path: Path, name: str) -> None:
    text = TEXT.replace("{file}", "net.py")
    graph = parse(text)
    named = graph.replace(nodes=tuple(replace(node, loc=Location(name, 3)) for node in graph.nodes))
    for below in (None, tmp_path):
        (found,) = data_of(page({"a": named}, below=below))["files"]
        assert found["lines"] == {}


HOSTILE = [
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    '"><svg onload=alert(1)>',
    "<!-- --> <!--<script>",
    "\u2028\u2029\u202e\u200f\x00\x1b\n\r\t\ufeff",
    "\ud800",
    "`${alert(1)}`",
    "%1 @2 {{}} \\u003c",
    "ä" * 10_000,
]


class Elements(HTMLParser):
    """The elements of a page, and what its policy allows."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []
        self.handlers: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        self.handlers += [name for name, _ in attrs if name.startswith("on")]


@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_names_add_no_element(name: str) -> None:
    graph = small()
    nodes = tuple(replace(node, scope=name, loc=Location(name, 3)) for node in graph.nodes)
    for value in (*graph.inputs, *graph.states, *graph.outputs):
        value.name = f"{name}{value.name}"
    hostile = graph.replace(name=name, nodes=nodes)
    usual, shown = Elements(), Elements()
    usual.feed(page({"a": small()}))
    text = page({name: hostile}, title=name)
    text.encode()
    shown.feed(text)
    assert shown.names == usual.names and shown.handlers == []
    assert data_of(text)["stages"][0]["name"] == name


def test_the_policy_names_the_only_script_and_style() -> None:
    text = page({"a": small()})
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', text)
    assert policy.startswith("default-src 'none'; script-src 'sha256-") and "unsafe" not in policy
    assert "http://" not in text.replace("http://www.w3.org/2000/svg", "") and "https://" not in text


SCRIPT = """
import hashlib, sys
sys.path.insert(0, {folder!r})
from tests.viz.test_html import step
from graphls.inspect.viz.html import page
print(hashlib.sha256(page(step().stages).encode()).hexdigest())
"""


def test_the_same_graph_gives_the_same_bytes_in_every_process() -> None:
    folder = str(Path(__file__).parents[2])
    made = {
        subprocess.run(
            [sys.executable, "-c", SCRIPT.format(folder=folder)],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": folder},
            capture_output=True, text=True, check=True, timeout=600,
        ).stdout
        for seed in ("1", "2")
    }  # fmt: skip
    assert len(made) == 1


def test_no_stage_and_no_place_to_write_are_errors(tmp_path: Path) -> None:
    with pytest.raises(GraphValueError, match="at least one graph"):
        page({})
    with pytest.raises(GraphFileError, match="cannot be written"):
        write_page(tmp_path, {"a": small()})
    assert list(tmp_path.iterdir()) == []


def test_a_step_shows_itself_and_dumps_its_page(tmp_path: Path) -> None:
    compiled = step()
    shown = compiled.show(tmp_path / "page.html")
    compiled.dump(tmp_path / "out")
    assert shown.read_bytes() == (tmp_path / "out" / "index.html").read_bytes()
    assert shown.read_text() == page(compiled.stages, device="cpu")


def test_a_step_shows_itself_where_one_is_without_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert step().show().read_bytes() == step().show("other.html").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other.html", "step.html"]
