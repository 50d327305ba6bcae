"""Training steps whose graphs are kept as text, to hold their structure: `python -m tests.step_graphs` writes them."""
