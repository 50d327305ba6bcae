"""Strategies of MindSpore: into how many slices devices cut each axis of the operands of an operator, cell or function.

The axes of the operands are dimensions of the operator, such as m, k and n of a product of matrices. In the order in
which operands name them, each dimension takes the first free axes of the mesh that cut it into as many slices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import zip_longest
from math import prod
from typing import Any

from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.frontend.tensors.pytree import leaves, rebuild
from graphls.frontend.tensors.tensor import is_tensor
from graphls.frontend.trace.tracer import current_tracer
from graphls.ir.sharding import Mesh, Sharding
from graphls.ir.slices import axes_of_slices, first_axes
from graphls.ops.operands import apply, tensor_of

Names = tuple[tuple[str, ...], ...]
Dimension = object

SEPARATE = (
    "Gather", "GatherD", "GatherNd", "EmbeddingLookup", "SparseGatherV2", "Conv2D", "Conv3D", "Einsum",
    "TensorScatterUpdate", "TensorScatterAdd", "ScatterUpdate", "ScatterAdd",
)  # fmt: skip
"""Operators whose operands share no axes by position."""


ROWS = ("SparseSoftmaxCrossEntropyWithLogits", "NLLLoss", "OneHot", "CrossEntropyLoss", "SoftmaxCrossEntropyWithLogits")
"""Operators whose operands share their first axes, and not the last."""


class Layout:
    """A named grid of devices; `layout("dp", "mp")` is that of a tensor, with the axes that cut each axis of it.

    An axis of a tensor may be cut by several in a tuple, and by none with "None". The axes of the grid take, in order,
    the first free axes of the mesh, or those of their names. Raises GraphValueError for names that do not fit the grid.
    """

    def __init__(
        self, device_matrix: tuple[int, ...], alias_name: tuple[str, ...], rank_list: list[int] | None = None,
        init_alias: object | None = None,
    ) -> None:  # fmt: skip
        if len(device_matrix) != len(alias_name) or len(set(alias_name)) != len(alias_name):
            text = f"A Layout has one name for each of the {len(device_matrix)} axes, not {alias_name!r}."
            raise GraphValueError(text)
        self._device_matrix, self._alias_name, self._rank_list = device_matrix, alias_name, rank_list or []
        self._tensor_map: list[Any] = []

    def __call__(self, *tensor_map: object) -> Layout:
        for item in tensor_map:
            for name in item if isinstance(item, tuple) else (item,):
                if name != "None" and name not in self._alias_name:
                    text = f"The Layout has the axes {self._alias_name!r}, not {name!r}."
                    raise GraphValueError(text)
        layout = Layout(self._device_matrix, self._alias_name, self._rank_list)
        layout._tensor_map = list(tensor_map)
        return layout

    def to_dict(self) -> dict[str, Any]:
        """The mesh, the map of the tensor and the ranks."""
        ranks = self._rank_list or list(range(prod(self._device_matrix)))
        count = len(self._alias_name)
        index = {name: count - 1 - i for i, name in enumerate(self._alias_name)} | {"None": -1}
        axes = [tuple(map(index.get, item)) if isinstance(item, tuple) else index[item] for item in self._tensor_map]
        return {"device_matrix": self._device_matrix, "tensor_map": tuple(axes), "rank_list": ranks}

    def axes(self, mesh: Mesh) -> Names:
        """The mesh axes that cut each axis of the tensor; raises GraphValueError where the mesh has too few devices."""
        sizes = dict(zip(self._alias_name, self._device_matrix, strict=True))
        sizes.pop(INTERLEAVED, None)
        if all(mesh.sizes.get(name) == size for name, size in sizes.items()):
            cut: dict[str, tuple[str, ...]] = {name: (name,) for name in sizes}
        else:
            names = axes_of_slices(mesh, tuple(sizes.values()), f"The Layout {self._device_matrix!r}")
            cut = dict(zip(sizes, names, strict=True))
        items = (item if isinstance(item, tuple) else (item,) for item in self._tensor_map)
        return tuple(tuple(axis for name in item for axis in cut.get(name, ())) for item in items)


INTERLEAVED = "interleaved_parallel"
"""The axis of a Layout with which MindSpore cuts tensors in time, and not among devices."""


class Strategy:
    """How an operator's operands and results are cut: numbers of slices for each axis, or a Layout, for each of them.

    Raises GraphTypeError for anything else.
    """

    def __init__(self, subject: str, operands: object, results: object = None) -> None:
        self.subject = subject
        self.operands, self.results = self._checked("in_strategy", operands), self._checked("out_strategy", results)

    def _checked(self, name: str, strategy: object) -> tuple[Any, ...] | None:
        if strategy is None or (isinstance(strategy, tuple) and all(map(_is_cut, strategy))):
            return strategy
        text = f"The {name} of {self.subject} is a tuple with slices for each tensor, such as ((4, 1), (1, 2))"
        raise GraphTypeError(f"{text}, or with layouts, not {strategy!r}.")

    def applied(self, call: Callable[..., Any], inputs: Sequence[Any], settings: dict[str, Any]) -> Any:
        """The result of `call(*inputs)`, with operands and results cut as the strategy says, on a mesh."""
        tracer = current_tracer()
        mesh = None if tracer is None else tracer.mesh
        if mesh is None or mesh.size == 1:
            return call(*inputs)
        tensors = [leaf for leaf in leaves(tuple(inputs)) if is_tensor(leaf)]
        dimensions, of_result = _dimensions(self.subject, [tensor_of(x).shape for x in tensors], settings)
        cut = self._of_operands(mesh, tensors, dimensions)
        exchanged = iter([self._cut(mesh, x, axes) for x, axes in zip(tensors, cut, strict=True)])
        every = leaves(tuple(inputs))
        inputs = rebuild(tuple(inputs), [next(exchanged) if is_tensor(leaf) else leaf for leaf in every])
        return self._with_results(mesh, call(*inputs), _by_dimension(dimensions, cut), of_result)

    def _of_operands(self, mesh: Mesh, tensors: Sequence[Any], dimensions: Sequence[tuple[Dimension, ...]]) -> Any:
        """The mesh axes that cut each operand, None for one without a strategy."""
        stated = self.operands or ()
        if len(stated) > len(tensors):
            text = f"The in_strategy of {self.subject} is for {len(stated)} tensors, and there are {len(tensors)}"
            raise GraphValueError(f"{text}: {stated!r}.")
        slices: dict[Dimension, int] = {}
        for number, each in enumerate(stated):
            if not isinstance(each, Layout):
                self._count(slices, number, each, tensor_of(tensors[number]).shape, dimensions[number])
        names = axes_of_slices(mesh, tuple(slices.values()), f"The in_strategy {stated!r} of {self.subject}")
        cut = dict(zip(slices, names, strict=True))
        rest: list[Names | None] = [None] * (len(tensors) - len(stated))
        return [each.axes(mesh) if isinstance(each, Layout) else tuple(
            cut[dimension] if count > 1 else () for dimension, count in zip(dimensions[number], each, strict=True)
        ) for number, each in enumerate(stated)] + rest  # fmt: skip

    def _count(
        self, slices: dict[Dimension, int], number: int, counts: Sequence[int], shape: tuple[int, ...],
        dimensions: Sequence[Dimension],
    ) -> None:  # fmt: skip
        """Add the slices of an operand to those of the dimensions; raises GraphValueError where they do not fit."""
        which = f"The in_strategy {self.operands!r} of {self.subject}"
        if len(counts) != len(shape):
            raise GraphValueError(f"{which} has {len(counts)} numbers for tensor {number}, whose shape is {shape}.")
        for dimension, count, size in zip(dimensions, counts, shape, strict=True):
            if size % count:
                raise GraphValueError(f"{which} cuts {size} elements into {count} slices, which are not equal parts.")
            if size > 1 and slices.setdefault(dimension, count) != count:
                text = f"{which} cuts one dimension of the operator into {slices[dimension]} and into {count} slices"
                raise GraphValueError(f"{text}; operands that share a dimension are cut alike.")

    def _with_results(
        self, mesh: Mesh, results: Any, cut: dict[Dimension, tuple[str, ...]], of_result: tuple[Dimension, ...] | None
    ) -> Any:
        """The results, cut as the out_strategy says; dimensions that operands share keep their mesh axes first."""
        if self.results is None:
            return results
        tensors = leaves(results)
        sharded = [
            self._cut(mesh, x, self._of_result(mesh, each, cut, of_result))
            for x, each in zip(tensors, self.results, strict=False)
        ]
        result: Any = rebuild(results, [*sharded, *tensors[len(sharded) :]])
        return result

    def _cut(self, mesh: Mesh, x: Any, axes: Names | None) -> Any:
        """A tensor that the mesh divides so; raises GraphValueError where it cannot."""
        if axes is None:
            return x
        tensor = tensor_of(x)
        if (fault := Sharding.of(*axes).fault(tensor.shape, mesh)) is not None:
            raise GraphValueError(f"By its strategy, a tensor of {self.subject} {fault}.")
        return apply("shard", tensor, axes=axes)

    def _of_result(
        self, mesh: Mesh, counts: Layout | Sequence[int], cut: dict[Dimension, tuple[str, ...]],
        dimensions: tuple[Dimension, ...] | None,
    ) -> Names:  # fmt: skip
        if isinstance(counts, Layout):
            return counts.axes(mesh)
        own = [cut.get(dimension, ()) for dimension in dimensions or ()]
        own = own if len(own) == len(counts) else [()] * len(counts)
        reserved = {name for names, count in zip(own, counts, strict=True) if count > 1 for name in names}
        result: list[tuple[str, ...]] = []
        for names, count in zip(own, counts, strict=True):
            occupied = {name for each in result for name in each}
            others = (name for name in mesh.of_stage.names if name not in reserved and name not in occupied)
            first = names if mesh.parts(names) == count else first_axes(mesh, (*names, *others), count)
            if first is None:
                text = f"The out_strategy {self.results!r} of {self.subject} needs more devices than {mesh} has"
                raise GraphValueError(f"{text}.")
            result.append(first)
        return tuple(result)


def _is_cut(value: object) -> bool:
    is_tuple = isinstance(value, tuple) and all(type(count) is int and count > 0 for count in value)
    return is_tuple or isinstance(value, Layout)


def _by_dimension(
    dimensions: Iterable[tuple[Dimension, ...]], cut: Iterable[Names | None]
) -> dict[Dimension, tuple[str, ...]]:
    """The mesh axes of each dimension that one of the operands is cut along."""
    pairs = (pair for each, axes in zip(dimensions, cut, strict=True) if axes for pair in zip(each, axes, strict=True))
    return {dimension: names for dimension, names in pairs if names}


# -- the dimensions of operators --------------------------------------------------------------------------------------


def _dimensions(
    name: str, shapes: Sequence[tuple[int, ...]], settings: dict[str, Any]
) -> tuple[list[tuple[Dimension, ...]], tuple[Dimension, ...] | None]:
    """The dimensions of each operand of an operator, and those of its result where they are known."""
    if name in ("MatMul", "BatchMatMul") and len(shapes) >= 2:
        return _of_product(shapes, settings)
    if name == "BiasAdd":
        return [tuple(range(len(shapes[0]))), (1,)], tuple(range(len(shapes[0])))
    if name in SEPARATE:
        return [tuple((number, axis) for axis in range(len(s))) for number, s in enumerate(shapes)], None
    if name not in ROWS and _broadcast(shapes):
        every = [tuple(range(-len(shape), 0)) for shape in shapes]
    else:
        every = [tuple(range(len(shape))) for shape in shapes]
    return list(every), max(every, key=len, default=())


def _broadcast(shapes: Sequence[tuple[int, ...]]) -> bool:
    """Whether shapes fit each other from the last axis on."""
    columns = zip_longest(*(reversed(shape) for shape in shapes), fillvalue=1)
    return all(len(set(column) - {1}) <= 1 for column in columns)


def _of_product(
    shapes: Sequence[tuple[int, ...]], settings: dict[str, Any]
) -> tuple[list[tuple[Dimension, ...]], tuple[Dimension, ...]]:
    """The dimensions of a product of matrices: those of the batch from the last one on, then m, k and n."""
    (a, b), rest = shapes[:2], shapes[2:]
    first = ("k", "m") if settings.get("transpose_a") else ("m", "k")
    second = ("n", "k") if settings.get("transpose_b") else ("k", "n")
    batches = [tuple(range(-(len(shape) - 2), 0)) for shape in (a, b)]
    batch = max(batches, key=len)
    others: list[tuple[Dimension, ...]] = [tuple((n, i) for i in range(len(s))) for n, s in enumerate(rest)]
    return [(*batches[0], *first), (*batches[1], *second), *others], (*batch, "m", "n")


class EachStrategy(Strategy):
    """A strategy whose tensors share no dimensions: each takes the first axes of the mesh."""

    def _of_operands(self, mesh: Mesh, tensors: Sequence[Any], dimensions: Sequence[tuple[Dimension, ...]]) -> Any:
        stated = self.operands or ()
        which = f"The in_strategy {stated!r} of {self.subject}"
        if len(stated) > len(tensors):
            raise GraphValueError(f"{which} is for {len(stated)} tensors, and there are {len(tensors)}.")
        cut = [each.axes(mesh) if isinstance(each, Layout) else axes_of_slices(mesh, each, which) for each in stated]
        return cut + [None] * (len(tensors) - len(stated))
