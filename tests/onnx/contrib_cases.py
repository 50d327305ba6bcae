"""Operators of com.microsoft as models of one node, with what ONNX Runtime's own kernel gives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import onnxruntime
from onnx import ModelProto, helper, numpy_helper

from tests.onnx.models import tensor

RECENT = tuple(map(int, onnxruntime.__version__.split(".")[:2])) >= (1, 30)
"""Whether the kernels are those that graphls follows; earlier ones lack attributes and inputs."""


@dataclass(eq=False)
class Operator:
    """A node: its operands, None for one that is left out, its attributes, and which operands are constants."""

    kind: str
    arrays: Sequence[Any]
    attributes: dict[str, Any] = field(default_factory=dict)
    outputs: Sequence[bool] = (True,)
    constants: Sequence[int] = ()
    domain: str = "com.microsoft"
    opset: int = 17
    is_float: bool = False
    """Whether all results are float32, which ONNX Runtime cannot always infer."""

    def __str__(self) -> str:
        shown = ",".join(f"{k}={v}" for k, v in self.attributes.items() if not isinstance(v, (list, tuple)))
        absent = "".join("-" if a is None else "x" for a in self.arrays)
        return f"{self.kind}({absent};{shown})"[:90]

    @property
    def inputs(self) -> dict[str, Any]:
        """The operands that a call gives."""
        return {f"x{i}": a for i, a in enumerate(self.arrays) if a is not None and i not in self.constants}

    def model(self) -> ModelProto:
        """The model, whose outputs have no declared shape."""
        names = ["" if a is None else f"x{i}" for i, a in enumerate(self.arrays)]
        results = [f"y{i}" if used else "" for i, used in enumerate(self.outputs)]
        node = helper.make_node(self.kind, names, results, "n", domain=self.domain, **self.attributes)
        infos = [tensor(n, a.shape, helper.np_dtype_to_tensor_dtype(a.dtype)) for n, a in self.inputs.items()]
        held = [numpy_helper.from_array(np.asarray(self.arrays[i]), f"x{i}") for i in self.constants]
        outputs = [
            tensor(y, None) if self.is_float else helper.make_empty_tensor_value_info(y) for y in results if y
        ]
        graph = helper.make_graph([node], "g", infos, outputs, held)
        opsets = [helper.make_opsetid("", self.opset), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=8)

    def in_half(self) -> Operator:
        """The same operator on float16."""
        arrays = [a.astype(np.float16) if a is not None and a.dtype == np.float32 else a for a in self.arrays]
        return replace(self, arrays=arrays)

    def expected(self) -> list[Any]:
        """The results of ONNX Runtime."""
        options = onnxruntime.SessionOptions()
        options.log_severity_level, options.intra_op_num_threads = 4, 1
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        session = onnxruntime.InferenceSession(
            self.model().SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        return list(session.run(None, self.inputs))
