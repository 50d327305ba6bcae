"""Graphs for inference: frozen states, folded weights, narrow floats."""
