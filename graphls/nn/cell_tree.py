"""Settings, buffers and state dicts of cells, and the display of a cell and those inside it as a tree.

The display is text, as MindSpore's, with remarks after `#`, or HTML. A cell with inner cells is expanded once, at its
first position.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, TypeVar

from graphls.base.errors import GraphRuntimeError, GraphTypeError
from graphls.base.text.html import Page
from graphls.base.text.plain import shown
from graphls.frontend.registry import compiler
from graphls.frontend.tensors.parameter import Parameter, ParameterTuple
from graphls.frontend.tensors.tensor import TensorLike, array_of
from graphls.nn.declared_inputs import declared_inputs

Self = TypeVar("Self", bound="CellSettings")

ADVICE = "strict=False leaves out what lacks, and graphls.interop.torch.load_state_dict takes weights of PyTorch"


class _ClassName:
    """The name of a cell's class, unless an attribute overrides it."""

    def __get__(self, cell: object, owner: type) -> str:
        return owner.__name__


class IncompatibleKeys(NamedTuple):
    """The names that a dict lacks, and those that the cell lacks."""

    missing_keys: list[str]
    unexpected_keys: list[str]


class CellSettings:
    """Methods of cells that compile, visit and mark them.

    Some of them are for MindSpore's compiler or several devices; here these only remember their value or do nothing.
    """

    cls_name = _ClassName()

    construct: Callable[..., Any]
    __call__: Callable[..., Any]

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

    def set_inputs(self, *inputs: object, **named: object) -> None:
        """Declare the inputs, such as `Tensor(shape=[None, 3], dtype=float32)`; `get_inputs` returns them.

        A cell is compiled for each shape that it is called with. Called as a graph, it checks inputs against the
        declaration: dtypes, numbers of axes, and sizes that are not None. Raises GraphTypeError and GraphValueError for
        inputs that `construct` does not take.
        """
        self.__dict__["_inputs"] = declared_inputs(self.construct, inputs, named)

    def get_inputs(self) -> Any:
        """The inputs declared by `set_inputs`; None without a declaration."""
        return self.__dict__.get("_inputs")

    def compile(self, *args: object, **kwargs: object) -> None:
        """Compile the cell for inputs like these, without running it; raises what compiling raises.

        Nothing is compiled for inputs of open sizes: the cell is compiled for each shape when it is called with one.
        """
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
        """The flags set by `add_flags`."""
        return dict(self.__dict__.get("_flags", {}))

    def init_parameters_data(self, auto_parallel_mode: bool = False) -> dict[Parameter, Parameter]:
        """Map every parameter to itself: parameters are initialized when they are created."""
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
        self, in_strategy: object, out_strategy: object = None, parameter_plan: object = None, device: str = "Ascend",
        level: int = 0,
    ) -> Callable[..., Any]:  # fmt: skip
        """The cell as a function whose inputs and results the devices of a mesh divide; see docs/parallel.md.

        Strategies have numbers of slices for each axis, or a Layout, for each tensor; `parameter_plan` has them for
        parameters by name. Without a mesh the function is the cell. `device` and `level` have no effect. Raises
        GraphTypeError for anything else, GraphValueError for unknown parameters and, when a step is compiled, for
        strategies that do not fit.
        """
        from graphls.nn.shard import sharded

        return sharded(self, in_strategy, out_strategy, parameter_plan)

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
        buffer = Parameter(tensor, name=name, requires_grad=False) if persistent and tensor is not None else tensor
        setattr(self, name, buffer)
        self.__dict__.setdefault("_buffers", {})[name] = persistent

    def state_dict(
        self, *, destination: OrderedDict[str, Any] | None = None, prefix: str = "", keep_vars: bool = False
    ) -> OrderedDict[str, Any]:
        """The parameters by their paths, after a prefix: the parameters themselves, which change with the cell.

        They are added to `destination`, if any. `keep_vars` is accepted and changes nothing.
        """
        states: OrderedDict[str, Any] = OrderedDict() if destination is None else destination
        states.update((prefix + path, parameter) for path, parameter in self.parameters_and_names())
        return states

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True) -> IncompatibleKeys:
        """Set parameters from tensors or arrays by their paths; returns the missing and the unexpected names.

        Raises GraphRuntimeError for another shape and, if `strict`, for missing or unexpected names; then nothing has
        changed. Raises GraphTypeError for anything but a dict.
        """
        if not isinstance(state_dict, Mapping):
            raise GraphTypeError(f"For 'load_state_dict', the 'state_dict' is a dict of tensors, not {state_dict!r}.")
        own = dict(self.parameters_and_names())
        missing = [path for path in own if path not in state_dict]
        unexpected = [name for name in state_dict if name not in own]
        arrays = {path: array_of(state_dict[path]) for path in own if path in state_dict}
        wrong = [
            f"{path!r} has the shape {own[path].shape} and is given {array.shape}"
            for path, array in arrays.items()
            if array.shape != own[path].shape
        ]
        if strict and missing:
            wrong.append(f"the dict lacks {', '.join(map(repr, missing))}")
        if strict and unexpected:
            wrong.append(f"the cell lacks {', '.join(map(repr, unexpected))}")
        if wrong:
            text = f"The dict does not fit the {type(self).__name__}: {'; '.join(wrong)}"
            raise GraphRuntimeError(f"{text}; {ADVICE}.")
        for path, array in arrays.items():
            own[path].set_data(array)
        return IncompatibleKeys(missing, unexpected)


MOST_LISTED = 4
"""Parameters of a tuple whose types are shown one by one."""


@dataclass
class Branch:
    """A cell in a tree: its name, its class and settings, and the cells directly inside.

    `own` lists its own parameters. `count` is the number of elements of its parameters and of those of all cells
    inside, without parameters of earlier branches; `trainable` is the part of them that requires a gradient. `first` is
    the path of the same cell's first appearance, None where this is the first.
    """

    name: str
    text: str
    own: list[str] = field(default_factory=list)
    count: int = 0
    trainable: int = 0
    first: str | None = None
    inner: list[Branch] = field(default_factory=list)

    def remark(self, is_root: bool = False) -> str:
        """The remark on the cell's parameters, empty if there is nothing to say."""
        if self.first is not None:
            return f"the same cell as {self.first or 'the whole'}"
        trainable = "all" if self.trainable == self.count else f"{self.trainable:,}"
        noun = "parameter" if self.count == 1 else "parameters"
        count = f"{self.count:,} {noun}{f', {trainable} trainable' if is_root else ''}" if self.count else ""
        return ": ".join(filter(None, (count, ", ".join(self.own))))


class CellDisplay(CellSettings):
    """The text of a cell in terminals and its table in notebooks."""

    _cells: dict[str, Any]
    _params: dict[str, Parameter | ParameterTuple]

    def __repr__(self) -> str:
        return tree_text(self)

    def _repr_html_(self) -> str:
        return tree_html(self)

    _shown: ClassVar[str] = ""
    """The attributes that `repr` shows of the cell itself, or label=attribute where they are called otherwise there."""

    def extend_repr(self) -> str:
        """The settings that `repr` shows between the parentheses of the cell itself."""
        items = (item.partition("=") for item in self._shown.split())
        return ", ".join(f"{label}={getattr(self, name or label)}" for label, _, name in items)


class Tree:
    """Builds the branches of cells, each parameter counted once.

    It counts in the first cell that has it as an attribute, or else in the first one that has it in a tuple.
    """

    def __init__(self, root: CellDisplay) -> None:
        parts = (part for _, cell in root.cells_and_names() for part in cell._params.values())
        self.attributes = {id(part) for part in parts if isinstance(part, Parameter)}
        self.cells: dict[int, str] = {}
        self.parameters: dict[int, str] = {}

    def branch(self, cell: CellDisplay, name: str = "", path: str = "", is_root: bool = False) -> Branch:
        """The branch of a cell with a name, at a path; a class other than that of the root may say its own text."""
        branch = Branch(shown(name), "", first=self.cells.get(id(cell)))
        self.cells.setdefault(id(cell), path)
        if not is_root and type(cell).__repr__ is not CellDisplay.__repr__:
            branch.text = repr(cell)
            for at, parameter in cell.parameters_and_names():
                self._count(branch, parameter, _joined(path, at))
            return branch
        dots = "..." if cell._cells and branch.first is not None else ""
        branch.text = f"{shown(type(cell).__name__)}({', '.join(filter(None, (cell.extend_repr(), dots)))})"
        if branch.first is None:
            branch.own = list(self._describe_parameters(cell, branch, path))
            branch.inner = [self.branch(child, key, _joined(path, key)) for key, child in cell._cells.items()]
            branch.count += sum(inner.count for inner in branch.inner)
            branch.trainable += sum(inner.trainable for inner in branch.inner)
        return branch

    def _describe_parameters(self, cell: CellDisplay, branch: Branch, path: str) -> Iterator[str]:
        """Count the parameters of a cell itself, and describe them one by one, or by number for a long tuple."""
        for name, part in cell._params.items():
            if isinstance(part, ParameterTuple):
                others = [p for p in part if id(p) in self.attributes or self._count(branch, p, _joined(path, p.name))]
                yield f"{shown(name)} {_listed(part)}{_note_of_others(len(others), len(part))}"
            elif isinstance(part, Parameter):
                before = self._count(branch, part, _joined(path, name))
                yield f"{shown(name)} {part.type}" + (f" (counted at {before})" if before is not None else "")

    def _count(self, branch: Branch, parameter: Parameter, path: str) -> str | None:
        """Count a parameter for a branch; where it has been counted before, the path that it has there."""
        before = self.parameters.get(id(parameter))
        if before is None:
            self.parameters[id(parameter)] = path
            branch.count += parameter.size
            branch.trainable += parameter.size if parameter.requires_grad else 0
        return before


def _listed(parameters: ParameterTuple) -> str:
    """The types of a few parameters, or their number."""
    if len(parameters) <= MOST_LISTED:
        return f"({', '.join(str(p.type) for p in parameters)})"
    return f"of {len(parameters)} tensors"


def _note_of_others(others: int, count: int) -> str:
    if not others:
        return ""
    return f" ({'' if others == count else f'{others} of them '}counted elsewhere)"


def _joined(path: str, name: str) -> str:
    return f"{path}.{shown(name)}" if path else shown(name)


def tree_text(cell: CellDisplay) -> str:
    """The tree of a cell: a line for each, and one that closes those with others inside."""
    return "\n".join(_lines(Tree(cell).branch(cell, is_root=True), is_root=True))


def _lines(branch: Branch, is_root: bool = False) -> Iterator[str]:
    remark = branch.remark(is_root)
    remark = f"  # {remark}" if remark else ""
    named = branch.text if is_root else f"({branch.name}): {branch.text}"
    if not branch.inner:
        yield from f"{named}{remark}".split("\n")
        return
    yield from f"{named[:-1]}{remark}".split("\n")
    for inner in branch.inner:
        yield from (f"  {line}" for line in _lines(inner))
    yield ")"


def tree_html(cell: CellDisplay) -> str:
    """The tree of a cell as a table."""
    root = Tree(cell).branch(cell, is_root=True)
    page = Page("Cell", f"{shown(type(cell).__name__)}: {root.remark(is_root=True) or 'no parameters'}")
    page.table(("cell", "tensors", "parameters"), _rows(root, 0), left=2)
    return page.text()


def _rows(branch: Branch, depth: int) -> Iterator[tuple[str, str, str]]:
    name = f"({branch.name}): " if depth else ""
    tensors = ", ".join(branch.own) if branch.first is None else branch.remark()
    label = f"{name}{shown(branch.text)}"
    yield f"{'  ' * depth}{label}", tensors, f"{branch.count:,}" if branch.count else "-"
    for inner in branch.inner:
        yield from _rows(inner, depth + 1)
