"""CelebA, VOC, COCO and KITTI: rows as MindSpore 2.10 gives them for the same files, and files that are damaged."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from graphls import dataset as ds
from graphls.ir.errors import GraphlsError, GraphRuntimeError, GraphTypeError, GraphValueError

Rows = list[list[Any]]

BOXES = [((1, 1, 3, 4), "dog", "<difficult>1</difficult>"), ((2, 1, 5, 3), "cat", ""), ((1, 1, 2, 2), "ant", "")]
IMAGES = [{"id": 9, "file_name": "nine.png"}, {"id": 3, "file_name": "three.png"}, {"id": 4, "file_name": "none.png"}]
COCO: dict[str, Any] = {
    "images": IMAGES,
    "categories": [{"id": 7, "name": "person", "isthing": 1}, {"id": 1, "name": "dog", "isthing": 0}],
    "annotations": [
        {"image_id": 3, "category_id": 1, "bbox": [0, 0, 1, 1], "iscrowd": 0, "segmentation": [[0, 0, 1, 0, 1, 1]],
         "num_keypoints": 0, "keypoints": [0, 0, 0], "caption": "Gräss."},
        {"image_id": 9, "category_id": 7, "bbox": [0.5, 1, 2, 2.25], "segmentation": [[1, 1, 2, 2], [0, 0]],
         "num_keypoints": 2, "keypoints": [1, 2, 2, 3, 3, 1], "caption": "A person."},
        {"image_id": 9, "category_id": 1, "bbox": [1, 1, 3, 2], "iscrowd": 1, "segmentation": {"counts": [1, 2, 3]},
         "num_keypoints": 1, "keypoints": [4, 4, 2], "caption": "A dog."},
    ],
}  # fmt: skip
CAR = "Car 0.00 0 -1.58 1.0 1.5 3.25 3.5 1.65 1.67 3.64 -0.65 1.71 46.70 -1.59\n"
UNKNOWN = "DontCare -1 -1 -10 1 1 2 2 -1 -1 -1 -1000 -1000 -1000 -10\n"


def rows(dataset: ds.Dataset) -> Rows:
    return [list(row) for row in dataset.create_tuple_iterator(num_epochs=1, output_numpy=True)]


def write(path: Path, content: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content, encoding="utf-8")


def picture(path: Path, value: int = 0, mode: str = "RGB") -> bytes:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, (5, 4), value).save(path)
    return path.read_bytes()


def check(row: list[Any], dtypes: list[str], shapes: list[tuple[int, ...]]) -> None:
    assert [column.dtype.str[1:] for column in row] == dtypes
    assert [column.shape for column in row] == shapes


@pytest.fixture
def celeba(tmp_path: Path) -> Path:
    for number in (1, 2, 3):
        picture(tmp_path / f"{number}.jpg", number)
    write(tmp_path / "list_attr_celeba.txt", "3\nOld Bald\n2.jpg -1  1\n3.jpg  1 1\n1.jpg  1 -1\n")
    write(tmp_path / "list_eval_partition.txt", "1.jpg 0\n2.jpg 1\n3.jpg 0\n")
    return tmp_path


def test_celeba_rows_are_in_the_order_of_the_list(celeba: Path) -> None:
    dataset = ds.CelebADataset(str(celeba), shuffle=False)
    assert dataset.get_col_names() == ["image", "attr"]
    found = rows(dataset)
    assert [attr.tolist() for _, attr in found] == [[0, 1], [1, 1], [1, 0]]
    assert found[0][1].dtype == np.uint32 and bytes(found[0][0]) == (celeba / "2.jpg").read_bytes()


def test_celeba_parts_extensions_and_pixels(celeba: Path) -> None:
    train = rows(ds.CelebADataset(str(celeba), usage="train", decode=True, extensions=[".jpg"], shuffle=False))
    assert [attr.tolist() for _, attr in train] == [[1, 1], [1, 0]] and train[0][0].shape == (4, 5, 3)
    with pytest.raises(GraphRuntimeError, match="has no image for usage"):
        ds.CelebADataset(str(celeba), extensions=[".png"])
    with pytest.raises(GraphValueError, match="usage is one of"):
        ds.CelebADataset(str(celeba), usage="dev")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("9\nA B\n1.jpg 1 1\n", "speaks of '9' images, but it lists 1"),
        ("x" * 99, "images, but it lists 0"),
        ("1\nA B\n1.jpg 1\n", "each of the 2 attributes"),
        ("1\nA B\n1.jpg 1 7\n", "each of the 2 attributes"),
        ("1\nA\n../1.jpg 1\n", "leads out of"),
        ("", "the file is empty"),
    ],
)
def test_damaged_lists_of_celeba(celeba: Path, content: str, message: str) -> None:
    write(celeba / "list_attr_celeba.txt", content)
    with pytest.raises(GraphRuntimeError, match=message):
        ds.CelebADataset(str(celeba))


def test_encrypted_images(celeba: Path) -> None:
    dataset = ds.CelebADataset(str(celeba), shuffle=False, decrypt=lambda path: Path(path).name.encode())
    assert bytes(rows(dataset)[0][0]) == b"2.jpg"
    with pytest.raises(GraphTypeError, match="decrypt"):
        ds.CelebADataset(str(celeba), decrypt=3)  # type: ignore[arg-type]


def annotation(boxes: list[tuple[tuple[int, ...], str, str]]) -> str:
    def sides(box: tuple[int, ...]) -> str:
        return "".join(f"<{s}>{v}</{s}>" for s, v in zip(("xmin", "ymin", "xmax", "ymax"), box, strict=True))

    parts = (f"<object><name>{n}</name>{flag}<bndbox>{sides(b)}</bndbox></object>" for b, n, flag in boxes)
    return f"<annotation><size><width>5</width></size>{''.join(parts)}</annotation>"


@pytest.fixture
def voc(tmp_path: Path) -> Path:
    for name, boxes in {"b": BOXES, "a": BOXES[1:2]}.items():
        picture(tmp_path / "JPEGImages" / f"{name}.jpg")
        picture(tmp_path / "SegmentationClass" / f"{name}.png", mode="L")
        write(tmp_path / "Annotations" / f"{name}.xml", annotation(boxes))
    for kind in ("Main", "Segmentation"):
        write(tmp_path / "ImageSets" / kind / "train.txt", "b\na\n")
    return tmp_path


def test_voc_boxes(voc: Path) -> None:
    dataset = ds.VOCDataset(str(voc), "Detection", shuffle=False)
    assert dataset.get_col_names() == ["image", "bbox", "label", "difficult", "truncate"]
    assert dataset.get_class_indexing() == {"ant": 0, "cat": 1, "dog": 2}
    first, second = rows(dataset)
    check(first[1:], ["f4", "u4", "u4", "u4"], [(3, 4), (3, 1), (3, 1), (3, 1)])
    wanted = [[[1, 1, 2, 3], [2, 1, 3, 2], [1, 1, 1, 1]], [[2], [1], [0]], [[1], [0], [0]], [[0], [0], [0]]]
    assert [column.tolist() for column in first[1:]] == wanted
    assert second[1].tolist() == [[2, 1, 3, 2]]


def test_voc_classes_that_are_not_indexed_are_left_out(voc: Path) -> None:
    dataset = ds.VOCDataset(str(voc), "Detection", class_indexing={"dog": 5}, shuffle=False)
    (row,) = rows(dataset)
    assert [column.tolist() for column in row[1:3]] == [[[1, 1, 2, 3]], [[5]]]
    assert dataset.get_class_indexing() == {"dog": 5}


def test_voc_targets_and_names(voc: Path) -> None:
    dataset = ds.VOCDataset(str(voc), decode=True, extra_metadata=True, shuffle=False)
    first, _ = rows(dataset.rename("_meta-filename", "name"))
    check(first, ["u1", "u1", "U1"], [(4, 5, 3), (4, 5, 3), ()])
    assert str(first[2]) == "b"
    with pytest.raises(GraphRuntimeError, match="get_class_indexing"):
        dataset.get_class_indexing()


BOMB = '<!DOCTYPE a [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;">]><annotation>&b;</annotation>'


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (BOMB, "DOCTYPE"),
        (BOMB.encode("utf-16").decode("latin-1"), "not XML|DOCTYPE"),
        ("<a>" * 100_000, "deep"),
        ("<annotation><object>", "not XML"),
        ("<annotation/>", "no element <object>"),
        ("<annotation><object><name>cat</name></object></annotation>", "lacks"),
        (annotation([((1, 1, 1, 4), "cat", "")]), "no area"),
        (annotation([((0, 1, 1, 4), "cat", "")]), "no area"),
        (annotation(BOXES[:1]).replace("<xmin>1", "<xmin>one"), "not a number"),
        (annotation(BOXES[:1]).replace("<xmin>1", "<xmin>nan"), "not within"),
        ("<?xml version='1.0' encoding='no-such'?><annotation/>", "not XML"),
        (" " * (2**22 + 1), "more than the"),
    ],
)
def test_damaged_annotations_of_voc(voc: Path, content: str, message: str) -> None:
    write(voc / "Annotations" / "a.xml", content)
    with pytest.raises(GraphRuntimeError, match=message):
        ds.VOCDataset(str(voc), "Detection")


def test_wrong_arguments_of_voc(voc: Path) -> None:
    with pytest.raises(GraphValueError, match="Invalid task"):
        ds.VOCDataset(str(voc), "Drawing")
    with pytest.raises(GraphValueError, match="does not exist"):
        ds.VOCDataset(str(voc), "Detection", "dev")
    with pytest.raises(GraphValueError, match="class_indexing is not supported"):
        ds.VOCDataset(str(voc), class_indexing={"cat": 1})
    write(voc / "ImageSets" / "Main" / "train.txt", "../a\n")
    with pytest.raises(GraphRuntimeError, match="leads out of"):
        ds.VOCDataset(str(voc), "Detection")


def coco(folder: Path, content: Any, task: str = "Detection", **options: Any) -> ds.CocoDataset:
    for name in ("nine", "three"):
        picture(folder / f"{name}.png")
    write(folder / "a.json", content if isinstance(content, str) else json.dumps(content))
    return ds.CocoDataset(str(folder), str(folder / "a.json"), task, shuffle=False, **options)


def test_coco_boxes_are_in_the_order_of_the_images(tmp_path: Path) -> None:
    dataset = coco(tmp_path, COCO)
    assert dataset.get_col_names() == ["image", "bbox", "category_id", "iscrowd"]
    assert dataset.get_class_indexing() == {"person": [7], "dog": [1]}
    first, second = rows(dataset)
    check(first[1:], ["f4", "u4", "u4"], [(2, 4), (2, 1), (2, 1)])
    assert [column.tolist() for column in first[1:]] == [[[0.5, 1, 2, 2.25], [1, 1, 3, 2]], [[7], [1]], [[0], [1]]]
    assert bytes(first[0]) == (tmp_path / "nine.png").read_bytes() and second[2].tolist() == [[1]]


def test_coco_outlines_keypoints_and_captions(tmp_path: Path) -> None:
    outlines, crowds = rows(coco(tmp_path, COCO, "Stuff"))[0][1:]
    assert outlines.tolist() == [[1, 1, 2, 2], [0, 0, -1, -1], [1, 2, 3, -1]] and crowds.tolist() == [[0], [1]]
    points, numbers = rows(coco(tmp_path, COCO, "Keypoint"))[0][1:]
    assert points.tolist() == [[1, 2, 2, 3, 3, 1], [4, 4, 2, -1, -1, -1]] and numbers.tolist() == [[2], [1]]
    captions = [captions.tolist() for _, captions in rows(coco(tmp_path, COCO, "Captioning"))]
    assert captions == [[["A person."], ["A dog."]], [["Gräss."]]]


def test_coco_segments(tmp_path: Path) -> None:
    segments = [{"category_id": 7, "area": 4, "bbox": [0, 0, 2, 2], "iscrowd": 0}] * 2
    content = COCO | {"annotations": [{"image_id": 9, "file_name": "nine.png", "segments_info": segments}]}
    dataset = coco(tmp_path, content, "Panoptic", decode=True, extra_metadata=True)
    assert dataset.get_class_indexing() == {"person": [7, 1], "dog": [1, 0]}
    (row,) = rows(dataset)
    check(row, ["u1", "f4", "u4", "u4", "u4", "U4"], [(4, 5, 3), (2, 4), (2, 1), (2, 1), (2, 1), ()])
    assert row[4].tolist() == [[4], [4]] and str(row[5]) == "nine"


def changed(place: list[Any], value: Any) -> dict[str, Any]:
    content = copy.deepcopy(COCO)
    holder: Any = content
    for key in place[:-1]:
        holder = holder[key]
    holder[place[-1]] = value
    return content


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[" * 100_000, "not JSON"),
        ("{", "not JSON"),
        ("[1]", "not a JSON object"),
        ("{}", "lacks"),
        (changed(["annotations"], []), "no image in it has an annotation"),
        (changed(["annotations", 0, "category_id"], 99), "category 99"),
        (changed(["annotations", 0, "category_id"], -1), "not within"),
        (changed(["annotations", 0, "category_id"], 10**30), "not within"),
        (changed(["annotations", 0, "image_id"], 99), "the image 99"),
        (changed(["annotations", 0], 3), "not a JSON object"),
        (changed(["images", 0, "file_name"], "/etc/hostname"), "leads out of"),
        (changed(["categories"], None), "lacks"),
    ],
)
def test_damaged_annotations_of_coco(tmp_path: Path, content: Any, message: str) -> None:
    with pytest.raises(GraphRuntimeError, match=message):
        coco(tmp_path, content)


@pytest.mark.parametrize("value", [None, [1, 2, 3], [1, 2, 3, "4"], [1, 2, 3, 1e300], [1, 2, 3, 10**400], {}, [[]] * 4])
def test_boxes_of_coco_that_are_none(tmp_path: Path, value: Any) -> None:
    with pytest.raises(GraphlsError, match="bbox"):
        rows(coco(tmp_path, changed(["annotations", 0, "bbox"], value)))


def test_padding_of_outlines_that_would_take_all_memory(tmp_path: Path) -> None:
    outlines = [[0] * 20_000] + [[]] * 20_000
    with pytest.raises(GraphlsError, match="too many"):
        rows(coco(tmp_path, changed(["annotations", 0, "segmentation"], outlines), "Stuff"))


@pytest.fixture
def kitti(tmp_path: Path) -> Path:
    for part in ("training", "testing"):
        for name in ("1", "0"):
            picture(tmp_path / "data_object_image_2" / part / "image_2" / f"{name}.png")
    labels = tmp_path / "data_object_label_2" / "training" / "label_2"
    write(labels / "0.txt", CAR.replace("Car", "Tram") + CAR)
    write(labels / "1.txt", UNKNOWN)
    return tmp_path


def test_kitti_objects(kitti: Path) -> None:
    dataset = ds.KITTIDataset(str(kitti), shuffle=False)
    names = ["label", "truncated", "occluded", "alpha", "bbox", "dimensions", "location", "rotation_y"]
    assert dataset.get_col_names() == ["image", *names]
    first, second = rows(dataset)
    dtypes = ["u4", "f4", "u4", *["f4"] * 5]
    check(first[1:], dtypes, [(2, 1), (2, 1), (2, 1), (2, 1), (2, 4), (2, 3), (2, 3), (2, 1)])
    assert first[1].tolist() == [[2], [0]] and second[1].tolist() == [[1]]
    assert first[5][1].tolist() == [1, 1.5, 3.25, 3.5] and second[3].tolist() == [[4294967295]]
    np.testing.assert_array_equal(first[7][0], np.float32([-0.65, 1.71, 46.7]))


def test_kitti_test_has_images_only(kitti: Path) -> None:
    dataset = ds.KITTIDataset(str(kitti), "test", decode=True)
    assert dataset.get_col_names() == ["image"] and rows(dataset)[0][0].shape == (4, 5, 3)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("Car 1 2 3\n", "fields"),
        ("\n", "no line"),
        (CAR.replace("1.5", "x"), "not a number"),
        (CAR.replace(" 0 ", " 1e9 "), "occlusion"),
    ],
)
def test_damaged_labels_of_kitti(kitti: Path, content: str, message: str) -> None:
    write(kitti / "data_object_label_2" / "training" / "label_2" / "1.txt", content)
    with pytest.raises(GraphRuntimeError, match=message):
        ds.KITTIDataset(str(kitti))


READERS: list[Callable[[str], Any]] = [
    ds.CelebADataset,
    ds.VOCDataset,
    ds.KITTIDataset,
    ds.PennTreebankDataset,
    lambda path: ds.CocoDataset(path, "a.json"),
]


@pytest.mark.parametrize("reader", READERS)
def test_folders_that_are_not_there(reader: Callable[[str], Any]) -> None:
    with pytest.raises(GraphValueError, match="does not exist"):
        reader("no/such/folder")
    with pytest.raises(GraphTypeError, match="dataset_dir"):
        reader(3)  # type: ignore[arg-type]
