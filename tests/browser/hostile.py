"""A training step in which every name is hostile: cells, classes, parameters, the source files and their lines."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np

import graphls
from graphls import nn
from tests.browser.steps import load_module, training_step

ALERT = "</script><script>alert(1)</script>"
NAMES = (
    ALERT,
    "<img src=x onerror=alert(2)>",
    "\"'`><svg onload=alert(3)>",
    "<!--<script>",
    "--> ]]> </style> </textarea> </title>",
    "&lt;b&gt; &amp; &#x3c;i&#x3e;",
    "${alert(4)} {{alert(5)}} \\u003cscript> %3Cb%3E %s",
    "javascript:alert(6)",
    "line\nbreak\r\n\ttab \x00\x01\x07\x1b[31m\x7f\x85",
    "separators\u2028and\u2029here",
    "abc\u202edcba\u2066 \u200b\ufeff",
    "\u0645\u0631\u062d\u0628\u0627 \u05e9\u05dc\u05d5\u05dd",
    "\U0001f469\u200d\U0001f4bb\U0001f525 e\u0301 \u4f60\u597d",
    "\ud800 half of a pair",
    "__proto__",
    "constructor",
    "hasOwnProperty",
    "long " * 2000,
    " ",
    "../../../etc/passwd",
)
"""Names of cells, and so of their parameters; no two are the same."""
FILE_NAMES = ("<script>alert('file')<!-- \u202e 'quoted' \"twice\" &amp; \n #1?x=%20 .py", "latin-1 \u00e9.py")
SOURCE = '''# -*- coding: {coding} -*-
# <script>alert("line")</script> \u00e9\u00fc\u00df
import graphls
from graphls import nn, ops


class Network(nn.Cell):  # <!-- <script> --> ]]>
    def construct(self, x):
        y = ops.exp(x * 0.5)  # {comment}
        {padding}z = ops.tanh(y)  # "'`${{alert(7)}}</textarea></pre><script>alert('source')</script>
        return z * x  # {{{{constructor.constructor("alert(8)")()}}}} \t\x0c\x07 the end
'''


def write_sources(folder: Path) -> list[Path]:
    """Two files with hostile names and lines: in UTF-8, with a line of 20,000 characters, and in Latin-1."""
    files = [folder / name for name in FILE_NAMES]
    comments = ("</script><script>alert(9)</script> \u202e\u0645\u0631 \u2028 \U0001f525", "</pre> \u00ab\u00bb")
    paddings = ('"' + "long <b> " * 2000 + '"; ', "")
    for file, coding, comment, padding in zip(files, ("utf-8", "latin-1"), comments, paddings, strict=True):
        file.write_bytes(SOURCE.format(coding=coding, comment=comment, padding=padding).encode(coding))
    return files


class Hostile(nn.Cell):
    """Layers with these names, of a class whose own name is hostile, and the networks of the hostile files."""

    def __init__(self, names: Iterable[str], files: Iterable[Path]) -> None:
        super().__init__()
        dense = type(f"Dense{ALERT}", (nn.Dense,), {})
        for name in names:
            setattr(self, name, dense(3, 3))
        for number, file in enumerate(files):
            setattr(self, f"module{number}", load_module(file, f"hostile_{number}").Network())

    def construct(self, x: graphls.Tensor) -> graphls.Tensor:
        for cell in self.cells():
            x = cell(x)
        return x


def hostile_step(folder: Path, backend: str = "numpy") -> graphls.Compiled:
    """A training step of the network; `folder` gets the source files, which are read again to show their lines."""
    graphls.set_seed(1)
    network = Hostile(NAMES, write_sources(folder)).to_float(graphls.float16)
    cell = training_step(network, nn.MSELoss(), nn.Momentum(network.trainable_params(), 0.1, 0.9))
    x = np.zeros((2, 3), np.float32)
    return graphls.compile(cell, x, x, backend=backend)
