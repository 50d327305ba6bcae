"""Which gradients travel together."""

from __future__ import annotations

import numpy as np
import pytest

import graphls as gl
from graphls.nn.grad_reducer import SIZE, buckets
from graphls.runtime.context.parallel import preserved_parallel_context, set_auto_parallel_context

WEIGHTS = [gl.Parameter(gl.Tensor(np.zeros(1, np.float32)), name=f"w{i}") for i in range(5)]
BY_SIZE = ((1, SIZE), (1, SIZE), (2, SIZE), (0,), (1, SIZE))


@pytest.mark.parametrize(
    ("settings", "found"),
    [
        ({}, BY_SIZE),
        ({"comm_fusion": {"openstate": False}}, ((0,),) * 5),
        ({"comm_fusion": {"allreduce": {"mode": "auto", "config": None}}}, BY_SIZE),
        (
            {"comm_fusion": {"allreduce": {"mode": "size", "config": 2}}},
            ((1, 2 << 20), (1, 2 << 20), (2, 2 << 20), (0,), (1, 2 << 20)),
        ),
        ({"comm_fusion": {"allreduce": {"mode": "index", "config": [1, 4]}}}, ((1,), (2,), (3,), (0,), (5,))),
        ({"all_reduce_fusion_config": [2]}, ((1,), (1,), (2,), (0,), (4,))),
    ],
)
def test_settings(settings: dict[str, object], found: object) -> None:
    with preserved_parallel_context():
        set_auto_parallel_context(**settings)
        WEIGHTS[2].comm_fusion, WEIGHTS[3].comm_fusion = 2, 0
        assert buckets(WEIGHTS) == found
        assert buckets(WEIGHTS, fusion_type=0) == ((0,),) * 5


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"comm_fusion": {"allreduce": {"mode": "size", "config": -1}}}, "or 'index' with a list of numbers of param"),
        ({"comm_fusion": {"allreduce": {"mode": "most"}}}, "has the mode 'auto', 'size' with a config in MB"),
        ({"all_reduce_fusion_config": [3, 2]}, r"rise from 0, unlike \[3, 2\]"),
    ],
)
def test_wrong_settings(settings: dict[str, object], told: str) -> None:
    with preserved_parallel_context(), pytest.raises(ValueError, match=told):
        set_auto_parallel_context(**settings)
        buckets(WEIGHTS)
