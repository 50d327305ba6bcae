"""Public names: lazy lookup, and suggestions for the names of other frameworks."""
