"""Blocks that build complete models: of a forward pass, and of its training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onnx import ModelProto, TensorProto

from graphls.base.errors import GraphRuntimeError
from graphls.onnx.training.onnxblock.accessor import current
from graphls.onnx.training.onnxblock.blocks import Block
from graphls.onnx.training.training_models import TrainingModels, training_models
from graphls.runtime.lowering.protos import copied, replace_items


class ForwardBlock(Block):
    """A block whose results are the outputs of the model; a subclass has `build`.

    Examples:
        >>> import numpy as np
        >>> import onnx
        >>> from graphls import nn, train
        >>> from graphls.onnx.training import onnxblock
        >>> train.export(nn.Dense(4, 3), np.ones((1, 4), np.float32), file_name="net.onnx", file_format="ONNX")
        >>> class Squared(onnxblock.ForwardBlock):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.square = onnxblock.blocks.Pow(2.0)
        ...     def build(self, output):
        ...         return self.square(output)
        >>> block, model = Squared(), onnx.load("net.onnx")
        >>> with onnxblock.base(model):
        ...     name = block(model.graph.output[0].name)
        >>> block.to_model_proto().graph.node[-1].op_type
        'Pow'
    """

    def __init__(self) -> None:
        super().__init__()
        self._model: ModelProto | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Build the model; returns the names of its outputs."""
        results = self.build(*args, **kwargs)
        set_outputs(self, results)
        self._model = copied(self.base)
        return results

    def to_model_proto(self) -> ModelProto:
        """The model; raises GraphRuntimeError before it was built."""
        if self._model is None:
            raise GraphRuntimeError("A block has a model only after it was called.")
        return self._model


class TrainingBlock(Block):
    """A block whose first result is the loss of a training model; a subclass has `build`.

    Examples:
        >>> import numpy as np
        >>> import onnx
        >>> from graphls import nn, train
        >>> from graphls.onnx.training import onnxblock
        >>> train.export(nn.Dense(4, 3), np.ones((1, 4), np.float32), file_name="net.onnx", file_format="ONNX")
        >>> class WithLoss(onnxblock.TrainingBlock):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.loss = onnxblock.loss.MSELoss()
        ...     def build(self, output):
        ...         return self.loss(output)
        >>> block = WithLoss()
        >>> block.requires_grad("weight")
        >>> model = onnx.load("net.onnx")
        >>> with onnxblock.base(model):
        ...     loss = block(model.graph.output[0].name)
        >>> training_model, evaluation_model = block.to_model_proto()
        >>> [value.name for value in training_model.graph.output][1:]
        ['weight_grad']
    """

    def __init__(self) -> None:
        super().__init__()
        self._trained: dict[str, None] = {}
        self._frozen: dict[str, None] = {}
        self._built: TrainingModels | None = None

    def requires_grad(self, argument_name: str, value: bool = True) -> None:
        """Declare a parameter as trained or frozen; parameters that are not declared are constants."""
        target, other = (self._trained, self._frozen) if value else (self._frozen, self._trained)
        other.pop(argument_name, None)
        target[argument_name] = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Build the training and the evaluation model; returns the names of the outputs."""
        results = self.build(*args, **kwargs)
        set_outputs(self, results)
        self._built = training_models(self.base, current().path, list(self._trained), list(self._frozen))
        return results

    def parameters(self) -> tuple[list[TensorProto], list[TensorProto]]:
        """The parameters that are trained and those that are frozen."""
        return self.built.trained, self.built.frozen

    def to_model_proto(self) -> tuple[ModelProto, ModelProto]:
        """The training and the evaluation model."""
        return self.built.training, self.built.evaluation

    @property
    def built(self) -> TrainingModels:
        """The models and parameters; raises GraphRuntimeError before the block was called."""
        if self._built is None:
            raise GraphRuntimeError("A training block has its models only after it was called.")
        return self._built


def set_outputs(block: Block, names: str | Sequence[str]) -> None:
    """Set the outputs of the model of a block."""
    infos = [block.info(name) for name in ([names] if isinstance(names, str) else names)]
    replace_items(block.base.graph.output, infos)
