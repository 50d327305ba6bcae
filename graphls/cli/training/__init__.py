"""What `python -m graphls train` does; nothing of it is loaded for another command."""
