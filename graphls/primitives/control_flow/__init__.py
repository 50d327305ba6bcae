"""Conditions and loops: primitives with regions."""
