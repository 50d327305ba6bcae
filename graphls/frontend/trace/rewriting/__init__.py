"""Conditions and loops on tensors: the source of a function is rewritten so that they become part of the graph.

`functions.rewritten(function)` is the entrance; what it makes calls `flow`.
"""
