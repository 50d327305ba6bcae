"""Wrong arguments end as in MindSpore 2.10: in the same kind of error, with the phrases that tests of scripts look for.

What MindSpore does was measured with the same calls.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphls
from graphls import GraphlsError, Parameter, Tensor, nn, ops
from graphls import dataset as ds
from graphls.train import EarlyStopping, metrics

NET = nn.Dense(3, 2)
WEIGHTS = list(NET.trainable_params())
X = Tensor(np.ones((4, 3), np.float32))
ROWS = ds.NumpySlicesDataset([1, 2])

WRONG: list[tuple[Any, type[Exception], str]] = [
    (lambda: nn.SGD([], 0.1), ValueError, "For 'Optimizer', the argument parameters must not be empty"),
    (lambda: nn.Adam(3), TypeError, "For 'Optimizer', the argument parameters must be Iterable type, but got"),
    (lambda: nn.Adam([1, 2]), TypeError, "all elements of the argument 'parameters' must be 'Parameter' or 'dict'"),
    (lambda: nn.Adam([{"params": WEIGHTS, "foo": 1}]), KeyError, "the key in group params must be one of in"),
    (lambda: nn.Adam(WEIGHTS, beta1="a"), TypeError, "For 'Adam', the type of 'beta1' should be 'float', but got"),
    (lambda: nn.Adam(WEIGHTS, Tensor(np.ones((2, 2)))), ValueError, "the dimension of it should be 0 or 1"),
    (lambda: nn.Adam([{"params": WEIGHTS[:1], "lr": [0.1, 0.2]}, {"params": WEIGHTS[1:], "lr": [0.1]}]), ValueError,
     "in group must be the same size as the argument 'learning_rate'"),
    (lambda: nn.Adam([{"params": WEIGHTS[:1], "lr": [0.1, 0.2]}, {"params": WEIGHTS[1:]}], [0.1] * 3), ValueError,
     "in group must be the same size as the argument 'learning_rate'"),
    *[(lambda name=name: nn.ASGD(WEIGHTS, **{name: 1}), TypeError,
       f"For 'ASGD', the type of '{name}' should be 'float', but got type 'int'") for name in ("lambd", "alpha", "t0")],
    (lambda: nn.Rprop(WEIGHTS, etas=0.5), TypeError, "For Rprop, etas must be a tuple"),
    (lambda: nn.Rprop(WEIGHTS, etas=(0.5,)), ValueError, "For Rprop, etas must be a tuple with the size of 2"),
    (lambda: nn.Rprop(WEIGHTS, step_sizes=(2.0, 1.0)), ValueError,
     "maximal step size should not be less than minimal step size"),
    (lambda: nn.BatchNorm2d(3, use_batch_statistics=1), ValueError, "must be a boolean value or None, but got 1"),
    (lambda: nn.get_activation("foo"), KeyError, "There is no activation 'foo'"),
    (lambda: nn.PReLU(w="a"), TypeError, "the 'w' only supported float, list and tensor, but got str"),
    (lambda: ops.cross_entropy(Tensor([1, 2, 3, 4]), Tensor([1, 0, 1, 0], graphls.int32)), TypeError, "floats"),
    (lambda: Parameter((1, 2)), TypeError, "The type of the argument 'default_input' must be in"),
    (lambda: Parameter(True), ValueError, "Parameter data can not be `bool`"),
    (lambda: Parameter(X, name=3), ValueError, "The type of the Parameter's name should be 'string' or 'None'"),
    (lambda: Parameter(X, requires_grad=3), TypeError, "The argument `requires_grad` must be bool type"),
    (lambda: Parameter(X, layerwise_parallel="a"), TypeError, "The argument `layerwise_parallel` must be bool type"),
    (lambda: ops.value_and_grad(NET, None, None), ValueError, "can not be None at the same time"),
    (lambda: ops.value_and_grad(NET, 0, WEIGHTS, has_aux=3), TypeError, "the 'has_aux' should be bool, but got int"),
    (lambda: ops.MultitypeFuncGraph(3), TypeError, "is a string"),
    (lambda: EarlyStopping(mode=3), TypeError, "The type of 'mode' should be 'str', but got type 'int'"),
    (lambda: metrics.Accuracy().set_indexes((1,)), ValueError, "For 'set_indexes', the argument 'indexes' should be"),
    (lambda: graphls.set_seed("a"), TypeError, "The argument 'seed' must be type of int"),
    (lambda: graphls.get_context("foo"), ValueError, "For 'context.get_context', the argument foo is not recognized!"),
    (lambda: ds.GeneratorDataset([1, 2], ["a"], num_samples="a"), TypeError,
     "Argument num_samples with value 'a' is not of type [<class 'int'>], but got <class 'str'>"),
    (lambda: ds.GeneratorDataset([1, 2], ["a"], shuffle="a"), TypeError, "is not of type [<class 'bool'>]"),
    (lambda: ds.GeneratorDataset([1, 2], 3), TypeError, "is not of type [<class 'list'>, <class 'str'>]"),
    (lambda: ds.GeneratorDataset([1, 2], ["a"], num_parallel_workers=0), ValueError,
     "num_parallel_workers exceeds the boundary between 1 and"),
    (lambda: ROWS.batch(0), ValueError, "Input batch_size is not within the required interval of [1, 2147483647]"),
    (lambda: ROWS.shuffle(0), ValueError, "Input buffer_size is not within the required interval of [2, 2147483647]"),
    (lambda: ROWS.skip(-1), ValueError, "Input count is not within the required interval of [0, 2147483647]"),
    (lambda: ROWS.split([1, 1, 1]), RuntimeError, "Sum of split sizes 3 is not equal to dataset size 2."),
    (lambda: ROWS.split([0.5, 0.6]), ValueError, "but the percentages do not sum up to 1"),
    (lambda: ROWS.split("a"), TypeError, "Argument sizes with value 'a' is not of type [<class 'list'>]"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "kind", "phrase"), WRONG, ids=[phrase for _, _, phrase in WRONG])
def test_kind_and_phrase(call: Any, kind: type[Exception], phrase: str) -> None:
    with pytest.raises(GraphlsError) as caught:
        call()
    assert isinstance(caught.value, kind) and phrase in str(caught.value)
