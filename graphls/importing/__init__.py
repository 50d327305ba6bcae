"""ONNX models of others, read as graphs: so far, to look at them."""
