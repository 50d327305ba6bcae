"""Reading of foreign ONNX models: their files, attributes, types and origins, and their graphs for display."""
