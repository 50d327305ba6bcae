"""Foreign ONNX models, read as graphs: so far, to look at them."""
