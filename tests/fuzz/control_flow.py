"""Random constructs with branches and loops in the words of Python, written as text that NumPy runs, too."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

DEPTH, MOST_TURNS = 3, 4
HEAD = """class Random(nn.Cell):
    def __init__(self, w):
        super().__init__()
        self.w = Parameter(w, name="w")
        self.k = 2
"""
START = (
    "a, b = x[0] * 1.0, y[1] * 0.5",
    "v, u = x * 1.0, y * 0.5",
    "p, q = 1, 2",
    "xs = [a * 0.5, b * 1.0]",
    "t = (a * 2.0, u * 1.0)",
    'd = {"a": b * 1.0, "v": v * 0.5}',
)


class Writer:
    """Writes the statements of a construct; each kind of value has names that hold it from the start on.

    Numbers (`a`, `b`), vectors of three (`v`, `u`) and integers (`p`, `q`) keep their kind, and no two names share
    an array, as NumPy would change both. Every loop ends after a few turns.
    """

    def __init__(self, rng: Random) -> None:
        self.rng, self.lines, self.indent = rng, list[str](), 2
        self.numbers, self.integers = ["a", "b", "xs[0]", "xs[1]", "t[0]", 'd["a"]'], ["p", "q"]
        self.names = 0
        self.helps = False

    def write(self, line: str) -> None:
        self.lines.append("    " * self.indent + line)

    def name(self, prefix: str) -> str:
        """A name that nothing else has."""
        self.names += 1
        return f"{prefix}{self.names}"

    def block(self, head: str, depth: int, first: str = "", loops: bool = False) -> None:
        """A statement with statements below it, which may leave a loop."""
        self.write(head)
        self.indent += 1
        if first:
            self.write(first)
        self.body(depth + 1, loops)
        self.indent -= 1

    def body(self, depth: int, loops: bool, least: int = 1) -> None:
        for _ in range(self.rng.randint(least, least + 2)):
            self.statement(depth, loops)

    def statement(self, depth: int, loops: bool) -> None:
        """One statement; those with others below them only to some depth."""
        plain = [self.number, self.vector, self.integer, self.collection, self.state]
        deep = [self.branch, self.branch, self.while_loop, self.counted_loop, self.loop_over_values]
        if depth < DEPTH and self.rng.random() < 0.5:
            chosen: Callable[[int, bool], None] = self.rng.choice(deep)
            chosen(depth, loops)
        elif self.rng.random() < 0.15:
            self.leave(loops)
        else:
            self.rng.choice(plain)()

    # -- expressions --------------------------------------------------------------------------------------------------

    def of_number(self, depth: int = 0) -> str:
        kind = self.rng.randrange(9 if depth < 2 else 2)
        if kind < 2:
            return self.rng.choice(self.numbers)
        one = self.of_number(depth + 1)
        return self.rng.choice((
            f"ops.tanh({one})", f"ops.sin({one} + {self.constant()})",
            f"({one} * {self.constant()} + {self.of_number(2)})",
            f"ops.sum({self.of_vector(depth + 1)}) * 0.3", f"{self.rng.choice('vu')}[{self.of_integer()} % 3]",
            f"({one} if {self.condition(depth + 1)} else {self.of_number(2)})",
            f"ops.maximum({one}, {self.of_number(2)})",
            f"({one} * {self.of_integer()} * 0.25)",
        ))  # fmt: skip

    def of_vector(self, depth: int = 0) -> str:
        if depth > 1 or self.rng.random() < 0.3:
            return self.rng.choice(("v", "u", "self.w", "t[1]", 'd["v"]'))
        one = self.of_vector(depth + 1)
        return self.rng.choice((
            f"ops.tanh({one})", f"({one} * {self.constant()} + {self.of_vector(2)})", f"({one} * {self.of_number(2)})",
            f"ops.sin({one})", f"({one} - {self.of_number(2)})",
        ))  # fmt: skip

    def of_integer(self) -> str:
        return self.rng.choice((*self.integers, "n", "self.k", "1", "2"))

    def constant(self) -> float:
        return round(self.rng.uniform(-1.5, 1.5), 2)

    def condition(self, depth: int = 0) -> str:
        if depth < 2 and self.rng.random() < 0.25:
            one = self.condition(depth + 1)
            both = f"({one} and {self.condition(2)})", f"({one} or {self.condition(2)})"
            return self.rng.choice((f"not ({one})", *both))
        return self.rng.choice((
            f"{self.of_number(2)} > {self.constant()}", f"{self.of_number(2)} < {self.of_number(2)}",
            f"ops.sum({self.of_vector(2)}) > {self.constant()}",
            f"-0.5 < {self.of_number(2)} < {self.constant() + 1:.2f}",
            f"{self.of_integer()} % 2 == {self.rng.randrange(2)}", f"{self.of_integer()} > {self.of_integer()}",
        ))  # fmt: skip

    # -- statements ---------------------------------------------------------------------------------------------------

    def number(self) -> None:
        name = self.rng.choice("ab")
        if self.helps and self.rng.random() < 0.2:
            return self.write(f"{name} = self.help({self.of_number(1)}, {self.of_vector(1)}, n)")
        self.write(self.rng.choice((
            f"{name} = {self.of_number()} * 0.7", f"{name} += {self.of_number(1)} * 0.1", "a, b = b * 0.9, a * 1.0",
            f"{name} *= 0.5", f"{name} = {name} + sum(xs) * 0.1",
        )))  # fmt: skip

    def vector(self) -> None:
        name = self.rng.choice("vu")
        self.write(self.rng.choice((
            f"{name} = {self.of_vector()} * 0.6", f"{name} += {self.of_vector(1)} * 0.1", f"{name} *= 0.5",
            f"{name}[{self.of_integer()} % 3] = {self.of_number()} * 0.5", "v, u = u, v",
        )))  # fmt: skip

    def integer(self) -> None:
        name = self.rng.choice("pq")
        self.write(f"{name} = ({self.of_integer()} + {self.of_integer()}) % 5")

    def collection(self) -> None:
        self.write(self.rng.choice((
            f"xs[{self.rng.randrange(2)}] = {self.of_number()} * 0.5", "xs = [e * 0.5 for e in xs]",
            f"t = (t[0] * 0.5 + {self.of_number(1)} * 0.1, {self.of_vector(1)} * 0.5)",
            f'd["a"] = {self.of_number()} * 0.5',
            f'd["v"] = {self.of_vector()} * 0.5', "a, v = t[0] * 1.0, t[1] * 1.0", "xs = [xs[1], xs[0] * 0.9]",
        )))  # fmt: skip

    def state(self) -> None:
        value = f"{self.of_vector(1)} * 0.5"
        self.write(self.rng.choice((f"self.w = {value}", f"self.w = self.w + {value}", f"ops.assign(self.w, {value})")))

    def leave(self, loops: bool) -> None:
        """Out of a loop or of the function, under a condition, or nothing at all."""
        self.write(f"if {self.condition()}:")
        ways = ["return self.result(a * 0.5, v)", "return self.result(b, u * 0.5)", "pass"]
        self.write("    " + self.rng.choice([*ways, *["break", "continue"] * (2 * loops)]))

    def branch(self, depth: int, loops: bool) -> None:
        self.block(f"if {self.condition()}:", depth, loops=loops)
        if self.rng.random() < 0.3:
            self.block(f"elif {self.condition()}:", depth, loops=loops)
        if self.rng.random() < 0.6:
            self.block("else:", depth, loops=loops)

    def otherwise(self, depth: int, loops: bool) -> None:
        """What runs where no `break` has ended the loop."""
        if self.rng.random() < 0.25:
            self.block("else:", depth, loops=loops)

    def while_loop(self, depth: int, loops: bool) -> None:
        count = self.name("i")
        self.write(f"{count} = {self.rng.choice(('0', '0', 'n * 0'))}")
        bounded = f"{count} < {MOST_TURNS}"
        head = self.rng.choice((bounded, f"{count} < n", f"{bounded} and {self.condition()}"))
        self.block(f"while {head}:", depth, f"{count} = {count} + 1", loops=True)
        self.otherwise(depth, loops)

    def counted_loop(self, depth: int, loops: bool) -> None:
        count = self.name("i")
        bounds = self.rng.choice(("3", "n", "p", "1, 4", "0, n", "4, 0, -2", "n, 4", "q % 3 + 1", "1, 5, 2"))
        self.integers.append(count)
        self.block(f"for {count} in range({bounds}):", depth, loops=True)
        self.integers.remove(count)
        self.otherwise(depth, loops)

    def loop_over_values(self, depth: int, loops: bool) -> None:
        each, count = self.name("e"), self.name("i")
        head, integers = self.rng.choice((
            (f"for {each} in v * 1.0:", []), (f"for {each} in xs:", []), (f"for {each} in d['v'] + u:", []),
            (f"for {count}, {each} in enumerate(xs):", [count]), (f"for {each}, _ in zip(xs, u * 1.0):", []),
            (f"for {count}, {each} in enumerate(x):", [count]),
        ))  # fmt: skip
        self.numbers.append(each)
        self.integers += integers
        self.block(head, depth, loops=True)
        self.numbers.remove(each)
        self.integers = [name for name in self.integers if name not in integers]
        self.otherwise(depth, loops)


def source(seed: int) -> str:
    """The class of a seed; the same one each time. Its `construct(x, y, n)` gives a number and a vector."""
    rng = Random(seed)
    helper, writer = Writer(rng), Writer(rng)
    writer.helps = rng.random() < 0.4
    if writer.helps:
        helper.body(1, False)
    writer.body(0, False, least=2)
    first = [f"        {line}" for line in START]
    inner = [line.replace("self.result(", "self.number(") for line in helper.lines]
    lines = [
        "    def construct(self, x, y, n):", *first, *writer.lines,
        '        return self.result(a + sum(xs) + d["a"], v + t[1])',
        "    def help(self, a, u, n):", "        x, y = u * 1.0, u * 0.5", *first, *inner,
        "        return a * 0.5 + b * 0.2",
        "    def result(self, a, v):", "        return a, v",
        "    def number(self, a, v):", "        return a + ops.sum(v) * 0.1",
    ]  # fmt: skip
    return HEAD + "\n".join(lines) + "\n"
