"""What a script learns that asks for the version of MindSpore: that of the interface which graphls follows."""

__version__ = "2.10.0"
__all__ = ["__version__"]
