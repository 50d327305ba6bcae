"""MindRecord, MindSpore's file format: reading, writing, and conversion of other files."""

from graphls.dataset.mindrecord.reader import FileReader, MindDataset

__all__ = ["FileReader", "MindDataset"]
