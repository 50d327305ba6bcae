"""Metrics of an evaluation: accuracy, losses, precision, recall, errors, curves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from graphls.base.errors import GraphKeyError, GraphTypeError
from graphls.ir.registry import nearest
from graphls.train.metrics.classification import (
    F1,
    ROC,
    Accuracy,
    EvaluationBase,
    Fbeta,
    Precision,
    Recall,
    Top1CategoricalAccuracy,
    Top5CategoricalAccuracy,
    TopKCategoricalAccuracy,
    auc,
)
from graphls.train.metrics.confusion import ConfusionMatrix, ConfusionMatrixMetric
from graphls.train.metrics.error import MAE, MSE, Dice, Loss, Perplexity
from graphls.train.metrics.metric import Metric, rearrange_inputs
from graphls.train.metrics.occlusion import OcclusionSensitivity
from graphls.train.metrics.similarity import BleuScore, CosineSimilarity
from graphls.train.metrics.surface_distances import HausdorffDistance, MeanSurfaceDistance, RootMeanSquareDistance

__all__ = [
    "F1", "MAE", "MSE", "ROC", "Accuracy", "BleuScore", "ConfusionMatrix", "ConfusionMatrixMetric", "CosineSimilarity",
    "Dice", "EvaluationBase", "Fbeta", "HausdorffDistance", "Loss", "MeanSurfaceDistance", "Metric",
    "OcclusionSensitivity", "Perplexity", "Precision", "Recall", "RootMeanSquareDistance", "Top1CategoricalAccuracy",
    "Top5CategoricalAccuracy", "TopKCategoricalAccuracy", "auc", "get_metric_fn", "get_metrics", "names",
    "rearrange_inputs",
]  # fmt: skip

_METRICS: dict[str, Callable[..., Any]] = {
    "F1": F1,
    "acc": Accuracy,
    "accuracy": Accuracy,
    "auc": auc,
    "bleu_score": BleuScore,
    "confusion_matrix": ConfusionMatrix,
    "confusion_matrix_metric": ConfusionMatrixMetric,
    "cosine_similarity": CosineSimilarity,
    "dice": Dice,
    "hausdorff_distance": HausdorffDistance,
    "loss": Loss,
    "mae": MAE,
    "mean_surface_distance": MeanSurfaceDistance,
    "mse": MSE,
    "occlusion_sensitivity": OcclusionSensitivity,
    "perplexity": Perplexity,
    "precision": Precision,
    "recall": Recall,
    "roc": ROC,
    "root_mean_square_distance": RootMeanSquareDistance,
    "top_1_accuracy": Top1CategoricalAccuracy,
    "top_5_accuracy": Top5CategoricalAccuracy,
    "topk": TopKCategoricalAccuracy,
}


def names() -> list[str]:
    """The names of all metrics."""
    return list(_METRICS)


def get_metric_fn(name: str, *args: object, **kwargs: object) -> Any:
    """The metric of a name with these arguments; raises GraphKeyError, with a suggestion, for an unknown name.

    Examples:
        >>> from graphls.train import get_metric_fn
        >>> metric = get_metric_fn("mae")
        >>> metric.clear()
        >>> metric.update([1.0, 2.0], [1.5, 4.0])
        >>> metric.eval()
        1.25
    """
    if name not in _METRICS:
        raise GraphKeyError(f"There is no metric {name!r}{nearest(str(name), _METRICS)}.")
    return _METRICS[name](*args, **kwargs)


def get_metrics(metrics: object) -> dict[str, Metric]:
    """The metrics that Model takes, by name: a dict of metrics, a set or list of names, or None.

    Raises GraphTypeError for anything else, and GraphKeyError for an unknown name.

    Examples:
        >>> from graphls.train import get_metrics
        >>> sorted(get_metrics({"accuracy", "loss"}))
        ['accuracy', 'loss']
    """
    if metrics is None:
        return {}
    if isinstance(metrics, dict):
        for name, metric in metrics.items():
            if not isinstance(name, str) or not isinstance(metric, Metric):
                raise GraphTypeError(f"The metrics are names with metrics, not {name!r} with {metric!r}.")
        return dict(metrics)
    if isinstance(metrics, (set, list, tuple)):
        return {str(name): get_metric_fn(name) for name in metrics}
    raise GraphTypeError(f"The metrics must be a dict, a set, a list or None, not {metrics!r}.")
