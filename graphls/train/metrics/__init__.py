"""What an evaluation measures: accuracy, losses, precision, recall, errors, curves."""

from graphls.train.metrics.accuracy import (
    Accuracy,
    Top1CategoricalAccuracy,
    Top5CategoricalAccuracy,
    TopKCategoricalAccuracy,
)
from graphls.train.metrics.by_name import get_metric_fn, get_metrics, names
from graphls.train.metrics.classification import EvaluationBase
from graphls.train.metrics.confusion import ConfusionMatrix
from graphls.train.metrics.error import MAE, MSE, Dice, Loss, Perplexity
from graphls.train.metrics.metric import Metric, rearrange_inputs
from graphls.train.metrics.retrieval import F1, Fbeta, Precision, Recall
from graphls.train.metrics.roc import ROC, auc

__all__ = [
    "F1",
    "MAE",
    "MSE",
    "ROC",
    "Accuracy",
    "ConfusionMatrix",
    "Dice",
    "EvaluationBase",
    "Fbeta",
    "Loss",
    "Metric",
    "Perplexity",
    "Precision",
    "Recall",
    "Top1CategoricalAccuracy",
    "Top5CategoricalAccuracy",
    "TopKCategoricalAccuracy",
    "auc",
    "get_metric_fn",
    "get_metrics",
    "names",
    "rearrange_inputs",
]
