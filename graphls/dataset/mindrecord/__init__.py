"""MindRecord, MindSpore's own format of files: read, written, made of other files."""

from graphls.dataset.mindrecord.reader import FileReader, MindDataset

__all__ = ["FileReader", "MindDataset"]
