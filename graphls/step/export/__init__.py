"""Writing out: steps as folders of plain files that any ONNX Runtime trains, and networks as models for inference."""
