"""The front end: tensors, parameters, and the tracer from Python to a graph."""
