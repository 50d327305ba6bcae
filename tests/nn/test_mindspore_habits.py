"""What scripts of MindSpore rely on: attributes that are None, numbers set early, functions of NumPy."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import GraphlsError, Parameter, Tensor, nn, ops
from graphls.initializer import Constant
from graphls.train import Accuracy, Model, export

X = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.mark.parametrize("cell", [
    nn.Dense(2, 2, has_bias=False), nn.Conv1d(2, 2, 1), nn.Conv2d(2, 2, 1), nn.Conv3d(2, 2, 1),
    nn.Conv2dTranspose(2, 2, 1), nn.BiDense(2, 2, 2, has_bias=False),
], ids=lambda cell: type(cell).__name__)  # fmt: skip
def test_a_bias_that_is_not_there_is_none(cell: Any) -> None:
    assert cell.bias is None
    assert [p.name for p in cell.get_parameters()] == ["weight"]


def test_attention_without_bias() -> None:
    attention = nn.MultiheadAttention(4, 2, has_bias=False, batch_first=True)
    x = Tensor(np.ones((1, 3, 4), np.float32))
    assert attention.in_proj_bias is None and attention(x, x, x)[0].shape == (1, 3, 4)


class Early(nn.Cell):
    """As ports of torchvision's ResNet do it."""

    def __init__(self, early: Any) -> None:
        self.inplanes = early
        super().__init__()

    def construct(self, x: Any) -> Any:
        return x + self.inplanes


def test_plain_values_may_be_set_before_the_cell_is_made() -> None:
    assert float(Early(64)(Tensor(1.0))) == 65
    for part in (nn.Dense(1, 1), Parameter(Tensor([1.0]), name="p")):
        with pytest.raises(AttributeError, match=r"Call super\(\).__init__\(\) first"):
            Early(part)


def test_cells_and_parameters_that_are_set_to_none_are_gone() -> None:
    cell = nn.SequentialCell()
    cell.inner, cell.weight = nn.Dense(1, 1), Parameter(Tensor([1.0]), name="weight")
    assert len(list(cell.get_parameters())) == 3
    cell.inner = cell.weight = None
    assert cell.inner is None and cell.weight is None
    assert not list(cell.get_parameters()) and not cell.cells()


def test_lists_of_cells_grow_and_are_indexed_by_tensors() -> None:
    cells = nn.CellList([nn.Dense(3, 2)])
    cells += [nn.ReLU()]
    assert len(cells) == 2 and isinstance(cells, nn.CellList)
    assert cells[Tensor(1)] is cells[1] and cells[Tensor(-2)] is cells[0]
    with pytest.raises(IndexError):
        cells[Tensor(2)]
    with pytest.raises(TypeError):
        cells[Tensor(1.0)]


def test_tensors_that_declare_inputs() -> None:
    declared = Tensor(shape=[None, 3], dtype=graphls.float32)
    network = nn.Dense(3, 2)
    network.set_inputs(declared)
    assert network.get_inputs() == (declared,) and declared.shape == (-1, 3)
    assert "shape=[-1, 3]" in str(declared) and network(Tensor(X)).shape == (2, 2)
    for use in (declared.asnumpy, lambda: network(declared), lambda: graphls.compile(network, declared)):
        with pytest.raises(GraphlsError, match="only declares"):
            use()


@pytest.mark.parametrize(("init", "value"), [("ones", 1), (3, 3), (Constant(2), 2)])
def test_tensors_of_a_shape_and_initial_values(init: Any, value: float) -> None:
    assert Tensor(shape=(2, 3), dtype=graphls.float16, init=init).asnumpy().tolist() == [[value] * 3] * 2


def test_functions_for_numbers_of_python_and_for_no_others() -> None:
    function = ops.MultitypeFuncGraph("function")
    for kind in ("Int64", "Float32", "Int32", "Float16", "Tensor"):
        function.register(kind)(lambda value, kind=kind: kind)
    assert [function(1), function(1.0), function(Tensor(1))] == ["Int64", "Float32", "Tensor"]


def test_metrics_are_called_with_one_batch() -> None:
    accuracy = Accuracy()
    accuracy.update(np.array([[0.9, 0.1]]), np.array([1]))
    assert accuracy(Tensor([[0.2, 0.8], [0.9, 0.1]]), Tensor([1, 0])) == 1


def test_models_predict_where_the_network_runs(tmp_path: Any) -> None:
    model = Model(nn.Dense(3, 2))
    assert model.predict(Tensor(X), backend=None).shape == (2, 2)
    with pytest.raises(ValueError, match="does not offer prediction by MindSpore Lite"):
        model.predict(Tensor(X), backend="lite")
    with pytest.raises(TypeError, match="does not offer encrypted files"):
        export(nn.Dense(3, 2), Tensor(X), file_name=tmp_path / "a", file_format="ONNX", enc_key=b"0" * 16)


@pytest.mark.parametrize("name", ["all", "any", "sum", "mean", "prod", "max", "min", "std", "var"])
def test_reductions_of_numpy_take_tensors(name: str) -> None:
    function = getattr(np, name)
    np.testing.assert_allclose(function(Tensor(X)).asnumpy(), function(X), rtol=1e-6)
    np.testing.assert_allclose(function(Tensor(X), axis=1, keepdims=True).asnumpy(), function(X, axis=1, keepdims=True),
                               rtol=1e-6)  # fmt: skip
    traced = graphls.compile(lambda x: function(x, axis=0), X)
    np.testing.assert_allclose(traced(X).asnumpy(), function(X, axis=0), rtol=1e-6)


def test_tensors_and_parameters_have_their_value() -> None:
    weight = Parameter(Tensor([2.0]), name="weight")
    assert Tensor([1.0]).value().asnumpy().tolist() == [1] and weight.value().asnumpy().tolist() == [2]
    step = graphls.compile(lambda x: x.value() * weight.value(), X)
    assert step(X).asnumpy().tolist() == (2 * X).tolist()


def test_data_of_a_parameter_is_the_parameter() -> None:
    weight = nn.Dense(2, 2).weight
    weight.data.fill_(2.0)
    assert weight.tolist() == [[2, 2], [2, 2]]
    weight.data[0] = 3.0
    assert weight.tolist() == [[3, 3], [2, 2]]
    weight.data = np.zeros((2, 2))
    assert weight.tolist() == [[0, 0], [0, 0]] and weight.dtype is graphls.float32
    with pytest.raises(GraphlsError, match="cannot take the shape"):
        weight.data = np.zeros(3)
    step = graphls.compile(lambda x: x + weight.data.add_(1.0), X[:, :2])
    assert step(X[:, :2]).asnumpy().tolist() == (X[:, :2] + 1).tolist() and weight.tolist() == [[1, 1], [1, 1]]


def test_a_number_that_counts_calls_is_told_to_count_traces() -> None:
    class Counting(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.calls = 0

        def construct(self, x: Tensor) -> Tensor:
            self.calls += 1
            return x * self.calls

    with pytest.warns(UserWarning, match=r"Counting.calls is set while construct is traced, once for all calls.*\("):
        assert Counting()(X).asnumpy().tolist() == X.tolist()


LAYERS_WITH_A_DTYPE: dict[str, tuple[Any, tuple[tuple[int, ...], ...]]] = {
    "Dense": (lambda dtype: nn.Dense(2, 3, dtype=dtype), ((1, 2),)),
    "Dropout": (lambda dtype: nn.Dropout(0.5, None, dtype), ((1, 2),)),
    "GRU": (lambda dtype: nn.GRU(2, 3, dtype=dtype), ((4, 1, 2),)),
    "GRUCell": (lambda dtype: nn.GRUCell(2, 3, True, dtype), ((1, 2), (1, 3))),
    "LSTM": (lambda dtype: nn.LSTM(2, 3, dtype=dtype), ((4, 1, 2),)),
    "MultiheadAttention": (lambda dtype: nn.MultiheadAttention(4, 2, dtype=dtype), ((3, 1, 4),) * 3),
    "MultiheadAttention of other keys": (
        lambda dtype: nn.MultiheadAttention(4, 2, kdim=3, vdim=3, dtype=dtype), ((3, 1, 4), (3, 1, 3), (3, 1, 3))),
    "RNN": (lambda dtype: nn.RNN(2, 3, dtype=dtype), ((4, 1, 2),)),
    "RNNCell": (lambda dtype: nn.RNNCell(2, 3, True, "relu", dtype), ((1, 2), (1, 3))),
    "Transformer": (lambda dtype: nn.Transformer(4, 2, 1, 1, 8, dtype=dtype), ((3, 1, 4), (2, 1, 4))),
    "TransformerDecoderLayer": (lambda dtype: nn.TransformerDecoderLayer(4, 2, 8, dtype=dtype), ((3, 1, 4),) * 2),
    "TransformerEncoderLayer": (lambda dtype: nn.TransformerEncoderLayer(4, 2, 8, dtype=dtype), ((3, 1, 4),)),
}  # fmt: skip


@pytest.mark.parametrize("name", LAYERS_WITH_A_DTYPE)
def test_layers_whose_weights_have_a_dtype(name: str) -> None:
    make, shapes = LAYERS_WITH_A_DTYPE[name]
    layer = make(graphls.float16)
    found = layer(*(Tensor(np.ones(shape, np.float16)) for shape in shapes))
    assert (found[0] if isinstance(found, tuple) else found).dtype == graphls.float16
    assert {p.dtype for p in layer.get_parameters()} <= {graphls.float16}


def test_the_dtype_of_an_embedding_comes_before_its_padding() -> None:
    layer = nn.Embedding(5, 2, False, "ones", graphls.float16, 1)
    assert layer(Tensor([0, 1])).tolist() == [[1.0, 1.0], [0.0, 0.0]]
    assert layer.embedding_table.dtype == graphls.float16


def test_settings_of_a_parameter_that_are_about_devices() -> None:
    parameter = Parameter(Tensor([1.0]), name="weight")
    assert (parameter.parallel_optimizer, parameter.comm_fusion, parameter.sliced) == (True, 1, False)
    parameter.parallel_optimizer, parameter.comm_fusion = False, 3
    for other in (parameter, parameter.clone(), copy.deepcopy(parameter), pickle.loads(pickle.dumps(parameter))):
        assert (other.parallel_optimizer, other.comm_fusion) == (False, 3)
    assert Parameter(Tensor([1.0])).comm_fusion == 1
    with pytest.raises(AttributeError):
        parameter.require_grad = False


class Doubling(nn.Cell):
    """A cell with properties, as users write them."""

    def __init__(self) -> None:
        super().__init__()
        self._factor = 1

    @property
    def factor(self) -> int:
        return self._factor

    @factor.setter
    def factor(self, value: int) -> None:
        self._factor = 2 * value

    @property
    def fixed(self) -> int:
        return 5


def test_properties_of_cells_are_set_by_their_setters() -> None:
    cell = Doubling()
    cell.factor = 3
    assert cell.factor == 6
    with pytest.raises(AttributeError, match="The 'fixed' of Doubling is a property that cannot be set"):
        cell.fixed = 3  # type: ignore[misc]


def test_parts_are_inserted_under_free_names() -> None:
    cell = Doubling()
    cell.insert_child_to_cell("later", None)
    cell.insert_param_to_cell("weight", None)
    assert cell.later is None and cell.cells() == [] and list(cell.get_parameters()) == []
    relu = nn.ReLU()
    for _ in range(2):
        cell.insert_child_to_cell("later", relu)
    assert cell.later is relu and cell.cells() == [relu]


@pytest.mark.parametrize(
    ("error", "name", "part"),
    [
        (TypeError, "x", 3),
        (TypeError, 3, None),
        (KeyError, "", None),
        (KeyError, "a.b", None),
        (KeyError, "_factor", None),
        (KeyError, "construct", None),
    ],
)
def test_parts_that_cannot_be_inserted(error: type[Exception], name: Any, part: Any) -> None:
    for insert, kind in ((Doubling().insert_child_to_cell, nn.ReLU), (Doubling().insert_param_to_cell, one)):
        with pytest.raises(error) as raised:
            insert(name, kind() if part is None else part)
        assert isinstance(raised.value, GraphlsError)


def one() -> Parameter:
    return Parameter(np.ones(2, np.float32), name="one")


class Targeted(nn.Optimizer):
    """An optimizer with a target of its own, as many projects write it."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(0.1, parameters)
        self.seen: list[str] = []

    @nn.Optimizer.target.setter  # type: ignore[attr-defined]
    def target(self, value: str) -> None:
        self.seen.append(value)
        self._set_base_target(value)

    def construct(self, gradients: Any) -> Any:
        return self.hyper_map(ops.partial(ops.mul, self.get_weight_decay()), gradients)


def test_the_target_of_an_optimizer_has_a_setter() -> None:
    optimizer = Targeted([one()])
    optimizer.target = "Ascend"
    assert (optimizer.target, optimizer.seen) == ("Ascend", ["Ascend"])
    for error, wrong in ((ValueError, "XPU"), (TypeError, 3)):
        with pytest.raises(error, match="target of an optimizer"):
            optimizer.target = wrong  # type: ignore[assignment]
    assert optimizer((Tensor([2.0, 3.0]),))[0].asnumpy().tolist() == [0.0, 0.0]


def test_what_optimizers_tell() -> None:
    first, second = (Parameter(np.ones(2, np.float32), name=name) for name in "ab")
    optimizer = nn.Momentum([{"params": [first], "weight_decay": 0.5}, {"params": [second]}], 0.1, 0.9)
    assert [decay.asnumpy().tolist() for decay in optimizer.get_weight_decay()] == [0.5, 0.0]
    assert (optimizer.param_length, optimizer.exec_weight_decay, optimizer.dynamic_weight_decay) == (2, True, False)
    assert tuple(optimizer.params) == (first, second)
    assert optimizer.get_lr_parameter(first).name == "learning_rate"


def test_metrics_of_users_convert_their_data() -> None:
    metric = Accuracy()
    for data in (Tensor([1, 2]), [1, 2], np.array([1, 2])):
        assert metric._convert_data(data).tolist() == [1, 2]
    with pytest.raises(TypeError, match="takes tensors, lists and arrays"):
        metric._convert_data((1, 2))
