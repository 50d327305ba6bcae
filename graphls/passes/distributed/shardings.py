"""The shardings pass: states how the mesh of a graph divides its inputs, its states and its gradients."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.base.reporting import warn
from graphls.ir.build import Builder
from graphls.ir.graph import Graph, Node, Value, Write
from graphls.ir.sharding import Mesh, Sharding
from graphls.passes.distributed.optimizer_states import gradients, owners
from graphls.passes.distributed.sharding_proof import stated_shardings
from graphls.passes.manager import register_pass
from graphls.passes.rewriter import Rewriter

Axes = tuple[str | tuple[str, ...] | None, ...]
LARGE = 1 << 16
"""The bytes from which on a state that stays whole is worth a warning."""


@register_pass
@dataclass(frozen=True)
class Shardings:
    """State how the mesh of a graph divides inputs by their first axis, and by `zero` states and gradients.

    Before:

        graph @step mesh(data=2) (%x: f32[4,6]) {
          state @w: f32[6]
          state @v: f32[6]
          %y = mul(%x, @w) : f32[4,6]  // forward
          %loss = sum(%y) {axis=none, keepdims=false} : f32[]  // forward
          %c = constant() {value=array(f32[], [1.0])} : f32[]  // backward
          %g = gradient(%loss, %c, @w) {of=1, wrt=1} : f32[6]  // backward
          %new_v = add(@v, %g) : f32[6]  // update
          %new_w = sub(@w, %new_v) : f32[6]  // update
          @v <- %new_v
          @w <- %new_w
          return %loss
        }

    After, with `zero=2`:

        graph @step mesh(data=2) (%x: f32[4/data,6]) {
          state @w: f32[6]
          state @v: f32[6/data]
          %y = mul(%x, @w) : f32[4,6]  // forward
          %loss = sum(%y) {axis=none, keepdims=false} : f32[]  // forward
          %c = constant() {value=array(f32[], [1.0])} : f32[]  // backward
          %g = gradient(%loss, %c, @w) {of=1, wrt=1} : f32[6]  // backward
          %shard = shard(%g) {axes=[["data"]]} : f32[6/data]  // backward
          %new_v = add(@v, %shard) : f32[6]  // update
          %new_w = sub(@w, %new_v) : f32[6]  // update
          @v <- %new_v
          @w <- %new_w
          return %loss
        }

    The mesh axis `data` divides the first axis of each input whose size it divides evenly. `inputs` says otherwise for
    the inputs in order: () for a whole one, None for what it would be. A parameter that no sharding divides is divided
    as the first `shard` requires that reads it. A state of an optimizer is divided as the parameter that it belongs to.
    Beyond that, `data` divides by the levels of ZeRO (Rajbhandari et al., 2020) the first axis that it divides evenly:
    of the states of the optimizer (1), of gradients (2), and of parameters (3), which the forward gathers where it
    reads them. All other states are whole. A graph without a mesh stays as it is.

    `data` may be several mesh axes, as "data+model"; those that already divide a state do not divide it again. States
    of less than `least` bytes, and those whose names are in `undivided`, are not divided by ZeRO.
    """

    zero: int = 0
    data: str = "data"
    inputs: tuple[Axes | None, ...] = ()
    least: int = 0
    undivided: tuple[str, ...] = ()
    name = "shardings"

    def __post_init__(self) -> None:
        if isinstance(self.zero, bool) or not isinstance(self.zero, int):
            raise GraphTypeError(f"The level of ZeRO is an int from 0 to 3, not {self.zero!r}.")
        if not 0 <= self.zero <= 3:
            raise GraphValueError(f"The level of ZeRO is 0, 1, 2 or 3, not {self.zero}.")

    @property
    def data_axes(self) -> tuple[str, ...]:
        """The names of the mesh axes in `data`."""
        return tuple(self.data.split("+"))

    def require(self, mesh: Mesh | None) -> None:
        """Raise GraphValueError where a step without a mesh, or on this one, cannot be divided so."""
        if mesh is None and (self.zero or self.inputs):
            what = f"zero={self.zero} divides states" if self.zero else "input_shardings divide inputs"
            raise GraphValueError(f"{what} among the devices of a mesh, and there is none; pass mesh=Mesh(data=4).")
        if mesh is not None and self.zero and any(name not in mesh.sizes for name in self.data_axes):
            text = f"zero={self.zero} divides states along the mesh axis {self.data!r}"
            raise GraphValueError(f"{text}, and there is none in {mesh}.")

    def run(self, graph: Graph) -> Graph:
        """The graph with the shardings of its inputs and states."""
        if graph.mesh is None:
            return graph
        self.require(graph.mesh)
        stating = _Stating(graph, self, graph.mesh)
        _warn_of_undivided(stating)
        return stating.run()


class _Stating(Rewriter):
    """One sweep that exchanges inputs and states for divided ones; `wide` maps states to their shardings by `data`."""

    def __init__(self, graph: Graph, policy: Shardings, mesh: Mesh) -> None:
        super().__init__(graph)
        self.policy, self.mesh = policy, mesh
        self.data = tuple(name for name in policy.data_axes if name in mesh.sizes)
        self.parts = mesh.parts(self.data)
        self.of_gradient = gradients(graph)
        self.owner = owners(graph)
        trained = frozenset(self.of_gradient.values())
        self.undivided: list[Value] = []
        self.gathered: dict[tuple[Builder, Value], Value] = {}
        self.parameter: dict[Value, Value] = {}
        """The parameters that are divided by `data`, with what they were before."""
        for value, sharding in zip(graph.inputs, self.of_inputs(), strict=True):
            self.exchange(value, sharding)
        required = _required(graph)
        for state in graph.states:
            parameter = self.owner.get(state, state)
            is_like = state.type.shape == parameter.type.shape
            own = state.sharding or (parameter.sharding or required.get(parameter) if is_like else None)
            level = 3 if state in trained else 1 if state in self.owner else 4
            is_divided = policy.zero >= level and self.may_divide(parameter)
            sharding = self.divided(state, own) if is_divided else own
            self.exchange(state, sharding)
            if is_divided and state in trained and state in self.mapping:
                self.parameter[self.mapping[state]] = state

    def exchange(self, value: Value, sharding: Sharding | None) -> None:
        if (sharding or None) != value.sharding:
            self.mapping[value] = Value(value.name, value.type, value.is_state, sharding)

    def of_inputs(self) -> Iterator[Sharding | None]:
        """The shardings of the inputs."""
        inputs, stated = self.graph.inputs, self.policy.inputs
        if len(stated) > len(inputs):
            text = f"There are shardings for {len(stated)} inputs, and the step has {len(inputs)}"
            raise GraphValueError(f"{text}; write one for each input, such as [('data', None)] for a single one.")
        for value, axes in zip(inputs, (*stated, *[None] * (len(inputs) - len(stated))), strict=True):
            if axes is not None:
                yield self.stated(value, axes)
            elif value.sharding is None and value.type.rank and self.parts > 1 and self.fits(value.type.shape[0]):
                yield Sharding((self.data, *[()] * (value.type.rank - 1)))
            else:
                yield value.sharding

    def stated(self, value: Value, axes: Axes) -> Sharding:
        """The sharding that the user states for an input; raises GraphValueError where the mesh cannot divide it so."""
        sharding = Sharding.of_axes([None] * value.type.rank if axes in ((), []) else axes)
        if (fault := sharding.fault(value.type.shape, self.mesh)) is not None:
            raise GraphValueError(f"The input {value.name!r} {fault}.")
        return sharding

    def fits(self, size: int, parts: int | None = None) -> bool:
        return size > 0 and size % (parts or self.parts) == 0

    def may_divide(self, parameter: Value) -> bool:
        """Whether ZeRO may divide a parameter, its gradient and the states that belong to it."""
        return parameter.type.nbytes >= self.policy.least and parameter.name not in self.policy.undivided

    def divided(self, value: Value, own: Sharding | None) -> Sharding | None:
        """A sharding that also divides the first axis that `data` divides evenly; the same one where there is none."""
        axes = ((),) * value.type.rank if own is None else own.axes
        data = tuple(name for name in self.data if all(name not in names for names in axes))
        parts = self.mesh.parts(data)
        if parts == 1:
            return own
        local = Sharding(axes).local(value.type.shape, self.mesh)
        at = next((i for i, size in enumerate(local) if self.fits(size, parts)), None)
        if at is None:
            self.undivided.append(value)
            return own
        return Sharding((*axes[:at], (*axes[at], *data), *axes[at + 1 :]))

    # -- the sweep ------------------------------------------------------------------------------------------------

    def visit(self, node: Node) -> Node | Sequence[Value]:
        is_stated = self.policy.zero >= 2 or self.mesh.stages > 1
        if is_stated and not self.of_gradient.keys().isdisjoint(node.outputs):
            self.e.append(node)
            return tuple(map(self.reduced, node.outputs))
        if self.parameter and node.phase == "forward" and not self.parameter.keys().isdisjoint(node.inputs):
            return self.reading(node)
        return node

    def reduced(self, gradient: Value) -> Value:
        """A gradient divided as the states of the optimizer are, in stages without that as its parameter is.

        A stage keeps sums of gradients from one part of a batch to the next, for which XLA must not choose another way.
        """
        state = self.of_gradient.get(gradient)
        if state is None:
            return gradient
        may_divide = self.policy.zero >= 2 and self.may_divide(state)
        own = self.mapping.get(state, state).sharding
        sharding = self.divided(state, state.sharding) if may_divide else own if self.mesh.stages > 1 else None
        return gradient if sharding is None else self.sharded(gradient, sharding)

    def reading(self, node: Node) -> Node | Sequence[Value]:
        """A node of the forward that reads gathered parameters; of casts the results are gathered, which take less."""
        if node.primitive.name == "cast":
            self.e.append(node)
            return (self.gather(node.inputs[0], node.output),)
        return replace(node, inputs=tuple(self.gather(v, v) if v in self.parameter else v for v in node.inputs))

    def gather(self, parameter: Value, value: Value) -> Value:
        """A parameter, or its cast, as it would be without ZeRO; its gradient is divided as the parameter is."""
        key = self.e, value
        if key not in self.gathered:
            own = self.parameter[parameter].sharding or Sharding(((),) * value.type.rank)
            assert parameter.sharding is not None
            self.gathered[key] = self.sharded(value, own, parameter.sharding)
        return self.gathered[key]

    def sharded(self, value: Value, sharding: Sharding, of_gradient: Sharding | None = None) -> Value:
        more = {} if of_gradient is None else {"gradient_axes": of_gradient.axes}
        result: Value = self.e.shard(value, axes=sharding.axes, **more)
        return result

    def run(self) -> Graph:
        """The graph with divided inputs and states, and what states take divided as they are."""
        graph = super().run()
        inputs, states = self.current(graph.inputs), self.current(graph.states)
        stated = stated_shardings(graph.nodes, (*inputs, *states))
        self.e = Builder(self.names)
        self.e.phase = "update"
        writes = tuple(self.written(write, stated) for write in graph.writes)
        nodes = (*graph.nodes, *self.e.nodes)
        return graph.replace(inputs=inputs, states=states, nodes=nodes, writes=writes)

    def written(self, write: Write, stated: dict[Value, Sharding | None]) -> Write:
        """A write whose value is not divided in another way than the state."""
        state = self.mapping.get(write.state, write.state)
        value = write.value
        if value in stated and stated[value] != state.sharding:
            value = self.sharded(value, state.sharding or Sharding(((),) * state.type.rank))
        return replace(write, state=state, value=value)


def _required(graph: Graph) -> dict[Value, Sharding]:
    """The states of which a `shard` reads the values or their casts, each with what the first one requires."""
    required: dict[Value, Sharding] = {}
    read = {state: state for state in graph.states}
    for node in graph.nodes:
        state = read.get(node.inputs[0]) if node.inputs else None
        if state is not None and node.primitive.name == "cast":
            read[node.output] = state
        elif state is not None and (sharding := node.primitive.result_sharding(node.attrs)):
            required.setdefault(state, sharding)
    return required


def _warn_of_undivided(stating: _Stating) -> None:
    """Warn once where the mesh divides less than it is asked to."""
    parts, data = stating.parts, stating.policy.data
    large = [value for value in stating.undivided if value.type.nbytes >= LARGE]
    if large:
        text = f"{len(large)} states, such as {large[0]!r}, are whole on each of the {parts} devices along {data!r}"
        warn(f"{text}, as {parts} divides no axis of them evenly.")
    inputs = [value for value in stating.graph.inputs if value.type.rank]
    is_divided = stating.policy.inputs or any(v in stating.mapping or v.sharding for v in inputs)
    if parts > 1 and inputs and not is_divided:
        text = f"No input is divided, as {parts} divides the first axis of none evenly ({inputs[0]!r} is the first)"
        rest = f"each of the {parts} devices along {data!r} computes all of the batch"
        warn(f"{text}; {rest}, unless it has a multiple of {parts} rows.")
