"""The IR: types, graphs, their text form, the verifier and the reference interpreter."""

from graphls.base import errors as errors
from graphls.base.location import Location
from graphls.ir.build import Builder, Names
from graphls.ir.compare import same
from graphls.ir.graph import PHASES, Graph, Node, Value, Write, captures, needs, uses, walk
from graphls.ir.interpret import interpret
from graphls.ir.parse import parse
from graphls.ir.sharding import Mesh, Sharding
from graphls.ir.text import dump
from graphls.ir.types import DTYPES, TOKEN, DType, Type, as_dtype, parse_type
from graphls.ir.verify import verify

__all__ = [
    "DTYPES", "PHASES", "TOKEN", "Builder", "DType", "Graph", "Location", "Mesh", "Names", "Node", "Sharding", "Type",
    "Value", "Write",
    "as_dtype", "captures", "dump", "interpret", "needs", "parse", "parse_type", "same", "uses", "verify", "walk",
]  # fmt: skip
