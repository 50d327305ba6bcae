"""Source rewriting: Python conditions and loops on tensors become part of the graph.

`functions.rewritten(function)` is the entrance; what it makes calls `flow`.
"""
