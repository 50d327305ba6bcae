"""Lines of text files."""

from __future__ import annotations

import os
from bisect import bisect_right
from typing import Any

import numpy as np

from graphls.dataset.readers_files import Bytes, corrupt, folder, found_files, mapped, usage
from graphls.ir.errors import GraphRuntimeError

_NEWLINE = 10


class TextFileSource:
    """Rows (text,): a string of () for each line that is not empty, without its end, file by file.

    Files are in order of their names. Lines are found when the source is made and read when they are asked for. Raises
    GraphValueError for files that are not there, GraphRuntimeError for no line at all and for text that is not UTF-8.
    """

    def __init__(self, dataset_files: Any) -> None:
        self._paths = [path for path in sorted(found_files(dataset_files)) if os.path.getsize(path)]
        self._files = [mapped(path) for path in self._paths]
        self._lines = [_lines(data) for data in self._files]
        self._ends = np.cumsum([len(lines) for lines in self._lines], dtype=np.int64).tolist()
        if not len(self):
            raise GraphRuntimeError(f"There is no line in {dataset_files!r}.")

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def __getitem__(self, index: int) -> tuple[np.ndarray[Any, Any]]:
        file = bisect_right(self._ends, index)
        place = index - self._ends[file] + len(self._lines[file])
        start, end = self._lines[file][place]
        try:
            return (np.array(bytes(self._files[file][start:end]).decode("utf-8")),)
        except UnicodeDecodeError as error:
            raise corrupt(self._paths[file], f"the line at byte {start} is not UTF-8 text ({error})") from None


class PennTreebankSource(TextFileSource):
    """The lines of `ptb.train.txt`, `ptb.valid.txt` and `ptb.test.txt`, or of one of them; "all" has test first."""

    def __init__(self, dataset_dir: Any, part: Any) -> None:
        directory, part = folder(dataset_dir), usage(part, "train", "valid", "test", "all")
        parts = ["test", "train", "valid"] if part == "all" else [part]
        super().__init__([os.path.join(directory, f"ptb.{name}.txt") for name in parts])


def _lines(data: Bytes) -> np.ndarray[Any, Any]:
    """Where the lines begin and end that are not empty, int64 of (lines, 2)."""
    ends = np.append(np.flatnonzero(np.asarray(data) == _NEWLINE), len(data))
    starts = np.append(0, ends[:-1] + 1)
    return np.stack([starts, ends], 1)[ends > starts]
