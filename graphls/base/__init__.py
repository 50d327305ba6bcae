"""Foundations below every other package: errors, checks, source locations, files, text, settings and locks."""
