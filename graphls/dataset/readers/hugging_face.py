"""Datasets of the package `datasets` as sources: their tables, and examples that they compute or stream."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.dataset.columns import Array, as_array
from graphls.dataset.readers.arrow_columns import IMAGE


def kind_of(source: object) -> str:
    """The class of the package `datasets` that an object has, by its name; "" for objects of other packages."""
    kinds = [kind for kind in type(source).__mro__ if kind.__module__.partition(".")[0] == "datasets"]
    return kinds[0].__name__ if kinds else ""


def is_computed(source: Any) -> bool:
    """Whether examples are results of a user's function, or arrive one after the other, and are not in a table."""
    return kind_of(source) == "IterableDataset" or source.format["type"] == "custom"


def table_of(source: Any) -> tuple[Any, Array | None, list[str]]:
    """The table of a `datasets.Dataset`, its rows in their order (None for all), and the columns of its format."""
    indices = getattr(source, "_indices", None)
    rows = None if indices is None else indices.column(0).to_numpy()
    return source.data.table, rows, list(source.format["columns"])


def check_is_split(source: Any) -> None:
    """Raise GraphTypeError for a dict of splits."""
    if isinstance(source, dict):
        kind = type(source).__name__
        article = "An" if kind[0] in "AEIOU" else "A"
        names = ", ".join(map(repr, source)) or "none"
        example = repr(next(iter(source), "train"))
        raise GraphTypeError(f"{article} {kind} holds datasets by name ({names}); choose one: [{example}].")


def class_names(source: Any) -> list[str]:
    """The names of the classes of the only column of labels; an empty list where there is none, or several."""
    features = getattr(source, "features", None) or {}
    labels = [feature.names for feature in features.values() if type(feature).__name__ == "ClassLabel"]
    return list(labels[0]) if len(labels) == 1 else []


def is_saved(source: object) -> bool:
    """Whether a path is a folder that `save_to_disk` has written."""
    return isinstance(source, (str, os.PathLike)) and any(
        os.path.isfile(os.path.join(source, name)) for name in ("state.json", "dataset_dict.json")
    )


class Examples:
    """The examples of a dataset, with their columns in order: dicts become tuples of arrays.

    Images and sounds stay files, as bytes, where the dataset knows its features and computes nothing itself.
    """

    def __init__(self, source: Any, names: Sequence[str]) -> None:
        self.source, self.names = source, tuple(names)

    def row(self, example: Any) -> tuple[Any, ...]:
        """The columns of an example; raises GraphValueError for a null and for a column that is missing."""
        return tuple([self._value(example, name) for name in self.names])

    def _value(self, example: Any, name: str) -> Any:
        if name not in example:
            raise GraphValueError(f"the example has no column {name!r}, only {', '.join(map(repr, example))}")
        value = example[name]
        if value is None or (isinstance(value, (list, tuple)) and _has_null(value)):
            raise GraphValueError(f"column {name!r} is null or contains a null; filter such rows out, or fill them")
        if isinstance(value, dict) and value.keys() == IMAGE:
            content = value["bytes"]
            return np.fromfile(value["path"], np.uint8) if content is None else np.frombuffer(content, np.uint8)
        return as_array(value if isinstance(value, (dict, str, bytes)) else np.asarray(value))


class ComputedExamples(Examples):
    """The examples of a `datasets.Dataset` with a transform, by index."""

    def __getitem__(self, index: int) -> tuple[Any, ...]:
        return self.row(self.source[int(index)])

    def __len__(self) -> int:
        return len(self.source)


class StreamedExamples(Examples):
    """The examples of a `datasets.IterableDataset`, pass by pass."""

    def __init__(self, source: Any, names: Sequence[str]) -> None:
        super().__init__(_with_files(source), names)

    def __iter__(self) -> Iterator[Any]:
        return self.epoch(0)

    def epoch(self, epoch: int) -> Iterator[Any]:
        """The examples of a pass, as dicts, in the order that the dataset has for it where it shuffles."""
        self.source.set_epoch(epoch)
        return iter(self.source)


def examples_of(source: Any, columns: Sequence[str] | None) -> Examples:
    """The examples of a dataset that computes or streams them; a stream without features is asked for its first one."""
    is_stream = kind_of(source) == "IterableDataset"
    names = columns or source.column_names or list(next(iter(source), {}))
    if not names:
        raise GraphValueError("The dataset has no examples, so that its columns are unknown; pass columns=[...].")
    return StreamedExamples(source, names) if is_stream else ComputedExamples(source, names)


def _with_files(source: Any) -> Any:
    """A stream whose images and sounds are not decoded."""
    for name, feature in (source.features or {}).items():
        if type(feature).__name__ in ("Image", "Audio") and feature.decode:
            source = source.cast_column(name, type(feature)(decode=False))
    return source


def _has_null(values: Any) -> bool:
    return any(value is None or (isinstance(value, (list, tuple)) and _has_null(value)) for value in values)
