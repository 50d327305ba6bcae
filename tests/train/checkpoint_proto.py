"""The messages of MindSpore's checkpoint.proto for google.protobuf, made at run time."""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

Field = descriptor_pb2.FieldDescriptorProto
REQUIRED, OPTIONAL, REPEATED = Field.LABEL_REQUIRED, Field.LABEL_OPTIONAL, Field.LABEL_REPEATED


def _add(message: Any, name: str, number: int, kind: Any, label: int, oneof: bool = False) -> None:
    field = message.field.add(name=name, number=number, label=label)
    if isinstance(kind, str):
        field.type, field.type_name = Field.TYPE_MESSAGE, f".mindspore.irpb.{kind}"
    else:
        field.type = kind
    if oneof:
        field.oneof_index = 0


def _checkpoint_class() -> Any:
    file = descriptor_pb2.FileDescriptorProto(name="checkpoint.proto", package="mindspore.irpb", syntax="proto2")
    checkpoint = file.message_type.add(name="Checkpoint")
    value = checkpoint.nested_type.add(name="Value")
    value.oneof_decl.add(name="value")
    _add(value, "tag", 1, Field.TYPE_STRING, REQUIRED)
    _add(value, "tensor", 2, "TensorProto", OPTIONAL, oneof=True)
    _add(value, "maptensor", 3, "MapTensorProto", OPTIONAL, oneof=True)
    _add(checkpoint, "value", 1, "Checkpoint.Value", REPEATED)
    tensor = file.message_type.add(name="TensorProto")
    _add(tensor, "dims", 1, Field.TYPE_INT64, REPEATED)
    _add(tensor, "tensor_type", 2, Field.TYPE_STRING, REQUIRED)
    _add(tensor, "tensor_content", 3, Field.TYPE_BYTES, REQUIRED)
    map_tensor = file.message_type.add(name="MapTensorProto")
    for number, name in enumerate(("key_tensor", "value_tensor", "status_tensor"), 1):
        _add(map_tensor, name, number, "TensorProto", REQUIRED)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("mindspore.irpb.Checkpoint"))


Checkpoint = _checkpoint_class()
