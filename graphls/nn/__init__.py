"""Cells: layers, containers, losses, optimizers and training steps."""

from graphls.nn.accumulation import GradAccumulationCell
from graphls.nn.activations import GELU, LogSoftmax, ReLU, Sigmoid, SiLU, Softmax, Tanh, get_activation
from graphls.nn.attention import MultiheadAttention
from graphls.nn.cell import Cell
from graphls.nn.containers import CellDict, CellList, SequentialCell
from graphls.nn.dynamic_lr import (
    cosine_decay_lr,
    exponential_decay_lr,
    inverse_decay_lr,
    natural_exp_decay_lr,
    piecewise_constant_lr,
    polynomial_decay_lr,
    warmup_lr,
)
from graphls.nn.embedding import Embedding
from graphls.nn.layer_norm import LayerNorm
from graphls.nn.layers import Dense, Dropout, Flatten, Identity
from graphls.nn.layers_image import AvgPool2d, Conv2d, MaxPool2d
from graphls.nn.layers_norm import BatchNorm1d, BatchNorm2d
from graphls.nn.learning_rate_schedule import (
    CosineDecayLR,
    ExponentialDecayLR,
    InverseDecayLR,
    LearningRateSchedule,
    NaturalExpDecayLR,
    PolynomialDecayLR,
    WarmUpLR,
)
from graphls.nn.loss_scale import AdaptiveLossScaleUpdateCell, DynamicLossScaleUpdateCell, FixedLossScaleUpdateCell
from graphls.nn.losses import LossBase, MSELoss, SoftmaxCrossEntropyWithLogits, WithLossCell
from graphls.nn.optimizers import Optimizer
from graphls.nn.optimizers_adam import Adam, AdaMax
from graphls.nn.optimizers_adaptive import Adadelta, Adagrad, RMSProp
from graphls.nn.optimizers_decoupled import AdamW, AdamWeightDecay
from graphls.nn.optimizers_layerwise import LARS, Lamb
from graphls.nn.optimizers_momentum import SGD, Momentum
from graphls.nn.recurrent import GRU, LSTM, RNN
from graphls.nn.recurrent_cells import GRUCell, LSTMCell, RNNCell
from graphls.nn.train_step import TrainOneStepCell, TrainOneStepWithLossScaleCell
from graphls.nn.train_step_mf import MFTrainOneStepCell
from graphls.nn.transformer import Transformer, TransformerDecoder, TransformerEncoder
from graphls.nn.transformer_layers import TransformerDecoderLayer, TransformerEncoderLayer
from graphls.nn.wrappers import ForwardValueAndGrad, ParameterUpdate, WithEvalCell, WithGradCell

__all__ = [
    "GELU",
    "GRU",
    "LARS",
    "LSTM",
    "RNN",
    "SGD",
    "AdaMax",
    "Adadelta",
    "Adagrad",
    "Adam",
    "AdamW",
    "AdamWeightDecay",
    "AdaptiveLossScaleUpdateCell",
    "AvgPool2d",
    "BatchNorm1d",
    "BatchNorm2d",
    "Cell",
    "CellDict",
    "CellList",
    "Conv2d",
    "CosineDecayLR",
    "Dense",
    "Dropout",
    "DynamicLossScaleUpdateCell",
    "Embedding",
    "ExponentialDecayLR",
    "FixedLossScaleUpdateCell",
    "Flatten",
    "ForwardValueAndGrad",
    "GRUCell",
    "GradAccumulationCell",
    "Identity",
    "InverseDecayLR",
    "LSTMCell",
    "Lamb",
    "LayerNorm",
    "LearningRateSchedule",
    "LogSoftmax",
    "LossBase",
    "MFTrainOneStepCell",
    "MSELoss",
    "MaxPool2d",
    "Momentum",
    "MultiheadAttention",
    "NaturalExpDecayLR",
    "Optimizer",
    "ParameterUpdate",
    "PolynomialDecayLR",
    "RMSProp",
    "RNNCell",
    "ReLU",
    "SequentialCell",
    "SiLU",
    "Sigmoid",
    "Softmax",
    "SoftmaxCrossEntropyWithLogits",
    "Tanh",
    "TrainOneStepCell",
    "TrainOneStepWithLossScaleCell",
    "Transformer",
    "TransformerDecoder",
    "TransformerDecoderLayer",
    "TransformerEncoder",
    "TransformerEncoderLayer",
    "WarmUpLR",
    "WithEvalCell",
    "WithGradCell",
    "WithLossCell",
    "cosine_decay_lr",
    "exponential_decay_lr",
    "get_activation",
    "inverse_decay_lr",
    "natural_exp_decay_lr",
    "piecewise_constant_lr",
    "polynomial_decay_lr",
    "warmup_lr",
]
