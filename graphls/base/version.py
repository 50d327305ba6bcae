"""The version of the package, which its build reads here."""

__version__ = "0.1.0"
