"""Names that are asked for: found when they are, and what to write for those of other frameworks."""
