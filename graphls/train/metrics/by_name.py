"""The registry of metrics, by the names that Model takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from graphls.base.errors import GraphKeyError, GraphTypeError
from graphls.ir.registry import nearest
from graphls.train.metrics import classification, confusion, error, occlusion, similarity, surface_distances
from graphls.train.metrics.metric import Metric

_METRICS: dict[str, Callable[..., Any]] = {
    "F1": classification.F1,
    "acc": classification.Accuracy,
    "accuracy": classification.Accuracy,
    "auc": classification.auc,
    "bleu_score": similarity.BleuScore,
    "confusion_matrix": confusion.ConfusionMatrix,
    "confusion_matrix_metric": confusion.ConfusionMatrixMetric,
    "cosine_similarity": similarity.CosineSimilarity,
    "dice": error.Dice,
    "hausdorff_distance": surface_distances.HausdorffDistance,
    "loss": error.Loss,
    "mae": error.MAE,
    "mean_surface_distance": surface_distances.MeanSurfaceDistance,
    "mse": error.MSE,
    "occlusion_sensitivity": occlusion.OcclusionSensitivity,
    "perplexity": error.Perplexity,
    "precision": classification.Precision,
    "recall": classification.Recall,
    "roc": classification.ROC,
    "root_mean_square_distance": surface_distances.RootMeanSquareDistance,
    "top_1_accuracy": classification.Top1CategoricalAccuracy,
    "top_5_accuracy": classification.Top5CategoricalAccuracy,
    "topk": classification.TopKCategoricalAccuracy,
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
        >>> found = get_metrics({"accuracy", "loss"})
        >>> sorted(found)
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
