"""Steps by ONNX's reference evaluator, made to compute as a GPU does, whose kernels round where an operator ends.

A 16-bit operator takes its operands as float32, accumulates so, and rounds its results once to the type that the model
declares; but for a few, which round after each addition. An operator that does not round, as one that a runtime has
fused with the next, is a fault to be found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np
import onnx
from onnx import ModelProto, NodeProto
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun
from onnx.reference.ops._op import OpRunBinaryNum, OpRunBinaryNumpy, OpRunUnaryNum

from graphls.ir.graph import Graph
from graphls.runtime.host_random import HostValues
from graphls.runtime.lowering.lowering import Lowered
from graphls.runtime.lowering.protos import graphs
from graphls.runtime.lowering.target import REPEATED
from tests.networks.kernels import KERNELS

Array = np.ndarray[Any, Any]
Rounding = Callable[[NodeProto, Array, Any], Array]
"""`rounding(operator, wide, dtype)` gives a float32 result in the 16-bit dtype that the model declares."""

HALVES = (np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16))


def to_nearest(operator: NodeProto, wide: Array, dtype: Any) -> Array:
    """The Rounding of every device: to the nearest number, beyond the largest to infinity."""
    return wide.astype(dtype)


class Evaluator(ReferenceEvaluator):
    """A model, or the body of an operator; `kinds` are the declared dtypes of tensors, but of ONNX Runtime's operators.
    """

    def __init__(self, proto: Any, **settings: Any) -> None:
        super().__init__(proto, **{**settings, "new_ops": KERNELS})
        self.kinds: dict[str, Any] = {}
        self.rounding: Rounding = to_nearest
        self.calls = [(node, list(node.input), list(node.output), computation(node)) for node in self.rt_nodes_]
        if isinstance(proto, ModelProto):
            self.configure(declared(proto), to_nearest)

    def configure(self, kinds: dict[str, Any], rounding: Rounding) -> None:
        """Set how this model and the bodies in it round."""
        self.kinds, self.rounding = kinds, rounding
        for node in self.rt_nodes_:
            for name in node.attributes_names_:
                if isinstance(body := getattr(node, name), Evaluator):
                    body.configure(kinds, rounding)

    def run(self, output_names: Any, feed_inputs: Mapping[str, Any], *_: Any, **__: Any) -> list[Array]:
        """The outputs of these names, or all; what is fed may hold the tensors around a body, too."""
        results = {"": None, **self.rt_inits_, **feed_inputs}
        for node, names, outputs, compute in self.calls:
            inputs = [results[name] for name in names]
            if node.has_subgraph:
                results.update(zip(outputs, node.run(*inputs, context=results), strict=True))
            else:
                results.update(self._computed(node.onnx_node, inputs, compute))
        return [results[name] for name in output_names or self.output_names]

    def _computed(self, operator: NodeProto, inputs: Sequence[Any], compute: Any) -> Iterator[tuple[str, Array]]:
        wide = inputs if operator.op_type in REPEATED else [widened(array) for array in inputs]
        is_narrowing = operator.op_type == "Cast" and wide[0].dtype.kind == "f"
        found = wide if is_narrowing else compute(*wide)
        for name, array in zip(operator.output, found, strict=True):
            yield name, self._rounded(operator, np.asarray(array, order="C"), self.kinds.get(name, array.dtype))

    def _rounded(self, operator: NodeProto, array: Array, dtype: Any) -> Array:
        if dtype in HALVES and array.dtype.kind == "f":
            return self.rounding(operator, array.astype(np.float32, copy=False), dtype)
        return array.astype(dtype, copy=False)


def computation(node: OpRun) -> Callable[..., tuple[Array, ...]]:
    """What computes an operator, without the checks of `run`, which take longer than most small operators."""
    if isinstance(node, OpRunBinaryNumpy) and type(node).run is OpRunBinaryNumpy.run:
        return lambda a, b: (node.numpy_fct(a, b),)
    if type(node).run in (OpRunUnaryNum.run, OpRunBinaryNum.run):
        return node._run
    if type(node).run is OpRun.run:
        return partial(node._run, **{name: getattr(node, name) for name in node.attributes_names_})
    return node.run


def widened(array: Any) -> Any:
    """A 16-bit float as float32, anything else as it is."""
    return array.astype(np.float32) if array is not None and array.dtype in HALVES else array


def declared(model: ModelProto) -> dict[str, Any]:
    """The dtypes of all tensors of a model, bodies included."""
    inferred = onnx.shape_inference.infer_shapes(model, strict_mode=True)
    kinds: dict[str, int] = {}
    for graph in graphs(inferred.graph):
        kinds.update((tensor.name, tensor.data_type) for tensor in graph.initializer)
        for infos in (graph.input, graph.value_info, graph.output):
            kinds.update((info.name, info.type.tensor_type.elem_type) for info in infos)
    return {name: onnx.helper.tensor_dtype_to_np_dtype(kind) for name, kind in kinds.items()}


class EvaluatedStep:
    """A lowered step by an Evaluator; `states` are as the step before has left them."""

    def __init__(
        self, graph: Graph, lowered: Lowered, states: Mapping[str, Array], rounding: Rounding = to_nearest
    ) -> None:
        self.lowered = lowered
        self.states = dict(states)
        self.evaluator = Evaluator(lowered.model)
        self.evaluator.configure(self.evaluator.kinds, rounding)
        self.host = HostValues(graph, [node for node, _ in lowered.host])

    def __call__(self, *inputs: Array) -> list[Array]:
        lowered = self.lowered
        feed = dict(zip(lowered.inputs, inputs, strict=True))
        feed.update((tensor, self.states[name]) for name, tensor in lowered.states.items())
        feed.update(self._drawn())
        found = self.evaluator.run([*lowered.outputs, *lowered.writes.values()], feed)
        count = len(lowered.outputs)
        self.states.update(zip(lowered.writes, found[count:], strict=True))
        return found[:count]

    def _drawn(self) -> Iterator[tuple[str, Array]]:
        """The random tensors of this step, by name."""
        host = self.lowered.host
        if host:
            seed, step = map(int, self.states[host[0][0].inputs[0].name])
            arrays = self.host.compute(seed, step)
            yield from ((name, array) for (_, name), array in zip(host, arrays, strict=True))
