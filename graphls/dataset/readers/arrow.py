"""ArrowDataset: tables of Arrow, Parquet files, and datasets of Hugging Face."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from graphls.base.errors import GraphlsError, GraphTypeError, GraphValueError
from graphls.base.reporting import load_package
from graphls.dataset import checks
from graphls.dataset.columns import Array
from graphls.dataset.pipeline.workers import Job, described
from graphls.dataset.readers import arrow_columns, files, hugging_face
from graphls.dataset.readers.generator import GeneratorDataset, Slices
from graphls.dataset.samplers import SamplerLike

SUFFIXES = (".parquet", ".arrow", ".feather")


class Rows:
    """The rows of a table by index, as tuples of arrays; `order` are the rows of the table, all where it is None."""

    def __init__(self, columns: Sequence[arrow_columns.Column], order: Array | None, length: int) -> None:
        self.columns, self.order, self.length = tuple(columns), order, length

    def __getitem__(self, index: int) -> tuple[Any, ...]:
        row = int(index if self.order is None else self.order[index])
        return tuple([column[row] for column in self.columns])

    def __len__(self) -> int:
        return self.length


class ArrowDataset(GeneratorDataset):
    """The rows of an Arrow table, of Parquet, Arrow or Feather files, or of a dataset of Hugging Face.

    `source` is a `pyarrow.Table`, a RecordBatch or a list of them, a reader of them, an object that exports itself as
    an Arrow stream (such as a data frame), a path or pattern of files that end in .parquet, .arrow or .feather, or a
    list of these, or a `datasets.Dataset` or `datasets.IterableDataset`. Nothing else imports these packages.

    - `columns`: the columns to read, in this order; by default all. The other arguments are those of
      `GeneratorDataset`; a stream has no order of its own, so `shuffle`, `sampler` and shards need another source.
    - Numbers, and lists of equal length as arrays of more axes, share the memory of the table, or of its file. A list
      of another length in each row stays such a row: `padded_batch` pads, `batch` refuses. Text is a string of (),
      bytes are uint8 of (n,); so are files in structs of `bytes` and `path`, such as images, which `vision.Decode`
      takes. Codes of a dictionary become the values that they stand for, other structs become dicts.

    Raises GraphTypeError and GraphValueError for wrong arguments, for types that are not numbers, text or bytes, and
    for nulls, with row and column, GraphRuntimeError for a file that cannot be read and where pyarrow is not installed.

    Examples:
        >>> import numpy as np
        >>> from graphls import dataset as ds
        >>> import pyarrow
        >>> table = pyarrow.table({"x": [[0.5, 1.0], [1.5, 2.0]], "label": [0, 1]})
        >>> rows = ds.ArrowDataset(table, shuffle=False)
        >>> [(x.tolist(), int(label)) for x, label in rows.create_tuple_iterator(output_numpy=True)]
        [([0.5, 1.0], 0), ([1.5, 2.0], 1)]
    """

    def __init__(
        self, source: object, columns: Sequence[str] | str | None = None, num_samples: int | None = None,
        num_parallel_workers: int = 1, shuffle: bool | None = None, sampler: SamplerLike | None = None,
        num_shards: int | None = None, shard_id: int | None = None,
    ) -> None:  # fmt: skip
        names = None if columns is None else checks.names("columns", columns)
        hugging_face.check_is_split(source) if hugging_face.kind_of(source) else None
        self.classes = hugging_face.class_names(source)
        rows, names = _rows_of(source, names)
        if isinstance(rows, hugging_face.StreamedExamples) and (shuffle or sampler is not None):
            raise GraphValueError(
                "A stream of datasets has no order that shuffle or sampler could change; pass "
                "stream.shuffle(buffer_size=1000) in its place."
            )
        super().__init__(
            rows, names, None, None, num_samples, num_parallel_workers, shuffle, sampler, num_shards, shard_id,
            python_multiprocessing=False,
        )  # fmt: skip

    def num_classes(self) -> int | None:
        """The number of classes, if the source names them."""
        return len(self.classes) or None

    def get_class_indexing(self) -> dict[str, Any]:
        """The index of each class, by its name."""
        return {name: index for index, name in enumerate(self.classes)}

    def job(self) -> Job:
        job, source = super().job(), self.source
        return replace(job, function=source.row) if isinstance(source, hugging_face.StreamedExamples) else job

    def _pass(self, epoch: int) -> Iterator[Any]:
        return self.source.epoch(epoch) if isinstance(self.source, hugging_face.StreamedExamples) else iter(self.source)


def _rows_of(source: Any, names: tuple[str, ...] | None) -> tuple[Any, tuple[str, ...]]:
    """The rows of a source, by index or in sequence, and the names of their columns."""
    order: Array | None = None
    if hugging_face.kind_of(source):
        if hugging_face.is_computed(source):
            examples = hugging_face.examples_of(source, names)
            return examples, examples.names
        table, order, own = hugging_face.table_of(source)
        names = names or tuple(own)
    else:
        table = table_of(source)
    names = checks.names("The columns of the table", table.column_names if names is None else names)
    checks.names_among(names, tuple(table.column_names), "ArrowDataset")
    columns = [_checked(table, name, order) for name in names]
    if order is None and columns and all(isinstance(column, arrow_columns.Numbers) for column in columns):
        return Slices(tuple(column.array for column in columns if isinstance(column, arrow_columns.Numbers))), names
    return Rows(columns, order, table.num_rows if order is None else len(order)), names


def _checked(table: Any, name: str, order: Array | None) -> arrow_columns.Column:
    """A column of a table; raises GraphTypeError for its type, GraphValueError for a null in these rows."""
    chunked = table.column(name)
    nulls = arrow_columns.null_rows(chunked)
    if order is not None:
        nulls = np.flatnonzero(np.isin(order, nulls))
    if len(nulls):
        count = f" ({len(nulls)} rows have one)" if len(nulls) > 1 else ""
        raise GraphValueError(
            f"Row {nulls[0]} of column {name!r} is null or contains a null{count}; drop such rows, as by "
            f"table.drop_null() of pyarrow or dataset.filter(lambda row: row[{name!r}] is not None) of datasets, or "
            "fill them."
        )
    try:
        return arrow_columns.column_of(chunked)
    except GraphTypeError as error:
        raise GraphTypeError(
            f"Column {name!r} cannot be read: {error.message}, or choose others by columns=."
        ) from None


def arrays_of(source: Any) -> dict[str, Array]:
    """The columns of a table or of files as arrays by name; raises as ArrowDataset does, and where shapes differ."""
    table = table_of(source)
    return {name: _array(_checked(table, name, None), name) for name in checks.names("columns", table.column_names)}


def _array(column: arrow_columns.Column, name: str) -> Array:
    try:
        return arrow_columns.array_of_column(column)
    except GraphValueError as error:
        raise GraphValueError(f"Column {name!r} is not one array: {error.message}.") from None


def table_of(source: Any) -> Any:
    """The `pyarrow.Table` of a source; raises GraphTypeError for objects of other kinds."""
    if hugging_face.is_saved(source):
        raise GraphValueError(
            f"{str(source)!r} is a folder of save_to_disk; pass datasets.load_from_disk({str(source)!r})."
        )
    if isinstance(source, (str, os.PathLike)) or _are(source, (str, os.PathLike)):
        return _joined([read_table(Path(path)) for path in files.matching_files(source)])
    arrow = arrow_columns.arrow()
    if isinstance(source, arrow.Table):
        return source
    if isinstance(source, arrow.RecordBatchReader):
        return source.read_all()
    if callable(getattr(source, "to_table", None)) and type(source).__module__.startswith("pyarrow"):
        return source.to_table()  # a pyarrow.dataset.Dataset
    if _are(source, (arrow.Table, arrow.RecordBatch)):
        return _joined([arrow.table(part) for part in source])
    if hasattr(type(source), "__arrow_c_stream__") or hasattr(type(source), "__arrow_c_array__"):
        return arrow.table(source)
    advice = "; NumpySlicesDataset takes dicts of arrays" if isinstance(source, dict) else ""
    raise GraphTypeError(
        "The source of ArrowDataset is a table of pyarrow, record batches, a dataset of Hugging Face, or files that "
        f"end in {', '.join(SUFFIXES)}, and is of type {type(source).__name__}{advice}."
    )


def _are(source: object, kinds: Any) -> bool:
    return isinstance(source, (list, tuple)) and bool(source) and all(isinstance(item, kinds) for item in source)


def _joined(tables: Sequence[Any]) -> Any:
    """Tables below each other; raises GraphValueError where their columns differ."""
    arrow = arrow_columns.arrow()
    try:
        return arrow.concat_tables(tables) if len(tables) > 1 else tables[0]
    except arrow.ArrowException as error:
        raise GraphValueError(f"The tables differ in their columns: {described(error)}.") from None


def read_table(path: Path) -> Any:
    """The `pyarrow.Table` of a file, mapped into memory unless it is compressed.

    Raises GraphRuntimeError for a file that is damaged or of another format, and where pyarrow is not installed.
    """
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise GraphValueError(f"ArrowDataset reads files that end in {', '.join(SUFFIXES)}, not {str(path)!r}.")
    arrow = arrow_columns.arrow()
    try:
        table = _parquet(path) if suffix == ".parquet" else _mapped(arrow, path)
        _validate(table)
        return table
    except GraphlsError:
        raise
    except (arrow.ArrowException, OSError, ValueError) as error:
        raise files.corrupt(str(path), described(error).rstrip(".")) from None


def _validate(table: Any) -> None:
    """Raise ArrowInvalid or UnicodeDecodeError for a damaged table; text and numbers, which may be any, are not read.

    Codes of dictionaries are compared with their number of values, and names of columns and fields are decoded.
    """
    kinds = table.schema.to_string(show_field_metadata=False, show_schema_metadata=False)
    table.validate()
    if "dictionary<" in kinds:
        for column in table.columns:
            column.validate(full="dictionary<" in str(column.type))


def _parquet(path: Path) -> Any:
    parquet = load_package("pyarrow.parquet", "Parquet files need pyarrow, which", "pip install pyarrow")
    return parquet.ParquetFile(path, memory_map=True).read()


def _mapped(arrow: Any, path: Path) -> Any:
    """The table of an Arrow file, which Feather files are since version 2, or of an Arrow stream."""
    with open(path, "rb") as file:
        magic = file.read(6)
    ipc = load_package("pyarrow.ipc", "Arrow files need pyarrow, which", "pip install pyarrow")
    source = arrow.memory_map(str(path))
    return (ipc.open_file if magic == b"ARROW1" else ipc.open_stream)(source).read_all()
