"""Operator classes and functions of MindSpore that lie in modules of their own."""
