"""The Primitive interface as the IR sees it, and the registry of primitives by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal

from graphls.base.errors import GraphKeyError
from graphls.base.plugins import check_name, load_plugin, plugins
from graphls.ir.types import Type

if TYPE_CHECKING:
    from graphls.ir.sharding import Sharding

Rule = Callable[..., Any]
"""A rule of a primitive, over a builder or a lowering, the operands, and the attributes by name."""


class Operation:
    """The interface of a primitive for the IR, passes and backends: a name, rules, and facts in place of name checks.

    `graphls.primitives.primitive.Primitive` documents how to write one.
    """

    name: str = ""
    """The name in the text form."""

    on_host: bool = False
    """Whether NumPy computes the results before a step, which takes them as inputs."""

    calls_python: bool = False
    """Whether it calls Python while a step runs, so that the host runs it between segments."""

    is_constant: bool = False
    """Whether the result is the attribute `value`."""

    is_check: bool = False
    """Whether it closes an overflow window: it checks that its operands are finite and computes nothing else."""

    has_effect: bool = False
    """Whether it has an effect, so that each node runs once in each step, in order; its first result is a token."""

    is_collective: bool = False
    """Whether all ranks of a group run it together, in the same order."""

    fits_its_operands: bool = False
    """Whether its results may share the buffers of its operands: a collective that reduces in place."""

    is_of_rank: bool = False
    """Whether each rank communicates with ranks of its own choice, which may differ from rank to rank."""

    elementwise: bool = False
    """Whether each element of the result depends on the elements at its index in the operands, which broadcast."""

    bounds: bool = False
    """Whether each element of the result is that of one of two operands, so that a finite one may bound the other."""

    is_commutative: bool = False
    """Whether its two operands may change places, as the result is the same."""

    flops_per_element: int = 1
    """The floating point operations for each element of the result; of 0, it only moves or selects elements."""

    session_from: int | None = None
    """From how many floating point operations on a session is faster than NumPy outside of a trace; None for never.

    Measured with NumPy 2.2 and two cores. A session takes 8 microseconds more than NumPy for a call and about a
    millisecond to make, once for all sizes; NumPy takes 90 nanoseconds for an erf, and half as long again as two cores
    for a sum.
    """

    neutral: tuple[tuple[int, float], ...] = ()
    """The position of one of two operands with the number that, there, makes the result the other one, to the bit."""

    is_convolution: bool = False
    """Whether it is a convolution for a runtime, which may fuse later nodes with it."""

    is_product: bool = False
    """Whether it sums products of two operands, for which processors have units that take 16 bits and sum in 32."""

    summed_axes: Callable[..., tuple[tuple[int, ...], tuple[int, ...]]] | None = None
    """The axes of each of the two operands of a product over which it sums, from their types and its attributes.

    Of a convolution, channels or images come first, then the positions.
    """

    is_remainder: bool = False
    """Whether it is a remainder, which kernels that round the quotient get wrong."""

    takes_indices: bool = False
    """Whether a runtime fails where an element of an operand is out of range."""

    gives_positions: bool = False
    """Whether its last result has positions in its first operand: along `axis`, or among all elements."""

    is_traceable: bool = False
    """Whether the rule `numpy` of a plugin takes arrays of XLA, too: it computes in their `namespace`."""

    takes_tokens: bool = False
    """Whether an operand may be a token."""

    takes_stacks: bool = False
    """Whether an operand may be a stack."""

    takes_values: bool = False
    """Whether the ONNX rule takes values of the IR in place of tensor names, and requests those that it needs."""

    is_branch: bool = False
    """Whether one of the regions, which have no parameters, runs and yields the results of the node."""

    is_loop: bool = False
    """Whether the last region is a loop body, which yields first the values that it carries to the next iteration."""

    is_segment: bool = False
    """Whether an engine runs the region as one piece of a plan; the attribute `engine` names it."""

    is_inlined: bool = False
    """Whether a model contains the nodes of the region, or one operator for them, in place of the node."""

    region_names: tuple[str, ...] = ()
    """The titles of the regions in pictures; empty where regions have names of their own."""

    half: Literal["rounded", "exact", "native"] = "rounded"
    """The treatment of 16-bit results that are computed in float32.

    "rounded" ones are rounded, "exact" ones are representable already (moves and selections), and "native" rules see
    the 16-bit values themselves.
    """

    native_low: bool = False
    """Whether the ONNX rule sees low dtypes themselves where the model has tensors of them, else float32."""

    lowered_at: tuple[str, ...] = ()
    """The levels of mixed precision that compute it in 16 bits, in any cell."""

    widened_at: tuple[str, ...] = ()
    """The levels of mixed precision that compute it in float32, in any cell."""

    integer_gradient: Literal["none", "whole", "divided"] = "none"
    """The gradient through integers: by the rule unchanged ("whole"), or "divided" among equals in float64."""

    vjp: Rule | None = None
    """The gradient rule."""

    onnx: str | Rule | None = None
    """The ONNX rule, or the name of an operator with the same operands and attributes."""

    @property
    def is_view(self) -> bool:
        """Whether the results are the first operands, perhaps in another shape, without memory of their own."""
        return self.onnx == "Identity"

    @property
    def may_be_operand(self) -> bool:
        """Whether a runtime's rewrites may replace a result by an operand of its size."""
        return self.is_view

    @property
    def takes_low(self) -> bool:
        """Whether an operand may be of a low dtype, which is stored and moved and never computed in."""
        return self.is_view

    @property
    def moves(self) -> bool:
        """Whether the result has only elements of its one operand, moved or repeated."""
        return self.is_view

    @property
    def is_transparent(self) -> bool:
        """Whether the result has only numbers of its one operand, moved or in another dtype."""
        return self.moves

    @property
    def selects(self) -> bool:
        """Whether the result has only numbers of its first operand, some or all, moved or in another dtype."""
        return self.is_transparent

    @property
    def is_bounded(self) -> bool:
        """Whether its operands bound the result, so that a branch may compute it and a factor may scale an operand.

        Operands of a product bound it by their Euclidean norms, the first operand of another primitive by its sum of
        absolute values; a factor scales that one. Convolutions are excluded, as a runtime may fuse them with a reader.
        """
        return self.is_product and not self.is_convolution

    @property
    def factors(self) -> tuple[int, ...]:
        """The positions of the operands that the result is a product with: twice the operand, twice the result."""
        return (0,) if self.is_transparent else ()

    def check_attributes(self, attrs: Mapping[str, object]) -> None:
        """Raise GraphTypeError for attributes that it does not take, or that are of another type."""

    def result_types(
        self, types: tuple[Type, ...], attrs: Mapping[str, object], regions: tuple[object, ...] = ()
    ) -> tuple[Type, ...]:
        """The types of the outputs; raises GraphlsError where the inputs do not fit."""
        raise NotImplementedError

    def result_sharding(self, attrs: Mapping[str, Any]) -> Sharding | None:
        """The sharding that it requires of its result, also where that divides nothing; None for any."""
        return None

    def evaluate(
        self, arrays: tuple[object, ...], attrs: Mapping[str, object], types: tuple[Type, ...]
    ) -> tuple[Any, ...]:
        """The outputs, of these `types`, as NumPy arrays."""
        raise NotImplementedError

    def run_regions(
        self, arrays: tuple[Any, ...], attrs: Mapping[str, Any], types: tuple[Type, ...],
        run: Callable[[int, tuple[Any, ...]], tuple[Any, ...]],
    ) -> tuple[Any, ...]:  # fmt: skip
        """The outputs of a node with regions; `run(index, arrays)` returns the results of a region for arrays."""
        raise NotImplementedError

    def flops(self, inputs: tuple[Type, ...], outputs: tuple[Type, ...], attrs: Mapping[str, object]) -> int:
        """The floating point operations of one run, without those of its regions."""
        raise NotImplementedError

    def region_runs(self, attrs: Mapping[str, object], flops: tuple[int, ...]) -> tuple[int, ...]:
        """The number of runs to count for each region, from the operations of each of them."""
        raise NotImplementedError


PLUGINS = "graphls.primitives"
"""The group of entry points by which installed packages bring primitives."""

_operations: dict[str, Operation] = {}


def register(operation: Operation) -> None:
    """Register a primitive, in place of another of its name; raises GraphValueError for a name of graphls's own."""
    known = _operations.get(operation.name)
    check_name("primitive", operation.name, None if known is None else type(known), type(operation))
    _operations[operation.name] = operation


def lookup(name: str) -> Operation:
    """The primitive of that name, loaded from a plugin where none is registered.

    Raises GraphKeyError that suggests the nearest one, and GraphImportError for a plugin that fails.

    Examples:
        >>> from graphls.passes import lookup
        >>> lookup("exp").name
        'exp'
    """
    if name not in _operations:
        load_plugin(PLUGINS, name, _operations)
    try:
        return _operations[name]
    except KeyError:
        known = {*_operations, *plugins(PLUGINS)}
        message = f"There is no primitive {name!r}{nearest(name, known)}; yours is known once its module is imported."
        raise GraphKeyError(message) from None


def operations() -> tuple[Operation, ...]:
    """Every primitive, by name."""
    return tuple(_operations[name] for name in sorted(_operations))


def nearest(name: str, known: Iterable[str]) -> str:
    """`; did you mean 'x'` for the closest known name, or nothing."""
    from difflib import get_close_matches

    names = list(known)
    same = [other for other in names if other.lower() == str(name).lower()]
    matches = same or get_close_matches(str(name), names, 1)
    return f"; did you mean {matches[0]!r}" if matches else ""
