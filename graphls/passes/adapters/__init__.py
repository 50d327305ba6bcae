"""Passes that add adapters or quantizers to products with weights."""
