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
from graphls.nn.layer_norm import LayerNorm, RMSNorm
from graphls.nn.layers import Dense, Dropout, Flatten, Identity, Unflatten
from graphls.nn.layers_adaptive import (
    AdaptiveAvgPool1d,
    AdaptiveAvgPool2d,
    AdaptiveAvgPool3d,
    AdaptiveMaxPool1d,
    AdaptiveMaxPool2d,
    AdaptiveMaxPool3d,
)
from graphls.nn.layers_convolution import Conv1d, Conv1dTranspose, Conv2d, Conv2dTranspose, Conv3d, Conv3dTranspose
from graphls.nn.layers_dropout import Dropout1d, Dropout2d, Dropout3d
from graphls.nn.layers_norm import BatchNorm1d, BatchNorm2d, BatchNorm3d
from graphls.nn.layers_norm_sample import (
    LRN,
    GroupNorm,
    InstanceNorm1d,
    InstanceNorm2d,
    InstanceNorm3d,
)
from graphls.nn.layers_padding import (
    ConstantPad1d,
    ConstantPad2d,
    ConstantPad3d,
    Pad,
    ReflectionPad1d,
    ReflectionPad2d,
    ReflectionPad3d,
    ReplicationPad1d,
    ReplicationPad2d,
    ReplicationPad3d,
    ZeroPad2d,
)
from graphls.nn.layers_pooling import (
    AvgPool1d,
    AvgPool2d,
    AvgPool3d,
    LPPool1d,
    LPPool2d,
    MaxPool1d,
    MaxPool2d,
    MaxPool3d,
)
from graphls.nn.layers_reduce import ClipByNorm, Moments, Norm, ReduceLogSumExp
from graphls.nn.layers_resize import PixelShuffle, PixelUnshuffle, ResizeBilinear, Upsample
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
    "LRN",
    "LSTM",
    "RNN",
    "SGD",
    "AdaMax",
    "Adadelta",
    "Adagrad",
    "Adam",
    "AdamW",
    "AdamWeightDecay",
    "AdaptiveAvgPool1d",
    "AdaptiveAvgPool2d",
    "AdaptiveAvgPool3d",
    "AdaptiveLossScaleUpdateCell",
    "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d",
    "AdaptiveMaxPool3d",
    "AvgPool1d",
    "AvgPool2d",
    "AvgPool3d",
    "BatchNorm1d",
    "BatchNorm2d",
    "BatchNorm3d",
    "Cell",
    "CellDict",
    "CellList",
    "ClipByNorm",
    "ConstantPad1d",
    "ConstantPad2d",
    "ConstantPad3d",
    "Conv1d",
    "Conv1dTranspose",
    "Conv2d",
    "Conv2dTranspose",
    "Conv3d",
    "Conv3dTranspose",
    "CosineDecayLR",
    "Dense",
    "Dropout",
    "Dropout1d",
    "Dropout2d",
    "Dropout3d",
    "DynamicLossScaleUpdateCell",
    "Embedding",
    "ExponentialDecayLR",
    "FixedLossScaleUpdateCell",
    "Flatten",
    "ForwardValueAndGrad",
    "GRUCell",
    "GradAccumulationCell",
    "GroupNorm",
    "Identity",
    "InstanceNorm1d",
    "InstanceNorm2d",
    "InstanceNorm3d",
    "InverseDecayLR",
    "LPPool1d",
    "LPPool2d",
    "LSTMCell",
    "Lamb",
    "LayerNorm",
    "LearningRateSchedule",
    "LogSoftmax",
    "LossBase",
    "MFTrainOneStepCell",
    "MSELoss",
    "MaxPool1d",
    "MaxPool2d",
    "MaxPool3d",
    "Moments",
    "Momentum",
    "MultiheadAttention",
    "NaturalExpDecayLR",
    "Norm",
    "Optimizer",
    "Pad",
    "ParameterUpdate",
    "PixelShuffle",
    "PixelUnshuffle",
    "PolynomialDecayLR",
    "RMSNorm",
    "RMSProp",
    "RNNCell",
    "ReLU",
    "ReduceLogSumExp",
    "ReflectionPad1d",
    "ReflectionPad2d",
    "ReflectionPad3d",
    "ReplicationPad1d",
    "ReplicationPad2d",
    "ReplicationPad3d",
    "ResizeBilinear",
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
    "Unflatten",
    "Upsample",
    "WarmUpLR",
    "WithEvalCell",
    "WithGradCell",
    "WithLossCell",
    "ZeroPad2d",
    "cosine_decay_lr",
    "exponential_decay_lr",
    "get_activation",
    "inverse_decay_lr",
    "natural_exp_decay_lr",
    "piecewise_constant_lr",
    "polynomial_decay_lr",
    "warmup_lr",
]
