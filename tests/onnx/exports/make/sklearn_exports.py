"""Export small models of scikit-learn: `python -m tests.onnx.exports.make.sklearn_exports`.

Run by hand, in an environment with scikit-learn and skl2onnx. `black_op` keeps weights tensors, which otherwise
are attributes of operators of scikit-learn's own domain.
"""

from __future__ import annotations

import numpy as np
import onnx
from skl2onnx import to_onnx
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler

from tests.onnx.exports.sklearn import FOLDER

MODELS = {
    "perceptron": lambda: make_pipeline(StandardScaler(), MLPClassifier((8,), max_iter=30, random_state=0)),
    "logistic": lambda: make_pipeline(StandardScaler(), LogisticRegression()),
    "linear": lambda: make_pipeline(MinMaxScaler(), LinearRegression()),
}
OF_ITS_OWN = {"LinearClassifier", "LinearRegressor", "Scaler", "Normalizer"}


def main() -> None:
    """Make all files, in both forms."""
    draw = np.random.default_rng(0)
    x = draw.normal(size=(60, 5)).astype(np.float32)
    labels = (x[:, 0] + x[:, 1] * x[:, 2] > 0).astype(np.int64) + (x[:, 3] > 1)
    for name, make in MODELS.items():
        model = make().fit(x, labels)
        options = None if name == "linear" else {"zipmap": False}
        for suffix, operators in {"tensors": OF_ITS_OWN, "attributes": None}.items():
            proto = to_onnx(model, x[:1], options=options, black_op=operators, target_opset={"": 17, "ai.onnx.ml": 3})
            onnx.save(proto, FOLDER / f"{name}.{suffix}.onnx")


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    main()
