"""Parameters have the names, shapes and order that MindSpore 2.10 saves them with, so that its checkpoints fit.

The names were printed once by MindSpore on its CPU, for the same cells.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from graphls import nn

NETWORK = """
conv.weight bn.moving_mean bn.moving_variance bn.gamma bn.beta seq.0.weight seq.0.bias seq.2.weight seq.2.bias ln.gamma
ln.beta emb.embedding_table lstm.weight_ih_l0 lstm.weight_hh_l0 lstm.bias_ih_l0 lstm.bias_hh_l0 gn.gamma gn.beta
mha.in_proj_weight mha.in_proj_bias mha.out_proj.weight mha.out_proj.bias prelu.w enc.self_attn.in_proj_weight
enc.self_attn.in_proj_bias enc.self_attn.out_proj.weight enc.self_attn.out_proj.bias enc.dense1.weight enc.dense1.bias
enc.dense2.weight enc.dense2.bias enc.norm1.gamma enc.norm1.beta enc.norm2.gamma enc.norm2.beta gru.weight_ih_l0
gru.weight_ih_l0_reverse gru.weight_ih_l1 gru.weight_ih_l1_reverse gru.weight_hh_l0 gru.weight_hh_l0_reverse
gru.weight_hh_l1 gru.weight_hh_l1_reverse gru.bias_ih_l0 gru.bias_ih_l0_reverse gru.bias_ih_l1 gru.bias_ih_l1_reverse
gru.bias_hh_l0 gru.bias_hh_l0_reverse gru.bias_hh_l1 gru.bias_hh_l1_reverse ct.weight ct.bias
"""


class Network(nn.Cell):
    """One of each kind of layer with weights."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.bn = nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3)
        self.seq = nn.SequentialCell(nn.Dense(4, 2), nn.ReLU(), nn.Dense(2, 2))
        self.ln, self.emb, self.lstm = nn.LayerNorm((4,)), nn.Embedding(3, 4), nn.LSTM(2, 3)
        self.gn, self.mha, self.prelu = nn.GroupNorm(1, 3), nn.MultiheadAttention(4, 2), nn.PReLU()
        self.enc = nn.TransformerEncoderLayer(4, 2)
        self.gru, self.ct = nn.GRU(2, 3, 2, bidirectional=True), nn.Conv2dTranspose(1, 2, 3, has_bias=True)


def test_the_names_of_layers() -> None:
    assert [p.name for p in Network().get_parameters()] == NETWORK.split()


class Small(nn.Cell):
    """A convolution's weight and a bias."""

    def __init__(self) -> None:
        super().__init__()
        self.c = nn.Conv2d(1, 3, 3, has_bias=True)


C = "c.weight c.bias"
OPTIMIZERS: dict[str, tuple[Callable[[Any], nn.Optimizer], str]] = {
    "Momentum": (lambda p: nn.Momentum(p, 0.1, 0.9), f"{C} momentum moments.c.weight moments.c.bias"),
    "Adam": (
        lambda p: nn.Adam(p, 0.1),
        f"{C} beta1_power() beta2_power() moment1.c.weight moment1.c.bias moment2.c.weight moment2.c.bias",
    ),
    "SGD": (
        lambda p: nn.SGD(p, 0.1, momentum=0.9), f"{C} momentum accum.c.weight accum.c.bias stat.c.weight stat.c.bias"
    ),
    "RMSProp": (
        lambda p: nn.RMSProp(p, 0.1, centered=True),
        f"{C} mean_grad.c.weight mean_grad.c.bias mean_square.c.weight mean_square.c.bias "
        "moment.c.weight moment.c.bias",
    ),
    "AdaMax": (
        lambda p: nn.AdaMax(p, 0.1),
        f"{C} beta1_power(1) moment1.c.weight moment1.c.bias moment2.c.weight moment2.c.bias",
    ),
    "LazyAdam": (
        lambda p: nn.LazyAdam(p),
        f"{C} beta1_power(1) beta2_power(1) moment1.c.weight moment1.c.bias moment2.c.weight moment2.c.bias",
    ),
    "AdamWeightDecay": (
        lambda p: nn.AdamWeightDecay(p), f"{C} adam_m.c.weight adam_m.c.bias adam_v.c.weight adam_v.c.bias"
    ),
    "Lamb": (lambda p: nn.Lamb(p, 0.1), f"{C} lamb_m.c.weight lamb_m.c.bias lamb_v.c.weight lamb_v.c.bias"),
    "Adadelta": (
        lambda p: nn.Adadelta(p), f"{C} accum.c.weight accum.c.bias accum_update.c.weight accum_update.c.bias"
    ),
    "Adagrad": (lambda p: nn.Adagrad(p), f"{C} accum.c.weight accum.c.bias"),
    "FTRL": (lambda p: nn.FTRL(p), f"{C} moments.c.weight moments.c.bias linear.c.weight linear.c.bias"),
    "Rprop": (lambda p: nn.Rprop(p), f"{C} prev.c.weight prev.c.bias step_size.c.weight step_size.c.bias"),
    "ProximalAdagrad": (lambda p: nn.ProximalAdagrad(p), f"{C} accum.c.weight accum.c.bias"),
}  # fmt: skip


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_the_names_of_states(kind: str) -> None:
    make, names = OPTIMIZERS[kind]
    found = list(make(Small().trainable_params()).get_parameters())
    assert [(p.name, p.shape) for p in found[:2]] == [("global_step", (1,)), ("learning_rate", ())]
    for parameter, wanted in zip(found[2:], names.split(), strict=True):
        name, bracket, size = wanted.partition("(")
        assert parameter.name == name
        assert not bracket or parameter.shape == ((1,) if size == "1)" else ())
