"""Cells: layers, containers, losses, optimizers and training steps."""

from graphls.nn.accumulation import GradAccumulationCell
from graphls.nn.activations import GELU, LogSoftmax, ReLU, Sigmoid, SiLU, Softmax, Tanh, get_activation
from graphls.nn.cell import Cell
from graphls.nn.containers import CellDict, CellList, SequentialCell
from graphls.nn.layers import Dense, Dropout, Flatten, Identity
from graphls.nn.layers_image import AvgPool2d, Conv2d, MaxPool2d
from graphls.nn.layers_norm import BatchNorm1d, BatchNorm2d
from graphls.nn.learning_rates import LearningRateSchedule
from graphls.nn.loss_scale import AdaptiveLossScaleUpdateCell, DynamicLossScaleUpdateCell, FixedLossScaleUpdateCell
from graphls.nn.losses import LossBase, MSELoss, SoftmaxCrossEntropyWithLogits, WithLossCell
from graphls.nn.optimizers import Optimizer
from graphls.nn.optimizers_adam import Adam
from graphls.nn.optimizers_momentum import SGD, Momentum
from graphls.nn.train_step import TrainOneStepCell, TrainOneStepWithLossScaleCell
from graphls.nn.train_step_mf import MFTrainOneStepCell
from graphls.nn.wrappers import ForwardValueAndGrad, ParameterUpdate, WithEvalCell, WithGradCell

__all__ = [
    "GELU",
    "SGD",
    "Adam",
    "AdaptiveLossScaleUpdateCell",
    "AvgPool2d",
    "BatchNorm1d",
    "BatchNorm2d",
    "Cell",
    "CellDict",
    "CellList",
    "Conv2d",
    "Dense",
    "Dropout",
    "DynamicLossScaleUpdateCell",
    "FixedLossScaleUpdateCell",
    "Flatten",
    "ForwardValueAndGrad",
    "GradAccumulationCell",
    "Identity",
    "LearningRateSchedule",
    "LogSoftmax",
    "LossBase",
    "MFTrainOneStepCell",
    "MSELoss",
    "MaxPool2d",
    "Momentum",
    "Optimizer",
    "ParameterUpdate",
    "ReLU",
    "SequentialCell",
    "SiLU",
    "Sigmoid",
    "Softmax",
    "SoftmaxCrossEntropyWithLogits",
    "Tanh",
    "TrainOneStepCell",
    "TrainOneStepWithLossScaleCell",
    "WithEvalCell",
    "WithGradCell",
    "WithLossCell",
    "get_activation",
]
