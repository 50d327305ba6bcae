"""The pass manager: pipelines as text, options, stages, dumps, and faults that name the pass."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphls
import graphls.diagnosis  # which registers its passes
from graphls import Parameter, nn, ops
from graphls.ir import Graph, dump, parse
from graphls.ir.errors import GraphKeyError, GraphTypeError, GraphValueError, VerifyError
from graphls.passes import Pipeline, as_pipeline, find_pass, manager, parse_pipeline, register_pass
from graphls.passes.simplify.dce import Dce
from graphls.passes.simplify.fold import Fold

GRAPH = """
graph @step(%x: f32[4]) {
  %one = constant() {value=array(f32[], [1.0])} : f32[]
  %y = mul(%x, %one) : f32[4]
  %z = exp(%y) : f32[4]
  return %z
}
"""


@pytest.fixture(autouse=True)
def own_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manager, "_passes", dict(manager._passes))


@pytest.fixture
def broken() -> Iterator[None]:
    @register_pass
    @dataclass(frozen=True)
    class Broken:
        """Forgets the nodes."""

        name = "broken"

        def run(self, graph: Graph) -> Graph:
            return graph.replace(nodes=())

    yield


def test_pipeline_text_gives_passes_with_options() -> None:
    pipeline = parse_pipeline(" fold{limit=7} ,dce, fold ")
    assert pipeline == Pipeline((Fold(limit=7), Dce(), Fold()))
    assert str(pipeline) == "fold{limit=7}, dce, fold"
    assert parse_pipeline(str(pipeline)) == pipeline


def test_an_empty_text_is_an_empty_pipeline() -> None:
    graph = parse(GRAPH)
    result = parse_pipeline("").run(graph)
    assert result.graph is graph
    assert list(result.stages) == ["00_input"]


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("text=window", "window"),
        ('text="a, b"', "a, b"),
        ("text='true'", "true"),
        ("flag=true", True),
        ("number=-3", -3),
        ("ratio=2", 2.0),
        ("ratio=1e-3", 1e-3),
        ("several=[1, 2]", (1, 2)),
        ("several=[]", ()),
        ("maybe=none", None),
        ("maybe=3", 3),
    ],
)
def test_option_values(written: str, value: object) -> None:
    @register_pass
    @dataclass(frozen=True)
    class Optional:
        """Has one option of each kind."""

        text: str = "x"
        flag: bool = False
        number: int = 0
        ratio: float = 0.5
        several: tuple[int, ...] = (0,)
        maybe: int | None = None
        name = "optional"

        def run(self, graph: Graph) -> Graph:
            return graph

    field = written.partition("=")[0]
    (configured,) = parse_pipeline(f"optional{{{written}}}").passes
    assert getattr(configured, field) == value
    assert type(getattr(configured, field)) is type(value)
    assert parse_pipeline(str(Pipeline((configured,)))).passes == (configured,)


@pytest.mark.parametrize(
    ("inputs", "value"),
    [
        ("[[['data'],[]]]", ((("data",), ()),)),
        ('[["data", none], (), none]', (("data", None), (), None)),
        ("[[[data, model]], [none, data]]", ((("data", "model"),), (None, "data"))),
        ("[[ '],[)' ]]", (("],[)",),)),
    ],
)
def test_options_are_nested_lists(inputs: str, value: tuple[object, ...]) -> None:
    pipeline = parse_pipeline(f"shardings{{zero=1, inputs={inputs}, data=d}}, dce")
    assert pipeline.passes[0] == find_pass("shardings")(zero=1, inputs=value, data="d")
    assert parse_pipeline(str(pipeline)) == pipeline


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("shardings{inputs=[[data]}", GraphValueError, "The option text 'inputs=[[data]' does not parse; write it"),
        ("shardings(inputs=[])", GraphValueError, "does not parse; write it like 'fold, overflow{mode=window}'"),
        ("fold, dze", GraphKeyError, "There is no pass 'dze'; did you mean 'dce'; there are "),
        ("fold{size=3}", GraphValueError, "The pass 'fold' has no option 'size'; its options: limit."),
        ("dce{size=3}", GraphValueError, "The pass 'dce' has no option 'size'; its options: none."),
        ("fold{limit=many}", GraphValueError, "The option 'limit' of the pass 'fold' takes a int, not 'many'."),
        ("fold{limit=true}", GraphValueError, "takes a int, not True"),
        ("fold; dce", GraphValueError, "The pipeline text 'fold; dce' does not parse; write it like"),
        ("fold{limit}", GraphValueError, "The option text 'limit' does not parse; write it like"),
        ("fold{limit=1", GraphValueError, "The pipeline text 'fold{limit=1' does not parse"),
        (", fold", GraphValueError, "does not parse"),
    ],
)
def test_faulty_pipelines(text: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error) as caught:
        parse_pipeline(text)
    assert message in str(caught.value)


def test_stages_are_kept_in_order_with_their_times() -> None:
    graph = parse(GRAPH)
    result = parse_pipeline("fold, dce, fold").run(graph, source="trace")
    assert list(result.stages) == list(result.seconds) == ["00_trace", "01_fold", "02_dce", "03_fold"]
    assert result.stages["00_trace"] is graph
    assert result.stages["03_fold"] is result.graph
    assert [len(stage.nodes) for stage in result.stages.values()] == [3, 2, 1, 1]
    assert all(seconds >= 0 for seconds in result.seconds.values())


def test_stages_need_not_be_kept() -> None:
    result = parse_pipeline("fold, dce").run(parse(GRAPH), keep=False)
    assert not result.stages
    assert len(result.graph.nodes) == 1


def test_the_given_graph_does_not_change() -> None:
    graph = parse(GRAPH)
    before = dump(graph)
    parse_pipeline("fold, cse, dce").run(graph)
    assert dump(graph) == before


def test_dump_writes_every_stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRAPHLS_DUMP", str(tmp_path / "made" / "here"))
    result = parse_pipeline("fold, dce").run(parse(GRAPH), keep=False)
    folder = tmp_path / "made" / "here" / "step"
    assert sorted(p.name for p in folder.iterdir()) == ["00_input.ir", "01_fold.ir", "02_dce.ir"]
    assert (folder / "02_dce.ir").read_text() == dump(result.graph)


def test_dump_keeps_inside_its_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRAPHLS_DUMP", str(tmp_path / "dump"))
    Pipeline(()).run(parse(GRAPH.replace("@step", '@"../a b"')))
    assert [p.name for p in (tmp_path / "dump").iterdir()] == [".._a_b"]


def test_dump_shows_the_graph_that_does_not_verify(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: None
) -> None:
    monkeypatch.setenv("GRAPHLS_DUMP", str(tmp_path))
    with pytest.raises(VerifyError):
        parse_pipeline("dce, broken, fold").run(parse(GRAPH))
    assert sorted(p.name for p in (tmp_path / "step").iterdir()) == ["00_input.ir", "01_dce.ir", "02_broken.ir"]


def test_verify_names_the_faulty_pass(broken: None) -> None:
    with pytest.raises(VerifyError, match="The graph after the pass 'broken' does not verify") as caught:
        parse_pipeline("fold, broken, dce").run(parse(GRAPH))
    assert "%z" in str(caught.value)


def test_verify_looks_at_the_graph_that_comes_in() -> None:
    graph = parse(GRAPH)
    with pytest.raises(VerifyError, match="The input graph of the pipeline does not verify"):
        parse_pipeline("fold").run(graph.replace(nodes=graph.nodes[1:]))


def test_verify_can_be_left_out(broken: None) -> None:
    assert not parse_pipeline("broken").run(parse(GRAPH), verify=False).graph.nodes


def test_an_error_of_a_pass_comes_through_unchanged() -> None:
    error = GraphTypeError("No gradient here.")

    @register_pass
    @dataclass(frozen=True)
    class Failing:
        """Fails."""

        name = "failing"

        def run(self, graph: Graph) -> Graph:
            raise error

    with pytest.raises(GraphTypeError) as caught:
        parse_pipeline("fold, failing").run(parse(GRAPH))
    assert caught.value is error


def test_a_pass_of_the_user_works_like_any_other() -> None:
    @register_pass
    @dataclass(frozen=True)
    class Rename:
        """Gives the graph another name."""

        to: str = "other"
        name = "rename"

        def run(self, graph: Graph) -> Graph:
            return replace(graph, name=self.to)

    result = parse_pipeline("fold, rename{to=mine}").run(parse(GRAPH))
    assert result.graph.name == "mine"
    assert as_pipeline(Rename()) == as_pipeline([Rename()]) == as_pipeline("rename")
    assert find_pass("rename") is Rename


def test_a_pass_must_return_a_graph() -> None:
    @register_pass
    @dataclass(frozen=True)
    class Forgetful:
        """Forgets to return."""

        name = "forgetful"

        def run(self, graph: Graph) -> Graph:
            return None  # type: ignore[return-value]

    with pytest.raises(GraphTypeError, match="The pass 'forgetful' returned NoneType and must return a Graph"):
        parse_pipeline("forgetful").run(parse(GRAPH))


def test_what_is_not_a_pass_cannot_be_registered() -> None:
    class Nameless:
        def run(self, graph: Graph) -> Graph:
            return graph

    class Plain(Nameless):
        name = "plain"

    with pytest.raises(GraphTypeError, match="needs a class attribute `name`"):
        register_pass(Nameless)  # type: ignore[type-var]
    with pytest.raises(GraphTypeError, match="must be a dataclass with a method run"):
        register_pass(Plain)


@pytest.mark.parametrize("name", ["fold", "cse", "dce", "gradient", "overflow", "order", "rescale", "watch", "widen"])
def test_every_pass_shows_before_and_after(name: str) -> None:
    text = find_pass(name).__doc__ or ""
    assert "Before:" in text
    assert "After" in text


def test_a_pass_that_changes_nodes_does_not_keep_marks_that_were_proven_for_others() -> None:
    """`fold` takes away what put a reader of the state before its writer."""
    text = """
    graph @step(%x: f32[3]) {
      state @s: f32[3]
      %y = mod(%x, @s) : f32[3]
      %same = broadcast_to(%y) {shape=[3]} : f32[3]
      %new = add(%x, %same) : f32[3]
      @s <- %new
      return %y
    }
    """
    graph = parse(text)

    def marks(passes: str) -> list[bool]:
        return [w.in_place for w in as_pipeline(passes).run(graph).graph.writes]

    assert marks("order") == [True]
    assert marks("order, dce") == [True], "nothing was changed"
    assert marks("order, fold") == [False]
    assert marks("order, fold, order") == [True]


@pytest.mark.parametrize("passes", ["gradient, order, fold, dce", "gradient, factor, cse, order, fold"])
def test_states_are_right_where_passes_follow_order(passes: str) -> None:
    class Cell(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.state = Parameter(np.full((4, 1), 0.75, np.float32), "state")

        def construct(self, x: Any) -> Any:
            before = self.state.value()
            y = ops.remainder(x, before)
            self.state = ops.tanh(ops.sum(x)) * ops.ones_like(x) + y * 0
            return y, before * 1

    x = np.arange(4, dtype=np.float32).reshape(4, 1)
    results = [graphls.compile(Cell(), x, passes=passes, backend=b)(x) for b in ("numpy", "onnxruntime")]
    for first, second in zip(*results, strict=True):
        np.testing.assert_allclose(first.asnumpy(), second.asnumpy(), rtol=1e-5)


@pytest.mark.parametrize("backend", ["numpy", "onnxruntime"])
def test_default_stands_for_the_passes_of_a_backend(backend: str) -> None:
    @register_pass
    @dataclass(frozen=True)
    class Mine:
        name = "mine_before_all"

        def run(self, graph: Graph) -> Graph:
            return graph

    def stages(passes: str | None) -> list[str]:
        found = graphls.compile(lambda x: x * 2, np.ones(3, np.float32), passes=passes, backend=backend).stages
        return [name.partition("_")[2] for name in found]

    usual = stages(None)
    assert stages("default") == usual
    assert stages(" mine_before_all,default ") == [usual[0], "mine_before_all", *usual[1:]]
    assert stages("default, mine_before_all, dce") == [*usual, "mine_before_all", "dce"]
    with pytest.raises(GraphKeyError, match="'defaults'"):
        stages("defaults, dce")
