"""Readers of datasets: from Python objects, and from files in the formats that their authors published."""
