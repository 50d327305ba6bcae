"""Cards for notebooks: long names, dark hosts, and the graphs and datasets that have one."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

import graphls
from graphls import dataset, nn
from graphls.base.text.html import DARK, LIGHT, Page
from graphls.inspect.viz.html import MOST_LINES
from graphls.interop.torch import load_state_dict
from graphls.ir import parse

BEFORE = "graph @g(%x: f32[2]) {{\n  %y = exp(%x) : f32[2]\n{}  return %y\n}}"


def difference(more: int = 1) -> graphls.ir.graph.Difference:
    lines = "".join(f"  %a{i} = neg(%x) : f32[2]\n" for i in range(more))
    return parse(BEFORE.format("")).diff(parse(BEFORE.format(lines)))


def test_long_names_break_at_dots_and_short_ones_do_not() -> None:
    page = Page("A", "b")
    page.table(("name", "size"), [("encoder.layers.0.self_attn.in_proj_weight", "1.5"), ("fc.bias", "1.5")])
    html = page.text()
    assert "encoder.<wbr>layers.<wbr>0.<wbr>self_attn.<wbr>in_proj_weight" in html
    assert ">fc.bias</td>" in html and ">1.5</td>" in html


def test_a_card_is_as_dark_as_its_host() -> None:
    html = Page("A", "b").text()
    assert all(host in html for host in (*DARK, *LIGHT))
    assert "prefers-color-scheme" not in html, "the reader's wish is not the notebook's"
    picture = str(parse(BEFORE.format(""))._repr_svg_())
    assert all(host in picture for host in (*DARK, *LIGHT))


def test_the_difference_of_graphs_has_a_card() -> None:
    found = difference()
    html = str(found._repr_html_())
    assert str(found).splitlines()[0] in html and "+   %a0 = neg(%x) : f32[2]" in html
    assert re.search(r"color:light-dark\(#1a6b2f, #7ddc95\)[^>]*>\+ ", html)
    assert "No difference in 1 node." in str(difference(0)._repr_html_())
    long = str(difference(3 * MOST_LINES)._repr_html_())
    assert long.count("neg(%x)") < MOST_LINES + 5 and "more lines; print the difference for all." in long


def test_datasets_say_what_they_are() -> None:
    images, labels = np.zeros((10, 2)), np.arange(10)
    rows = dataset.NumpySlicesDataset({"image": images, "label": labels}, shuffle=False)
    made = rows.filter(lambda label: label > 2, ["label"]).batch(4)
    batches = rows.repeat(2).batch(4)
    assert repr(batches) == "<BatchDataset: image, label; 5 rows>"
    assert repr(rows.repeat()) == "<RepeatDataset: image, label; rows without end>"
    text = str(made)
    assert text.splitlines()[0] == "BatchDataset: image, label; rows are counted by a pass"
    kinds = ["BatchDataset", "FilterDataset", "NumpySlicesDataset"]
    assert [line.split()[0] for line in text.splitlines()[3:]] == kinds
    assert f"{Path(__file__).name}:" in text and text.splitlines()[-1].endswith("10")
    both = str(rows.zip(rows.rename(["image", "label"], ["a", "b"])))
    assert "  NumpySlicesDataset" in both and "    NumpySlicesDataset" not in both
    assert "FilterDataset" in made._repr_html_() and "<table" in made._repr_html_()


def test_what_has_a_card_shows_itself_as_text_in_a_terminal() -> None:
    x = np.ones((4, 3), np.float32)
    net = nn.WithLossCell(nn.Dense(3, 1), nn.MSELoss())
    train = nn.TrainOneStepWithLossScaleCell(net, nn.SGD(net.trainable_params(), 0.1), nn.FixedLossScaleUpdateCell(2.0))
    step = graphls.compile(train, x, x[:, :1])
    weights = load_state_dict(nn.Dense(3, 1), {"weight": x[:1], "bias": x[0, :1]})
    for shown in (step.summary(), step.explain_overflow(x, x[:, :1]), step.gradient_ranges(x, x[:, :1]), weights):
        assert repr(shown) == str(shown) and not repr(shown).startswith(type(shown).__name__)
