"""The errors of `mindspore.mindrecord`: each begins with its name and says what MindSpore says."""

from __future__ import annotations

from typing import ClassVar

from graphls.ir.errors import GraphlsError, GraphRuntimeError, GraphTypeError, GraphValueError

__all__ = [
    "MRMAddSchemaError", "MRMBuildSchemaError", "MRMDefineCategoryError", "MRMDefineIndexError", "MRMGetMetaError",
    "MRMInvalidSchemaError", "MindRecordException", "ParamTypeError", "ParamValueError", "PathNotExistsError",
]  # fmt: skip


class MindRecordException(GraphlsError):
    """What is wrong with a request to write or read MindRecord files."""

    beginning: ClassVar[str] = ""

    def __init__(self, detail: str = "") -> None:
        text = f"[{type(self).__name__}]: {self.beginning} {detail}".rstrip()
        super().__init__(text)


class ParamTypeError(MindRecordException, GraphTypeError):
    """An argument of the wrong kind."""

    def __init__(self, param_name: str, expected_type: str) -> None:
        super().__init__(f"Invalid parameter type. '{param_name}' expect {expected_type} type.")


class ParamValueError(MindRecordException, GraphValueError):
    """An argument with a value that does not fit."""

    beginning = "Invalid parameter value."


class PathNotExistsError(MindRecordException, GraphValueError):
    """A path with nothing there."""

    beginning = "Invalid path."


class MRMInvalidSchemaError(MindRecordException, GraphValueError):
    """A schema that is none."""

    beginning = "Schema format is error. Detail:"


class MRMBuildSchemaError(MindRecordException, GraphValueError):
    """A schema with shapes that are none."""

    beginning = "Failed to build schema."


class MRMAddSchemaError(MindRecordException, GraphRuntimeError):
    """A second schema."""

    beginning = "Failed to add schema."


class MRMGetMetaError(MindRecordException, GraphRuntimeError):
    """No schema where one is needed."""

    beginning = "Failed to get meta info."


class MRMDefineIndexError(MindRecordException, GraphValueError):
    """An index of a column that cannot have one."""

    beginning = "Failed to define index field. Detail:"


class MRMDefineCategoryError(MindRecordException, GraphValueError):
    """A column that rows are not grouped by."""

    beginning = "Failed to define category field. Detail:"
