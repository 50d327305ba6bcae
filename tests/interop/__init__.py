"""Tests of graphls.interop."""
