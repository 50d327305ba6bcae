"""The algorithms of oneDNN's elementwise kernels (`dnnl_alg_kind_t`)."""

from __future__ import annotations

ADD, MUL, MAX, MIN, DIV, SUB, GREATER_EQUAL, GREATER, LESS_EQUAL, LESS, EQUAL, NOT_EQUAL = range(0x1FFF0, 0x1FFFC)
RELU, TANH, ELU, SQUARE, ABS, SQRT, LINEAR, SOFT_RELU, HARD_SIGMOID, LOGISTIC, EXP = range(0x20, 0x2B)
GELU_TANH, SWISH, LOG, CLIP = range(0x2B, 0x2F)
POW, GELU_ERF, ROUND, MISH, HARD_SWISH = range(0x30, 0x35)
