"""What every room stands on: errors, checks, the user's line, files, text, settings and locks."""
