"""Metrics of an evaluation: accuracy, losses, precision, recall, errors, curves."""

from graphls.train.metrics.by_name import get_metric_fn, get_metrics, names
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
