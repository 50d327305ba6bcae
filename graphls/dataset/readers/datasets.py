"""Data sets in the files that their authors published."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from graphls.dataset.readers.annotated import CelebASource, KITTISource, VOCSource
from graphls.dataset.readers.coco import CocoSource
from graphls.dataset.readers.files import Source
from graphls.dataset.readers.generator import GeneratorDataset
from graphls.dataset.readers.labelled import Cifar10Source, Cifar100Source, CifarSource, IdxSource, ImageFolderSource
from graphls.dataset.readers.records import PennTreebankSource, TextFileSource, TFRecordSource
from graphls.ir.errors import GraphRuntimeError, GraphValueError


class Files(GeneratorDataset):
    """A data set of files; what all of them have is in the description of GeneratorDataset."""

    def __init__(
        self,
        source: Source,
        cache: Any,
        num_parallel_workers: int | None,
        num_samples: int | None,
        shuffle: bool | None,
        sampler: Any,
        num_shards: int | None,
        shard_id: int | None,
    ) -> None:
        if cache is not None:
            raise GraphValueError("There is no cache for data sets of files; leave out the argument.")
        super().__init__(
            source, source.columns, num_samples=num_samples, shuffle=shuffle, sampler=sampler, num_shards=num_shards,
            shard_id=shard_id, num_parallel_workers=1 if num_parallel_workers is None else num_parallel_workers,
            python_multiprocessing=False,
        )  # fmt: skip


class _Labelled(Files):
    """Images with labels, of which parts can be read by their names."""

    _read: ClassVar[type[IdxSource] | type[CifarSource]]

    def __init__(
        self,
        dataset_dir: str,
        usage: str | None = None,
        num_samples: int | None = None,
        num_parallel_workers: int | None = None,
        shuffle: bool | None = None,
        sampler: Any = None,
        num_shards: int | None = None,
        shard_id: int | None = None,
        cache: Any = None,
    ) -> None:
        source = self._read(dataset_dir, usage)
        super().__init__(source, cache, num_parallel_workers, num_samples, shuffle, sampler, num_shards, shard_id)


class MnistDataset(_Labelled):
    """The digits of MNIST: columns `image`, uint8 of (28, 28, 1), and `label`, uint32 of ().

    `usage` is "train", "test" or "all", the default; with "all" the test images are first. Raises what IdxSource does.
    """

    _read = IdxSource


class FashionMnistDataset(MnistDataset):
    """The clothes of Fashion-MNIST, whose files and columns are those of MNIST."""


class Cifar10Dataset(_Labelled):
    """The images of CIFAR-10: columns `image`, uint8 of (32, 32, 3), and `label`, uint32 of ().

    `usage` is "train", "test" or "all", the default. Raises what CifarSource does.
    """

    _read = Cifar10Source


class Cifar100Dataset(_Labelled):
    """The images of CIFAR-100: columns `image`, uint8 of (32, 32, 3), `coarse_label` and `fine_label`, uint32 of ().

    `usage` is "train", "test" or "all", the default. Raises what CifarSource does.
    """

    _read = Cifar100Source


class ImageFolderDataset(Files):
    """Images in one folder for each class: columns `image` and `label`, int32 of ().

    `image` is the file's bytes, uint8 of (N,), or with `decode` its pixels, uint8 of (H, W, 3). `extensions` and
    `class_indexing` select files and number classes; raises what ImageFolderSource does.
    """

    def __init__(
        self,
        dataset_dir: str,
        num_samples: int | None = None,
        num_parallel_workers: int | None = None,
        shuffle: bool | None = None,
        sampler: Any = None,
        extensions: list[str] | None = None,
        class_indexing: dict[str, int] | None = None,
        decode: bool = False,
        num_shards: int | None = None,
        shard_id: int | None = None,
        cache: Any = None,
    ) -> None:
        source = ImageFolderSource(dataset_dir, extensions, class_indexing, decode)
        super().__init__(source, cache, num_parallel_workers, num_samples, shuffle, sampler, num_shards, shard_id)


class TFRecordDataset(Files):
    """The records of TFRecord files: the columns of `schema`, a Schema or a JSON file, else those of the first record.

    `columns_list` chooses and orders columns. Rows are in the order of the files and, unless `shuffle` is False,
    shuffled over all of them, whatever `Shuffle` says; shards have every `num_shards`-th row, so `shard_equal_rows`
    changes nothing. Raises GraphValueError for files that are compressed; else what TFRecordSource does.
    """

    def __init__(
        self,
        dataset_files: Any,
        schema: Any = None,
        columns_list: list[str] | None = None,
        num_samples: int | None = None,
        num_parallel_workers: int | None = None,
        shuffle: Any = True,
        num_shards: int | None = None,
        shard_id: int | None = None,
        shard_equal_rows: bool = False,
        cache: Any = None,
        compression_type: str | None = None,
    ) -> None:
        if compression_type:
            message = f"TFRecord files are read as they are, not with {compression_type!r}; decompress them first."
            raise GraphValueError(message)
        source = TFRecordSource(dataset_files, schema, columns_list)
        shuffle = shuffle is not False
        super().__init__(source, cache, num_parallel_workers, num_samples, shuffle, None, num_shards, shard_id)


class CelebADataset(Files):
    """The faces of CelebA: columns `image` and `attr`, uint32 of (attributes,), 1 where the face has one.

    `image` is the file's bytes, uint8 of (N,), or with `decode` its pixels, uint8 of (H, W, 3); `decrypt(path)` gives
    the bytes of an encrypted file. `usage` is "train", "valid", "test" or "all". Raises what CelebASource does.
    """

    def __init__(
        self,
        dataset_dir: str,
        num_parallel_workers: int | None = None,
        shuffle: bool | None = None,
        usage: str = "all",
        sampler: Any = None,
        decode: bool = False,
        extensions: list[str] | None = None,
        num_samples: int | None = None,
        num_shards: int | None = None,
        shard_id: int | None = None,
        cache: Any = None,
        decrypt: Callable[[str], bytes] | None = None,
    ) -> None:
        source = CelebASource(dataset_dir, usage, decode, extensions, decrypt)
        super().__init__(source, cache, num_parallel_workers, num_samples, shuffle, sampler, num_shards, shard_id)


class VOCDataset(Files):
    """The images of PASCAL VOC: for "Segmentation" columns `image`, `target`, else with boxes around objects.

    "Detection" has `image`, `bbox`, `label`, `difficult` and `truncate`; images are bytes or, with `decode`, pixels of
    three channels. `extra_metadata` adds the column _meta-filename. Raises what VOCSource does.
    """

    def __init__(
        self,
        dataset_dir: str,
        task: str = "Segmentation",
        usage: str = "train",
        class_indexing: dict[str, int] | None = None,
        num_samples: int | None = None,
        num_parallel_workers: int | None = None,
        shuffle: bool | None = None,
        decode: bool = False,
        sampler: Any = None,
        num_shards: int | None = None,
        shard_id: int | None = None,
        cache: Any = None,
        extra_metadata: bool = False,
        decrypt: Callable[[str], bytes] | None = None,
    ) -> None:
        source = VOCSource(dataset_dir, task, usage, class_indexing, decode, extra_metadata, decrypt)
        super().__init__(source, cache, num_parallel_workers, num_samples, shuffle, sampler, num_shards, shard_id)

    def get_class_indexing(self) -> dict[str, int]:
        """The numbers of the classes; raises GraphRuntimeError in other tasks."""
        if "bbox" not in self.source.columns:
            raise GraphRuntimeError("Only 'Detection' tasks support get_class_indexing.")
        return dict(self.source.classes)


class CocoDataset(Files):
    """The images of COCO with their annotations, in the columns of the task.

    The tasks are "Detection", "Stuff", "Keypoint", "Panoptic" and "Captioning"; columns and errors are those of
    CocoSource. `extra_metadata` adds the column _meta-filename.
    """

    def __init__(
        self,
        dataset_dir: str,
        annotation_file: str,
        task: str = "Detection",
        num_samples: int | None = None,
        num_parallel_workers: int | None = None,
        shuffle: bool | None = None,
        decode: bool = False,
        sampler: Any = None,
        num_shards: int | None = None,
        shard_id: int | None = None,
        cache: Any = None,
        extra_metadata: bool = False,
        decrypt: Callable[[str], bytes] | None = None,
    ) -> None:
        source = CocoSource(dataset_dir, annotation_file, task, decode, extra_metadata, decrypt)
        super().__init__(source, cache, num_parallel_workers, num_samples, shuffle, sampler, num_shards, shard_id)

    def get_class_indexing(self) -> dict[str, list[int]]:
        """The number of each category, in Panoptic with 1 for a thing; raises GraphRuntimeError in other tasks."""
        if not self.source.classes:
            raise GraphRuntimeError("Only 'Detection' and 'Panoptic' tasks support get_class_indexing.")
        return dict(self.source.classes)


class KITTIDataset(Files):
    """The street scenes of KITTI: for "test" the column `image`, else also what is known of the objects.

    Those columns are `label`, `truncated`, `occluded`, `alpha`, `bbox`, `dimensions`, `location` and `rotation_y`.
    `usage` is "train", the default, or "test". Raises what KITTISource does.
    """

    def __init__(
        self,
        dataset_dir: str,
        usage: str | None = None,
        num_samples: int | None = None,
        num_parallel_workers: int | None = None,
        shuffle: bool | None = None,
        decode: bool = False,
        sampler: Any = None,
        num_shards: int | None = None,
        shard_id: int | None = None,
        cache: Any = None,
    ) -> None:
        source = KITTISource(dataset_dir, usage, decode)
        super().__init__(source, cache, num_parallel_workers, num_samples, shuffle, sampler, num_shards, shard_id)


class TextFileDataset(Files):
    """The lines of text files that are not empty: the column `text`, a string of ().

    `dataset_files` is a path, a pattern or a list of them, read in order of their names. As in TFRecordDataset, rows
    are shuffled over all files unless `shuffle` is False. Raises what TextFileSource does.
    """

    def __init__(
        self,
        dataset_files: Any,
        num_samples: int | None = None,
        num_parallel_workers: int | None = None,
        shuffle: Any = True,
        num_shards: int | None = None,
        shard_id: int | None = None,
        cache: Any = None,
    ) -> None:
        source = TextFileSource(dataset_files)
        shuffle = shuffle is not False
        super().__init__(source, cache, num_parallel_workers, num_samples, shuffle, None, num_shards, shard_id)


class PennTreebankDataset(Files):
    """The sentences of the Penn Treebank: the column `text`, a string of ().

    `usage` is "train", "valid", "test" or "all", the default. Raises what PennTreebankSource does.
    """

    def __init__(
        self,
        dataset_dir: str,
        usage: str | None = None,
        num_samples: int | None = None,
        num_parallel_workers: int | None = None,
        shuffle: Any = True,
        num_shards: int | None = None,
        shard_id: int | None = None,
        cache: Any = None,
    ) -> None:
        source = PennTreebankSource(dataset_dir, usage)
        shuffle = shuffle is not False
        super().__init__(source, cache, num_parallel_workers, num_samples, shuffle, None, num_shards, shard_id)
