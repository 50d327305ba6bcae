"""What rounding to low dtypes loses: the figures of NumPy and ml_dtypes, the worst tensor first, no state changed."""

from __future__ import annotations

import math
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import graphls
from graphls import amp, nn, ops
from graphls.base.errors import GraphKeyError, GraphValueError
from graphls.diagnosis import PrecisionExplanation, RoundedTensor, Window
from graphls.inspect.diagnosis import watched
from graphls.inspect.diagnosis.measuring import spread
from graphls.inspect.diagnosis.precision import LowTensors
from graphls.inspect.diagnosis.usual import usual_ratios
from graphls.ir import Graph, interpret, parse
from graphls.ir.registry import lookup

F32 = np.float32
X = np.random.default_rng(1).standard_normal((16, 24)).astype(F32)
LABELS = np.random.default_rng(2).integers(0, 5, 16).astype(np.int32)
RECIPES: dict[str, amp.Recipe] = {
    "delayed": amp.DelayedScaling(amax_history_len=4), "current": amp.CurrentScaling(), "block": amp.BlockScaling(),
    "mx": amp.MXFP8(), "nvfp4": amp.NVFP4(),
}  # fmt: skip


class Interpreted:
    """A probe that interprets a graph."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph

    def run(self, arrays: Sequence[Any]) -> list[Any]:
        """The outputs of the graph."""
        return list(interpret(self.graph, list(arrays))[0])


def explained(text: str, *arrays: Any) -> PrecisionExplanation:
    """What a graph in text loses."""
    return LowTensors(parse(text), Interpreted).explain(arrays, {})  # type: ignore[arg-type]


def ratios(x: Any, rounded: Any) -> tuple[float, float]:
    """The ratio of signal to noise in dB, and its mean by element."""
    x, rounded = x.astype(float), rounded.astype(float)
    one = x[x != 0]
    by_element = np.minimum(((one - rounded[x != 0]) / one) ** 2, 1)
    return 10 * math.log10((x**2).sum() / ((x - rounded) ** 2).sum()), -10 * math.log10(by_element.mean())


BLOCKS = """graph @g(%x: f32[3,6], %scale: f32[2,2], %inverse: f32[2,2]) {{
  %q = quantize(%x, %scale) {{block=[2, 4], dtype={dtype}}} : {dtype}[3,6]  // forward fc | train.py:7
  %y = dequantize(%q, %inverse) {{block=[2, 4], dtype=f32, role="input"}} : f32[3,6]  // forward fc | train.py:7
  return %y
}}"""


@pytest.mark.parametrize("dtype", [graphls.float8_e4m3fn, graphls.float8_e5m2, graphls.float4_e2m1fn], ids=str)
def test_the_figures_are_those_of_numpy(dtype: Any) -> None:
    limits: Any = ml_dtypes.finfo(dtype.numpy)
    x = np.random.default_rng(3).standard_normal((3, 6)).astype(F32)
    x[0, 0], x[1, 5], x[2, 2], x[2, 5] = 0, 1e-9, 50, -50
    scale = F32([[float(limits.max) / 3, 1], [float(limits.max) / 40, 4]])
    (found,) = explained(BLOCKS.format(dtype=dtype.name), x, scale, 1 / scale)
    wide = np.kron(scale, np.ones((2, 4), F32))[:3, :6]
    scaled = x * wide
    low = np.clip(scaled, float(limits.min), float(limits.max)).astype(dtype.numpy).astype(F32)
    rounded = low * (1 / wide)
    magnitude = np.abs(scaled[scaled != 0])
    assert found.flushed == np.mean((x != 0) & (low == 0)) > 0
    beyond = np.abs(scaled) > float(limits.max) + 2.0 ** (np.floor(np.log2(float(limits.max))) - limits.nmant - 1)
    assert found.saturated == np.mean(beyond) > 0
    assert found.subnormal == np.mean((np.abs(scaled) < float(limits.smallest_normal)) & (low != 0))
    assert (found.sqnr, found.element_sqnr) == pytest.approx(ratios(x, rounded), rel=1e-9)
    assert (found.amax, found.scales) == (50, (scale.min(), scale.max()))
    powers = np.clip(np.floor(np.log2(magnitude)), math.floor(math.log2(float(limits.smallest_subnormal))) - 16, None)
    assert dict(found.histogram) == dict(zip(*np.unique(powers, return_counts=True), strict=True))
    assert (found.format, found.role, found.cell, found.file, found.line) == (dtype, "input", "fc", "train.py", 7)
    assert (found.block, found.history, found.not_finite, found.type) == ((2, 4), None, 0, found.type)


def test_elements_that_are_not_finite_are_counted_apart() -> None:
    x = np.ones((3, 6), F32)
    x[0, :3] = np.inf, -np.inf, np.nan
    ones = np.ones((2, 2), F32)
    (found,) = explained(BLOCKS.format(dtype="f8e4m3fn"), x, ones, ones)
    assert (found.not_finite, found.saturated, found.amax) == (3 / 18, 0, 1) and found.sqnr == math.inf
    assert found.is_poor and "explain_overflow" in found.remedy


@pytest.mark.parametrize("number", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("name", RECIPES)
def test_an_input_that_is_not_finite_is_explained(name: str, number: float) -> None:
    """Its scale is that number, too, so that all of its tensor or its block is rounded to inf or nan."""
    x = X.copy()
    x[0, 0] = number
    net = amp.auto_mixed_precision(nn.Dense(24, 5), RECIPES[name])
    explanation = graphls.compile(net, x, engine="numpy").explain_precision(x)
    found = explanation[0]
    assert found.role == "input" and found.not_finite == 1 / x.size
    assert (found.sqnr, found.amax) == (-math.inf, abs(X.reshape(-1)[1:]).max())
    assert "step.explain_overflow says why" in str(explanation)


def test_what_is_moved_before_it_is_read_is_compared_in_its_place() -> None:
    text = """graph @g(%x: f32[2,4], %scale: f32[2,1], %inverse: f32[1,2]) {
  %q = quantize(%x, %scale) {block=[1, 0], dtype=f8e5m2} : f8e5m2[2,4]
  %t = transpose(%q) {permutation=[1, 0]} : f8e5m2[4,2]
  %y = dequantize(%t, %inverse) {block=[0, 1], dtype=f32} : f32[4,2]
  return %y
}"""
    x, scale = X[:2, :4], F32([[8], [1024]])
    (found,) = explained(text, x, scale, 1 / scale.T)
    assert found.sqnr == pytest.approx(ratios(x, (x * scale).astype(ml_dtypes.float8_e5m2).astype(F32) / scale)[0])


def test_stochastic_rounding_is_measured_before_the_inverse_of_the_scale() -> None:
    text = """graph @g(%x: f32[4,8], %u: f32[4,8], %inverse: f32[4,1]) {
  %q = round_stochastically(%x, %u) {dtype=f4e2m1fn} : f4e2m1fn[4,8]
  %y = dequantize(%q, %inverse) {block=[1, 0], dtype=f32} : f32[4,8]
  return %y
}"""
    x = 6 * np.tanh(X[:4, :8])
    x[3] = 0
    inverse = F32([[0.5], [2], [4], [0]])
    (found,) = explained(text, x, np.copysign(F32(0.5 - 2.0**-17), -x), inverse)
    grid = F32([0, 0.5, 1, 1.5, 2, 3, 4, 6])
    towards_zero = np.sign(x) * grid[np.searchsorted(grid, np.abs(x), "right") - 1]
    assert found.sqnr == pytest.approx(ratios(x * inverse, towards_zero * inverse)[0])
    assert found.scales == (0.25, 2) and found.block == (1, 0)


def test_a_branch_that_does_not_run_has_no_tensors() -> None:
    text = """graph @g(%c: bool[], %x: f32[4], %s: f32[1]) {
  %y = cond(%c) : f32[4] region {
    %q = quantize(%x, %s) {block=[0], dtype=f8e5m2} : f8e5m2[4]
    %a = dequantize(%q, %s) {block=[0], dtype=f32} : f32[4]
    yield %a
  } region {
    yield %x
  }
  return %y
}"""
    arrays = F32([1, 2, 3, 4]), F32([1])
    (found,) = explained(text, np.array(True), *arrays)
    assert found.sqnr == math.inf
    nothing = explained(text, np.array(False), *arrays)
    assert len(nothing) == 0 and "Not measured: 1 tensor of the step, in a branch that did not run." in str(nothing)
    assert nothing._repr_html_()


def test_scales_of_blocks_are_spread_over_their_elements() -> None:
    scale = np.arange(6, dtype=F32).reshape(2, 3)
    assert np.array_equal(spread(scale, (3, 7), (2, 3)), np.kron(scale, np.ones((2, 3)))[:3, :7])
    assert spread(scale[:1, :1], (3, 7), (0, 0)).shape == (1, 1)


@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2", "float4_e2m1fn", "float8_e4m3fnuz"])
def test_windows_are_those_of_ml_dtypes(name: str) -> None:
    dtype = getattr(graphls, name)
    window, numbers = Window.of(dtype), np.arange(256, dtype=np.uint8)
    values = numbers[:16] if "float4" in name else numbers
    magnitudes = np.abs(values.view(getattr(ml_dtypes, name)).astype(F32))
    finite = magnitudes[np.isfinite(magnitudes)]
    assert (window.least, window.largest) == (finite[finite > 0].min(), finite.max())


@pytest.mark.parametrize("is_stochastic", [False, True])
@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2", "float4_e2m1fn"])
def test_usual_ratios_are_those_of_normal_numbers(name: str, is_stochastic: bool) -> None:
    """Stochastic rounding has twice the noise or so, and by element the ratio of its mean counts."""
    dtype, low = getattr(graphls, name), getattr(ml_dtypes, name)
    x = np.random.default_rng(5).standard_normal((4096, 16))
    x *= float(ml_dtypes.finfo(low).max) / np.abs(x).max(1, keepdims=True)  # type: ignore[no-untyped-call]
    nearest = x.astype(F32).astype(low).astype(float)
    rounded = nearest
    if is_stochastic:
        random = np.random.default_rng(6).random(x.shape).astype(F32) - F32(0.5)
        rounded = lookup("round_stochastically").numpy(x.astype(F32), random, dtype).astype(float)  # type: ignore[attr-defined]
    found = usual_ratios(dtype, 16, is_stochastic)
    assert found == pytest.approx((ratios(x, rounded)[0], ratios(x, nearest)[1]), abs=0.35)


# -- steps --------------------------------------------------------------------------------------------------------


class Network(nn.Cell):
    """Three layers, each on a line of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.fc1 = nn.Dense(24, 32)
        self.drop = nn.Dropout(p=0.25)
        self.fc2 = nn.Dense(32, 32)
        self.fc3 = nn.Dense(32, 5)

    def construct(self, x: Any) -> Any:
        first = ops.relu(self.fc1(x))
        second = ops.relu(self.fc2(self.drop(first)))
        return self.fc3(second)


def line_of(text: str) -> int:
    """The line of this file that has a text."""
    return 1 + next(i for i, line in enumerate(open(__file__, encoding="utf-8")) if line.strip().startswith(text))


def training(recipe: amp.Recipe | None, **options: Any) -> Any:
    """A compiled training step."""
    graphls.set_seed(3)
    network = Network()
    if recipe is not None:
        network.to_float(recipe)
    loss = nn.WithLossCell(network, nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean"))
    cell = nn.TrainOneStepCell(loss, nn.Momentum(network.trainable_params(), 0.1, 0.9)).set_train()
    return graphls.compile(cell, X, LABELS, **options)


def planted() -> Any:
    """The inputs with an outlier."""
    x = X.copy()
    x[3, 7] = 3e5
    return x


def states(step: Any) -> dict[str, Any]:
    return {name: np.array(p.asnumpy()) for name, p in step.parameters.items()}


ENGINES: dict[str, dict[str, Any]] = {
    "onnxruntime": {}, "interpreter": {"backend": "numpy"}, "numpy": {"engine": "numpy"},
}  # fmt: skip


@pytest.mark.parametrize("options", ENGINES.values(), ids=ENGINES)
def test_a_planted_outlier_is_the_worst_with_its_line(options: dict[str, Any]) -> None:
    explanation = training(RECIPES["current"], **options).explain_precision(planted(), LABELS)
    worst = explanation[0]
    assert (worst.role, worst.cell.rpartition(".")[2], worst.line) == ("input", "fc1", line_of("first = ops.relu"))
    assert worst.file.endswith("test_explain_precision.py") and worst.code == "first = ops.relu(self.fc1(x))"
    scale = F32(448) / F32(3e5)
    low = (planted() * scale).astype(ml_dtypes.float8_e4m3fn).astype(F32)
    assert worst.flushed == np.mean(low == 0) > 0.4 and worst.sqnr > 60, "the outlier hides the noise of the others"
    assert worst.element_sqnr == pytest.approx(ratios(planted(), low / scale)[1], rel=1e-4)
    assert worst.has_one_scale and "to_float(graphls.bfloat16)" in worst.remedy
    assert explanation.notes[0].startswith("The input of network._backbone.fc1 (")
    assert "flushed to zero" in explanation.summary and "3 of them poorly" in explanation.summary


@pytest.mark.parametrize("name", RECIPES)
def test_no_state_and_no_random_number_changes(name: str) -> None:
    losses = []
    for explains in (True, False):
        step = training(RECIPES[name])
        step(X, LABELS)
        if explains:
            before = states(step)
            step.explain_precision(X, LABELS)
            assert all(np.array_equal(value, before[key]) for key, value in states(step).items())
        losses.append([float(step(X, LABELS)) for _ in range(3)])
    assert losses[0] == losses[1]


@pytest.mark.parametrize("name", RECIPES)
def test_every_role_of_every_layer_is_there(name: str) -> None:
    step = training(RECIPES[name])
    for _ in range(2):
        step(X, LABELS)
    explanation = step.explain_precision(X, LABELS)
    roles = {(t.cell.rpartition(".")[2], t.role) for t in explanation}
    assert roles == {(cell, role) for cell in ("fc1", "fc2", "fc3") for role in ("input", "weight", "gradient")}
    assert all(isinstance(t, RoundedTensor) and not t.is_poor and not t.remedy for t in explanation)
    low, high = (6, 26) if name == "nvfp4" else (20, 45)
    assert all(low < min(t.sqnr, t.element_sqnr) < high and t.scales[1] < 2.0**100 for t in explanation)
    weight = next(t for t in explanation if t.role == "weight" and t.cell.endswith("fc2"))
    assert weight.amax == np.abs(step.parameters["fc2.weight"].asnumpy()).max()
    assert [t.shortfall for t in explanation] == sorted((t.shortfall for t in explanation), reverse=True)
    assert {t.history is not None for t in explanation} == {name == "delayed"}


def test_recomputed_inputs_are_no_gradients() -> None:
    graphls.set_seed(3)
    network = Network()
    network.to_float(RECIPES["current"])
    network.fc2.recompute()
    network.fc3.recompute()
    loss = nn.WithLossCell(network, nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean"))
    cell = nn.TrainOneStepCell(loss, nn.Momentum(network.trainable_params(), 0.1, 0.9)).set_train()
    explanation = graphls.compile(cell, X, LABELS).explain_precision(X, LABELS)
    gradients = [t for t in explanation if t.role == "gradient"]
    assert sorted(t.cell.rpartition(".")[2] for t in gradients) == ["fc1", "fc2", "fc3"]
    assert {t.format for t in gradients} == {graphls.float8_e5m2}
    assert {t.format for t in explanation if t.role != "gradient"} == {graphls.float8_e4m3fn}


def test_delayed_scaling_shows_its_history_and_what_would_mend_it() -> None:
    step = training(RECIPES["delayed"])
    first = step.explain_precision(X, LABELS)
    assert first["fc1"].scales == (1, 1) and first["fc1"].history == (0, 0, 0, 0)
    assert any("history is empty" in note for note in first.notes), "gradients are small beside the first scale"
    for _ in range(3):
        step(X, LABELS)
    grown = step.explain_precision(4 * X, LABELS)[0]
    assert (grown.role, grown.cell.rpartition(".")[2]) == ("input", "fc1")
    largest = float(np.abs(X).max())
    assert grown.history == (0, *[largest] * 3) and grown.scales[0] == F32(448) / F32(largest)
    assert "take amp.DelayedScaling(margin=2, amax_history_len=4), which gives it 32.1 dB" in grown.remedy
    far = step.explain_precision(planted(), LABELS)
    tried = {each.code: each.figures for each in far[0].alternatives}
    assert tried["amp.CurrentScaling()"].saturated == 0 < far[0].saturated
    assert tried["amp.CurrentScaling()"].flushed > 0.4
    assert "take amp.BlockScaling(), which gives it 35.4 dB" in far[0].remedy
    assert "to_float(graphls.bfloat16) would give 49.6 dB" in far[0].remedy
    assert "last maxima were 3." in far.notes[0] and "it is 3e+05 now" in far.notes[0]
    step(planted(), LABELS)
    small = step.explain_precision(X, LABELS)["fc1"]
    assert small.flushed > 0.4 and "larger in its history" in small.remedy


def test_blocks_that_do_not_help_say_so() -> None:
    notes = training(RECIPES["mx"]).explain_precision(planted(), LABELS).notes
    assert any("stay in bfloat16" in note for note in notes)


def test_values_that_take_more_than_fits_take_more_probes(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = training(RECIPES["current"]).explain_precision(X, LABELS)
    monkeypatch.setattr(watched, "MOST_BYTES", 4000)
    parts = training(RECIPES["current"]).explain_precision(X, LABELS)
    assert len(whole) == len(parts) == 9
    assert [t.sqnr for t in whole] == pytest.approx([t.sqnr for t in parts], rel=1e-3)


def test_it_is_a_table_a_card_and_a_picture() -> None:
    explanation = training(RECIPES["current"]).explain_precision(planted(), LABELS)
    text = str(explanation)
    assert text.splitlines()[0] == explanation.summary and repr(explanation) == text
    row = next(line for line in text.splitlines() if line.startswith("network._backbone.fc1  input"))
    assert "float8_e4m3fn" in row and "53.1%" in row
    tree = ElementTree.fromstring(explanation.plot())
    titles = [str(title.text) for title in tree.iter("title")]
    assert any(title.startswith("input of network._backbone.fc1, float8_e4m3fn: 53.1% flushed") for title in titles)
    page = explanation._repr_html_()
    assert "graphls-card" in page and explanation.plot() in page
    assert explanation["weight"].role == "weight" and explanation[0] is explanation.tensors[0]
    with pytest.raises(GraphKeyError, match="No tensor of 'fc4' is rounded"):
        explanation["fc4"]


@pytest.mark.parametrize("name", ["current", "nvfp4"])
def test_a_narrow_terminal_shows_fewer_figures(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    explanation = training(RECIPES[name], engine="numpy").explain_precision(X, LABELS)

    def table(width: int) -> list[str]:
        return explanation.text(width).splitlines()[2 : 3 + len(explanation)]

    assert max(map(len, table(80))) <= 80
    assert all(figure in table(80)[0] for figure in ("cell", "role", "SQNR dB", "by element", "saturated", "flushed"))
    assert {row.split()[0][-3:] for row in table(60)[1:]} == {"fc1", "fc2", "fc3"}, "the ends of names tell them apart"
    assert table(300) == str(explanation).splitlines()[2 : 3 + len(explanation)]
    assert "A wider terminal shows subnormal" in explanation.text(80) and "wider" not in explanation.text()
    monkeypatch.setenv("COLUMNS", "80")
    assert str(explanation) == explanation.text(), "a file has all"
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert str(explanation) == explanation.text(80)


def test_a_step_without_low_tensors_says_how_to_get_some() -> None:
    step = training(None)
    assert not step.rounds_tensors and training(RECIPES["mx"]).rounds_tensors
    with pytest.raises(GraphValueError, match=r"rounds no tensor.*give its network a recipe, such as amp"):
        step.explain_precision(X, LABELS)


LOOP = """graph @g(%xs: f32[3,4], %s: f32[1], %start: f32[4]) {
  %last, %all = scan(%start, %xs) {carries=1, length=3, reverse=R} : f32[4], f32[3,4] region(%a: f32[4], %x: f32[4]) {
    %q = quantize(%x, %s) {block=[0], dtype=f8e5m2} : f8e5m2[4]
    %y = dequantize(%q, %s) {block=[0], dtype=f32, role="input"} : f32[4]
    %b = quantize(%a, %s) {block=[0], dtype=f8e5m2} : f8e5m2[4]
    %c = dequantize(%b, %s) {block=[0], dtype=f32, role="gradient"} : f32[4]
    %d = add(%c, %y) : f32[4]
    yield %d, %y
  }
  return %all
}"""


@pytest.mark.parametrize("reverse", [False, True])
def test_a_tensor_in_a_loop_has_the_figures_of_its_worst_iteration(reverse: bool) -> None:
    xs = F32([[1, 2, 4, 8], [1, 1e-9, 3e-9, 2], [2, 2, 2, 1]])
    found = explained(LOOP.replace("=R", f"={str(reverse).lower()}"), xs, F32([1]), np.zeros(4, F32))
    assert len(found) == 2 and found["input"].iteration == (1,)
    assert (found["input"].flushed, found["input"].amax) == (0.5, 2) and found["input"].type.shape == (4,)
    assert "of the step, iteration 1: 50.0% flushed to zero" in found.summary
    carried = [np.zeros(4), xs[2], xs[2] + xs[1]] if reverse else [np.zeros(4), xs[0], xs[0] + xs[1]]
    assert found["gradient"].amax in [np.abs(value).max() for value in carried], "the value at the beginning"


def test_loops_in_branches_and_in_loops() -> None:
    inner = """%last, %all = scan(%start, %xs) {carries=1, length=2} : f32[2], f32[2,2] region(%a: f32[2], %x: f32[2]) {
    %q = quantize(%x, %s) {block=[0], dtype=f8e5m2} : f8e5m2[2]
    %y = dequantize(%q, %s) {block=[0], dtype=f32, role="input"} : f32[2]
    yield %y, %y
  }"""
    head = "graph @g(%c: bool[], %xs: f32[2,2], %s: f32[1], %start: f32[2], %many: f32[3,2]) {\n"
    outer = "scan(%start, %many) {carries=1, length=3} : f32[2] region(%b: f32[2], %m: f32[2])"
    branch, loop = (
        f"{head}  %r = {begin} {{\n  {inner}\n    yield %last\n  }}{other}\n  return %r\n}}"
        for begin, other in (("cond(%c) : f32[2] region", " region {\n    yield %start\n  }"), (outer, ""))
    )
    arrays = F32([[1, 2], [1, 1e-9]]), F32([1]), np.zeros(2, F32), np.ones((3, 2), F32)
    (found,) = explained(branch, np.array(True), *arrays)
    assert found.iteration == (1,) and found.flushed == 0.5
    assert not explained(branch, np.array(False), *arrays)
    (found,) = explained(loop, np.array(True), *arrays)
    assert found.iteration == (0, 1) and found.flushed == 0.5


def test_what_is_not_measured_is_said() -> None:
    def halved(x: Any) -> Any:
        return ops.while_loop(lambda x: x.max() > 1, lambda x: layer(x) / 4, x)

    layer = amp.auto_mixed_precision(nn.Dense(4, 4, "ones"), amp.CurrentScaling())
    step = graphls.compile(halved, np.ones((2, 4), F32))
    found = step.explain_precision(np.ones((2, 4), F32))
    assert step.rounds_tensors and len(found) == 0
    (note,) = found.notes
    assert note.startswith("Not measured: 2 tensors of ")
    assert note.endswith("in a loop whose length is not there before.")
    assert found.summary == "No tensor was measured in this run." and note in str(found) and note in found._repr_html_()


def test_recurrent_layers_are_measured_in_their_loops() -> None:
    class Last(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.rnn, self.head = nn.LSTM(24, 8, batch_first=True), nn.Dense(8, 5)

        def construct(self, x: Any) -> Any:
            return self.head(self.rnn(x)[0][:, -1])

    net = amp.auto_mixed_precision(Last(), amp.CurrentScaling())
    loss = nn.WithLossCell(net, nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean"))
    x = np.stack([X] * 6, 1)
    step = graphls.compile(nn.TrainOneStepCell(loss, nn.SGD(net.trainable_params(), 0.1)).set_train(), x, LABELS)
    found = step.explain_precision(x, LABELS)
    inside = [t for t in found if t.iteration]
    assert {t.role for t in inside} >= {"input", "gradient"} and not found.missed
    assert all(len(t.iteration) == 1 and t.iteration[0] < 6 for t in inside)


def test_inputs_of_gradients_of_weights_are_no_gradients() -> None:
    """They are transformed in the backward, and are inputs all the same."""
    found = training(RECIPES["nvfp4"]).explain_precision(X, LABELS)
    largest = {t.products: t.amax for t in found if t.cell.endswith("fc1") and t.role == "input"}
    assert set(largest) == {("forward",), ("weight_gradient",)} and max(largest.values()) < 20
    row = next(line for line in str(found).splitlines() if "fc1" in line and "input for weight_gradient" in line)
    assert "float4_e2m1fn" in row


def test_a_recipe_of_casts_is_measured() -> None:
    from dataclasses import dataclass

    @dataclass(frozen=True)
    class Clipped(amp.Form):
        def rounded(self, e: Any, x: Any, more: Any) -> Any:
            return e.cast(e.cast(x, dtype=graphls.float8_e4m3fn), dtype=x.dtype)

    class Casts(amp.Recipe):
        def form(self, role: str, product: str, kind: Any, axes: tuple[int, ...]) -> amp.Form:
            return Clipped()

    found = training(Casts()).explain_precision(X, LABELS)
    assert len(found) == 9 and all(t.scales == (1, 1) for t in found)
    assert max(t.amax for t in found) == np.abs(X).max()


def test_unbiased_noise_is_usual_for_stochastic_rounding() -> None:
    """Of small numbers beside large ones most become 0, and the mean is what they were."""
    text = """graph @g(%x: f32[64,16], %s: f32[64,1], %u: f32[64,16], %inverse: f32[64,1]) {
  %y = mul(%x, %s) : f32[64,16]
  %q = round_stochastically(%y, %u) {dtype=f4e2m1fn} : f4e2m1fn[64,16]
  %z = dequantize(%q, %inverse) {block=[1, 16], dtype=f32, role="gradient"} : f32[64,16]
  return %z
}"""
    random = np.random.default_rng(4)
    x = (random.standard_normal((64, 16)) ** 5).astype(F32)
    scale = 6 / np.abs(x).max(1, keepdims=True)
    uniform = random.random(x.shape).astype(F32) - F32(0.5)
    (found,) = explained(text, x, scale, uniform, 1 / scale)
    assert found.flushed > 0.5 and found.element_sqnr == math.inf and not found.is_poor
    assert found.sqnr > found.usual[0]
    inverse = np.where(np.arange(64)[:, None] % 2, 1 / scale, 0).astype(F32)
    scale = np.where(inverse, scale, np.finfo(F32).max).astype(F32)
    (found,) = explained(text, x, scale, uniform, inverse)
    assert found.element_sqnr == pytest.approx(10 * math.log10(2)), "blocks with a scale of 0 are lost"
    assert found.is_poor and found.flushed > 0.7 and found.saturated == 0 and found.amax == np.abs(x).max()
    scale = np.full((64, 1), 60 / np.abs(x).max(), F32)
    (found,) = explained(text, x, scale, uniform, 1 / scale)
    assert found.saturated > 0 and found.is_poor


@pytest.mark.parametrize("name", ["current", "nvfp4"])
def test_a_tensor_of_parts_of_a_batch_is_one_row_of_its_worst_run(name: str) -> None:
    def step(parts: int, x: Any) -> Any:
        graphls.set_seed(3)
        network = Network()
        network.to_float(RECIPES[name])
        loss: Any = nn.WithLossCell(network, nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean"))
        loss = nn.GradAccumulationCell(loss, parts) if parts > 1 else loss
        cell = nn.TrainOneStepCell(loss, nn.SGD(network.trainable_params(), 0.1))
        return graphls.compile(cell.set_train(False), x, LABELS[: len(x)], engine="numpy")

    x = planted()
    found, whole = step(4, x).explain_precision(x, LABELS), step(1, x).explain_precision(x, LABELS)
    assert len(found) == len(whole)
    assert {(t.role, t.runs) for t in found} == {("input", 4), ("weight", 1), ("gradient", 4)}
    read = next(t for t in found if t.cell.endswith("fc1") and t.role == "input" and "forward" in t.products)
    assert (read.run, read.runs, read.amax) == (1, 4, 3e5), "the outlier is in the first four rows"
    assert read.place.endswith(", run 1 of 4") and read.type.shape == (4, 24)
    part = x[:4]
    alone = step(1, part).explain_precision(part, LABELS[:4])
    same = next(t for t in alone if t.cell.endswith("fc1") and t.role == "input" and "forward" in t.products)
    assert (read.flushed, read.element_sqnr) == pytest.approx((same.flushed, same.element_sqnr))


def test_a_layer_that_runs_twice_is_one_row_and_two_operands_are_two() -> None:
    class Twice(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Dense(24, 24)

        def construct(self, x: Any) -> Any:
            for _ in range(2):
                x = self.fc(x)
            return x

    net = amp.auto_mixed_precision(Twice(), RECIPES["current"])
    found = graphls.compile(net, X, engine="numpy").explain_precision(X)
    assert [(t.role, t.runs) for t in sorted(found, key=lambda t: t.role)] == [("input", 2), ("weight", 1)]
    attend = amp.auto_mixed_precision(nn.MultiheadAttention(24, 2), amp.CurrentScaling(attention=True))
    x = X[None]
    found = graphls.compile(attend, x, x, x, engine="numpy").explain_precision(x, x, x)
    assert all(t.runs == 1 for t in found) and len({t.name for t in found}) == len(found)


def test_loss_scales_and_random_roundings() -> None:
    """The random numbers of a probe wait for nothing, as a plan draws them first."""
    network = Network()
    amp.auto_mixed_precision(network, "O3")
    network.to_float(RECIPES["nvfp4"])
    loss = nn.WithLossCell(network, nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean"))
    scale = nn.DynamicLossScaleUpdateCell(2**10, 2, 100)
    cell = nn.TrainOneStepWithLossScaleCell(loss, nn.SGD(network.trainable_params(), 0.1), scale).set_train()
    found = graphls.compile(cell, X, LABELS, engine="numpy").explain_precision(X, LABELS)
    assert {t.role for t in found} == {"input", "weight", "gradient"} and not any(t.is_poor for t in found)


@pytest.mark.parametrize("name", RECIPES)
def test_scales_of_zeros_are_no_alarm(name: str) -> None:
    """The quotient by their maximum is infinite, and the scale, the least of that and the largest float32, is not."""
    x = X.copy()
    x[:, :16] = 0
    step = training(RECIPES[name], engine="numpy")
    step.parameters["fc2.weight"].set_data(graphls.tensor(np.zeros((32, 32), F32)))
    recorded = step.record(x, LABELS)
    assert recorded.not_finite == () and "All of them are finite" in recorded.summary
    assert step.explain_overflow(x, LABELS).unseen is None
    x[0, 0] = np.inf
    assert step.record(x, LABELS).not_finite
