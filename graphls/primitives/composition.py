"""Several primitives for which ONNX has one operator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.ir.build import Builder
from graphls.ir.graph import Value
from graphls.ir.types import Type
from graphls.primitives.control_flow.control import Grouped
from graphls.primitives.emitter import Emitter


class Composition(Grouped):
    """The results of the region, for which ONNX has one operator from a version of its operators on.

    `operator` is its name and `since` that version; the operands are its inputs, but for those at the positions
    `absent`, and the other attributes are its own. The region, which has no parameters, says what is computed: a model
    at an earlier version has that. The pass `recognise` makes these.
    """

    is_inlined = True
    region_names = ("composition",)

    def result_types(
        self, types: tuple[Type, ...], attrs: Mapping[str, Any], regions: tuple[Any, ...] = ()
    ) -> tuple[Type, ...]:
        if len(regions) != 1 or regions[0].inputs:
            raise GraphTypeError("composition takes one region without parameters.")
        if not isinstance(attrs.get("operator"), str) or not isinstance(attrs.get("since"), int):
            raise GraphTypeError("composition has an `operator`, the name of one of ONNX, and `since`, its opset.")
        return tuple(v.type for v in regions[0].outputs)

    def vjp(self, e: Builder, g: Any, *values: Value, **attrs: Any) -> Any:
        raise GraphValueError("A composition has no gradient; apply the gradient pass before the pass recognise.")

    def onnx(
        self, e: Emitter, *names: str, operator: str, since: int, absent: tuple[int, ...] = (), **attributes: Any
    ) -> tuple[str, ...]:
        if e.opset < since:
            return e.inlined()
        inputs = list(names)
        for position in absent:
            inputs.insert(position, "")
        return e.results(operator, inputs, attributes, len(e.out_types))
