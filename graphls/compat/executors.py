"""The executors of `mindspore.common.api`, which compile cells and wait for results, and `MSContext`."""

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
"""Options of `compile` that concern only MindSpore's compiler."""


class _CellGraphExecutor:
    """Compiles cells without running them."""

    def __init__(self) -> None:
        self._numbers: WeakKeyDictionary[Compiled, int] = WeakKeyDictionary()
        self._count = 0

    def compile(self, obj: object, *args: object, phase: str = "predict", **options: object) -> tuple[str, bool]:
        """Compile a cell for inputs like these; returns the name of the graph, and whether it is new.

        The name begins with `phase`; for inputs of dynamic sizes there is no graph yet. Raises GraphTypeError for
        anything but a cell, and the errors of the compilation.
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
        """Tells whether there is a graph of this name."""
        return phase.rpartition(".")[2] in map(str, self._numbers.values())

    def _get_func_graph_proto(
        self, obj: object, exec_id: str, ir_type: str = "onnx_ir", use_prefix: bool = False, incremental: bool = False
    ) -> Any:
        """A compiled graph by its name: the bytes of its ONNX model, or for "anf_ir" its text.

        `obj`, `use_prefix` and `incremental` have no effect. Raises GraphValueError for other names and formats.
        """
        step = next((step for step, number in self._numbers.items() if str(number) == exec_id.rpartition(".")[2]), None)
        if step is None or ir_type not in ("onnx_ir", "anf_ir"):
            text = f"There is no graph {exec_id!r} as {ir_type!r}; compile returns names, for 'onnx_ir' and 'anf_ir'."
            raise GraphValueError(text)
        return step.onnx.SerializeToString() if ir_type == "onnx_ir" else dump(step.graph)

    def set_jit_config(self, jit_config: TensorLike) -> None:
        """Does nothing: the settings concern only MindSpore's compiler."""

    def __call__(self, obj: Any, *args: object, phase: str = "predict") -> Any:
        return obj(*args)


class _PyNativeExecutor:
    """The executor of eager mode, in which calls are synchronous, so that there is nothing to wait for."""

    def sync(self) -> None:
        """Does nothing."""

    def set_grad_flag(self, flag: bool) -> None:
        """Does nothing: gradients are computed on demand."""

    def clear_res(self) -> None:
        """Does nothing."""


_cell_graph_executor = _executor = _CellGraphExecutor()
_pynative_executor = _PyNativeExecutor()


class MSContext:
    """MindSpore's internal context, which packages ask for the Ascend processor; there is none."""

    @staticmethod
    def get_instance() -> MSContext:
        """The context."""
        return MSContext()

    def get_ascend_soc_version(self) -> str:
        """The name of the Ascend processor: empty, as there is none."""
        return ""
