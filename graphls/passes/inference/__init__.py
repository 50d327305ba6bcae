"""Passes for inference graphs: frozen states, folded weights, float16."""
