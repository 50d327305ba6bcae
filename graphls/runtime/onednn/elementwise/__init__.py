"""Elementwise nodes as binary kernels with operations behind them."""
