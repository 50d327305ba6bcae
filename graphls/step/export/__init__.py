"""Export: steps as bundles of plain files that any ONNX Runtime trains, and networks as inference models."""
