"""The text for Graphviz: its grammar, clusters, colours, and names that stay names."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings

from graphls.inspect.viz.dot import to_dot
from graphls.ir import Graph, parse, walk
from tests.viz.graphs import HOSTILE, hostile, random_graphs, step

STRING = r'"(?:[^"\\]|\\.)*"'
ATTRIBUTE = rf"[a-z]+=(?:[a-z]+|[A-Z]+|\d+|{STRING})"
ATTRIBUTES = rf"\[(?:{ATTRIBUTE}(?:, {ATTRIBUTE})*)\]"
STATEMENT = re.compile(
    rf"digraph {STRING} {{|subgraph cluster_n\d+ {{|}}"
    rf"|(?:rankdir=TB; )?(?:node|edge|graph) {ATTRIBUTES};"
    rf"|{ATTRIBUTE}(?:; {ATTRIBUTE})*;"
    rf"|n\d+ (?:-> n\d+ )?{ATTRIBUTES};"
)


def assert_dot(text: str) -> None:
    """Each line is a statement of the grammar, braces match, and edges are between boxes that exist."""
    for line in text.splitlines():
        assert STATEMENT.fullmatch(line.strip()), line
    bare = re.sub(STRING, "", text)
    assert bare.count("{") == bare.count("}")
    boxes = set(re.findall(r"^ *(n\d+) \[", text, re.MULTILINE))
    ends = {end for pair in re.findall(r"(n\d+) -> (n\d+)", bare) for end in pair}
    assert ends <= boxes
    assert len(re.findall(r"^ *n\d+ \[", text, re.MULTILINE)) == len(boxes)


def ids(text: str) -> dict[str, str]:
    """The box of each label's first name."""
    found = re.findall(r'(n\d+) \[label="(?:[a-z_]+\\n)?([@%][^ "]+)', text)
    return {name: box for box, name in reversed(found)}


def test_a_step_in_dot() -> None:
    text = to_dot(step())
    assert_dot(text)
    box = ids(text)
    assert f'{box["%b"]} -> {box["%c"]} [label="f32[4]"];' in text
    assert f"{box['%status']} -> {box['%seed']} [style=dashed];" in text
    assert f'{box["@w"]} -> {box["%a"]} [label="f32[4]"];' in text
    assert f'{box["%m_1"]} -> {box["@w"]} [color="#cf222e", constraint=false];' in text
    labels = re.findall(r'^ *label="([^"]*)"', text, re.MULTILINE)
    assert labels[:4] == ["forward", "net", "first", "act"] and {"then", "else", "optimizer"} <= set(labels)


def test_boxes_have_the_colour_of_their_phase_and_windows_amber_borders() -> None:
    found = (line for line in to_dot(step()).splitlines() if "ellipse" not in line)
    lines = {name: line for line in found for name in re.findall(r"\\n(%[a-z0-9_]+) ", line)[:1]}
    for name, colour in (("%a", "#0072b2"), ("%gd", "#c25500"), ("%overflow", "#862d86"), ("%w_2", "#006b4f")):
        assert f'fillcolor="{colour}30"' in lines[name]
    amber = {name for name, line in lines.items() if 'color="#f0b429", penwidth=3' in line}
    assert amber == {"%status", "%seed", "%ge", "%wide", "%gd", "%gw", "%overflow"}


def test_a_region_yields_to_the_box_of_its_node() -> None:
    text = to_dot(step())
    box = re.search(r'(n\d+) \[label="cond', text)
    assert box is not None and len(re.findall(rf"n\d+ -> {box[1]} \[style=dotted\];", text)) == 4
    depth = 0
    for line in text.splitlines():
        assert depth == 1 or "->" not in line, "an edge within a cluster would draw its ends in"
        depth += line.count(" {") - (line.strip() == "}")


@given(random_graphs())
@settings(max_examples=30)
def test_every_node_has_a_box_and_the_same_graph_gives_the_same_bytes(graph: Graph) -> None:
    text = to_dot(graph)
    assert_dot(text)
    assert text == to_dot(parse(str(graph)))
    shown = re.findall(r'n\d+ \[label="(?:add|cond)\\n', text)
    assert len(shown) == len(list(walk(graph)))


def test_hostile_names_are_text() -> None:
    text = to_dot(hostile())
    assert_dot(text)
    text.encode("utf-8")
    assert max(map(len, re.findall(STRING, text))) < 3000, "Graphviz refuses longer strings"
    assert r"back\\slash \\N \\G {a|b}" in text, "escapes of labels are doubled"
    assert "&amp;amp;&amp;lt;" in text, "entities are shown as they were written"
    assert len(HOSTILE) == text.count('label="add\\n')


@pytest.mark.parametrize("name", ["", "main"])
def test_an_empty_graph_is_dot(name: str) -> None:
    assert_dot(to_dot(Graph(name, (), (), (), (), ())))
