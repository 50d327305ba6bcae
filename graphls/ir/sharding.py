"""Meshes of devices, and shardings: which axes of a mesh divide which axes of a value."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import prod
from operator import index
from types import MappingProxyType

from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.ir.types import Type

STAGE = "stage"
"""The mesh axis whose devices are the stages of a pipeline; it divides no values."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


class Mesh:
    """Devices in a grid whose axes have names, such as four for the rows of a batch times two for the model.

    The devices are numbered along the last axis first. `sizes` has the number of devices along each axis by its name,
    in order; an axis of size 1 divides nothing. Meshes are equal where their axes are, in their order.

    Raises GraphTypeError for a size that is not an integer and for one without a name, GraphValueError for a size below
    1, for a name that is not an identifier of ASCII letters, and for no axis.

    Examples:
        >>> import graphls
        >>> mesh = graphls.Mesh(data=4, model=2)
        >>> mesh.size, mesh.names, mesh.sizes["model"]
        (8, ('data', 'model'), 2)
        >>> print(mesh)
        mesh(data=4, model=2)
    """

    __slots__ = ("sizes",)

    sizes: Mapping[str, int]

    def __init__(self, /, *unnamed: object, **sizes: int) -> None:
        if unnamed:
            text = "The axes of a mesh have names; write it like Mesh(data=4, model=2)"
            raise GraphTypeError(f"{text}, not with {unnamed[0]!r} alone.")
        if not sizes:
            raise GraphValueError("A mesh has at least one axis; write it like Mesh(data=4, model=2).")
        checked = {_name(name): _size(name, size) for name, size in sizes.items()}
        object.__setattr__(self, "sizes", MappingProxyType(checked))

    def __setattr__(self, name: str, value: object) -> None:
        raise GraphTypeError(f"A mesh does not change; make another one instead of setting its {name!r}.")

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the axes."""
        return tuple(self.sizes)

    @property
    def size(self) -> int:
        """The number of devices."""
        return prod(self.sizes.values())

    @property
    def stages(self) -> int:
        """The number of stages of a pipeline: the size of the axis `stage`, 1 where there is none."""
        return self.sizes.get(STAGE, 1)

    @property
    def of_stage(self) -> Mesh:
        """The mesh of one stage: all axes but `stage`, with one device where there are no others."""
        return Mesh(**({name: size for name, size in self.sizes.items() if name != STAGE} or {STAGE: 1}))

    def parts(self, names: Iterable[str]) -> int:
        """The number of parts into which the axes of these names divide an axis of a value.

        Raises GraphValueError for a name that the mesh does not have.
        """
        return prod(self._size_of(name) for name in names)

    def _size_of(self, name: str) -> int:
        if name not in self.sizes:
            raise GraphValueError(f"The mesh has no axis {name!r}; it has {_listed(self.names)}.")
        return self.sizes[name]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mesh) and tuple(self.sizes.items()) == tuple(other.sizes.items())

    def __hash__(self) -> int:
        return hash(tuple(self.sizes.items()))

    def __reduce__(self) -> tuple[object, ...]:
        return _mesh_of, (tuple(self.sizes.items()),)

    def __str__(self) -> str:
        return f"mesh({', '.join(f'{name}={size}' for name, size in self.sizes.items())})"

    def __repr__(self) -> str:
        return f"Mesh{str(self)[4:]}"


def _mesh_of(sizes: tuple[tuple[str, int], ...]) -> Mesh:
    return Mesh(**dict(sizes))


def _listed(names: Iterable[str]) -> str:
    return " and ".join(map(repr, names))


def _name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise GraphValueError(f"{name!r} cannot name an axis of a mesh; use letters, digits and '_'.")
    return name


def _size(name: str, size: object) -> int:
    try:
        number = index(size)  # type: ignore[arg-type]
    except TypeError:
        number = None
    if number is None or isinstance(size, bool):
        raise GraphTypeError(f"The mesh axis {name!r} has a number of devices, an int, not {size!r}.")
    if number < 1:
        raise GraphValueError(f"The mesh axis {name!r} has {number} devices and must have 1 or more.")
    return number


@dataclass(frozen=True, slots=True)
class Sharding:
    """For each axis of a value the mesh axes that divide it, the first one outermost; `()` where it is whole.

    A sharding that divides no axis is false.

    Examples:
        >>> from graphls.ir import Mesh, Sharding, parse_type
        >>> sharding = Sharding.of("data", None, ("data", "model")[1:])
        >>> sharding.axes, bool(sharding)
        ((('data',), (), ('model',)), True)
        >>> sharding.local((8, 3, 6), Mesh(data=4, model=2))
        (2, 3, 3)
        >>> sharding.typed(parse_type("f32[8,3,6]"))
        'f32[8/data,3,6/model]'
    """

    axes: tuple[tuple[str, ...], ...]

    @classmethod
    def of(cls, *axes: str | Iterable[str] | None) -> Sharding:
        """The sharding where each axis is None, the name of a mesh axis or several names.

        Raises GraphTypeError for anything else, GraphValueError for a mesh axis that stands twice.
        """
        sharding = cls(tuple(map(_names, axes)))
        twice = sharding._twice()
        if twice is not None:
            raise GraphValueError(f"The mesh axis {twice!r} can divide one axis of a tensor, and not two.")
        return sharding

    @property
    def names(self) -> tuple[str, ...]:
        """All mesh axes that divide the value."""
        return tuple(name for names in self.axes for name in names)

    @classmethod
    def of_axes(cls, axes: object) -> Sharding:
        """The sharding for a tuple or list such as ("data", None); raises as `of`, and GraphTypeError for another."""
        if not isinstance(axes, (tuple, list)):
            text = "A sharding has None or names of mesh axes for each axis of a tensor, like ('data', None)"
            raise GraphTypeError(f"{text}, and cannot be {axes!r}.")
        return cls.of(*axes)

    def _twice(self) -> str | None:
        """The first mesh axis that stands twice, if one does."""
        names = self.names
        return next((name for number, name in enumerate(names) if name in names[:number]), None)

    def fault(self, shape: tuple[int, ...], mesh: Mesh | None) -> str | None:
        """The reason why the mesh, or any mesh, cannot divide a value of this shape so, as the end of a sentence."""
        if len(self.axes) != len(shape):
            return f"has {len(shape)} axes, and its sharding is for {len(self.axes)}"
        if (twice := self._twice()) is not None:
            return f"is divided twice by {twice!r}"
        if mesh is None:
            return None
        strange = next((name for name in self.names if name not in mesh.sizes), None)
        if strange is not None:
            return f"is divided by {strange!r}, which is no axis of the mesh; it has {_listed(mesh.names)}"
        for axis, (size, names) in enumerate(zip(shape, self.axes, strict=True)):
            if size % mesh.parts(names):
                return f"has {size} elements on axis {axis}, which {mesh.parts(names)} devices do not divide evenly"
        return None

    def local(self, shape: tuple[int, ...], mesh: Mesh) -> tuple[int, ...]:
        """The shape of the part of a value on each device."""
        return tuple(size // mesh.parts(names) for size, names in zip(shape, self.axes, strict=True))

    def only(self, names: Iterable[str]) -> Sharding:
        """The sharding by those mesh axes alone."""
        own = frozenset(names)
        return Sharding(tuple(tuple(name for name in axis if name in own) for axis in self.axes))

    def path(self, after: Sharding) -> tuple[Sharding, ...]:
        """The shardings on the way to another one, in order and with it: parts are joined, moved, and cut further.

        Examples:
            >>> from graphls.ir import Sharding
            >>> path = Sharding.of(None, ("a", "b")).path(Sharding.of(("a", "c"), None))
            >>> [each.axes for each in path]
            [((), ('a',)), (('a',), ()), (('a', 'c'), ())]
        """
        way = dict.fromkeys((self.only(after.names), after.only(self.names), after))
        return tuple(each for each in way if each != self) or (after,)

    def typed(self, type: Type) -> str:
        """The text of a type with this sharding: `f32[8/data,4]`."""
        pairs = zip(type.shape, self.axes, strict=False)
        parts = (f"{size}/{'+'.join(names)}" if names else str(size) for size, names in pairs)
        return f"{type.dtype.name}[{','.join(parts)}]"

    def __bool__(self) -> bool:
        return any(self.axes)


def local_type(kind: Type, sharding: Sharding | None, mesh: Mesh | None) -> Type:
    """The type of the part on each device of a value of that type, which is whole without a sharding or a mesh."""
    return kind if sharding is None or mesh is None else kind.with_shape(sharding.local(kind.shape, mesh))


def _names(axis: object) -> tuple[str, ...]:
    if axis is None:
        return ()
    names = (axis,) if isinstance(axis, str) else tuple(axis) if isinstance(axis, (tuple, list)) else (None,)
    for name in names:
        if not isinstance(name, str):
            text = "Each axis of a tensor is divided by None, a mesh axis or a tuple of mesh axes, by name"
            raise GraphTypeError(f"{text}, not by {axis!r}.")
    return tuple(map(str, names))


_TYPE = re.compile(r"/[^,\]]*")


def split_type(text: str) -> tuple[str, Sharding | None]:
    """The text of a type without its sharding, and the sharding, if it has one.

    Examples:
        >>> from graphls.ir.sharding import split_type
        >>> split_type("f32[8/data+model,4]")
        ('f32[8,4]', Sharding(axes=(('data', 'model'), ())))
    """
    if "/" not in text:
        return text, None
    parts = text[text.index("[") + 1 : -1].split(",")
    divided = (part.partition("/")[2] for part in parts)
    return _TYPE.sub("", text), Sharding(tuple(tuple(names.split("+")) if names else () for names in divided))
