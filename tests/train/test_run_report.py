"""A page that grows with a run."""

from __future__ import annotations

import json
import math
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import nn
from graphls.base.text.charts import MOST_POINTS, Axis, Line, chart, downsampled
from graphls.dataset import NumpySlicesDataset
from graphls.train import CheckpointConfig, Model, ModelCheckpoint, RunReport
from graphls.train.explanations import Schedule
from graphls.train.run_page import RunRecord, load_record


def batches() -> Any:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(24, 4)).astype(np.float32)
    return NumpySlicesDataset({"x": x, "y": x[:, :2] * 2}, shuffle=False).batch(4)


def model(level: str = "O0", scale: float = 2.0**17) -> Model:
    network = nn.Dense(4, 2)
    manager = graphls.amp.DynamicLossScaleManager(scale, 2, 10) if level == "O2" else None
    optimizer = nn.Momentum(network.trainable_params(), 0.05, 0.9)
    return Model(network, nn.MSELoss(), optimizer, {"loss"}, amp_level=level, loss_scale_manager=manager)


def sections(page: str) -> list[ElementTree.Element]:
    """The sections of a page, each well-formed."""
    texts = re.findall(r"<section.*?</section>", page.replace("<wbr>", ""), re.DOTALL)
    return [*map(ElementTree.fromstring, texts)]


def figures(page: str) -> list[str]:
    """What the charts say of themselves."""
    return [str(e.get("aria-label")) for section in sections(page) for e in section.iter("svg") if e.get("role")]


def figure(page: str, title: str) -> ElementTree.Element:
    """The chart of this title."""
    return next(section for section in sections(page) if section[0].text == title)[1]


def axis(chart: ElementTree.Element) -> list[float]:
    """The numbers of the axis upwards, the lowest first, each beside its line."""
    return [float(str(text.text)) for text in chart.iter("text") if text.get("x") == "-6"]


def test_a_model_is_reported(tmp_path: Path) -> None:
    report = RunReport(tmp_path / "run")
    model("O2", 2.0**32).fit(3, batches(), batches(), callbacks=[report], dataset_sink_mode=False)
    record = load_record(tmp_path / "run" / "run.json")
    steps = [step for step, _ in record.columns["loss"]]
    assert steps == list(range(1, 19)) and record.columns["learning_rate"][0] == (1, pytest.approx(0.05))
    scales = [value for _, value in record.columns["scale"]]
    assert record.skipped() == list(range(1, 1 + len(record.skipped()))) and scales[0] > scales[-1]
    assert [step for step, _ in record.evaluations["eval_loss"]] == [6, 12, 18]
    assert all(value > 0 for name in ("step_time", "waiting", "memory") for _, value in record.columns[name])
    page = (tmp_path / "run" / "index.html").read_text(encoding="utf-8")
    told = figures(page)
    assert [text.partition(":")[0] for text in told] == [
        "Loss", "Evaluation", "Evaluation", "Loss scale, skipped steps in red", "Learning rate", "Rows per second",
        "Time of a step", "Memory of the process",
    ]  # fmt: skip
    assert len(record.skipped()) > 9 and "http-equiv" not in page  # of 18 steps
    advice = f"begin with the loss scale {scales[-1]:.0f}, the power of two that held last"
    assert f"{len(record.skipped())} skipped because of an overflow ({advice})" in page
    assert "http://" not in page and "https://" not in page and "<script" not in page


def test_the_page_grows_with_the_run(tmp_path: Path) -> None:
    pages = []

    class Look(graphls.train.Callback):
        def on_train_step_end(self, run_context: Any) -> None:
            pages.append((tmp_path / "index.html").read_text(encoding="utf-8"))

    model().train(1, batches(), callbacks=[RunReport(tmp_path, refresh=0.0), Look()], dataset_sink_mode=False)
    assert ["1 step so far" in pages[0], "6 steps so far" in pages[-1]] == [True, True]
    assert 'http-equiv="refresh"' in pages[-1]
    assert "6 steps, the last loss" in (tmp_path / "index.html").read_text(encoding="utf-8")


def test_runs_beside_each_other(tmp_path: Path) -> None:
    for name in ("first", "second"):
        report = RunReport(tmp_path / name, compare=tmp_path / "first" if name == "second" else ())
        model().train(2, batches(), callbacks=[report], dataset_sink_mode=False)
    page = (tmp_path / "second" / "index.html").read_text(encoding="utf-8")
    assert f"loss of {tmp_path / 'first'}" in page and "stroke-dasharray" in page and "Dashed: " in page
    with pytest.raises(graphls.GraphlsError, match=r"run\.json cannot be read"):
        RunReport(tmp_path / "third", compare=[tmp_path / "none"])
    (tmp_path / "first" / "run.json").write_text('{"format": "graphls run 1"}')
    with pytest.raises(graphls.GraphlsError, match="is damaged: it is not a record of a run"):
        RunReport(tmp_path / "third", compare=[tmp_path / "first"])


def test_a_run_that_goes_on_keeps_what_was_before(tmp_path: Path) -> None:
    saving = ModelCheckpoint("c", str(tmp_path / "saved"), CheckpointConfig(save_checkpoint_steps=6))
    model().train(2, batches(), callbacks=[RunReport(tmp_path / "run"), saving], dataset_sink_mode=False)
    before = load_record(tmp_path / "run" / "run.json").columns["loss"]
    resumed = model()
    resumed.train(3, batches(), callbacks=[RunReport(tmp_path / "run")], dataset_sink_mode=False, initial_epoch=1)
    after = load_record(tmp_path / "run" / "run.json").columns["loss"]
    assert after[:6] == before[:6] and [step for step, _ in after] == list(range(1, 19))


def test_a_notebook_shows_the_charts(tmp_path: Path) -> None:
    report = RunReport(tmp_path / "run", title="A & B")
    model("O2").fit(2, batches(), batches(), callbacks=[report])
    card, page = report._repr_html_(), (tmp_path / "run" / "index.html").read_text(encoding="utf-8")
    assert figures(card) == figures(page) and "A &amp; B: 12 steps, the last loss is" in card
    style = card.partition("<style>")[2].partition("</style>")[0]
    assert all(rule.startswith((".graphls-run ", ".run-key", ".run-number")) for rule in style.split("}")[:-1])
    assert all(f"{name}:" in card for name in re.findall(r"var\((--\w+)\)", card))
    assert repr(report) == f"RunReport({str(tmp_path / 'run')!r})"


def test_a_loop_of_ones_own(tmp_path: Path) -> None:
    report = RunReport(tmp_path, title="<mine> & yours")
    for i in range(5):
        report.add(loss=np.float32(1 / (i + 1)), gradient_norm=graphls.Tensor(2.0**i), scale=None)
    report.add(loss=math.nan, step=9)
    report.evaluated({"accuracy": 0.5})
    page = report.close().read_text(encoding="utf-8")
    assert "&lt;mine&gt; &amp; yours" in page and "9 steps, the last loss is nan" in page and "accuracy 0.5" in page
    again = load_record(tmp_path / "run.json")
    assert math.isnan(again.columns["loss"][-1][1]) and again.columns["gradient_norm"][-1] == (5, 16.0)
    assert again.evaluations == {"accuracy": [(9, 0.5)]}
    with pytest.raises(graphls.GraphlsError, match=r"RunReport takes down loss, learning_rate.*, not 'los'"):
        report.add(los=1)
    with pytest.raises(graphls.GraphlsError, match="shows what notebooks show as HTML, not int"):
        report.show("x", 3)  # type: ignore[arg-type]


def test_the_results_of_a_single_evaluation_are_numbers(tmp_path: Path) -> None:
    report = RunReport(tmp_path / "run")
    report.add(loss=2.0, step=7)
    report.evaluated({"accuracy": 0.98765, "<f1>": 0.5})
    page = report.close().read_text(encoding="utf-8")
    numbers = sections(page)[0]
    assert [" ".join(paragraph.itertext()) for paragraph in numbers.iter("p")] == [
        "0.5 <f1>, after step 7", "0.9877 accuracy, after step 7",
    ]  # fmt: skip
    assert numbers[0].text == "Evaluation" and not any(text.startswith("Evaluation") for text in figures(page))
    other = RunReport(tmp_path / "other", compare=tmp_path / "run")
    for accuracy in (0.25, 0.5):
        other.add(loss=1.0)
        other.evaluated({"accuracy": accuracy})
    drawn = [text for text in figures(other._repr_html_()) if text.startswith("Evaluation")]
    assert drawn[0].startswith("Evaluation: accuracy: accuracy from 0.25 to 0.5")


def test_axes_have_titles_and_end_where_their_numbers_must(tmp_path: Path) -> None:
    report = RunReport(tmp_path)
    for step in range(1, 5):
        report.add(loss=5 - step, learning_rate=0.1, scale=2.0**step, gradient_norm=step, step=step)
        report.evaluated({"top_1_accuracy": step / 10, "recall": 0.3, "loss": 7.0 + step})
    page = report.close().read_text(encoding="utf-8")
    titles = {"Loss": "loss", "Learning rate": "learning rate", "Norm of the gradients": "norm",
              "Loss scale, skipped steps in red": "loss scale", "Time of a step": "milliseconds",
              "Memory of the process": "MiB", "Evaluation: recall, top_1_accuracy": "share",
              "Evaluation: loss": "loss"}  # fmt: skip
    for title, name in titles.items():
        assert {name, "step"} <= {str(text.text) for text in figure(page, title).iter("text")}
        steps = [str(text.text) for text in figure(page, title).iter("text") if text.get("text-anchor") == "middle"]
        assert steps == ["1", "2", "3", "4"], "steps are whole"
    ends = {title: (axis(figure(page, title))[0], axis(figure(page, title))[-1]) for title in titles}
    assert ends["Evaluation: recall, top_1_accuracy"][1] == 1 and ends["Evaluation: loss"] == (7.0 + 1, 7.0 + 4)
    assert ends["Memory of the process"][0] == ends["Time of a step"][0] == ends["Learning rate"][0] == 0


def test_what_notebooks_show_is_part_of_the_page(tmp_path: Path) -> None:
    network = nn.Dense(4, 2).to_float(graphls.float16)
    loss = nn.WithLossCell(network, nn.MSELoss())
    cell = nn.TrainOneStepWithLossScaleCell(loss, nn.SGD(network.trainable_params()), graphls.Tensor(2.0**10))
    x, y = np.ones((3, 4), np.float32), np.full((3, 2), 1e-3, np.float32)
    step = graphls.compile(cell.set_train(), x, y)
    report = RunReport(tmp_path)
    report.show("Ranges", step.gradient_ranges(x, y))
    profile = step.profile(x, y, steps=1)
    report.show("Times", profile.plot(), profile)
    page = report.close().read_text(encoding="utf-8")
    assert any(text.startswith("Magnitudes of gradients") for text in figures(page))
    assert any(text.startswith("Milliseconds per step by phase: forward ") for text in figures(page))


def test_ranges_are_drawn_against_windows() -> None:
    network = nn.Dense(4, 2).to_float(graphls.float16)
    loss = nn.WithLossCell(network, nn.MSELoss())
    cell = nn.TrainOneStepWithLossScaleCell(loss, nn.SGD(network.trainable_params()), graphls.Tensor(2.0**30))
    x, y = np.ones((3, 4), np.float32), np.ones((3, 2), np.float32)
    text = graphls.compile(cell.set_train(), x, y).gradient_ranges(x, y).plot()
    tree = ElementTree.fromstring(text)
    titles = [str(title.text) for title in tree.iter("title")]
    assert any("weight: float16" in title and "not finite" in title for title in titles)
    assert {"float16", "subnormal"} <= {str(found.text) for found in tree.iter("text")}


def test_charts_keep_outliers_and_leave_out_what_is_not_finite() -> None:
    points = [(float(i), 1.0) for i in range(10_000)]
    points[1234] = (1234.0, 99.0)
    kept = downsampled(points)
    assert (1234.0, 99.0) in kept and len(kept) <= MOST_POINTS + 2 and kept == sorted(kept)
    assert chart("t", [Line("x", [(1, math.nan), (2, math.inf)], "red")]) == ""
    assert chart("t", [Line("x", [(1, -1.0)], "red")], is_log=True) == ""
    ElementTree.fromstring(chart("t", [Line("<&>", [(1, 1e300), (2, -1e300)], "red")]))
    ElementTree.fromstring(chart("t", [Line("one", [(1, 5.0)], "red")]))


@pytest.mark.parametrize(("low", "high"), [(0, 1), (-3, 1e-9), (5, 5), (1e-30, 2e-30), (-7e8, 3e9)])
def test_axes_have_few_round_numbers(low: float, high: float) -> None:
    ticks = Axis(low, high, 0, 100).ticks()
    assert 1 <= len(ticks) <= 7 and all(low - 1e-6 * abs(low) <= tick <= high + 1e-6 * abs(high) for tick in ticks)


@pytest.mark.parametrize(
    ("values", "labels"),
    [
        ((1000, 2500), ["1k", "1.5k", "2k", "2.5k", "3k"]),
        ((2000, 120_000), ["3k", "10k", "30k", "100k"]),
        ((1e-4, 3.1e-2), ["0.0001", "0.0003", "0.001", "0.003", "0.01", "0.03"]),
        ((100, 9.9e6), ["100", "1k", "10k", "100k", "1M", "10M"]),
        ((2.0**14, 2.0**17), ["2^14", "2^15", "2^16", "2^17"]),
        ((3 * 2.0**14, 2.0**17), ["60k", "80k", "100k", "120k", "140k"]),
    ],
)  # fmt: skip
def test_logarithmic_axes_have_powers_of_two_for_these_alone(values: tuple[float, float], labels: list[str]) -> None:
    tree = ElementTree.fromstring(chart("t", [Line("x", [*enumerate(values)], "red")], is_log=True))
    *up, _ = [text.text for text in tree.iter("text") if text.get("text-anchor") == "end"]
    assert up == labels


def test_numbers_of_axes_differ_and_long_ones_are_short() -> None:
    def numbers(points: list[tuple[float, float]]) -> tuple[list[str], list[str]]:
        texts = list(ElementTree.fromstring(chart("t", [Line("x", points, "red")])).iter("text"))
        return tuple([str(t.text) for t in texts if t.get("text-anchor") == a] for a in ("end", "middle"))

    (*up, title), across = numbers([(0, 180.601), (250_000, 180.609)])
    assert title == "step" and up == ["180.602", "180.604", "180.606", "180.608"]
    assert across == ["0", "50k", "100k", "150k", "200k", "250k"]
    assert numbers([(1, 0.0), (2, 1.0)])[0] == ["0", "0.2", "0.4", "0.6", "0.8", "1", "step"]
    assert numbers([(1, -1.0), (2, 1.5)])[0][0] == "-1"


def test_the_record_of_a_run_is_plain_json(tmp_path: Path) -> None:
    record = RunRecord()
    record.add(1, {"loss": math.inf, "scale": 8.0})
    record.save(tmp_path / "run.json")
    table = json.loads((tmp_path / "run.json").read_text(), parse_constant=pytest.fail)
    assert table["columns"]["loss"] == [[1, "inf"]] and load_record(tmp_path / "run.json") == record


@pytest.mark.parametrize("sinks", [False, True])
def test_low_tensors_are_explained_over_the_run(tmp_path: Path, sinks: bool) -> None:
    network = nn.Dense(4, 2).to_float(graphls.amp.CurrentScaling())
    trained = Model(network, nn.MSELoss(), nn.Momentum(network.trainable_params(), 0.05, 0.9))
    report = RunReport(tmp_path, precision_every=4)
    trained.train(3, batches(), callbacks=[report], dataset_sink_mode=sinks)
    points = load_record(tmp_path / "run.json").precision
    assert set(points) == {f"{role} of network._backbone" for role in ("input", "weight", "gradient")}
    steps = [6, 12, 18] if sinks else [4, 8, 12, 16]
    assert all([step for step, _ in each] == steps for each in points.values())
    assert all(15 < ratio < 45 for each in points.values() for _, ratio in each)
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert any(text.startswith("Signal to quantization noise of the worst tensors") for text in figures(page))
    assert any(text.startswith("Magnitudes of tensors") for text in figures(page))
    assert page.count("<h2>Precision at step") == 1 and f"<h2>Precision at step {steps[-1]}</h2>" in page


def test_precision_can_be_left_out_and_costs_nothing_without_low_tensors(tmp_path: Path) -> None:
    network = nn.Dense(4, 2).to_float(graphls.amp.CurrentScaling())
    trained = Model(network, nn.MSELoss(), nn.Momentum(network.trainable_params(), 0.05, 0.9))
    for number, model_, every in ((0, trained, 0), (1, model(), 1)):
        report = RunReport(tmp_path / str(number), precision_every=every)
        model_.train(1, batches(), callbacks=[report], dataset_sink_mode=False)
        assert not report.record.precision and "Precision" not in report.close().read_text(encoding="utf-8")
    with pytest.raises(graphls.GraphlsError, match="precision_every"):
        RunReport(tmp_path, precision_every=-1)


def test_schedules_of_explanations() -> None:
    schedule = Schedule(3)
    assert [step for step in range(1, 9) if schedule.is_due(step)] == [3, 6]
    assert [step for step in range(1, 9) if schedule.is_due(step)] == [3, 6], "a run that begins again"
    assert [step for step in (8, 16, 17, 18) if schedule.is_due(step)] == [16, 18], "calls with many steps"
    assert not any(map(Schedule(0).is_due, range(9)))
