"""Metrics of translations, segmentations and images, against SciPy, scikit-learn and what MindSpore 2.10 gave."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import ndimage
from sklearn import metrics as reference

import graphls
from graphls import nn
from graphls.train import metrics
from graphls.train.metrics import Metric, surface_distances

RANDOM = np.random.default_rng(17)


def evaluated(metric: Metric, *batches: Any) -> Any:
    metric.clear()
    for batch in batches:
        metric.update(*batch)
    return metric.eval()


CANDIDATES = [["i", "have", "a", "pen", "on", "my", "desk"], ["the", "cat", "sat"]]
REFERENCES = [
    [["i", "have", "a", "pen", "in", "my", "desk"], ["there", "is", "a", "pen", "on", "the", "desk"]],
    [["a", "cat", "sat", "down"], ["the", "cat"]],
]
BLEU = {  # by n_gram: plain, smoothed
    1: (0.9048374180359595, 0.9048374180359595),
    2: (0.8463979022559271, 0.8530888988860718),
    3: (0.6869048312371109, 0.7219498460087843),
    4: (0.5203554029897463, 0.6074882844152915),
}


@pytest.mark.parametrize("n_gram", BLEU)
def test_bleu(n_gram: int) -> None:
    for smooth, expected in zip((False, True), BLEU[n_gram], strict=True):
        metric = metrics.BleuScore(n_gram, smooth)
        assert evaluated(metric, (CANDIDATES, REFERENCES)) == pytest.approx(expected)
        batches = [([c], [r]) for c, r in zip(CANDIDATES, REFERENCES, strict=True)]
        assert evaluated(metric, *batches) == pytest.approx(expected)


def test_bleu_without_a_right_n_gram() -> None:
    assert evaluated(metrics.BleuScore(), ([["x"]], [[["y"]]])) == 0.0
    assert evaluated(metrics.BleuScore(2, True), ([["x", "y"]], [[["y", "x"]]])) == 0.0
    assert evaluated(metrics.BleuScore(), ([], [])) == 0.0
    assert evaluated(metrics.BleuScore(), (CANDIDATES[:1], REFERENCES[:1])) == pytest.approx(0.5946035575013605)


PREDICTED, LABELS = RANDOM.integers(0, 2, (2, 40, 1, 1))
ANSWERS = PREDICTED.reshape(-1), LABELS.reshape(-1)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("sensitivity", reference.recall_score(*ANSWERS[::-1])),
        ("Specificity", reference.recall_score(*ANSWERS[::-1], pos_label=0)),
        ("precision", reference.precision_score(*ANSWERS[::-1])),
        ("negative predictive value", reference.precision_score(*ANSWERS[::-1], pos_label=0)),
        ("threat score", reference.jaccard_score(*ANSWERS[::-1])),
        ("accuracy", reference.accuracy_score(*ANSWERS[::-1])),
        ("balanced accuracy", reference.balanced_accuracy_score(*ANSWERS[::-1])),
        ("f1 score", reference.f1_score(*ANSWERS[::-1])),
        ("matthews correlation coefficient", reference.matthews_corrcoef(*ANSWERS[::-1])),
    ],
)
def test_measures_of_scikit_learn(name: str, expected: float) -> None:
    metric = metrics.ConfusionMatrixMetric(metric_name=name)
    found = evaluated(metric, (PREDICTED[:15], LABELS[:15]), (PREDICTED[15:], LABELS[15:]))
    np.testing.assert_allclose(found, [expected])


# Predictions and labels of two samples with three channels of six answers, and what MindSpore makes of them, counted
# together, and by channel and sample with "mean" and "sum".
SAMPLES = np.array([0b010110_111000_000000, 0b110001_000111_101010]), np.array(
    [0b110100_011000_000000, 0b111001_111000_101011]
)
FIRST, SECOND = ((number[:, None] >> np.arange(17, -1, -1) & 1).reshape(2, 3, 6) for number in SAMPLES)
MEASURES: dict[str, tuple[float, float, float]] = {
    "miss rate": (0.3333333333333333, 0.27777777777777773, 1.4047619047619047),
    "fall out": (0.21212121212121213, 0.2407407407407407, 1.25),
    "false discovery rate": (0.3333333333333333, 0.3333333333333333, 1.380952380952381),
    "false omission rate": (0.21212121212121213, 0.25925925925925924, 1.4444444444444442),
    "prevalence threshold": (0.3606449097327235, 0.3602934096799206, 1.4618326099921428),
    "threat score": (0.5, 0.5555555555555555, 2.2380952380952377),
    "ppv": (0.6666666666666666, 0.6666666666666666, 2.761904761904762),
    "ba": (0.7272727272727273, 0.7083333333333334, 2.7916666666666665),
    "f1": (0.6666666666666666, 0.6793650793650793, 2.691156462585034),
    "mcc": (0.45454545454545453, 0.3928371006591931, 1.3363069447863773),
    "fowlkes mallows index": (0.6666666666666666, 0.6868378389280062, 2.7203423958578763),
    "informedness": (0.4545454545454546, 0.4166666666666667, 1.4404761904761902),
    "markedness": (0.4545454545454546, 0.37037037037037024, 1.2380952380952377),
}


@pytest.mark.parametrize("name", MEASURES)
def test_measures_of_mindspore(name: str) -> None:
    batches = (FIRST, SECOND), (FIRST[:1], SECOND[:1])
    together, mean, total = MEASURES[name]
    np.testing.assert_allclose(evaluated(metrics.ConfusionMatrixMetric(True, name), *batches), [together])
    assert evaluated(metrics.ConfusionMatrixMetric(True, name, True), *batches) == pytest.approx(mean)
    assert evaluated(metrics.ConfusionMatrixMetric(True, name, True, "sum"), *batches) == pytest.approx(total)


def test_the_first_channel_is_left_out() -> None:
    found = evaluated(metrics.ConfusionMatrixMetric(False, "recall"), (FIRST, SECOND))
    np.testing.assert_allclose(found, (FIRST * SECOND)[:, 1:].sum() / SECOND[:, 1:].sum())


def test_decreases_that_leave_one_number() -> None:
    one = FIRST[:1, :1], SECOND[:1, :1]
    for decrease in ("none", "mean_batch", "sum_batch", "mean_channel", "sum_channel"):
        assert evaluated(metrics.ConfusionMatrixMetric(True, "acc", True, decrease), one) == pytest.approx(4 / 6)


def test_edges_and_distances_of_scipy() -> None:
    for shape in ((9,), (6, 8), (4, 5, 6)):
        region = RANDOM.random(shape) < 0.6
        np.testing.assert_array_equal(surface_distances.edges(region), ndimage.binary_erosion(region) ^ region)
        expected = ndimage.distance_transform_edt(~region)
        np.testing.assert_allclose(surface_distances.distances(region, "euclidean"), expected)
        for metric in ("chessboard", "taxicab"):
            expected = ndimage.distance_transform_cdt(~region, metric=metric)
            np.testing.assert_array_equal(surface_distances.distances(region, metric), expected)


IMAGE, TRUTH = np.zeros((2, 6, 7), int)
IMAGE[1:4, 2:6] = 1
TRUTH[2:6, 1:4] = 1
DISTANCES: Any = [
    (metrics.HausdorffDistance(), 2.23606797749979, 2.0),
    (metrics.HausdorffDistance("chessboard"), 2, 2),
    (metrics.HausdorffDistance("taxicab"), 3, 2),
    (metrics.HausdorffDistance(percentile=50.0), 1, 0),
    (metrics.HausdorffDistance(percentile=0.0), 2.23606797749979, 2.0),
    (metrics.HausdorffDistance(directed=True, crop=False), 2.23606797749979, 2.0),
    (metrics.MeanSurfaceDistance(), 1.1650281539872887, 0.3448275862068966),
    (metrics.MeanSurfaceDistance(True), 1.1650281539872887, 0.27241379310344827),
    (metrics.MeanSurfaceDistance(False, "chessboard"), 1.1, 0.3448275862068966),
    (metrics.MeanSurfaceDistance(True, "taxicab"), 1.3, 0.27241379310344827),
    (metrics.RootMeanSquareDistance(), 1.9, 0.4827586206896552),
    (metrics.RootMeanSquareDistance(True), 1.378404875209022, 0.6175591553404642),
    (metrics.RootMeanSquareDistance(False, "chessboard"), 1.7, 0.4827586206896552),
    (metrics.RootMeanSquareDistance(True, "taxicab"), 1.5811388300841898, 0.6175591553404642),
]


@pytest.mark.parametrize("number", range(len(DISTANCES)))
def test_distances_of_mindspore(number: int) -> None:
    metric, of_ones, of_zeros = DISTANCES[number]
    assert evaluated(metric, (graphls.Tensor(IMAGE), TRUTH.tolist(), 1)) == pytest.approx(of_ones)
    assert evaluated(metric, (IMAGE, IMAGE, 1), (IMAGE, TRUTH, 0.0)) == pytest.approx(of_zeros)
    assert evaluated(metric, (IMAGE, IMAGE, 1)) == 0.0
    assert evaluated(metric, (IMAGE, 0 * IMAGE, 1)) == evaluated(metric, (0 * IMAGE, IMAGE, 1)) == np.inf


def test_an_axis_that_is_cropped_away_has_no_surface() -> None:
    """The surface of a row is its ends; with the axis it is all of the row."""
    row, longer = np.zeros((2, 3, 12), int)
    row[1, :6] = longer[1, :11] = 1
    assert evaluated(metrics.HausdorffDistance(directed=True), (row, longer, 1)) == 5
    assert evaluated(metrics.HausdorffDistance(directed=True, crop=False), (row, longer, 1)) == 0


ROWS = np.array([[1, 3, 4, 7], [2, 4, 2, 5], [3, 1, 5, 8]])


def test_similarities() -> None:
    expected = [[0, 0.94025615, 0.95162452], [0.94025615, 0, 0.86146098], [0.95162452, 0.86146098, 0]]
    np.testing.assert_allclose(evaluated(metrics.CosineSimilarity(), (ROWS,)), expected, rtol=1e-7)
    for reduction, sums in (("sum", [139, 117, 142]), ("mean", [46.33333333, 39, 47.33333333])):
        np.testing.assert_allclose(evaluated(metrics.CosineSimilarity("dot", reduction), (ROWS,)), sums)
    found = evaluated(metrics.CosineSimilarity("cosine", "sum", False), (ROWS[:2],), (ROWS,))
    np.testing.assert_allclose(found, [2.89188067, 2.80171714, 2.8130855])
    assert np.isnan(evaluated(metrics.CosineSimilarity(), (0 * ROWS,))[0, 1])


class Network(nn.Cell):
    """Two weighted sums of an image."""

    def __init__(self, size: int) -> None:
        super().__init__()
        weights = np.stack([np.arange(size), np.arange(size)[::-1] ** 2], axis=1) / size
        self.weights = graphls.Tensor(weights.astype(np.float32))

    def construct(self, x: Any) -> Any:
        return graphls.ops.matmul(x.reshape(x.shape[0], -1), self.weights)


def occluded(shape: tuple[int, ...], label: Any = None, **settings: Any) -> Any:
    image = (np.arange(np.prod(shape)).reshape(shape) % 7 + 1).astype(np.float32)
    label = np.array(1) if label is None else label
    return evaluated(metrics.OcclusionSensitivity(**settings), (Network(image.size), image, label))


OCCLUDED: Any = [
    ((1, 4), {}, [4.25, 5, 5, 2.75]),
    ((1, 4), {"margin": 1}, [2.25, 4.25, 2.75, 0.75]),
    ((1, 4), {"margin": 0}, [0, 0, 0, 0]),
    ((1, 4), {"pad_val": 1.0, "n_batch": 3}, [1, 1.5, 1.5, 1.5]),
    (
        (1, 3, 4),
        {"margin": 1},
        [[10.083336, 26.75, 36.916664, 41.58333], [30.5, 65.16667, 69.50001, 57.5],
         [21.916664, 40.916664, 33.91667, 16.250008]],
    ),
    (
        (1, 1, 4, 5),
        {"margin": 1, "b_box": [0, 0, 1, 2, 0, 3]},
        [[76.850006, 168.40001, 142.1, 113.850006], [75.0, 150.15002, 97.05002, 46.600037]],
    ),
    ((1, 1, 4, 5), {"margin": 1, "b_box": [0, 0, 1, 3, 1, 1]}, [168.40001, 150.15002, 35.150024]),
    (
        (1, 1, 4, 5),
        {"margin": 1, "b_box": [0, 0, -1, -1, 1, 2]},
        [[50.44998, 75.75], [168.40001, 142.1], [150.15002, 97.05002], [35.150024, 32.850006]],
    ),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(OCCLUDED)))
def test_occlusion(number: int) -> None:
    shape, settings, expected = OCCLUDED[number]
    found = occluded(shape, **settings)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, rtol=1e-4)


def test_occlusion_of_one_layer_has_the_numbers_of_mindspore() -> None:
    """Measured with MindSpore 2.10 on a CPU."""
    weight, bias = np.float32([[0.1, 0.8, 0.1, 0.1], [1, 1, 1, 1]]), np.float32([0.3, 0.6])
    network = nn.Dense(4, 2, weight_init=graphls.Tensor(weight), bias_init=graphls.Tensor(bias))
    for label, expected in ((1, [0.3, 0.6, 1.0, 0.9]), (0, [0.17, 0.2, 0.24, 0.23])):
        inputs = network, np.float32([[0.1, 0.2, 0.3, 0.4]]), np.array(label, np.int32)
        np.testing.assert_allclose(evaluated(metrics.OcclusionSensitivity(), inputs), expected, rtol=1e-5)


def test_occlusion_with_a_margin_for_each_axis() -> None:
    np.testing.assert_array_equal(occluded((1, 3, 4), margin=[1, 1]), occluded((1, 3, 4), margin=1))
    np.testing.assert_array_equal(occluded((1, 4), np.array([0])), occluded((1, 4), np.array(-2)))


NAMES = {
    "bleu_score": metrics.BleuScore,
    "confusion_matrix_metric": metrics.ConfusionMatrixMetric,
    "cosine_similarity": metrics.CosineSimilarity,
    "hausdorff_distance": metrics.HausdorffDistance,
    "mean_surface_distance": metrics.MeanSurfaceDistance,
    "occlusion_sensitivity": metrics.OcclusionSensitivity,
    "root_mean_square_distance": metrics.RootMeanSquareDistance,
}


@pytest.mark.parametrize("name", NAMES)
def test_by_name_and_before_an_update(name: str) -> None:
    metric = metrics.get_metric_fn(name)
    assert type(metric) is NAMES[name]
    with pytest.raises(RuntimeError) as caught:
        metric.eval()
    assert isinstance(caught.value, graphls.GraphlsError)
    with pytest.raises(ValueError, match=r"needs \d inputs"):
        metric.update()


def test_numbers_are_those_of_python() -> None:
    found = [evaluated(metric, (IMAGE, TRUTH, 1)) for metric, *_ in DISTANCES]
    found += [evaluated(metrics.BleuScore(), (CANDIDATES, REFERENCES))]
    found += [evaluated(metrics.ConfusionMatrixMetric(True, "acc", True), (FIRST, SECOND))]
    assert {type(number) for number in found} == {float}


def counted(*inputs: Any, **settings: Any) -> Any:
    return evaluated(metrics.ConfusionMatrixMetric(**settings), inputs)


WRONG: Any = [
    (lambda: metrics.BleuScore(5), ValueError, "must be 1 to 4"),
    (lambda: metrics.BleuScore(1.0), TypeError, "'n_gram' must be int"),
    (lambda: metrics.BleuScore(True), TypeError, "'n_gram' must be int"),
    (lambda: metrics.BleuScore(1, 1), TypeError, "'smooth' must be bool"),
    (lambda: evaluated(metrics.BleuScore(), (CANDIDATES, REFERENCES[:1])), ValueError, "but got 2 and 1"),
    (lambda: evaluated(metrics.BleuScore(), ([["a"]], [[]])), ValueError, "needs a reference"),
    (lambda: evaluated(metrics.BleuScore(), (np.ones(3), np.ones(3))), TypeError, "as lists"),
    (lambda: metrics.ConfusionMatrixMetric(1), TypeError, "'skip_channel' must be bool"),
    (lambda: metrics.ConfusionMatrixMetric(metric_name=["tpr"]), TypeError, "'metric_name' must be str"),
    (lambda: metrics.ConfusionMatrixMetric(metric_name="recal"), ValueError, "did you mean 'recall'"),
    (lambda: metrics.ConfusionMatrixMetric(calculation_method=1), TypeError, "'calculation_method' must be bool"),
    (lambda: metrics.ConfusionMatrixMetric(decrease="max"), ValueError, "must be one of none, mean, sum"),
    (lambda: counted(FIRST, SECOND[:1]), ValueError, "of one shape"),
    (lambda: counted(FIRST[0, 0], SECOND[0, 0]), ValueError, r"are \(N, C, ...\)"),
    (lambda: counted(FIRST, SECOND + 0.5), ValueError, "zeros and ones"),
    (lambda: counted(FIRST[..., 0], SECOND[..., 0], calculation_method=True), ValueError, "must be False"),
    (lambda: counted(FIRST, SECOND, calculation_method=True, decrease="none"), ValueError, "'none' leaves 6"),
    (lambda: counted(0 * FIRST, 0 * FIRST, calculation_method=True), RuntimeError, "can not be calculated"),
    (lambda: metrics.HausdorffDistance("manhattan"), ValueError, "must be one of euclidean"),
    (lambda: metrics.HausdorffDistance(percentile=50), TypeError, "'percentile' must be float"),
    (lambda: metrics.HausdorffDistance(percentile=101.0), ValueError, "0 to 100"),
    (lambda: metrics.HausdorffDistance(crop=1), TypeError, "'crop' must be bool"),
    (lambda: metrics.MeanSurfaceDistance(1), TypeError, "'symmetric' must be bool"),
    (lambda: metrics.RootMeanSquareDistance(None), TypeError, "'symmetric' must be bool"),
    (lambda: evaluated(metrics.MeanSurfaceDistance(), (IMAGE, TRUTH, 2)), ValueError, "in neither image"),
    (lambda: evaluated(metrics.MeanSurfaceDistance(), (IMAGE, TRUTH[:3], 1)), ValueError, "one shape"),
    (lambda: evaluated(metrics.MeanSurfaceDistance(), (IMAGE, TRUTH, None)), TypeError, "int or float"),
    (lambda: evaluated(metrics.MeanSurfaceDistance(), (3, TRUTH, 1)), TypeError, "tensors, lists and arrays"),
    (lambda: metrics.CosineSimilarity("sine"), ValueError, "must be one of dot, cosine"),
    (lambda: metrics.CosineSimilarity(reduction="max"), ValueError, "must be one of none, sum, mean"),
    (lambda: metrics.CosineSimilarity(zero_diagonal=1), TypeError, "'zero_diagonal' must be bool"),
    (lambda: evaluated(metrics.CosineSimilarity(), (ROWS[0],)), ValueError, "takes a matrix"),
    (lambda: metrics.OcclusionSensitivity(pad_val=1), TypeError, "'pad_val' must be float"),
    (lambda: metrics.OcclusionSensitivity(margin=1.0), TypeError, "'margin' must be int"),
    (lambda: metrics.OcclusionSensitivity(n_batch=0), ValueError, "at least 1"),
    (lambda: metrics.OcclusionSensitivity(b_box=(0, 1)), TypeError, "'b_box' must be list"),
    (lambda: occluded((2, 4)), RuntimeError, "the image is one"),
    (lambda: occluded((1, 4), np.array([1, 0])), RuntimeError, "the label is one number"),
    (lambda: occluded((1, 4), np.array(0.5)), TypeError, "must be an integer"),
    (lambda: occluded((1, 4), np.array(5)), ValueError, "with the class 5"),
    (lambda: occluded((1, 4), 1), TypeError, "tensors, lists and arrays"),
    (lambda: occluded((1, 4), margin=[1, 1]), ValueError, "list of 1 ints"),
    (lambda: occluded((1, 3, 4), b_box=[0, 1]), ValueError, "for each of 2 axes"),
    (lambda: occluded((1, 3, 4), b_box=[0, 3, 0, 1]), ValueError, "must lie in the image"),
    (lambda: occluded((1, 3, 4), b_box=[2, 1, 0, 1]), ValueError, "first before last"),
    (lambda: metrics.OcclusionSensitivity().update(abs, ROWS[:1], np.array(1)), TypeError, "must be a Cell"),
]


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_wrong_uses(number: int) -> None:
    use, error, message = WRONG[number]
    with pytest.raises(error, match=message) as caught:
        use()
    assert isinstance(caught.value, graphls.GraphlsError)
    assert caught.value.location is not None and caught.value.location.file.endswith("test_more_metrics.py")
