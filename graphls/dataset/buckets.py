"""The node that batches rows of similar length."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from graphls.dataset import checks
from graphls.dataset.batch import Stacker
from graphls.dataset.dataset import Dataset
from graphls.dataset.jobs import Job
from graphls.dataset.padding import Padding
from graphls.dataset.run import Run
from graphls.dataset.values import Row
from graphls.ir.errors import GraphTypeError, GraphValueError


class BucketBatchDataset(Dataset):
    """See `Dataset.bucket_batch_by_length`."""

    def __init__(
        self,
        child: Dataset,
        column_names: Sequence[str] | str,
        bucket_boundaries: Sequence[int],
        bucket_batch_sizes: Sequence[int],
        element_length_function: Callable[..., int] | None,
        pad_info: dict[str, Any] | None,
        pad_to_bucket_boundary: bool,
        drop_remainder: bool,
    ) -> None:
        super().__init__(child)
        self.places = self.need(checks.names("column_names", column_names), "bucket_batch_by_length")
        self.boundaries = _integers("bucket_boundaries", bucket_boundaries)
        self.batch_sizes = _integers("bucket_batch_sizes", bucket_batch_sizes)
        self.measure = _measure(element_length_function, self.places)
        self.pad_to_boundary = checks.flag("pad_to_bucket_boundary", pad_to_bucket_boundary)
        self.drop_remainder = checks.flag("drop_remainder", drop_remainder)
        self.padding = Padding(self.columns, {} if pad_info is None else pad_info)
        self._check_buckets()

    def _check_buckets(self) -> None:
        if any(low >= high for low, high in zip(self.boundaries, self.boundaries[1:], strict=False)):
            raise GraphValueError(f"bucket_boundaries grow, not {self.boundaries}.")
        if len(self.batch_sizes) != len(self.boundaries) + 1:
            raise GraphValueError(
                f"bucket_batch_sizes has one number more than bucket_boundaries, not {len(self.batch_sizes)} for "
                f"{len(self.boundaries)}.",
            )

    def job(self) -> Job:
        return Job(self._made, 1, False, "bucket_batch_by_length", self.location)

    def _made(self, task: tuple[int, list[Row]]) -> Row:
        """The batch of the rows of a bucket."""
        bucket, rows = task
        limit = None
        if self.pad_to_boundary:
            if bucket == len(self.boundaries):
                raise GraphValueError("a row is longer than the last of bucket_boundaries, to which it would be padded")
            limit = self.boundaries[bucket] - 1
        columns = self.padding(tuple(zip(*rows, strict=True)), limit)
        return Stacker(self.columns, None, None, None).stack(columns)

    def stream(self, run: Run, turn: int, start: int = 0) -> Iterator[Row]:
        return islice(run.each(self, turn, enumerate(self._buckets(self.children[0].stream(run, turn)))), start, None)

    def _buckets(self, rows: Iterable[Row]) -> Iterator[tuple[int, list[Row]]]:
        """Full buckets, and those that are left at the end."""
        buckets: list[list[Row]] = [[] for _ in self.batch_sizes]
        for row in rows:
            bucket = bisect_right(self.boundaries, self.measure(row))
            buckets[bucket].append(row)
            if len(buckets[bucket]) == self.batch_sizes[bucket]:
                yield bucket, buckets[bucket]
                buckets[bucket] = []
        if not self.drop_remainder:
            yield from ((bucket, members) for bucket, members in enumerate(buckets) if members)


def _integers(name: str, values: Sequence[int]) -> list[int]:
    if not isinstance(values, (list, tuple)) or not values:
        raise GraphTypeError(f"{name} is a list of integers, not {values!r}.")
    return [checks.integer(f"Each of {name}", value, 1) for value in values]


def _measure(function: Callable[..., int] | None, places: tuple[int, ...]) -> Callable[[Row], int]:
    if function is not None:
        checks.function("element_length_function", function)
        return lambda row: int(function(*[row[place] for place in places]))
    if len(places) > 1:
        raise GraphValueError(
            "Rows of several columns have the length that element_length_function gives; it is missing.",
        )
    return lambda row: len(row[places[0]])
