"""What MindSpore's cells have for several devices and for how they are compiled; on one device most of it is kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from graphls.tensors.parameter import Parameter
from graphls.tensors.tensor import TensorLike
from graphls.trace.compiler import compiler

Self = TypeVar("Self", bound="Settings")


class _ClassName:
    """The name of a cell's class, unless an attribute says another."""

    def __get__(self, cell: object, owner: type) -> str:
        return owner.__name__


class Settings:
    """Methods of cells that compile, visit and mark them."""

    cls_name = _ClassName()

    def cells(self) -> list[Any]:
        """The cells directly inside."""
        raise NotImplementedError

    def cells_and_names(self, name_prefix: str = "") -> Iterator[tuple[str, Any]]:
        """This cell and every cell inside it, each once, with the path that leads to it."""
        raise NotImplementedError

    def parameters_and_names(self, name_prefix: str = "", expand: bool = True) -> Iterator[tuple[str, Parameter]]:
        """Every parameter once, with its path of attributes."""
        raise NotImplementedError

    def get_parameters(self, expand: bool = True) -> Iterator[Parameter]:
        """Every parameter, this cell's own first."""
        raise NotImplementedError

    def compile(self, *args: object, **kwargs: object) -> None:
        """Compile the cell for inputs like these, without running it; raises what compiling raises."""
        compiler().compile_cell(self, args, kwargs)

    def compile_and_run(self, *args: TensorLike, **kwargs: object) -> Any:
        """Run the cell as a graph, in eager mode too."""
        return compiler().call_cell(self, args, kwargs)

    def apply(self: Self, fn: Callable[[Any], Any]) -> Self:
        """Call a function on every cell inside, inner ones first, and on this one; returns the cell."""
        for cell in self.cells():
            cell.apply(fn)
        fn(self)
        return self

    def get_flags(self) -> dict[str, Any]:
        """What `add_flags` has set."""
        return dict(self.__dict__.get("_flags", {}))

    def init_parameters_data(self, auto_parallel_mode: bool = False) -> dict[Parameter, Parameter]:
        """Every parameter by itself: initial values are there as soon as a parameter is."""
        return {parameter: parameter for parameter in self.get_parameters()}

    def parameters_broadcast_dict(self, recurse: bool = True) -> dict[str, Parameter] | None:
        """None: there is no other rank to give parameters to."""
        return None

    def check_names(self) -> None:
        """Nothing: parameters of one step have names of their own, whatever cells call them."""

    def check_names_and_refresh_name(self) -> None:
        """Nothing; see `check_names`."""

    def remove_redundant_parameters(self) -> None:
        """Nothing: a graph keeps only the states that it uses."""

    def get_scope(self) -> str:
        """The name of this cell in the one that holds it."""
        return str(self.__dict__["_scope_name"])

    def _keep(self: Self, *args: TensorLike, **options: object) -> Self:
        """Returns the cell: how several devices share it, and how MindSpore compiles it, changes nothing here."""
        return self

    set_comm_fusion = set_broadcast_flag = set_jit_config = set_boost = place = set_data_parallel = offload = _keep
    set_param_ps = set_param_fl = flatten_weights = update_cell_prefix = update_cell_type = generate_scope = _keep

    def shard(
        self: Self, in_strategy: TensorLike | None = None, out_strategy: TensorLike | None = None, **options: object
    ) -> Self:
        """The cell itself: on one device nothing is divided."""
        return self

    def buffers(self, recurse: bool = True) -> Iterator[Any]:
        """The tensors that `register_buffer` has named, of inner cells too."""
        return (tensor for _, tensor in self.named_buffers(recurse=recurse))

    def named_buffers(self, prefix: str = "", recurse: bool = True) -> Iterator[tuple[str, Any]]:
        """The tensors that `register_buffer` has named, by their paths."""
        for path, cell in self.cells_and_names(prefix) if recurse else [(prefix, self)]:
            for name in cell.__dict__.get("_buffers", ()):
                yield (f"{path}.{name}" if path else name), getattr(cell, name)

    def register_buffer(self, name: str, tensor: TensorLike, persistent: bool = True) -> None:
        """Keep a tensor as an attribute that is not trained, and save it with the parameters if it is persistent."""
        held = Parameter(tensor, name=name, requires_grad=False) if persistent and tensor is not None else tensor
        setattr(self, name, held)
        self.__dict__.setdefault("_buffers", {})[name] = persistent
