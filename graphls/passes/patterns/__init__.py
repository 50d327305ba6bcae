"""Patterns of primitives: matching them in graphs, and passes that replace what matches."""

from graphls.passes.patterns.matching import Match
from graphls.passes.patterns.pattern import NearMatch, Pattern
from graphls.passes.patterns.rewriting import Rewrite, rewrite

__all__ = ["Match", "NearMatch", "Pattern", "Rewrite", "rewrite"]
