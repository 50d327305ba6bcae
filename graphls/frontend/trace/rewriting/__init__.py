"""Source rewriting: Python conditions and loops on tensors become part of the graph.

`functions.rewritten(function)` is the entry point; rewritten functions call the helpers of `flow`.
"""
