"""Wrong arguments of operations on images: TypeError or ValueError as in MindSpore, with the user's line."""

from __future__ import annotations

import struct
from io import BytesIO

import numpy as np
import pytest
from PIL import Image

from graphls.dataset import vision
from graphls.ir.errors import GraphlsError, GraphTypeError, GraphValueError

TYPES = """
Resize(2.5) | Resize((1,2,3)) | Resize('a') | Resize((1,2.0)) | Resize(5,2) | Rescale('a',0) | Rescale(1,None)
Normalize(1,1) | Normalize(['a'],[1]) | Normalize([1],[1],1) | Normalize(np.array([1.0]),np.array([1.0]))
CenterCrop(1.5) | CenterCrop((1,)) | Crop((0,),1) | Crop(0,1) | RandomHorizontalFlip('a')
RandomHorizontalFlip(True) | RandomCrop(5,1.5) | RandomCrop(5,pad_if_needed=1) | RandomCrop(5,fill_value=(1,2))
RandomCrop(5,fill_value=[1,2,3]) | RandomCrop(5,padding_mode='edge') | Pad('a') | Pad(1,0,'constant')
Pad(None) | RandomResizedCrop(5,(0.1,0.5,1)) | RandomResizedCrop(5,max_attempts=1.5) | RandomResizedCrop(5,0.5)
RandomRotation((1,2,3)) | RandomRotation('a') | RandomRotation(5,'a') | RandomRotation(5,expand=1) | Rotate('a')
Rotate([1,2]) | RandomColorAdjust('a') | RandomColorAdjust((1,2,3)) | AdjustBrightness('a') | AdjustHue('a')
AdjustGamma(1,'a') | AutoContrast('a') | AutoContrast(0,'a') | AutoContrast(0,[1.5]) | Posterize(1.5)
RandomPosterize((1,2,3)) | RandomPosterize('a') | Solarize('a') | Solarize((1,2,3)) | RandomSolarize(5)
RandomSolarize((1.5,2)) | GaussianBlur(1.5) | GaussianBlur((3,)) | GaussianBlur(3,'a') | GaussianBlur(3,(1,2,3))
RandomErasing(inplace=1) | CutOut(1.5) | CutOut(1,is_hwc=1) | MixUp(1.5,1.0) | MixUp(2,1.0,1) | MixUpBatch('a')
CutMixBatch('NHWC') | CutMixBatch(ImageBatchFormat.NHWC,'a') | Grayscale('a') | Grayscale(1.0)
ConvertColor('a') | ConvertColor(4) | RgbToHsv(1) | RandomAffine('a') | RandomAffine(5,0.1)
RandomAffine(5,(0.1,)) | RandomAffine(5,(0.1,0.2,0.3)) | RandomAffine(5,None,1.0)
RandomAffine(5,None,None,(1,2,3)) | RandomAffine(5,None,None,'a') | RandomAffine(5,None,None,None,'a')
RandomAffine(5,fill_value=(1,2)) | Affine('a',(0,0),1,0) | Affine(1,0,1,0) | Affine(1,(0,0),1,(1,2,3))
RandomPerspective(2) | RandomPerspective(0.5,2) | RandomPerspective(0.5,0.5,'a') | Perspective([[0,0]],[[0,0]])
Perspective(1,2) | Perspective([[0,0],[22,0],[22,16],[0,1.5]],[[2,1],[20,3],[21,14],[1,15]])
UniformAugment(HorizontalFlip(),2) | UniformAugment([1,2],1) | TenCrop(5,1) | LinearTransformation(1,2)
SlicePatches(1,1,'a') | ToType('abc') | ToType(1) | ToTensor('abc') | RandAugment(1.5) | AutoAugment('imagenet')
AutoAugment(interpolation=1) | TrivialAugmentWide(1.5) | RandomSharpness(1) | RandomColor(1)
RandomColor(('a',1)) | RandomLighting('a') | RandomInvert('a') | Erase(0,0,1,1,(1,2)) | Erase(0,0,1,1,0,1)
Erase(0.5,0,1,1) | NormalizePad([1],[1],1) | PadToSize('a') | PadToSize(5,None,0,'a')
Decode(1) | RandomResize('a') | ResizedCrop(0,0,5,5,5,1)
RandomSelectSubpolicy(1) | RandomSelectSubpolicy([[(1,0.5)]])
"""
VALUES = """
Resize(0) | Resize(-1) | Normalize([1],[0]) | Normalize([1,2],[1]) | Normalize([-1],[1]) | Normalize([256],[1])
CenterCrop(0) | Crop((-1,0),1) | Crop((0,0),0) | RandomHorizontalFlip(1.5) | RandomHorizontalFlip(-0.1)
RandomCrop(0) | RandomCrop(5,-1) | RandomCrop(5,(1,2,3)) | RandomCrop(5,fill_value=256) | Pad(-1) | Pad((1,2,3))
Pad(1,-1) | RandomResizedCrop(5,(1,0.5)) | RandomResizedCrop(5,(-1,0.5)) | RandomResizedCrop(5,(0,0))
RandomResizedCrop(5,ratio=(0,1)) | RandomResizedCrop(5,ratio=(2,1)) | RandomResizedCrop(5,max_attempts=0)
RandomRotation(-1) | RandomRotation((2,1)) | RandomRotation(5,center=[1,2]) | RandomRotation(5,center=(1,))
RandomRotation(5,fill_value=-1) | RandomColorAdjust(-1) | RandomColorAdjust((2,1)) | RandomColorAdjust(hue=0.6)
RandomColorAdjust(hue=(-0.6,0)) | RandomColorAdjust(brightness=(-1,1)) | AdjustBrightness(-1) | AdjustHue(0.6)
AdjustGamma(-1) | AutoContrast(50) | AutoContrast(-1) | AutoContrast(0,256) | AutoContrast(0,-1) | Posterize(9)
Posterize(-1) | RandomPosterize((0,3)) | RandomPosterize((5,3)) | RandomPosterize(9) | Solarize(256)
Solarize(-1) | Solarize((2,1)) | RandomSolarize((5,300)) | RandomSolarize((9,5)) | GaussianBlur(2)
GaussianBlur(0) | GaussianBlur(-1) | GaussianBlur(3,-1) | RandomErasing(2) | RandomErasing(scale=(2,1))
RandomErasing(scale=(-1,1)) | RandomErasing(ratio=(0,1)) | RandomErasing(value='a') | RandomErasing(value=256)
RandomErasing(value=(1,2)) | RandomErasing(value=-1) | RandomErasing(max_attempts=0) | CutOut(0) | CutOut(1,0)
MixUp(0,1.0) | MixUp(2,0.0) | MixUp(2,-1.0) | MixUpBatch(0) | MixUpBatch(-1)
CutMixBatch(ImageBatchFormat.NHWC,0) | CutMixBatch(ImageBatchFormat.NHWC,1.0,2) | Grayscale(2)
RandomAffine(-1) | RandomAffine((2,1)) | RandomAffine(5,(0.1,2)) | RandomAffine(5,None,(0,0))
RandomAffine(5,None,(2,1)) | RandomAffine(5,None,(-1,1)) | RandomAffine(5,None,None,-1)
RandomAffine(5,None,None,0) | RandomAffine(5,None,None,(2,1)) | RandomAffine(5,fill_value=-1)
Affine(190,(0,0),1,0) | Affine(1,(0,2),1,0) | Affine(1,(0,0),0,0) | Affine(1,(0,0),1,200) | UniformAugment([],2)
UniformAugment([HorizontalFlip()],2) | UniformAugment([HorizontalFlip()],0) | TenCrop(0)
LinearTransformation(np.eye(3)[:2],np.ones(3)) | LinearTransformation(np.eye(3),np.ones(2)) | SlicePatches(0)
SlicePatches(1,0) | SlicePatches(1,1,SliceMode.PAD,256) | RandAugment(-1) | RandAugment(2,31)
RandAugment(2,9,1) | AutoAugment(fill_value=300) | TrivialAugmentWide(1) | RandomSharpness((2,1))
RandomSharpness((-1,1)) | RandomColor((2,1)) | RandomColor((-1,1)) | RandomAdjustSharpness(-1)
RandomAdjustSharpness(1,2) | AdjustSharpness(-1) | RandomLighting(-1) | RandomAutoContrast(50)
RandomAutoContrast(0,None,2) | RandomEqualize(2) | RandomGrayscale(2) | Erase(-1,0,1,1) | Erase(0,0,0,1)
Erase(0,0,1,1,256) | NormalizePad([1],[1],'int32') | PadToSize(0) | PadToSize(5,-1) | PadToSize((5,6),(1,2,3))
PadToSize((5,6),1,300) | RandomResize(0) | ResizedCrop(-1,0,5,5,5) | ResizedCrop(0,0,0,5,5)
ResizedCrop(0,0,5,5,0) | RandomSelectSubpolicy([]) | RandomSelectSubpolicy([[]])
RandomSelectSubpolicy([[(HorizontalFlip(),2)]]) | Resize(2**31) | Resize((2**31,1))
"""
NAMES = {name: getattr(vision, name) for name in vision.__all__} | {"np": np}


def each(text: str) -> list[str]:
    return [one for line in text.strip().splitlines() for one in line.split(" | ")]


@pytest.mark.parametrize("operation", each(TYPES))
def test_wrong_types(operation: str) -> None:
    check(operation, GraphTypeError)


@pytest.mark.parametrize("operation", each(VALUES))
def test_wrong_values(operation: str) -> None:
    check(operation, GraphValueError)


def check(operation: str, kind: type[Exception]) -> None:
    with pytest.raises(kind) as caught:
        eval(compile(operation, "script.py", "eval"), NAMES)
    assert "script.py:1" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.filterwarnings("ignore:Image size")
def test_a_small_file_cannot_ask_for_all_memory() -> None:
    file = BytesIO()
    Image.new("RGB", (8, 8)).save(file, "BMP")
    data = bytearray(file.getvalue())
    data[18:26] = struct.pack("<ii", 13_000, 13_000)
    with pytest.raises(GraphlsError, match=r"too large: 13000 x 13000 pixels in \d+ bytes"):
        vision.Decode()(np.frombuffer(bytes(data), np.uint8))
    blank = BytesIO()
    Image.new("1", (6000, 6000)).save(blank, "PNG")
    assert vision.Decode()(np.frombuffer(blank.getvalue(), np.uint8)).shape == (6000, 6000, 3)
