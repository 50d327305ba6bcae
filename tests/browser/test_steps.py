"""The steps whose pages are opened have what their pages are to show."""

from __future__ import annotations

from pathlib import Path

import graphls
from graphls.ir import dump, parse
from graphls.ir.graph import PHASES, walk
from tests.browser.hostile import FILE_NAMES, NAMES


def phases(step: graphls.Compiled) -> set[str]:
    return {node.phase for node in walk(step.graph)}


def test_the_demo(digits_step: graphls.Compiled) -> None:
    assert phases(digits_step) == {*PHASES}
    assert {Path(node.loc.file).name for node in walk(digits_step.graph) if node.loc} == {"digits.py", "steps.py"}


def test_the_transformer_has_thousands_of_nodes(transformer_step: graphls.Compiled) -> None:
    assert phases(transformer_step) == {*PHASES}
    assert all(sum(1 for _ in walk(graph)) > 3000 for graph in transformer_step.stages.values())
    scopes = {node.scope for node in walk(transformer_step.graph)}
    assert "network._backbone.encoder.layers.11.self_attn.out_proj" in scopes


def test_every_hostile_name_is_in_the_graph(hostile_step: graphls.Compiled) -> None:
    nodes = list(walk(hostile_step.graph))
    assert {node.scope for node in nodes} >= {f"network._backbone.{name}" for name in NAMES}
    assert {state.name for state in hostile_step.graph.states} >= {f"{name}.weight" for name in NAMES}
    files = {node.loc.file for node in nodes if node.loc}
    assert {Path(file).name for file in files} >= {*FILE_NAMES} and all(Path(file).is_file() for file in files)
    text = dump(hostile_step.graph)
    assert text.isascii() and dump(parse(text)) == text


def test_nodes_are_counted_in_one_way(digits_step: graphls.Compiled) -> None:
    """Those in regions are included, as on the page, whose tests have the same number."""
    graph = digits_step.graph
    assert graph.node_count == 115 > len(graph.nodes)
    assert repr(digits_step).endswith(": 115 nodes, 18 states>>")
    assert str(graph.diff(graph)) == "No difference in 115 nodes."
    assert sum(phase.nodes for phase in digits_step.summary().phases) == 115
    assert "a compiled step of 115 nodes" in digits_step._repr_html_()
    assert "constants left out; their graph has 115." in str(digits_step.plan)
