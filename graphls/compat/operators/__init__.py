"""Operator classes and functions of MindSpore that `graphls.ops` does not have."""
