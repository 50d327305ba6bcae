"""The methods of a dataset that put another node on top of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

from graphls.dataset import checks
from graphls.ir.errors import GraphTypeError

if TYPE_CHECKING:
    from graphls.dataset.pipeline.dataset import Dataset


Names = Sequence[str] | str | None


class Operations:
    """What every dataset can be made into."""

    def batch(
        self,
        batch_size: int | Callable[..., int],
        drop_remainder: bool = False,
        num_parallel_workers: int | None = None,
        *,
        input_columns: Names = None,
        output_columns: Names = None,
        per_batch_map: Callable[..., Any] | None = None,
        column_order: Names = None,
        pad_info: dict[str, Any] | None = None,
        python_multiprocessing: bool = False,
        max_rowsize: Any = None,
    ) -> Dataset:
        """Stack `batch_size` rows into one, column by column.

        `batch_size` may be a function of a BatchInfo. The last batch is smaller, or left out with `drop_remainder`.
        `per_batch_map(*columns, batch_info)` gets each of `input_columns` (all, at first) as a list of arrays and
        gives one list of arrays, or one stacked array, for each of `output_columns`. Raises GraphTypeError and
        GraphValueError for wrong arguments, and DatasetError in the iteration where rows differ in shape or dtype.
        """
        from graphls.dataset.pipeline.batch import BatchDataset

        node = BatchDataset(
            self._node, batch_size, drop_remainder, num_parallel_workers, per_batch_map, input_columns, output_columns,
            pad_info, python_multiprocessing,
        )  # fmt: skip
        return node if column_order is None else node.project(column_order)

    def padded_batch(
        self,
        batch_size: int | Callable[..., int],
        drop_remainder: bool = False,
        num_parallel_workers: int | None = None,
        pad_info: dict[str, Any] | None = None,
    ) -> Dataset:
        """Stack rows whose shapes differ, each padded at its end.

        `pad_info` gives (shape, value) by column name; None in a shape, or for it, is the largest size of the batch.
        Without `pad_info` all columns are padded so, with zeros.
        """
        info = {} if pad_info is None else pad_info
        return self.batch(batch_size, drop_remainder, num_parallel_workers, pad_info=info)

    def map(
        self,
        operations: Any,
        input_columns: Names = None,
        output_columns: Names = None,
        column_order: Names = None,
        num_parallel_workers: int | None = None,
        python_multiprocessing: bool = False,
        cache: Any = None,
        callbacks: Any = None,
        max_rowsize: Any = None,
        offload: bool | None = None,
    ) -> Dataset:
        """Replace columns by what a function, or one function after another, makes of them.

        The first function gets `input_columns` (the first column, where none are named) as arrays, each other one what
        the one before it gave. Where the last gives as many columns as went in, they take the places of those, else
        they come first, as `output_columns` names them. Workers are threads, or processes with
        `python_multiprocessing`; they change nothing but the time. `max_rowsize` and `offload` have no effect.
        Raises GraphTypeError and GraphValueError for wrong arguments, and for `cache` and `callbacks`, which are not
        offered.
        """
        from graphls.dataset.pipeline.functions import MapDataset

        for name, value in (("cache", cache), ("callbacks", callbacks)):
            if value is not None:
                raise GraphTypeError(f"{name} is not offered by map; leave it out.")
        node = MapDataset(
            self._node, operations, input_columns, output_columns, num_parallel_workers, python_multiprocessing
        )
        return node if column_order is None else node.project(column_order)

    def filter(
        self, predicate: Callable[..., Any], input_columns: Names = None, num_parallel_workers: int | None = None
    ) -> Dataset:
        """Keep the rows for which `predicate(*columns)` is true; it gets all columns where none are named."""
        from graphls.dataset.pipeline.functions import FilterDataset

        return FilterDataset(self._node, predicate, input_columns, num_parallel_workers)

    def shuffle(self, buffer_size: int) -> Dataset:
        """Take each row at random from the `buffer_size` next ones; every pass in another order."""
        from graphls.dataset.pipeline.selection import ShuffleDataset

        return ShuffleDataset(self._node, buffer_size)

    def repeat(self, count: int | None = None) -> Dataset:
        """The rows `count` times, each time in a new order where they are shuffled; for ever with None or -1."""
        from graphls.dataset.pipeline.selection import RepeatDataset

        return RepeatDataset(self._node, count)

    def skip(self, count: int) -> Dataset:
        """All rows but the first `count`."""
        from graphls.dataset.pipeline.selection import SkipDataset

        return SkipDataset(self._node, count)

    def take(self, count: int = -1) -> Dataset:
        """The first `count` rows; all with -1."""
        from graphls.dataset.pipeline.selection import TakeDataset

        return TakeDataset(self._node, count)

    def zip(self, datasets: Dataset | tuple[Dataset, ...]) -> Dataset:
        """The columns of this dataset and of others side by side, as long as all have rows."""
        from graphls.dataset.pipeline.joins import ZipDataset

        others = datasets if isinstance(datasets, (tuple, list)) else (datasets,)
        return ZipDataset((self._node, *others))

    def concat(self, datasets: Dataset | Sequence[Dataset]) -> Dataset:
        """The rows of this dataset and then those of others, which have the same columns."""
        from graphls.dataset.pipeline.joins import ConcatDataset

        others = datasets if isinstance(datasets, (tuple, list)) else (datasets,)
        return ConcatDataset((self._node, *others))

    def rename(self, input_columns: Sequence[str] | str, output_columns: Sequence[str] | str) -> Dataset:
        """The same rows with other names for some columns."""
        from graphls.dataset.pipeline.selection import RenameDataset

        return RenameDataset(self._node, input_columns, output_columns)

    def project(self, columns: Sequence[str] | str) -> Dataset:
        """Some of the columns, in this order."""
        from graphls.dataset.pipeline.selection import ProjectDataset

        return ProjectDataset(self._node, columns)

    def split(self, sizes: Sequence[int] | Sequence[float], randomize: bool = True) -> list[Dataset]:
        """Parts of the rows: by their numbers, which add up to all, or by fractions, which add up to 1.

        With `randomize` rows are dealt out at random, by the seed and the same in every pass. Raises GraphTypeError and
        GraphValueError for sizes that do not fit.
        """
        from graphls.dataset.pipeline.selection import split

        return split(self._node, sizes, randomize)

    def bucket_batch_by_length(
        self,
        column_names: Sequence[str] | str,
        bucket_boundaries: Sequence[int],
        bucket_batch_sizes: Sequence[int],
        element_length_function: Callable[..., int] | None = None,
        pad_info: dict[str, Any] | None = None,
        pad_to_bucket_boundary: bool = False,
        drop_remainder: bool = False,
    ) -> Dataset:
        """Batch rows of similar length: bucket `i` has those below boundary `i`, and a batch size of its own.

        The length is the first axis of the one column named, or what `element_length_function(*columns)` gives. A
        bucket becomes a batch when it is full, the rest at the end. With `pad_to_bucket_boundary` open sizes of
        `pad_info` become the boundary less 1. Raises GraphTypeError and GraphValueError for wrong arguments.
        """
        from graphls.dataset.pipeline.batch import BucketBatchDataset

        return BucketBatchDataset(
            self._node, column_names, bucket_boundaries, bucket_batch_sizes, element_length_function, pad_info,
            pad_to_bucket_boundary, drop_remainder,
        )  # fmt: skip

    def apply(self, apply_func: Callable[[Dataset], Dataset]) -> Dataset:
        """What a function makes of this dataset; raises GraphTypeError where that is none."""
        from graphls.dataset.pipeline.dataset import Dataset

        result = checks.function("apply_func", apply_func)(self)
        if not isinstance(result, Dataset):
            raise GraphTypeError(f"apply_func gives a dataset, not {result!r}.")
        return result

    @property
    def _node(self) -> Dataset:
        return cast("Dataset", self)
