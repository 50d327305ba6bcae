"""The command line, `python -m graphls`."""
