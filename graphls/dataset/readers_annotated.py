"""Data sets of images with lists of what is in them: CelebA, VOC, COCO and KITTI."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from graphls.dataset.readers import Files
from graphls.dataset.readers_celeba import CelebASource
from graphls.dataset.readers_coco import CocoSource
from graphls.dataset.readers_kitti import KITTISource
from graphls.dataset.readers_voc import VOCSource
from graphls.ir.errors import GraphRuntimeError


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
        super().__init__(
            source, ["image", "attr"], cache, num_parallel_workers, num_samples=num_samples, shuffle=shuffle,
            sampler=sampler, num_shards=num_shards, shard_id=shard_id,
        )  # fmt: skip


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
        super().__init__(
            source, source.columns, cache, num_parallel_workers, num_samples=num_samples, shuffle=shuffle,
            sampler=sampler, num_shards=num_shards, shard_id=shard_id,
        )  # fmt: skip

    def get_class_indexing(self) -> dict[str, int]:
        """The numbers of the classes; raises GraphRuntimeError in other tasks."""
        if "bbox" not in self.source.columns:
            text = "Only 'Detection' tasks support get_class_indexing."
            raise GraphRuntimeError(text)
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
        super().__init__(
            source, source.columns, cache, num_parallel_workers, num_samples=num_samples, shuffle=shuffle,
            sampler=sampler, num_shards=num_shards, shard_id=shard_id,
        )  # fmt: skip

    def get_class_indexing(self) -> dict[str, list[int]]:
        """The number of each category, in Panoptic with 1 for a thing; raises GraphRuntimeError in other tasks."""
        if not self.source.classes:
            text = "Only 'Detection' and 'Panoptic' tasks support get_class_indexing."
            raise GraphRuntimeError(text)
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
        super().__init__(
            source, source.columns, cache, num_parallel_workers, num_samples=num_samples, shuffle=shuffle,
            sampler=sampler, num_shards=num_shards, shard_id=shard_id,
        )  # fmt: skip
