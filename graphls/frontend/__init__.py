"""From Python to a graph: tensors, parameters, and the tracer."""
