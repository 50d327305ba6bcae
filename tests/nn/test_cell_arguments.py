"""Wrong arguments for the `__init__` of a cell, of graphls or of a user: errors with the user's line."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import pytest

from graphls import nn
from graphls.ir.errors import GraphTypeError

KINDS = {name: getattr(nn, name) for name in nn.__all__ if inspect.isclass(getattr(nn, name))}
CELLS = {name: kind for name, kind in KINDS.items() if issubclass(kind, nn.Cell)}


class Scaled(nn.Cell):
    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor


class TooMany(nn.Cell):
    def __init__(self) -> None:
        super().__init__(True, None, 3)  # type: ignore[call-arg]


class Within(nn.Cell):
    """A cell whose own code has a fault."""

    def __init__(self) -> None:
        super().__init__()
        len(3)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", CELLS)
def test_an_argument_that_a_cell_does_not_take_is_an_error_with_the_users_line(name: str) -> None:
    with pytest.raises(GraphTypeError, match=r"__init__\(\) (got an un|missing).*\. \(.*test_cell_arguments\.py:\d+\)"):
        CELLS[name](nonsense=1)


@pytest.mark.parametrize(
    ("make", "what"),
    [
        (lambda: nn.Threshold(), r"Threshold.__init__\(\) missing 2 required .*'threshold' and 'value'"),
        (lambda: nn.RReLU(0.1, 0.2, 0.3), r"RReLU.__init__\(\) takes from 1 to 3 positional arguments but 4"),
        (lambda: nn.Threshold(1.0, 2.0, value=3.0), r"Threshold.__init__\(\) got multiple values .*'value'"),
        (lambda: Scaled(), r"Scaled.__init__\(\) missing 1 required positional argument: 'factor'"),
        (lambda: TooMany(), r"Cell.__init__\(\) takes from 1 to 3 positional arguments but 4"),
    ],
)
def test_too_few_and_too_many_arguments(make: Callable[[], nn.Cell], what: str) -> None:
    with pytest.raises(GraphTypeError, match=rf"{what}.*\. \(.*test_cell_arguments\.py:\d+\)"):
        make()


def test_an_error_in_the_code_of_a_cell_stays_what_it_is() -> None:
    with pytest.raises(TypeError, match="has no len") as error:
        Within()
    assert not isinstance(error.value, GraphTypeError) and error.traceback[-1].name == "__init__"


def test_signatures_are_those_that_the_cells_declare() -> None:
    assert [*inspect.signature(Scaled).parameters] == ["factor"]
    assert [*inspect.signature(Scaled.__init__).parameters] == ["self", "factor"]
    assert inspect.unwrap(Scaled.__init__).__code__.co_filename == __file__
