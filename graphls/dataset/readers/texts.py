"""Sentences and reviews with what is known of them: SST-2, the tasks of CLUE, and tables of texts without a header."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from graphls.base.errors import GraphValueError
from graphls.dataset.columns import StrPath
from graphls.dataset.readers.files import Paths, Sequential, Source, TextParts, corrupt, folder, usage
from graphls.dataset.readers.order import Shuffle
from graphls.dataset.readers.records import TextFileSource
from graphls.dataset.readers.tables import CSVSource


class SST2Source(TextFileSource):
    """The rows of SST2Dataset: lines behind a header, with a tab between their two fields."""

    def __init__(self, dataset_dir: StrPath, part: str | None) -> None:
        directory, part = folder(dataset_dir), "train" if part is None else usage(part, "train", "test", "dev")
        self.columns = ["sentence"] if part == "test" else ["sentence", "label"]
        super().__init__(os.path.join(directory, f"{part}.tsv"), header=1)

    def __getitem__(self, index: int) -> tuple[Any, ...]:
        fields = self.text(index).split("\t")
        if len(fields) != 2:
            raise corrupt(self._paths[0], f"its row {index} has {len(fields)} fields between tabs, not 2")
        return tuple(map(np.array, fields[-len(self.columns) :]))


class SST2Dataset(TextParts):
    r"""The sentences of SST-2: columns `sentence` and `label`, strings of (); "test" has no labels.

    `usage` is "train", the default, "dev" or "test", for the file `train.tsv` and so on, which has a header. Raises
    what TextFileDataset does.

    Examples:
        >>> from pathlib import Path
        >>> from graphls import dataset as ds
        >>> Path("sst2").mkdir()
        >>> _ = Path("sst2/dev.tsv").write_text("sentence\tlabel\na fine film\t1\n")
        >>> [(str(sentence), str(label)) for sentence, label in ds.SST2Dataset("sst2", "dev")]
        [('a fine film', '1')]
    """

    _read = SST2Source


class _TableParts(TextParts):
    """A table in `train.csv` and `test.csv` whose columns, strings of (), have no names in the files."""

    names: ClassVar[Sequence[str]]

    def _read(self, dataset_dir: StrPath, part: str | None) -> Source:
        directory, part = folder(dataset_dir), usage(part, "train", "test", "all")
        parts = ["test", "train"] if part == "all" else [part]
        return CSVSource([os.path.join(directory, f"{name}.csv") for name in parts], ",", None, list(self.names))


class AGNewsDataset(_TableParts):
    r"""The news of AG: columns `index`, `title` and `description`, strings of ().

    `usage` is "train" or "test", for `train.csv` and so on, or "all", the default. Raises what CSVDataset does.

    Examples:
        >>> from pathlib import Path
        >>> from graphls import dataset as ds
        >>> Path("news").mkdir()
        >>> _ = Path("news/test.csv").write_text('"3","Oil rises","Prices, again"\n')
        >>> [tuple(map(str, row)) for row in ds.AGNewsDataset("news", "test")]
        [('3', 'Oil rises', 'Prices, again')]
    """

    names = ("index", "title", "description")


class AmazonReviewDataset(_TableParts):
    r"""Reviews of products: columns `label`, `title` and `content`; see AGNewsDataset.

    Examples:
        >>> from pathlib import Path
        >>> from graphls import dataset as ds
        >>> Path("reviews").mkdir()
        >>> _ = Path("reviews/test.csv").write_text('"2","Fine","As told"\n')
        >>> [tuple(map(str, row)) for row in ds.AmazonReviewDataset("reviews", "test")]
        [('2', 'Fine', 'As told')]
    """

    names = ("label", "title", "content")


class DBpediaDataset(_TableParts):
    r"""Descriptions of things: columns `class`, `title` and `content`; see AGNewsDataset.

    Examples:
        >>> from pathlib import Path
        >>> from graphls import dataset as ds
        >>> Path("things").mkdir()
        >>> _ = Path("things/test.csv").write_text('"7","A bridge","It spans."\n')
        >>> [tuple(map(str, row)) for row in ds.DBpediaDataset("things", "test")]
        [('7', 'A bridge', 'It spans.')]
    """

    names = ("class", "title", "content")


class YahooAnswersDataset(_TableParts):
    r"""Questions with answers: columns `class`, `title`, `content` and `answer`; see AGNewsDataset.

    Examples:
        >>> from pathlib import Path
        >>> from graphls import dataset as ds
        >>> Path("answers").mkdir()
        >>> _ = Path("answers/test.csv").write_text('"4","Why?","Tell me","So"\n')
        >>> [tuple(map(str, row)) for row in ds.YahooAnswersDataset("answers", "test")]
        [('4', 'Why?', 'Tell me', 'So')]
    """

    names = ("class", "title", "content", "answer")


_PAIRS = ("label sentence1 sentence2", "id sentence1 sentence2")
_TASKS = {
    "AFQMC": _PAIRS,
    "TNEWS": ("keywords label label_desc sentence", "id keywords sentence"),
    "IFLYTEK": ("label label_des sentence", "id sentence"),
    "CMNLI": _PAIRS,
    "WSC": (
        "idx label span1_index span1_text span2_index span2_text text",
        "idx span1_index span1_text span2_index span2_text text",
    ),
    "CSL": ("abst id keyword label", "abst id keyword"),
}
"""The columns of the tasks of CLUE: of training and evaluation, and of the test."""


class CLUESource(TextFileSource):
    """The rows of CLUEDataset: an object of JSON in each line."""

    def __init__(self, dataset_files: Paths, task: str, part: str) -> None:
        if task not in _TASKS:
            raise GraphValueError(f"task should be {', '.join(_TASKS)}, not {task!r}.")
        if part not in ("train", "test", "eval"):
            raise GraphValueError(f"usage should be 'train', 'test' or 'eval', not {part!r}.")
        self.columns = _TASKS[task][part == "test"].split()
        super().__init__(dataset_files)

    def __getitem__(self, index: int) -> tuple[Any, ...]:
        try:
            entry = json.loads(self.text(index))
            values = {**entry, **entry.get("target", {})}
            return tuple(_column(values[name]) for name in self.columns)
        except (ValueError, TypeError, AttributeError, KeyError, RecursionError, OverflowError) as error:
            path, needed = self._paths[self._rows[index][0]], ", ".join(self.columns)
            raise corrupt(path, f"its row {index} is no object of JSON with {needed} ({error!r})") from None


def _column(value: object) -> Any:
    """A number as uint32 of (), a text as a string of (), a list of texts as strings of (n,)."""
    if isinstance(value, list) and not all(isinstance(item, str) for item in value):
        raise TypeError(value)
    return np.array(value, np.uint32 if isinstance(value, int) else np.str_)


class CLUEDataset(Sequential):
    r"""The rows of a task of CLUE: texts as strings of (), indices and ids as uint32 of (), and `keyword` of (n,).

    `task` is "AFQMC", "TNEWS", "IFLYTEK", "CMNLI", "WSC" or "CSL"; `usage` is "train", "test" or "eval". Columns are in
    the order of their names. Raises GraphValueError for others, GraphRuntimeError for lines that are not of the task,
    and what TextFileDataset does.

    Examples:
        >>> from pathlib import Path
        >>> from graphls import dataset as ds
        >>> _ = Path("train.json").write_text('{"sentence1": "a", "sentence2": "b", "label": "1"}\n')
        >>> rows = ds.CLUEDataset("train.json", task="AFQMC")
        >>> rows.get_col_names(), [tuple(map(str, row)) for row in rows]
        (['label', 'sentence1', 'sentence2'], [('1', 'a', 'b')])
    """

    def __init__(
        self,
        dataset_files: Paths,
        task: str = "AFQMC",
        usage: str = "train",
        num_samples: int | None = None,
        num_parallel_workers: int | None = None,
        shuffle: bool | Shuffle | None = Shuffle.GLOBAL,
        num_shards: int | None = None,
        shard_id: int | None = None,
        cache: object = None,
    ) -> None:
        source = CLUESource(dataset_files, task, usage)
        super().__init__(source, cache, num_parallel_workers, num_samples, shuffle, num_shards, shard_id)
