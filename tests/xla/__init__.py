"""Tests of the engine of XLA."""
