"""The implementation of `python -m graphls train`, which no other command loads."""
