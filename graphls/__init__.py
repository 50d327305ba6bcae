"""graphls."""
