"""Steps on a GPU: `python -m tests.cuda` runs everything on a card; `double` is a GPU that is none."""
