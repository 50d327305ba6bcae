"""Metrics against scikit-learn and the numbers of MindSpore's documentation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn import metrics as reference

import graphls
from graphls.train import metrics
from graphls.train.metrics import Metric

RANDOM = np.random.default_rng(5)
BATCHES = [(RANDOM.random((n, 4)), RANDOM.integers(0, 4, n)) for n in (7, 5, 30)]
SCORES = np.concatenate([scores for scores, _ in BATCHES])
LABELS = np.concatenate([labels for _, labels in BATCHES])
BEST = SCORES.argmax(1)


def evaluated(metric: Metric, batches: Any = BATCHES, **options: Any) -> Any:
    metric.clear()
    for batch in batches:
        metric.update(*(graphls.Tensor(a) for a in batch))
    return metric.eval(**options)


def one_hot(batches: Any) -> Any:
    return [(scores, np.eye(4, dtype=np.float32)[labels]) for scores, labels in batches]


@pytest.mark.parametrize("batches", [BATCHES, one_hot(BATCHES)], ids=["numbers", "one-hot"])
def test_classification(batches: Any) -> None:
    assert evaluated(metrics.Accuracy(), batches) == reference.accuracy_score(LABELS, BEST)
    for metric, score in (
        (metrics.Precision(), reference.precision_score),
        (metrics.Recall(), reference.recall_score),
        (metrics.F1(), reference.f1_score),
    ):
        np.testing.assert_allclose(evaluated(metric, batches), score(LABELS, BEST, average=None))
        np.testing.assert_allclose(evaluated(metric, batches, average=True), score(LABELS, BEST, average="macro"))
    expected = reference.fbeta_score(LABELS, BEST, beta=2, average=None)
    np.testing.assert_allclose(evaluated(metrics.Fbeta(2), batches), expected)
    for k in (1, 2, 3):
        found = evaluated(metrics.TopKCategoricalAccuracy(k), batches)
        assert found == reference.top_k_accuracy_score(LABELS, SCORES, k=k)


def test_top_one_and_five() -> None:
    scores = RANDOM.random((20, 9))
    labels = RANDOM.integers(0, 9, 20)
    for metric, k in ((metrics.Top1CategoricalAccuracy(), 1), (metrics.Top5CategoricalAccuracy(), 5)):
        expected = reference.top_k_accuracy_score(labels, scores, k=k, labels=range(9))
        assert evaluated(metric, [(scores, labels)]) == expected


def test_accuracy_over_images() -> None:
    scores, labels = RANDOM.random((2, 3, 4, 5)), RANDOM.integers(0, 3, (2, 4, 5))
    assert evaluated(metrics.Accuracy(), [(scores, labels)]) == (scores.argmax(1) == labels).mean()


def test_a_class_that_is_never_predicted_has_no_precision() -> None:
    scores, labels = np.array([[0.9, 0.1, 0.0]] * 2), np.array([0, 1])
    np.testing.assert_allclose(evaluated(metrics.Precision(), [(scores, labels)]), [0.5, 0, 0])
    np.testing.assert_allclose(evaluated(metrics.Recall(), [(scores, labels)]), [1, 0, 0])


def test_several_labels() -> None:
    predicted, labels = RANDOM.integers(0, 2, (2, 6, 5))
    batches = [(predicted[:2], labels[:2]), (predicted[2:], labels[2:])]
    assert evaluated(metrics.Accuracy("multilabel"), batches) == reference.accuracy_score(labels, predicted)
    for metric, score in (
        (metrics.Precision("multilabel"), reference.precision_score),
        (metrics.Recall("multilabel"), reference.recall_score),
    ):
        expected = score(labels, predicted, average="samples", zero_division=0)
        np.testing.assert_allclose(evaluated(metric, batches, average=True), expected)
        assert evaluated(metric, batches).shape == (6,)


def test_errors() -> None:
    x, y = RANDOM.normal(size=(2, 6, 3))
    assert evaluated(metrics.MAE(), [(x, y)]) == pytest.approx(3 * reference.mean_absolute_error(y, x))
    assert evaluated(metrics.MSE(), [(x[:4], y[:4]), (x[4:], y[4:])]) == pytest.approx(
        3 * reference.mean_squared_error(y, x)
    )
    small, large = np.array([[1], [0]], np.uint8), np.array([[3], [5]], np.uint8)
    assert evaluated(metrics.MAE(), [(large, small)]) == 3.5


def test_losses_are_averaged_over_batches() -> None:
    assert evaluated(metrics.Loss(), [(np.float32(1),), (np.array([2.0, 4.0]),)]) == 2.0


def test_perplexity() -> None:
    probabilities = np.array([[0.2, 0.5], [0.3, 0.1], [0.9, 0.6]])
    labels = np.array([1, 0, 1])
    assert evaluated(metrics.Perplexity(), [(probabilities, labels)]) == pytest.approx(2.231443166940565)
    p = SCORES / SCORES.sum(1, keepdims=True)
    found = evaluated(metrics.Perplexity(), [(p[:9], LABELS[:9]), (p[9:], LABELS[9:])])
    assert found == pytest.approx(np.exp(reference.log_loss(LABELS, p)))
    kept = LABELS != 2
    expected = np.exp(reference.log_loss(LABELS[kept], p[kept], labels=range(4)))
    assert evaluated(metrics.Perplexity(2), [(p, LABELS)]) == pytest.approx(expected)


def test_dice() -> None:
    x, y = np.array([[0.2, 0.5], [0.3, 0.1], [0.9, 0.6]]), np.array([[0, 1], [1, 0], [0, 1]])
    assert evaluated(metrics.Dice(), [(x, y)]) == pytest.approx(0.20467791371802546)


@pytest.mark.parametrize("normalize", ["no_norm", "target", "prediction", "all"])
def test_confusion_matrix(normalize: str) -> None:
    kind = {"no_norm": None, "target": "true", "prediction": "pred", "all": "all"}[normalize]
    expected = reference.confusion_matrix(LABELS, BEST, normalize=kind, labels=range(5))
    np.testing.assert_allclose(evaluated(metrics.ConfusionMatrix(5, normalize)), expected)


def test_confusion_matrix_of_two_classes() -> None:
    scores, labels = RANDOM.random(50), RANDOM.integers(0, 2, 50)
    expected = reference.confusion_matrix(labels, scores >= 0.3)
    np.testing.assert_array_equal(evaluated(metrics.ConfusionMatrix(2, threshold=0.3), [(scores, labels)]), expected)
    np.testing.assert_array_equal(
        evaluated(metrics.ConfusionMatrix(2), [(np.array([1, 0, 1, 0]), np.array([1, 0, 0, 1]))]), [[1, 1], [1, 1]]
    )


def test_the_curve_of_two_classes() -> None:
    scores, labels = RANDOM.integers(0, 9, 60) / 9, RANDOM.integers(0, 2, 60)
    false, true, thresholds = evaluated(metrics.ROC(), [(scores[:20], labels[:20]), (scores[20:], labels[20:])])
    expected = reference.roc_curve(labels, scores, drop_intermediate=False)
    np.testing.assert_allclose(false, expected[0])
    np.testing.assert_allclose(true, expected[1])
    np.testing.assert_allclose(thresholds[1:], expected[2][1:])
    assert thresholds[0] == thresholds[1] + 1
    assert metrics.auc(false, true) == pytest.approx(reference.roc_auc_score(labels, scores))
    np.testing.assert_allclose(evaluated(metrics.ROC(pos_label=7), [(scores, labels * 7)])[1], expected[1])


def test_the_curves_of_several_classes() -> None:
    false, true, thresholds = evaluated(metrics.ROC(class_num=4))
    assert len(thresholds) == 4
    for c in range(4):
        positive = np.equal(LABELS, c)
        expected = reference.roc_curve(positive, SCORES[:, c], drop_intermediate=False)
        np.testing.assert_allclose(false[c], expected[0])
        np.testing.assert_allclose(true[c], expected[1])


def test_the_area_under_a_curve() -> None:
    assert metrics.auc([0, 1, 2], [1, 1, 3]) == 3
    assert metrics.auc([2, 1, 0], [3, 1, 1]) == 3
    assert metrics.auc([1, 0, 2], [1, 1, 3], reorder=True) == 3


def test_indexes_choose_outputs() -> None:
    metric = metrics.Accuracy().set_indexes([2, 0])
    metric.update(np.array([1, 0]), "not looked at", np.array([[0.1, 0.9], [0.2, 0.8]]))
    assert metric.eval() == 0.5
    assert metric.indexes == [2, 0]


class Largest(Metric):
    """A metric of a user's own."""

    inputs = ("x",)

    def clear(self) -> None:
        self.largest = -np.inf

    @metrics.rearrange_inputs
    def update(self, *inputs: Any) -> None:
        self.largest = max(self.largest, inputs[0].asnumpy().max())

    def eval(self) -> Any:
        return self.largest


def test_a_metric_of_a_users_own() -> None:
    assert evaluated(Largest(), [(np.array([1.0, 5.0]),), (np.array([3.0]),)]) == 5.0
    assert evaluated(Largest().set_indexes([1]), [(np.array([9.0]), np.array([3.0]))]) == 3.0


def test_metrics_by_name() -> None:
    found = metrics.get_metrics({"acc", "loss", "F1"})
    assert {name: type(m) for name, m in found.items()} == {
        "acc": metrics.Accuracy, "loss": metrics.Loss, "F1": metrics.F1
    }  # fmt: skip
    own = {"best": Largest()}
    assert metrics.get_metrics(own) == own
    assert metrics.get_metrics(None) == {}
    assert metrics.get_metric_fn("topk", 3).k == 3
    assert metrics.get_metric_fn("confusion_matrix", num_classes=3).eval is not None
    assert {"accuracy", "mae", "mse", "precision", "recall", "top_1_accuracy", "perplexity"} <= set(metrics.names())


CLEAR: Any = [
    metrics.Accuracy(), metrics.Precision(), metrics.Recall(), metrics.F1(), metrics.TopKCategoricalAccuracy(2),
    metrics.MAE(), metrics.MSE(), metrics.Loss(), metrics.Perplexity(), metrics.Dice(), metrics.ConfusionMatrix(3),
    metrics.ROC(),
]  # fmt: skip


@pytest.mark.parametrize("metric", CLEAR, ids=lambda m: type(m).__name__)
def test_nothing_to_evaluate(metric: Metric) -> None:
    with pytest.raises(RuntimeError) as caught:
        metric.eval()
    assert isinstance(caught.value, graphls.GraphlsError) and caught.value.location is not None
    with pytest.raises(ValueError, match=r"needs \d inputs"):
        metric.update()
    with pytest.raises(TypeError, match="tensors, lists and arrays"):
        metric.update(*[3] * len(metric.inputs))


def updated(metric: Metric, *inputs: Any) -> None:
    for values in inputs:
        metric.update(*values)


TWO, THREE = np.ones((4, 2)), np.ones((4, 3))
ONES = np.ones(4, np.int64)
WRONG: Any = [
    (lambda: metrics.Accuracy("other"), TypeError, "'eval_type' must be in"),
    (lambda: updated(metrics.Accuracy(), (TWO, TWO)), ValueError, "dims of y_pred equal dims of y add 1"),
    (lambda: updated(metrics.Accuracy(), (TWO, ONES[:3])), ValueError, "can not match"),
    (lambda: updated(metrics.Accuracy(), (TWO, ONES), (THREE, ONES)), ValueError, "Class number not match"),
    (lambda: updated(metrics.Accuracy("multilabel"), (TWO, THREE)), ValueError, "shapes of y_pred and y are the same"),
    (lambda: updated(metrics.Accuracy("multilabel"), (TWO / 2, TWO)), ValueError, "must be 1 or 0"),
    (lambda: updated(metrics.Precision(), (TWO, 2 * ONES)), ValueError, "have 2 classes"),
    (lambda: metrics.Recall().eval(average=3), RuntimeError, "number of samples is 0"),
    (lambda: metrics.Fbeta("a"), TypeError, "beta"),
    (lambda: metrics.Fbeta(0), ValueError, "above 0"),
    (lambda: metrics.TopKCategoricalAccuracy(1.5), TypeError, "'k' must be int"),
    (lambda: metrics.TopKCategoricalAccuracy(0), ValueError, "at least 1"),
    (lambda: updated(metrics.TopKCategoricalAccuracy(1), (TWO, ONES[:2])), ValueError, "takes scores"),
    (lambda: updated(metrics.MAE(), (TWO, THREE)), ValueError, "as many elements"),
    (lambda: updated(metrics.Loss(), (TWO,)), ValueError, "dimension of loss must be 1"),
    (lambda: metrics.Perplexity(1.5), TypeError, "ignore_label"),
    (lambda: updated(metrics.Perplexity(), (TWO, TWO)), ValueError, "takes probabilities"),
    (lambda: updated(metrics.Perplexity(), (TWO, 2 * ONES)), ValueError, "label 2 is not below 2"),
    (lambda: metrics.Dice(0.0), ValueError, "above 0"),
    (lambda: updated(metrics.Dice(), (TWO, THREE)), ValueError, "one shape"),
    (lambda: metrics.ConfusionMatrix(0), TypeError, "num_classes"),
    (lambda: metrics.ConfusionMatrix(2, "rows"), ValueError, "normalize"),
    (lambda: metrics.ConfusionMatrix(2, threshold=1), TypeError, "threshold"),
    (lambda: updated(metrics.ConfusionMatrix(2), (THREE, 2 * ONES)), ValueError, "not below the 'num_classes'"),
    (lambda: updated(metrics.ConfusionMatrix(2), (ONES, TWO)), ValueError, "do not fit"),
    (lambda: metrics.ROC("a"), TypeError, "class_num"),
    (lambda: updated(metrics.ROC(3), (TWO, ONES)), ValueError, "of 3 classes"),
    (lambda: updated(metrics.ROC(3, 1), (THREE, ONES)), ValueError, "pos_label"),
    (lambda: updated(metrics.ROC(), (TWO, ONES)), ValueError, "do not fit"),
    (lambda: evaluated(metrics.ROC(), [(ONES / 2, ONES)]), ValueError, "No negative samples"),
    (lambda: metrics.auc([1, 2], [1]), ValueError, "two rows"),
    (lambda: metrics.auc(1, 2), TypeError, "arrays or lists"),
    (lambda: metrics.auc([1, 0, 2], [1, 1, 3]), ValueError, "Reordering is not turned on"),
    (lambda: metrics.Accuracy().set_indexes((1,)), ValueError, "should be a list and all its elements should be int"),
    (lambda: metrics.get_metric_fn("acuracy"), KeyError, "did you mean 'accuracy'"),
    (lambda: metrics.get_metrics({"a": 3}), TypeError, "names with metrics"),
    (lambda: metrics.get_metrics(3), TypeError, "must be a dict"),
]


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_wrong_uses(number: int) -> None:
    use, error, message = WRONG[number]
    with pytest.raises(error, match=message) as caught:
        use()
    assert isinstance(caught.value, graphls.GraphlsError)
    assert caught.value.location is not None and caught.value.location.file.endswith("test_metrics.py")


def test_numbers_are_those_of_python() -> None:
    """They print as 0.98, not as np.float64(0.98)."""
    accuracies = (metrics.Accuracy(), metrics.Top1CategoricalAccuracy(), metrics.TopKCategoricalAccuracy(2))
    errors = (metrics.MAE(), metrics.MSE(), metrics.Dice())
    found = [evaluated(metric) for metric in accuracies]
    found += [evaluated(metric, average=True) for metric in (metrics.Precision(), metrics.Recall(), metrics.F1())]
    found += [evaluated(metric, [(SCORES, SCORES / 2)]) for metric in errors]
    found += [evaluated(metrics.Loss(), [(SCORES[0],)]), evaluated(metrics.Perplexity()), metrics.auc([0, 1], [0, 1])]
    assert {type(number) for number in found} == {float}
