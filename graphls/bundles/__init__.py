"""A step as a folder of plain files, which any ONNX Runtime trains: `step.export` writes it, `load_step` reads it."""
