"""`python -m graphls opt --pattern`: rewrites of a file on a graph, with what matched and what nearly did."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphls.cli.main import main
from graphls.ir import parse

GRAPH = """
graph @main(%a: f32[2,3], %b: f32[3]) {
  %s = add(%b, %a) : f32[2,3]  // forward net | net.py:3
  %y = relu(%s) : f32[2,3]  // forward net | net.py:4
  return %y
}
"""
FUNCTIONS = """
def pattern(e, x, b: "[n]"):
    return e.relu(e.add(x, b))

def replacement(e, x, b):
    return e.maximum(e.add(x, b), 0.0)
"""
GRAPHS = """
// two graphs
graph @pattern(%x: f32[]) {
  %y = relu(%x) : f32[]
  return %y
}
-----
graph @replacement(%x: f32[]) {
  %c = constant() {value=array(f32[], [0.0])} : f32[]
  %y = maximum(%x, %c) : f32[]
  return %y
}
"""


def tried(argument: str, text: str, capsys: pytest.CaptureFixture[str], name: str = "") -> tuple[int, str, list[str]]:
    """The exit code, the primitives of the printed graph, and the lines of stderr."""
    Path("graph.ir").write_text(GRAPH)
    if name:
        Path(name).write_text(text)
    code = main(["opt", "--pattern", name or argument, "graph.ir"])
    out, err = capsys.readouterr()
    return code, " ".join(node.primitive.name for node in parse(out).nodes) if out else "", err.splitlines()


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("name", "text", "primitives"),
    [
        ("fuse.py", FUNCTIONS, "add constant maximum"),
        ("fuse.ir", GRAPHS, "add constant maximum"),
        ("fuse.txt", "relu(add(x, b))\n-----\nmaximum(add(x, b), 0.0)\n", "add constant maximum"),
        ("fuse.py", "from graphls.passes import rewrite\nfuse = rewrite('relu(x)', 'maximum(x, 0.0)', name='fuse')",
         "add constant maximum"),
    ],
)  # fmt: skip
def test_a_rewrite_of_a_file_is_tried(
    name: str, text: str, primitives: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, printed, lines = tried("", text, capsys, name)
    assert (code, printed) == (0, primitives)
    assert lines == ["fuse: 1 match", "  %y = relu(%s) (net.py:4)", "  both sides agree to 1e-5 on random numbers"]


def test_a_replacement_that_changes_values_is_said_to_be_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    _, _, lines = tried("", "relu(x)\n-----\nabs(x)\n", capsys, "fuse.txt")
    assert lines[2].startswith("  WRONG: fuse changes values at <%y: f32[2,3] = relu(...)>. The graphs differ")


def test_a_pattern_alone_is_searched(capsys: pytest.CaptureFixture[str]) -> None:
    code, printed, lines = tried("relu(add(x, b))", "", capsys)
    assert (code, printed, lines) == (0, "add relu", ["relu(add(x, b)): 1 match", "  %y = relu(%s) (net.py:4)"])
    assert tried("", "def pattern(e, x):\n    return e.relu(x)", capsys, "p.py")[2][0] == "relu(x): 1 match"


def test_without_a_match_the_nearest_place_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    code, printed, lines = tried("", FUNCTIONS.replace("e.relu(e.add(", "e.relu(e.sub("), capsys, "fuse.py")
    assert (code, printed) == (0, "add relu")
    assert lines == [
        "fuse: no matches",
        "  nearest: 1 of 2 nodes match at %y = relu(%s) (net.py:4), where the pattern has sub(x, b): "
        "%s is a result of add",
        "  no node of the graph is sub; it has add, relu",
    ]


def test_rewrites_are_stages_before_all_passes(capsys: pytest.CaptureFixture[str]) -> None:
    Path("graph.ir").write_text(GRAPH)
    Path("fuse.py").write_text(FUNCTIONS)
    options = ["--print-differences", "--html", "page.html", "-p", "dce"]
    assert main(["opt", "--pattern", "fuse.py", *options, "graph.ir"]) == 0
    err = capsys.readouterr().err
    assert "// 01_fuse" in err and "// 02_dce" in err and "was: relu(%s)" in err
    assert "01_fuse" in Path("page.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("argument", "text", "name", "message"),
    [
        ("rellu(x)", "", "", "did you mean 'relu'"),
        ("", "x = 1", "p.py", "p.py has no pattern; define `pattern` and `replacement`"),
        ("", GRAPHS.replace("relu(%x)", "rellu(%x)"), "p.ir", "p.ir:4"),
        ("", "def pattern(e, x):\n    return e.relu(x)\ndef replacement(e, y):\n    return y", "p.py", "takes 'y'"),
        ("none.ir", "", "", "No such file"),
    ],
)
def test_a_wrong_file_is_one_line(
    argument: str, text: str, name: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, lines = tried(argument, text, capsys, name)
    assert code == 1 and len(lines) == 1 and message in lines[0]
