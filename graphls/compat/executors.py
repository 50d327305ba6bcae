"""Objects of `mindspore.common.api` by which tests compile and wait, and packages ask for a processor of Ascend."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.frontend.tensors.tensor import TensorLike
from graphls.ir.text import dump
from graphls.nn.cell import Cell
from graphls.step.calling.cache import compile_cell
from graphls.step.step import Compiled

__all__ = [
    "MSContext", "_CellGraphExecutor", "_PyNativeExecutor", "_cell_graph_executor", "_executor", "_pynative_executor",
]  # fmt: skip

OPTIONS = ("auto_parallel_mode", "do_convert", "jit_config_dict", "params", "is_auto_parallel")
"""Options of `compile` that say how MindSpore compiles."""


class _CellGraphExecutor:
    """Compiles cells without running them."""

    def __init__(self) -> None:
        self._numbers: WeakKeyDictionary[Compiled, int] = WeakKeyDictionary()
        self._count = 0

    def compile(self, obj: object, *args: object, phase: str = "predict", **options: object) -> tuple[str, bool]:
        """Compile a cell for inputs like these: the name of the graph, and whether it has been made just now.

        The name begins with `phase`; for inputs of open sizes there is no graph yet. Raises GraphTypeError for what is
        no cell, and what compiling raises.
        """
        if not isinstance(obj, Cell):
            raise GraphTypeError(f"compile takes a Cell, not {obj!r}.")
        inputs = {name: value for name, value in options.items() if name not in OPTIONS}
        step = compile_cell(obj, args, inputs)
        is_new = step is None or step not in self._numbers
        self._count += is_new
        number = self._count if step is None else self._numbers.setdefault(step, self._count)
        return f"{phase}.{number}", is_new

    def has_compiled(self, phase: str = "predict") -> bool:
        """Whether there is a graph of this name."""
        return phase.rpartition(".")[2] in map(str, self._numbers.values())

    def _get_func_graph_proto(
        self, obj: object, exec_id: str, ir_type: str = "onnx_ir", use_prefix: bool = False, incremental: bool = False
    ) -> Any:
        """A compiled graph by its name: the bytes of its ONNX model, or for "anf_ir" its text.

        `obj`, `use_prefix` and `incremental` change nothing. Raises GraphValueError for other names and formats.
        """
        step = next((step for step, number in self._numbers.items() if str(number) == exec_id.rpartition(".")[2]), None)
        if step is None or ir_type not in ("onnx_ir", "anf_ir"):
            text = f"There is no graph {exec_id!r} as {ir_type!r}; compile gives names, for 'onnx_ir' and 'anf_ir'."
            raise GraphValueError(text)
        return step.onnx.SerializeToString() if ir_type == "onnx_ir" else dump(step.graph)

    def set_jit_config(self, jit_config: TensorLike) -> None:
        """Nothing: how MindSpore compiles changes nothing here."""

    def __call__(self, obj: Any, *args: object, phase: str = "predict") -> Any:
        return obj(*args)


class _PyNativeExecutor:
    """Cells that run step by step: what they compute is there when they return, so there is nothing to wait for."""

    def sync(self) -> None:
        """Nothing."""

    def set_grad_flag(self, flag: bool) -> None:
        """Nothing: gradients are taken where they are asked for."""

    def clear_res(self) -> None:
        """Nothing."""


_cell_graph_executor = _executor = _CellGraphExecutor()
_pynative_executor = _PyNativeExecutor()


class MSContext:
    """What MindSpore's own code, and packages around it, ask about the processor: there is none of Ascend."""

    @staticmethod
    def get_instance() -> MSContext:
        """An object to ask."""
        return MSContext()

    def get_ascend_soc_version(self) -> str:
        """The name of the Ascend processor; empty, as without one."""
        return ""
