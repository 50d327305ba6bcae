"""Valid tensor names for ONNX models: UTF-8 and not empty."""

from __future__ import annotations

from graphls.ir.build import Names


class TensorNames(Names):
    """Hands out names of tensors, each as near to the wish as a model can hold it."""

    def fresh(self, wish: str) -> str:
        """The wish, its single surrogates escaped, or with a number behind it."""
        return super().fresh(clean(wish) or "value")


def clean(text: str) -> str:
    """The text as UTF-8 can hold it: paths of files and names of cells may have single surrogates."""
    return text.encode("utf-8", "backslashreplace").decode()
