"""The parser of the text form of graphs."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from graphls.base.errors import GraphKeyError, GraphTypeError, GraphValueError
from graphls.ir.arrays import build_array
from graphls.ir.graph import Graph, Node, Value, Write
from graphls.ir.lex import SHOWN, Cursor, Token
from graphls.ir.registry import Operation, lookup
from graphls.ir.sharding import Mesh, Sharding, split_type
from graphls.ir.types import DTYPES, TOKEN, Type, parse_type

_WORDS: dict[str, Any] = {"true": True, "false": False, "none": None, "inf": float("inf"), "nan": float("nan")}
_WORDS |= {dtype.name: dtype for dtype in DTYPES}
_DEEPEST = 100
FORM = 1
"""The version of the text form. The text of another one says so in its first line: `// text form 2`."""
_FORM = re.compile(r"\s*// text form (\d{1,9})\b")


def parse(text: str, *, file: str = "<text>") -> Graph:
    """The graph that `dump` wrote as `text`.

    `file` is the name that error messages use. Raises GraphSyntaxError, with line and column, for
    text that does not parse, or is of a newer form, and for names that are not defined or defined twice;
    GraphTypeError for no text.

    Examples:
        >>> import graphls
        >>> text = '''graph @main(%x: f32[2]) {
        ...   %y = square(%x) : f32[2]  // forward
        ...   return %y
        ... }'''
        >>> graph = graphls.parse(text)
        >>> str(graph).strip() == text
        True
    """
    if not isinstance(text, str):
        raise GraphTypeError(f"parse takes the text of a graph, not {type(text).__name__}.")
    parser = _Parser(text, file)
    form = _FORM.match(text)
    if form is not None and int(form[1]) > FORM:
        newer = f"this is text form {form[1]}, and this graphls reads form {FORM}; install a newer graphls"
        raise parser.error(newer, form.start(1))
    return parser.graph()


class _Parser(Cursor):
    def __init__(self, text: str, file: str) -> None:
        super().__init__(text, file)
        self.depth = 0
        self.values: dict[str, Value] = {}
        self.blocks: list[list[str]] = [[]]

    def enter(self) -> None:
        self.depth += 1
        if self.depth > _DEEPEST:
            raise self.error(f"this is nested more than {_DEEPEST} deep")

    def leave(self) -> None:
        self.depth -= 1

    def graph(self) -> Graph:
        self.expect("graph")
        name = self.token("value")
        if name.text[0] != "@":
            raise self.error("the name of a graph begins with '@'", name.position)
        mesh = self.mesh() if self.peek("mesh") else None
        inputs = self.parameters()
        self.expect("{")
        states = []
        while self.take("state"):
            states.append(self.typed_value())
        nodes, writes = self.statements()
        self.expect("return")
        outputs = self.references()
        self.expect("}")
        self.token("end")
        return Graph(self._bare(name), inputs, tuple(states), tuple(nodes), tuple(writes), outputs, mesh)

    def mesh(self) -> Mesh:
        self.expect("mesh")
        position = self.look().position
        sizes = self.pairs("(", ")", "axis", self.number)
        try:
            return Mesh(**sizes)
        except (GraphTypeError, GraphValueError) as error:
            raise self.error(error.message.rstrip("."), position) from None

    def statements(self) -> tuple[list[Node], list[Write]]:
        nodes: list[Node] = []
        writes: list[Write] = []
        while not self.peek("return"):
            if self._is_write():
                writes.append(self.write())
            elif writes:
                raise self.error("nodes must stand before the writes of states")
            else:
                nodes.append(self.node())
        return nodes, writes

    def _is_write(self) -> bool:
        return self.look(1).text == "<-"

    def write(self) -> Write:
        state = self.use()
        self.expect("<-")
        value = self.use()
        in_place = self.take("in")
        if in_place:
            self.expect("place")
        return Write(state, value, in_place)

    def parameters(self) -> tuple[Value, ...]:
        self.expect("(")
        values: list[Value] = []
        while not self.peek(")"):
            values.append(self.typed_value())
            if not self.take(","):
                break
        self.expect(")")
        return tuple(values)

    def typed_value(self) -> Value:
        written = self.token("value")
        self.expect(":")
        return self.define(written, *self.sharded_type())

    def define(self, written: Token, type: Type, sharding: Sharding | None = None) -> Value:
        name = self._bare(written)
        key = written.text[0] + name
        if key in self.values:
            raise self.error(f"{written.text} is defined twice", written.position)
        value = Value(name, type, key[0] == "@", sharding)
        self.values[key] = value
        self.blocks[-1].append(key)
        return value

    def _bare(self, written: Token) -> str:
        quoted = written.text[1] == '"'
        return self._string(written.text[1:], written.position) if quoted else written.text[1:]

    def _string(self, text: str, position: int) -> str:
        try:
            return str(json.loads(text))
        except ValueError:
            raise self.error(f"{text[:SHOWN]} is not a valid string", position) from None

    def type(self) -> Type:
        position = self.look().position
        type, sharding = self.sharded_type()
        if sharding is not None:
            raise self.error("only a value has a sharding", position)
        return type

    def sharded_type(self) -> tuple[Type, Sharding | None]:
        if self.take("token"):
            return TOKEN, None
        token = self.token("type")
        text, sharding = split_type(token.text)
        try:
            return parse_type(text), sharding
        except GraphValueError as error:
            raise self.error(error.message.rstrip("."), token.position) from None

    def use(self) -> Value:
        written = self.token("value")
        value = self.values.get(written.text[0] + self._bare(written))
        if value is None:
            raise self.error(f"{written.text} is not defined above", written.position)
        if value is _HIDDEN:
            raise self.error(f"{written.text} belongs to a region and cannot be used outside of it", written.position)
        return value

    def references(self) -> tuple[Value, ...]:
        values = []
        while self.look().kind == "value":
            values.append(self.use())
            if not self.take(","):
                break
        return tuple(values)

    def node(self) -> Node:
        written = self.results()
        primitive = self.primitive()
        self.expect("(")
        inputs = self.references()
        self.expect(")")
        attrs = self.attributes()
        after = self.after()
        types = self.result_types(len(written))
        regions = []
        while self.take("region"):
            regions.append(self.region())
        metadata = self.comments.get(self.at, ("forward", "", None))
        outputs = tuple(self.define(w, *t) for w, t in zip(written, types, strict=True))
        return Node(primitive, inputs, outputs, attrs, after, tuple(regions), *metadata)

    def results(self) -> list[Token]:
        written = []
        while self.look().kind == "value":
            written.append(self.token("value"))
            if not self.take(","):
                break
        if written:
            self.expect("=")
        return written

    def primitive(self) -> Operation:
        word = self.token("word")
        try:
            return lookup(word.text)
        except GraphKeyError as error:
            raise self.error(error.message.rstrip("."), word.position) from None

    def after(self) -> tuple[Value, ...]:
        if not self.take("after"):
            return ()
        self.expect("(")
        values = self.references()
        self.expect(")")
        return values

    def result_types(self, count: int) -> list[tuple[Type, Sharding | None]]:
        if not count:
            return []
        self.expect(":")
        types = [self.sharded_type()]
        while len(types) < count:
            self.expect(",")
            types.append(self.sharded_type())
        return types

    def region(self) -> Graph:
        self.enter()
        self.blocks.append([])
        inputs = self.parameters() if self.peek("(") else ()
        self.expect("{")
        nodes = []
        while not self.peek("yield"):
            nodes.append(self.node())
        self.expect("yield")
        outputs = self.references()
        self.expect("}")
        self.values.update(dict.fromkeys(self.blocks.pop(), _HIDDEN))
        self.leave()
        return Graph("region", inputs, (), tuple(nodes), (), outputs)

    def attributes(self) -> dict[str, Any]:
        return self.pairs("{", "}", "attribute", self.attribute) if self.peek("{") else {}

    def pairs(self, opening: str, closing: str, kind: str, read: Callable[[], Any]) -> dict[str, Any]:
        pairs: dict[str, Any] = {}
        self.expect(opening)
        while not self.peek(closing):
            key = self.token("word")
            if key.text in pairs:
                raise self.error(f"the {kind} {key.text} is given twice", key.position)
            self.expect("=")
            pairs[key.text] = read()
            if not self.take(","):
                break
        self.expect(closing)
        return pairs

    def attribute(self) -> Any:
        token = self.look()
        if token.kind == "number":
            return self.number()
        if token.kind == "string":
            self.at += 1
            return self._string(token.text, token.position)
        if self.take("["):
            return self.tuple()
        if self.take("array"):
            return self.array()
        if token.kind == "word" and token.text not in _WORDS:
            raise self.error(f"{token.text!r} is not an attribute value")
        return _WORDS[self.token("word").text]

    def number(self) -> int | float:
        token = self.token("number")
        try:
            return int(token.text) if token.text.lstrip("-").isdigit() else float(token.text)
        except ValueError:
            raise self.error("this number has too many digits", token.position) from None

    def tuple(self) -> tuple[Any, ...]:
        self.enter()
        values = []
        while not self.peek("]"):
            values.append(self.attribute())
            if not self.take(","):
                break
        self.expect("]")
        self.leave()
        return tuple(values)

    def array(self) -> Any:
        self.expect("(")
        kind = self.type()
        self.expect(",")
        position = self.look().position
        content = self.attribute()
        self.expect(")")
        try:
            return build_array(kind, content)
        except GraphValueError as error:
            raise self.error(error.message.rstrip("."), position) from None


_HIDDEN = Value("", TOKEN)
