"""The in-memory cache of compiled steps for each cell or function, by the types of its inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from graphls.base.errors import GraphTypeError
from graphls.base.reporting import warn
from graphls.base.sharing.locks import COMPILING
from graphls.frontend.tensors.configuration import Configuration
from graphls.frontend.tensors.parameter import Parameter
from graphls.frontend.tensors.pytree import leaves, structure
from graphls.frontend.tensors.tensor import as_known
from graphls.frontend.trace.closure_variables import ClosureVariables, is_cell
from graphls.frontend.trace.inputs import is_input
from graphls.ir.compare import constant_key
from graphls.ir.engines import AUTO
from graphls.ir.types import DType, as_dtype
from graphls.nn.cell import Cell
from graphls.nn.declared_inputs import check_declared, has_declarations
from graphls.runtime.context import default_device, default_engine, default_layout
from graphls.runtime.context.device_layout import DeviceLayout
from graphls.runtime.devices import Cuda
from graphls.runtime.engine_choice import Choice
from graphls.step import api
from graphls.step.step import Compiled

Key = tuple[Any, ...]
"""What a function reads from around it, the signature of its inputs, the device, the engine, and mesh and ZeRO."""

MOST_VARIABLES = 8
"""For how many values of what a function reads from around it steps are kept."""
MOST_STEPS = 64
"""How many steps of a cell or function are kept, and how many gradient functions of a cell."""
MANY_CHANGES = 8
"""After how many steps that a changed attribute has made useless a cell warns."""


class CompileCache:
    """The compiled steps of one cell or function, by the types of its inputs and its globals and closures.

    `of` is the function of the user, where `function` is one that graphls has made of it. Steps that a changed
    attribute of a cell has made useless go at once, and the one that was not used for longest where there are too many;
    their states stay, since parameters hold them. `engine` runs them in a `layout`, by default those of the context;
    `choice` is the first choice of "auto" that was measured.
    """

    def __init__(
        self, function: Callable[..., object], of: Callable[..., object] | None = None, engine: str | None = None,
        layout: DeviceLayout | None = None,
    ) -> None:  # fmt: skip
        self.function, self.of, self.engine, self.layout = function, of, engine, layout
        self.around = ClosureVariables(function if of is None else of)
        self.steps: dict[Key, list[Compiled]] = {}
        self.retained: dict[Any, list[Any]] = {}
        self.last: tuple[Key, int, Compiled] | None = None
        self.choice: Choice | None = None
        self.useless = 0
        self.has_warned = False

    def __reduce__(self) -> Any:
        """A copy compiles its own steps."""
        return CompileCache, (self.function, self.of, self.engine, self.layout)

    def __call__(self, *inputs: object) -> Any:
        return self.find(*inputs)(*inputs)

    def find(self, *inputs: object) -> Compiled:
        """The step for inputs like these, compiled where there is none that is up to date."""
        device = default_device()
        engine, layout = self.engine or default_engine(device), self.layout or default_layout()
        key = self.around.key(), _signature(inputs), device, engine, layout
        last = self.last
        if last is not None and last[:2] == (key, Configuration.changes):
            return last[2]
        with COMPILING.lock:
            changes = Configuration.changes
            step = next((s for s in self.steps.get(key, ()) if s.up_to_date()), None)
            if step is None:
                key, step = self._compiled(inputs, key)
            self.steps[key] = self.steps.pop(key)  # the last in their order are those used last
            self.last = key, changes, step
        return step

    def _compiled(self, inputs: tuple[object, ...], key: Key) -> tuple[Key, Compiled]:
        self._drop_useless()
        self.around.refresh()
        around, values = self.around.key(), self.around.values()
        step = self._compiled_for(inputs, *key[2:])
        step.depend_on([value for value in values if is_cell(value)], values)
        self.retained[around] = values
        key = around, *key[1:]
        self.steps.setdefault(key, []).append(step)
        if len(self.retained) > MOST_VARIABLES:
            self._forget_variables()
        while sum(map(len, self.steps.values())) > MOST_STEPS:
            self._forget_oldest(key)
        return key, step

    def _compiled_for(
        self, inputs: tuple[object, ...], device: str | Cuda, engine: str, layout: DeviceLayout
    ) -> Compiled:
        """The step for inputs; "auto" has one trial, whose result holds for inputs of other types as well."""
        zero = None if layout.mesh is None and self.layout is None else layout.zero  # the context's is for its meshes
        compiled = partial(api.compile, self.function, *inputs, device=device, mesh=layout.mesh, zero=zero)
        if engine != AUTO:
            return compiled(engine=engine)
        step = compiled(engine=self.choice.engine if self.choice else engine)
        if self.choice is not None:
            step.engine_choice = self.choice.for_further_inputs()
        elif step.engine_choice is not None and step.engine_choice.seconds:
            self.choice = step.engine_choice
        return step

    def _drop_useless(self) -> None:
        """Drop steps that can never be up to date again, because an attribute of a cell has changed."""
        for key, steps in list(self.steps.items()):
            useless = [change for step in steps if (change := step.outdated_by())]
            if useless:
                self.steps[key] = [step for step in steps if not step.outdated_by()]
                self.useless += len(useless)
                if self.useless >= MANY_CHANGES:
                    self._warn(
                        f"is compiled again each time that {useless[-1]} changes; make it a Parameter, or a tensor "
                        "among the arguments."
                    )

    def _forget_variables(self) -> None:
        """Forget the steps for the oldest values of what the function reads."""
        oldest = next(iter(self.retained))
        self._warn(
            f"reads {self.around.changed(oldest) or 'what changes'} and is compiled again for each value of that; make "
            "it a tensor among the arguments."
        )
        del self.retained[oldest]
        self.steps = {key: steps for key, steps in self.steps.items() if key[0] != oldest}

    def _forget_oldest(self, newest: Key) -> None:
        """Forget the step that was not used for longest."""
        oldest = next(iter(self.steps))
        self._warn(
            f"was compiled for more than {MOST_STEPS} kinds of arguments, which differ in "
            f"{_difference(oldest[1], newest[1])}; it is compiled again for those that were not used for longest. Pad "
            "tensors to few shapes, and make numbers that change tensors."
        )
        self.steps[oldest].pop(0)
        if not self.steps[oldest]:
            del self.steps[oldest]

    def _warn(self, text: str) -> None:
        """Say once for what steps are compiled again."""
        if not self.has_warned:
            self.has_warned = True
            warn(f"{getattr(self.around.function, '__name__', type(self.around.function).__name__)} {text}")


def _difference(old: Any, new: Any) -> str:
    """In what two signatures differ, in words."""
    if old[0] != new[0] or len(old[1]) != len(new[1]):
        return "their number and nesting"
    pairs = enumerate(zip(old[1], new[1], strict=True))
    place, (first, second) = next((i, (a, b)) for i, (a, b) in pairs if a != b)
    if not isinstance(first[0], DType) or not isinstance(second[0], DType):
        return f"the value of number {place}"
    return f"the {'dtype' if first[0] is not second[0] else 'shape'} of number {place}"


def _signature(inputs: tuple[Any, ...]) -> Any:
    if all(map(is_input, inputs)):
        return None, tuple([(as_dtype(tensor.dtype), tensor.shape) for tensor in inputs])
    types = ((as_dtype(leaf.dtype), leaf.shape) if is_input(leaf) else _constant_key(leaf) for leaf in leaves(inputs))
    key = structure(inputs), tuple(types)
    try:
        hash(key)
    except TypeError as error:
        raise GraphTypeError(f"An argument that is not a tensor must be hashable: {error}.") from None
    return key


def _constant_key(leaf: object) -> Any:
    if isinstance(leaf, Parameter):
        return (id(leaf),)
    known = as_known(leaf)
    return constant_key(leaf) if known is leaf else (as_dtype(known.dtype), known.shape)


def call_cell(cell: Cell, inputs: tuple[object, ...], options: dict[str, object]) -> Any:
    """Call a cell outside of a trace: compile it once for inputs like these, and run it.

    Raises GraphTypeError and GraphValueError for inputs that are not as `set_inputs` told.
    """
    if "_inputs" in cell.__dict__:
        check_declared(cell.construct, cell.get_inputs(), inputs, options)
    return call_compiled(cell, cell.__dict__["_compiled"], inputs, options)


def call_compiled(
    function: Callable[..., object], caches: dict[object, CompileCache], inputs: tuple[object, ...],
    options: dict[str, object],
) -> Any:  # fmt: skip
    """Call a function, compiled once for inputs like these; `caches` are its caches by the names of the options."""
    names = tuple(sorted(options))
    return _cache(function, caches, names)(*inputs, *(options[name] for name in names))


def compile_cell(cell: Cell, inputs: tuple[object, ...], options: Mapping[str, object]) -> Compiled | None:
    """The step that a call of a cell outside of a trace runs, compiled where there is none for inputs like these.

    There is none yet for inputs of open sizes.
    """
    if has_declarations((inputs, options)):
        return None
    names = tuple(sorted(options))
    cache = _cache(cell, cell.__dict__["_compiled"], names)
    return cache.find(*inputs, *(options[name] for name in names))


def _cache(function: Callable[..., object], caches: dict[object, CompileCache], names: tuple[str, ...]) -> CompileCache:
    """The one of the caches of a function for calls with options of these names."""
    cache = caches.get(names)
    if cache is None:
        added = CompileCache(_by_name(function, names) if names else function, function)
        cache = caches.setdefault(names, added)
    return cache


def cache_of(cell: Cell, engine: str | None = None, layout: DeviceLayout | None = None) -> CompileCache:
    """The compiled steps of a cell for inputs by position; without engine and layout, calls of the cell use them."""
    key = () if engine is None and layout is None else ("engine", engine, layout)
    cache: CompileCache = cell.__dict__["_compiled"].setdefault(key, CompileCache(cell, engine=engine, layout=layout))
    return cache


def _by_name(called: Callable[..., object], names: tuple[str, ...]) -> Callable[..., Any]:
    """The same as a function of positional arguments only, of which the last are those of these names."""

    def function(*args: object) -> Any:
        count = len(args) - len(names)
        return called(*args[:count], **dict(zip(names, args[count:], strict=True)))

    return function


def derived_cache(of: Callable[..., object], key: tuple[object, ...], function: Callable[..., object]) -> CompileCache:
    """The cache for `function`, made of `of` as `key` says; for a cell or its method the one of an earlier call.

    So a script may ask for the same gradient function in every step.
    """
    owner = getattr(of, "__self__", of)
    if not isinstance(owner, Cell):
        return CompileCache(function, of)
    caches: dict[Any, CompileCache] = owner.__dict__["_compiled"]
    name = "made", getattr(of, "__func__", None), *key
    with COMPILING.lock:
        cache = caches.pop(name, None) or CompileCache(function, of)
        derived = [key for key in caches if key[:1] == ("made",)]
        for oldest in derived[: max(0, len(derived) + 1 - MOST_STEPS)]:
            del caches[oldest]
        caches[name] = cache
    return cache
