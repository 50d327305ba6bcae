"""Export small networks of Keras: `KERAS_BACKEND=torch python -m tests.onnx.exports.make.keras_exports`.

Run by hand, in an environment with keras and torch. With PyTorch below it, a network of Keras is one of PyTorch, and so
are its gradients. Keras exports with an open batch by the exporter of TorchScript, and known shapes by the newer one.
"""

from __future__ import annotations

from typing import Any

import keras
import onnx
import torch
from keras import layers

from tests.onnx.exports.make.networks import Example
from tests.onnx.exports.make.references import make_distinct, reference, write
from tests.onnx.exports.make.torch_exports import FILES, shortened


def keras_mlp() -> tuple[Example, Any]:
    network = keras.Sequential(
        [keras.Input((6,)), layers.Dense(12, "relu"), layers.Dense(12, "swish"), layers.Dropout(0.5), layers.Dense(3)]
    )
    inputs = {"x": torch.randn(8, 6)}
    return Example(network, inputs, torch.randint(0, 3, (8,)), learning_rate=0.1), [
        keras.InputSpec("float32", (None, 6), name="x")
    ]


def keras_images() -> tuple[Example, Any]:
    network = keras.Sequential(
        [
            keras.Input((12, 12, 3)), layers.Conv2D(6, 3, padding="same"), layers.GroupNormalization(2),
            layers.ReLU(), layers.MaxPooling2D(), layers.DepthwiseConv2D(3), layers.LayerNormalization(),
            layers.Activation("gelu"), layers.SeparableConv2D(8, 3, strides=2, padding="same"),
            layers.GlobalAveragePooling2D(), layers.Dense(4),
        ]
    )  # fmt: skip
    example = Example(network, {"x": torch.randn(3, 12, 12, 3)}, torch.randint(0, 4, (3,)))
    return example, [keras.InputSpec("float32", (3, 12, 12, 3), name="x")]


def keras_text() -> tuple[Example, Any]:
    words = keras.Input((5,), dtype="int32")
    x = layers.Embedding(20, 6)(words)
    x = layers.Bidirectional(layers.LSTM(4, return_sequences=True))(x)
    x = layers.LayerNormalization()(x + layers.MultiHeadAttention(2, 4)(x, x))
    network = keras.Model(words, layers.Dense(3)(layers.LSTM(5)(x)))
    inputs = {"words": torch.randint(0, 20, (3, 5), dtype=torch.int32)}
    example = Example(network, inputs, torch.randint(0, 3, (3,)), learning_rate=0.2)
    return example, [keras.InputSpec("int32", (3, 5), name="words")]


def main() -> None:
    """Make all files."""
    for make in (keras_mlp, keras_images, keras_text):
        keras.utils.set_random_seed(0)
        example, signature = make()
        example.network(*example.inputs.values())  # without which Keras does not export
        make_distinct(example.network)
        write(FILES / f"{make.__name__}.npz", reference(example))
        path = FILES / f"{make.__name__}.onnx"
        example.network.export(path, format="onnx", verbose=False, input_signature=signature)
        onnx.save(shortened(onnx.load(path)), path)
        print(path.name, path.stat().st_size)


if __name__ == "__main__":
    main()
